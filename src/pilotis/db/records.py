"""Rows as records: a store returns a struct whose fields are the columns of its statement."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


def columns(record: type[msgspec.Struct], table: str = "", *, without: Collection[str] = ()) -> str:
    """Return a record's fields, in their order, as columns of a table for `select` or `returning`.

    In place of `*`: a node of an older version reads while a migration of a newer one adds columns, and a record
    rejects a column that it does not know.
    """
    prefix = f"{table}." if table else ""
    return ", ".join(prefix + name for name in record.__struct_fields__ if name not in without)
