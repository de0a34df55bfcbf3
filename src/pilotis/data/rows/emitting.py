"""Events of row changes, written by the changing statement itself into the app's outbox. Pure.

A table's schema says which events it emits (`TableSchema.emits`), which changes only with the schema's version: the
statements of a table without listeners contain nothing about events, and a statement compiled before the first listener
fails.
Events never contain encrypted columns; `omitted` lists their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pilotis.data.tables.schema import TableSchema
from pilotis.kit import json

MAX_ROW_EVENTS = 1000
"""If one statement changes more rows than this, a single `rows.changed` event is written."""

CREATED, UPDATED, DELETED = "created", "updated", "deleted"
# The columns of an outbox that a statement gives, with their types.
_STORED = {
    "type": "text",
    "table_id": "uuid",
    "subject": "text",
    "actor_kind": "text",
    "actor_id": "text",
    "depth": "smallint",
    "request_id": "text",
    "data": "json",
}
ACTOR_KIND, ACTOR_ID, DEPTH, REQUEST = "__actor_kind", "__actor_id", "__depth", "__request"


class Cause(NamedTuple):
    """The cause of a change: `kind` and `id` of the actor, the number of events that led to it, and the request."""

    kind: str
    id: str | None
    depth: int = 0
    request_id: str | None = None

    def members(self) -> list[bytes]:
        """Return the extra members of a new row's record if its table emits events."""
        return [
            b'"%b":%b' % (ACTOR_KIND.encode(), json.encode(self.kind)),
            b'"%b":%b' % (ACTOR_ID.encode(), json.encode(self.id)),
            b'"%b":%d' % (DEPTH.encode(), self.depth),
            b'"%b":%b' % (REQUEST.encode(), json.encode(self.request_id)),
        ]


class BoundCause(NamedTuple):
    """The parameter positions of a cause, and of the names that an update sets."""

    kind: str
    id: str
    depth: str
    request_id: str
    changed: str = ""


class Emitter:
    """Writes the common table expressions for one table; `row` is the expression for a row's JSON without secrets.

    They insert the events; with `apart` they only select them, `found` returns them and `insert` inserts them.
    """

    def __init__(self, table: TableSchema, row: str, *, apart: bool = False) -> None:
        self._table = table
        self._row = row
        self._apart = apart
        self._into = f"insert into app_{table.app_id.hex}.__events ({', '.join(_STORED)})"

    @property
    def found(self) -> str:
        """The expression for the JSON of the events of the statement."""
        return "coalesce((select json_agg(emitted) from emitted), '[]')"

    def insert(self, given: str) -> str:
        """Insert the events of an expression for the JSON that `found` returned."""
        members = ", ".join(f"{name} {type_}" for name, type_ in _STORED.items())
        return f"{self._into} select {', '.join(_STORED)} from json_to_recordset({given}) as e({members})"

    def created(self) -> str:
        """Return the expression beside an insert `written`, whose records in `$1` carry their causes."""
        causes = (
            f"written join json_to_recordset($1) as cause"
            f"(__id uuid, {ACTOR_KIND} text, {ACTOR_ID} text, {DEPTH} smallint, {REQUEST} text) using (__id)"
        )
        return self._emitted(CREATED, causes, (ACTOR_KIND, ACTOR_ID, f"coalesce({DEPTH}, 0)", REQUEST), self._members())

    def updated(self, cause: BoundCause) -> str:
        """Return the expression beside an update `written` of the one row `before`."""
        members = (
            f"""{self._members()} || ',"previous":' || (select {self._row} from before) """
            f"""|| ',"changed":' || to_json({cause.changed}::text[])"""
        )
        return self._emitted(UPDATED, "written", cause[:4], members)

    def updated_many(self, cause: BoundCause) -> str:
        """Return the expression beside an update `written` of the rows `before`."""
        source = f"written join (select __id, {self._row} as __previous from before) previous using (__id)"
        changed = f"to_json({cause.changed}::text[])"
        members = f"""{self._members()} || ',"previous":' || __previous || ',"changed":' || {changed}"""
        return self._emitted(UPDATED, source, cause[:4], members)

    def deleted(self, cause: BoundCause) -> str:
        """Return the expression beside a delete `written`."""
        return self._emitted(DELETED, "written", cause[:4], self._members())

    def _emitted(self, operation: str, source: str, cause: Sequence[str], members: str) -> str:
        table_id = self._table.table_id
        largest = ", ".join(map(_aggregated, cause))
        count = f"""{self._head()} || ',"operation":"{operation}","count":' || count(*) || '}}'"""
        values = [
            f"'row.{operation}'",
            f"'{table_id}'::uuid",
            f"'tables/{table_id}/rows/' || __id",
            *cause,
            f"({members} || '}}')::json",
        ]
        named = ", ".join(f"{value} as {name}" for value, name in zip(values, _STORED, strict=True))
        return f"""emitted as (
                {"" if self._apart else self._into}
                select {named}
                from {source} where (select count(*) from written) <= {MAX_ROW_EVENTS}
                union all
                select 'rows.changed', '{table_id}'::uuid, 'tables/{table_id}', {largest}, ({count})::json
                from {source} having count(*) > {MAX_ROW_EVENTS}
            )"""

    def _members(self) -> str:
        omitted = [column.name for column in self._table.columns if column.encrypted]
        names = ',"omitted":' + json.encode(omitted).decode()
        more = f" || {literal(names)}" if omitted else ""
        return f"""{self._head()} || ',"row":' || {self._row}{more}"""

    def _head(self) -> str:
        title = json.encode(self._table.title).decode()
        return literal(f'{{"table_id":"{self._table.table_id}","table_title":{title}')


def literal(text: str) -> str:
    """Return a text as a literal of SQL, whatever `standard_conforming_strings` is."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _aggregated(expression: str) -> str:
    # For an aggregating select. A bound value would not need it; of several causes any one is correct.
    return f"max({expression})"
