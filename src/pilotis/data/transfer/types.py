"""The types of imports and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.data.rows.bulk.types import UpsertBy
from pilotis.data.rows.types import UpsertMode
from pilotis.data.transfer.formats import Format

Open = Callable[[int], AsyncIterator[bytes]]
"""Yields the bytes of the source from an offset."""

FormatName = Literal["csv", "jsonl"]

# PostgreSQL cannot store U+0000.
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read a file. `key` names the import: with the same key it continues where it was interrupted.

    With `own_fields` the field `__creator` names the member that owns a row, and `__id`, `__created_at` and
    `__updated_at` are ignored. With `again` a finished import with the key runs again. With `unique_key` a row that has
    the values of this key of the table already is changed, as `mode` says, instead of created.
    """

    format: Format
    delimiter: str = ","
    key: str | None = None
    own_fields: bool = False
    again: bool = False
    unique_key: str | None = None
    mode: UpsertMode = UpsertMode.MERGE

    @property
    def by(self) -> UpsertBy | None:
        """How rows that are there are found and changed."""
        return None if self.unique_key is None else UpsertBy(self.unique_key, self.mode)


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to write a table. With `encrypted`, encrypted columns are written in plain text; otherwise they are left out.

    With `neutralise_formulas`, CSV texts that a spreadsheet would evaluate are prefixed with an apostrophe.
    """

    format: Format
    own_fields: bool = False
    encrypted: bool = True
    neutralise_formulas: bool = False


class Rejected(msgspec.Struct, kw_only=True):
    """A rejected record, and why. `line` counts from 1; `last_line` is set if the record has several lines."""

    line: int
    code: str
    message: str
    last_line: int | msgspec.UnsetType = msgspec.UNSET


class ImportResult(msgspec.Struct, kw_only=True):
    """The result of an import: every record of the file is either `created` or `rejected`.

    With `unique_key`, records may also have `updated` a row, or been `ignored` for one that is there.
    `rejections` lists those of this request, at most a thousand. `resumed_at_line` is the line after which it continued
    an interrupted import.
    """

    table_id: UUID
    key: str
    created: int
    rejected: int
    updated: int | msgspec.UnsetType = msgspec.UNSET
    ignored: int | msgspec.UnsetType = msgspec.UNSET
    rejections: list[Rejected] = []
    resumed_at_line: int | None = None
    was_finished: bool = False


class ImportProgress(msgspec.Struct, kw_only=True):
    """How far an import is: the rows and rejections so far, and the last line and byte of the file that were processed.

    With `finished`, that is the end of the file.
    """

    table_id: UUID
    key: str
    created: int
    rejected: int
    line: int
    position: int
    finished: bool


class ExportLinkRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the link exports; the fields are those of `GET …/export`."""

    format: FormatName = "jsonl"
    own_fields: bool = False
    neutralise_formulas: bool = False


class ExportLink(msgspec.Struct, frozen=True):
    """A URL that starts one export without a header, until `expires_at`."""

    url: str
    expires_at: str


class ImportQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`format` defaults to that of the `Content-Type`; see `ImportOptions` for the others."""

    format: FormatName | None = None
    delimiter: Annotated[str, msgspec.Meta(min_length=1, max_length=1)] = ","
    key: Key | None = None
    own_fields: bool = False
    unique_key: Annotated[str, msgspec.Meta(min_length=1, max_length=63)] | None = None
    mode: UpsertMode = UpsertMode.MERGE


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The format, and whether `__id`, `__creator`, `__created_at` and `__updated_at` are written too.

    `neutralise_formulas` puts an apostrophe before CSV texts that a spreadsheet would evaluate, for files that people
    open in one; importing such a file does not restore the original texts.
    """

    format: FormatName = "jsonl"
    own_fields: bool = False
    neutralise_formulas: bool = False
