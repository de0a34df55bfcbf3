"""The types of archives."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec

FORMAT = 1

Number = Annotated[int, msgspec.Meta(ge=0)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Contents(NamedTuple):
    """What an archive has besides the definitions of an app: the rows of its tables, its members, files and sites."""

    rows: bool = True
    members: bool = True
    files: bool = True

    def has(self, part: str) -> bool:
        """Whether the archive has what a feature declares as this part; see `Copied`."""
        return part == "definition" or (self.members if part == "members" else self.files)


WHOLE = Contents()


class ArchivePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part with rows: their number and columns, the size of the part in bytes, and its SHA-256."""

    name: str
    rows: Number
    columns: list[str]
    bytes: Number
    sha256: Digest


class ArchivedApp(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the app itself."""

    app_id: UUID
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    limits: dict[str, int]
    account_settings: dict[str, Any]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive says of itself.

    `schema` is the number of the newest migration of the database that it comes from, `made_at` the moment of its
    rows. `missing_blobs` of the files were deleted before they could be copied. `salt` and `data_key` are hexadecimal;
    the key is encrypted under the passphrase.
    """

    format: int
    version: str
    schema: int
    made_at: str
    app: ArchivedApp
    parts: list[ArchivePart]
    blobs: Number
    blob_bytes: Number
    missing_blobs: Number
    left_out: list[str]
    salt: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | None = None
    data_key: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2}){1,200}$")] | None = None


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive has: its size in bytes, and the numbers of its tables, rows and blobs."""

    app_id: UUID
    bytes: int
    tables: int
    rows: int
    blobs: int
    missing_blobs: int
    left_out: list[str]


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The app that an archive became, with its keys; the secret key is shown only once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str
    tables: int
    rows: int
    blobs: int
    missing_blobs: int
    left_out: list[str]
