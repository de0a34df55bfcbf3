"""The parts of statements that write events: in the same statement as a change, or alone. Pure.

A change in one statement emits its event by a common table expression of that statement. Without a target it inserts
nothing, and costs one lookup of the app's few rows in `pilotis.event_targets`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotis.events.types import Event

_TYPES = {
    "event_id": "uuid",
    "type": "text",
    "version": "smallint",
    "table_id": "uuid",
    "storage_id": "uuid",
    "member_id": "text",
    "subject": "text",
    "actor_kind": "text",
    "actor_id": "text",
    "depth": "smallint",
    "request_id": "text",
    "data": "json",
    "created_at": "timestamptz",
}
"""The columns of an event except its app, which are the fields of `Event` and of `NewEvent`."""
COLUMNS = tuple(_TYPES)
_NAMES = ", ".join(COLUMNS)
_FIELDS = ", ".join(f"{name} {type_}" for name, type_ in _TYPES.items())


def selected(source: str = "", **instead: str) -> str:
    """Return a select list with the columns of an event, its data as text; `instead` has expressions for some."""
    prefix = f"{source}." if source else ""
    expressions = {name: f"{prefix}{name}" for name in COLUMNS} | {"data": f"{prefix}data::text"} | instead
    return ", ".join(f"{expressions[name]} as {name}" for name in COLUMNS)


def listened(app_id: str, type_: str) -> str:
    """Return the condition that a target in an app listens to a type; both arguments are SQL expressions.

    A target lists types, prefixes such as `row.*` and `team.member.*`, or `*`.
    """
    return f"""exists (
        select from pilotis.event_targets t where t.app_id = {app_id}
            and ({type_} = any(t.types) or '*' = any(t.types) or exists (
                select from unnest(t.types) p where right(p, 2) = '.*' and starts_with({type_}, left(p, -1))
            ))
    )"""


def emission(app_id: str, events: str, source: str = "", data: str = "e.data") -> str:
    """Return an insert of the events whose types have a target.

    `events` is an expression for the JSON text of `NewEvent`s. With `source`, such as `cross join changed m`, each is
    inserted once per row of it; `data` may then be an expression over that row.
    """
    return f"""
        insert into pilotis.events (app_id, {_NAMES})
        select {app_id}, {_values(data)} from json_to_recordset({events}::text::json) e ({_FIELDS}) {source}
        where {listened(app_id, "e.type")}
    """


def keeping(app_id: str, events: str) -> str:
    """Return an insert of events that are not dispatched; see `emission` for the arguments."""
    return f"""
        insert into pilotis.events (app_id, {_NAMES}, dispatched_at)
        select {app_id}, {_values("e.data")}, now() from json_to_recordset({events}::text::json) e ({_FIELDS})
    """


def storing(column: str, value: str, conflict: str = "") -> str:
    """Return an insert of `Event`s with one additional column; its arguments are `arrays`."""
    types = ["uuid", *("text" if type_ == "json" else type_ for type_ in _TYPES.values())]
    arguments = ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(types, 1))
    values = ", ".join("e.data::json" if name == "data" else f"e.{name}" for name in COLUMNS)
    return f"""
        insert into pilotis.events as stored (app_id, {_NAMES}, {column})
        select e.app_id, {values}, {value} from unnest({arguments}) e (app_id, {_NAMES}) {conflict}
    """


def arrays(events: Sequence[Event]) -> list[list[object]]:
    """Return the arguments of `storing`: the values of each column."""
    return [[getattr(event, name) for event in events] for name in ("app_id", *COLUMNS)]


def _values(data: str) -> str:
    expressions = {"data": data, "created_at": "coalesce(e.created_at, now())"}
    return ", ".join(expressions.get(name, f"e.{name}") for name in COLUMNS)
