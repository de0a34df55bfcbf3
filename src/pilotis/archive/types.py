"""The types of archives."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple
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
    """The app that an archive became, with its keys; the secret key, if it has one, is shown only once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str | None
    tables: int
    rows: int
    blobs: int
    missing_blobs: int
    left_out: list[str]


ArchiveStatus = Literal["pending", "completed", "failed"]
ImportStatus = Literal["running", "completed", "failed"]
PassphraseText = Annotated[str, msgspec.Meta(min_length=8, max_length=1000)]


class NewArchive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an archive is to be written.

    The passphrase encrypts the key of secrets and encrypted columns. Without one the app must have none, or
    `with_secrets` be false, which leaves them out.
    """

    passphrase: PassphraseText | None = None
    with_secrets: bool = True


class AppArchive(msgspec.Struct, frozen=True, kw_only=True):
    """An archive of an app: `pending`, `completed` or `failed`; then `error` says why.

    `is_scheduled` says that it was made at the time of a schedule. `bytes` is its size; with `tables`, `rows` and
    `files` it is null until the archive is completed. The bytes of `missing_files` were deleted before they could be
    copied.
    """

    id: UUID
    status: ArchiveStatus
    created_at: str
    ended_at: str | None
    is_scheduled: bool
    has_passphrase: bool
    with_secrets: bool
    bytes: int | None
    tables: int | None
    rows: int | None
    files: int | None
    missing_files: int | None
    error: str | None


class AppArchiveList(msgspec.Struct, frozen=True, kw_only=True):
    """The archives of an app, the newest first, and how many of those that owners ask for are kept.

    A schedule says how many of its own are kept.
    """

    data: list[AppArchive]
    total_count: int
    kept: int


class NewArchiveSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an archive is to be made: five fields of cron with one minute, or `@daily` and the like, in a time zone.

    Of these archives the newest `keep` stay, at most as many as the limit `app_archives`. The passphrase is that of
    each of them; the server stores it encrypted. Without the field the one of before stays, `null` deletes it.
    """

    cron: Annotated[str, msgspec.Meta(max_length=200, examples=["30 2 * * *"])]
    timezone: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    keep: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 7
    passphrase: PassphraseText | msgspec.UnsetType | None = msgspec.UNSET
    with_secrets: bool = True


class ArchiveSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """When archives of an app are made, and how many of them are kept."""

    cron: str
    timezone: str | None
    keep: int
    has_passphrase: bool
    with_secrets: bool
    next_run_at: str | None
    last_run_at: str | None


class ArchiveLink(msgspec.Struct, frozen=True):
    """A URL that downloads an archive once, without a header, until `expires_at`."""

    url: str
    expires_at: str


class AppImport(msgspec.Struct, frozen=True, kw_only=True):
    """An import of an archive: `running`, `completed` or `failed`; then `code` and `error` say why.

    `app_id` is the app that it has made. `left_out` are sentences about what did not move.
    """

    id: UUID
    status: ImportStatus
    created_at: str
    bytes: int
    app_id: UUID | None = None
    name: str | None = None
    tables: int | None = None
    rows: int | None = None
    files: int | None = None
    missing_files: int | None = None
    left_out: list[str] | None = None
    code: str | None = None
    error: str | None = None
