"""From a use to the index that serves it. Pure.

The expressions are those that `pilotis.rows.where`, `query`, `search` and `geo` write, or PostgreSQL would not see
that an index holds them. Nothing here is unique: that a column's values are all different so far is no promise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from pilotis.kit.errors import PilotisError
from pilotis.rows.fields import Field, json_field, text_field
from pilotis.rows.geo.expressions import indexed_point_of, no_point
from pilotis.rows.indexes.uses import Part, Use, UseKind
from pilotis.rows.operands import CREATOR, EXTRA, KINDS, Arguments, Kind
from pilotis.rows.search.expressions import key_of, trigrams_of, words_of
from pilotis.tables.schema import Column, TableSchema

PREFIX = "i_"
_EXTENSION = "@extension@"
_OWN = {CREATOR: "__creator", "created_at": "__created_at", "updated_at": "__updated_at"}
_DIRECTIONS = {UseKind.SORT_DESCENDING: " desc nulls last", UseKind.SORT_NULLS_FIRST: " asc nulls first"}


class Definition(NamedTuple):
    """An index, but for its name: the access method and what it holds.

    `where` bounds the rows that it holds; `extension` is what it takes in PostgreSQL, for whose schema the expressions
    have a mark.
    """

    method: str
    expressions: tuple[str, ...]
    where: str | None = None
    extension: str | None = None

    def name(self, table: TableSchema) -> str:
        """Return the index's name, 47 bytes, which follows from the table and the definition."""
        digest = hashlib.sha256("\0".join([self.method, *self.expressions, self.where or ""]).encode())
        return f"{PREFIX}{table.table_id.hex}_{digest.hexdigest()[:12]}"

    def create(self, table: TableSchema, extension_schema: str = "") -> str:
        """Return the statement that builds the index while rows are read and written."""
        where = f" where {self.where}" if self.where else ""
        expressions = ", ".join(self.expressions).replace(_EXTENSION, extension_schema)
        return (
            f"create index concurrently {self.name(table)} on {table.physical} "
            f"using {self.method} ({expressions}){where}"
        )


def definition(table: TableSchema, use: Use) -> Definition | None:
    """Return the index that serves a use; None where the table has no such columns any more."""
    if len(use) == 1 and (special := SPECIAL.get(use[0].kind)):
        return special(table, use[0].column)
    expressions = [_ordered(table, part) for part in use]
    present = [expression for expression in expressions if expression is not None]
    if len(present) < len(use) or present == ["__creator"]:
        # Tables whose members see their own rows only have that index from the start.
        return None
    return Definition("btree", (*present, "__id"))


def column(table: TableSchema, key: str) -> Column | None:
    """Return the column of a number, as uses name it."""
    return next((column for column in table.columns if str(column.number) == key), None)


def field_name(table: TableSchema, key: str) -> str:
    """Return the field that a use's column is, as requests name it."""
    first, _, path = key.partition(".")
    if first == EXTRA and path:
        return path
    found = column(table, first)
    return ".".join(filter(None, [found.name if found else first, path]))


def _ordered(table: TableSchema, part: Part) -> str | None:
    found = column(table, part.column)
    expression = _OWN.get(part.column)
    if found is not None and KINDS[found.type] is not Kind.JSON:
        expression = found.time if found.has_time else found.physical
    if found is not None and found.encrypted:
        expression = found.hash
    return None if expression is None else expression + _DIRECTIONS.get(part.kind, "")


def _containment(table: TableSchema, key: str) -> Definition | None:
    found = column(table, key)
    if key == EXTRA:
        return Definition("gin", ("__extra jsonb_path_ops",)) if table.is_free_form else None
    if found is None or found.encrypted or KINDS[found.type] is not Kind.JSON:
        return None
    return Definition("gin", (f"{found.physical} jsonb_path_ops",))


def _field(read: Callable[[TableSchema, str, Arguments, str], Field], table: TableSchema, key: str) -> str | None:
    """Return the expression that a request for the field reads; None where the table has no such field any more."""
    try:
        found = read(table, field_name(table, key), Arguments(), "field")
    except PilotisError:
        return None
    return found.sql if found.use == key else None


def _trigram(table: TableSchema, key: str) -> Definition | None:
    text = _field(text_field, table, key)
    return (
        None
        if text is None
        else Definition("gin", (f"{trigrams_of(text)} {_EXTENSION}.gin_trgm_ops",), extension="pg_trgm")
    )


def _text(table: TableSchema, key: str) -> Definition | None:
    text = _field(text_field, table, key)
    return None if text is None else Definition("gin", (words_of(text),))


def _completion(table: TableSchema, key: str) -> Definition | None:
    text = _field(text_field, table, key)
    return None if text is None else Definition("btree", (key_of(text),))


def _geo(table: TableSchema, key: str) -> Definition | None:
    json = _field(json_field, table, key)
    return None if json is None else Definition("gist", (indexed_point_of(json, _EXTENSION),), extension="cube")


def _no_point(table: TableSchema, key: str) -> Definition | None:
    json = _field(json_field, table, key)
    return None if json is None else Definition("btree", ("__id",), where=no_point(json))


SPECIAL: dict[UseKind, Callable[[TableSchema, str], Definition | None]] = {
    UseKind.CONTAINMENT: _containment,
    UseKind.TRIGRAM: _trigram,
    UseKind.TEXT: _text,
    UseKind.COMPLETION: _completion,
    UseKind.GEO: _geo,
    UseKind.NO_POINT: _no_point,
}
"""How each kind of use that no B-tree of columns serves becomes an index, from the part's column or columns."""
