"""What rules know of a file, as if files were the rows of a table. Pure.

Rules of a storage are documents about a table that does not exist: its columns are the facts of a file, under numbers
that never change, since the stored form of a rule names them. Statements compute the facts from an item's columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema

Json = Any

_SEGMENTS = 8
_TEXTS = {1: "name", 2: "path", 3: "folder", 4: "mime_type"}
_COLUMNS = (
    *(Column(number, name, ColumnType.STRING) for number, name in _TEXTS.items()),
    Column(5, "size", ColumnType.INT),
    *(Column(10 + at, f"segment.{at}", ColumnType.STRING) for at in range(_SEGMENTS)),
)


ITEM_TYPES = ("uuid", "text", "text", "text", "bigint", "text", "timestamptz", "timestamptz")
"""PostgreSQL's types of the fields of `FileFacts`."""


def table_of_files(app_id: UUID, storage_id: UUID, name: str, rules: Mapping[str, Json] | None) -> TableSchema:
    """Return the table that a storage's rules are about; its title is the storage's name."""
    return TableSchema(app_id, storage_id, name, AccessLevel.PUBLIC, 1, _COLUMNS, rules=rules)


def facts(item: str, name: str) -> str:
    """Return the source of a statement that has the facts of what it calls `item`, under `name`.

    The folder is the path above the last name, and empty at the top; segment 0 is the first name in it.
    """
    texts = ", ".join(f'{item}.{text} collate "C" as "{text}"' for text in ("name", "path", "mime_type"))
    segments = ", ".join(
        f"""case when split_part({item}.path, '/', {at + 2}) <> ''
            then split_part({item}.path, '/', {at + 1}) end collate "C" as "segment.{at}\""""
        for at in range(_SEGMENTS)
    )
    return f"""
        lateral (
            select {item}.file_id as __id, {item}.creator as __creator, {item}.created_at as __created_at,
                {item}.updated_at as __updated_at, {texts}, {item}.size as "size",
                case when strpos({item}.path, '/') > 0 then regexp_replace({item}.path, '/[^/]*$', '') else '' end
                    collate "C" as "folder",
                {segments}
        ) {name}
    """
