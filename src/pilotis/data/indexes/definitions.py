"""The index that serves an access pattern. Pure.

The expressions are those that `data.where.compiler`, `query`, `search` and `geo` write, or PostgreSQL would not match
them to an index. No index is unique: distinct values today do not mean that values will stay distinct.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import NamedTuple

from pilotis.data.tables.schema import AccessLevel, Column, TableSchema
from pilotis.data.tables.vectors import stored_words_of, words_of
from pilotis.data.where.access_patterns import AccessKind, AccessPattern, Part
from pilotis.data.where.fields import Field, json_field, text_field
from pilotis.data.where.index_expressions import (
    caseless,
    caseless_trigrams_of,
    indexed_point_of,
    key_of,
    no_point,
    trigrams_of,
)
from pilotis.data.where.operands import CREATOR, CREATOR_NAME, EXTRA, KINDS, Arguments, Kind
from pilotis.kit.errors import PilotisError

PREFIX = "i_"
_EXTENSION = "@extension@"
_OWN = {CREATOR: "__creator", "created_at": "__created_at", "updated_at": "__updated_at"}
_DIRECTIONS = {AccessKind.SORT_DESCENDING: " desc nulls last", AccessKind.SORT_NULLS_FIRST: " asc nulls first"}


class Definition(NamedTuple):
    """An index without its name: the access method and the indexed expressions.

    `where` restricts the indexed rows; `extension` is the PostgreSQL extension it needs, for whose schema the
    expressions contain a placeholder.
    """

    method: str
    expressions: tuple[str, ...]
    where: str | None = None
    extension: str | None = None

    def name(self, table: TableSchema) -> str:
        """Return the index's name, 47 bytes, derived from the table and the definition."""
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


def definition(table: TableSchema, use: AccessPattern) -> Definition | None:
    """Return the index that serves an access pattern; None if the table no longer has its columns."""
    if len(use) == 1 and (special := SPECIAL.get(use[0].kind)):
        return special(table, use[0].column)
    expressions = [_ordered(table, part) for part in use]
    present = [expression for expression in expressions if expression is not None]
    own = table.access_level is AccessLevel.CREATOR and present == ["__creator"]
    if len(present) < len(use) or own:
        # Tables in which members see only their own rows have that index from the start.
        return None
    return Definition("btree", (*present, "__id"))


def column(table: TableSchema, key: str) -> Column | None:
    """Return the column with a number, as access patterns name it."""
    return next((column for column in table.columns if str(column.number) == key), None)


def column_of_words(table: TableSchema, use: AccessPattern) -> Column | None:
    """Return the column whose stored words the index of a pattern covers; None for any other index."""
    return column(table, use[0].column) if use[0].kind is AccessKind.TEXT else None


def field_name(table: TableSchema, key: str) -> str:
    """Return the field of a pattern's column, as requests name it."""
    first, _, path = key.partition(".")
    if key == CREATOR:
        return CREATOR_NAME
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
    """Return the expression that a request for the field reads; None if the table no longer has the field."""
    try:
        found = read(table, field_name(table, key), Arguments(), "field")
    except PilotisError:
        return None
    return found.sql if found.use == key else None


def _trigrams(expression: Callable[[str], str], table: TableSchema, key: str) -> Definition | None:
    text = _field(text_field, table, key)
    if text is None:
        return None
    return Definition("gin", (f"{expression(text)} {_EXTENSION}.gin_trgm_ops",), extension="pg_trgm")


def _caseless(table: TableSchema, key: str) -> Definition | None:
    text = _field(text_field, table, key)
    return None if text is None else Definition("btree", (caseless(text), "__id"))


def _text(table: TableSchema, key: str) -> Definition | None:
    stored = column(table, key)
    if stored is not None:
        return Definition("gin", (stored_words_of(stored),)) if stored.may_store_words else None
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


SPECIAL: dict[AccessKind, Callable[[TableSchema, str], Definition | None]] = {
    AccessKind.CONTAINMENT: _containment,
    AccessKind.TRIGRAM: functools.partial(_trigrams, trigrams_of),
    AccessKind.CASELESS: _caseless,
    AccessKind.CASELESS_TRIGRAM: functools.partial(_trigrams, caseless_trigrams_of),
    AccessKind.TEXT: _text,
    AccessKind.COMPLETION: _completion,
    AccessKind.GEO: _geo,
    AccessKind.NO_POINT: _no_point,
}
"""Builds the index of each kind of access that no plain B-tree serves, from the part's column or columns."""
