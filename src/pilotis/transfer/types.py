"""The shapes of imports and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.transfer.formats import Format

Open = Callable[[int], AsyncIterator[bytes]]
"""Gives the bytes of what is imported, from an offset on."""

FormatName = Literal["csv", "jsonl"]

# PostgreSQL stores no U+0000.
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is to be read. `key` names the import: under the same key it goes on where it was interrupted.

    With `own_fields` the field `__creator` names the member that a row is to belong to, and `__id`, `__created_at`
    and `__updated_at` are passed over. With `again` an import that was finished under the key is done once more.
    """

    format: Format
    delimiter: str = ","
    key: str | None = None
    own_fields: bool = False
    again: bool = False


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is to be written. `encrypted`: in plain what is in encrypted columns; else these are left out."""

    format: Format
    own_fields: bool = False
    encrypted: bool = True


class Rejected(msgspec.Struct):
    """A line of which no row was made, and why. `line` counts from 1, `last_line` is set where it is a later one."""

    line: int
    code: str
    message: str
    last_line: int | msgspec.UnsetType = msgspec.UNSET


class ImportResult(msgspec.Struct):
    """What an import has done in all: every record of the file is either `created` or `rejected`.

    `rejections` tells of those that this request met, at most a thousand. `resumed_at_line` is the line after which
    it went on with an interrupted one.
    """

    table_id: UUID
    key: str
    created: int
    rejected: int
    rejections: list[Rejected] = []
    resumed_at_line: int | None = None
    was_finished: bool = False


class ImportQuery(msgspec.Struct):
    """`format` is that of the `Content-Type` where it is not given; see `ImportOptions` for the others."""

    format: FormatName | None = None
    delimiter: Annotated[str, msgspec.Meta(min_length=1, max_length=1)] = ","
    key: Key | None = None
    own_fields: bool = False


class ExportQuery(msgspec.Struct):
    """The format, and whether `__id`, `__creator`, `__created_at` and `__updated_at` are written too."""

    format: FormatName = "jsonl"
    own_fields: bool = False
