"""The envelope in which webhooks and functions receive an event. Pure: the same event has the same bytes."""

from __future__ import annotations

import msgspec

from pilotis.events.types import Event
from pilotis.kit.clock import rfc3339


def compose(event: Event, *, max_bytes: int, is_domain: bool = False, is_test: bool = False) -> bytes:
    """Return the body as UTF-8.

    `is_domain` says that the app declared the type; such events include their member. Above `max_bytes` the event is
    sent in short form: rows have only their `id`, and `data.truncated` is true.
    """
    marks: dict[str, object] = {"member_id": event.member_id} if is_domain else {}
    if is_test:
        marks["test"] = True
    body = _encoded(event, event.data, marks)
    return body if len(body) <= max_bytes else _encoded(event, _thin(event.data), marks)


def _encoded(event: Event, data: str, marks: dict[str, object]) -> bytes:
    members: dict[str, object] = {
        "id": event.event_id,
        "type": event.type,
        "event_type": event.type,
        "version": event.version,
        "app_id": event.app_id,
        "timestamp": rfc3339(event.created_at),
        "subject": event.subject,
        "actor": {"kind": event.actor_kind, "id": event.actor_id},
    }
    return msgspec.json.encode(members | marks | {"data": msgspec.Raw(data.encode())})


def _thin(data: str) -> str:
    """Return data without large parts: rows are reduced to their ids, `previous` is omitted."""
    whole = msgspec.json.decode(data)
    row = whole.pop("row", None)
    kept: dict[str, object] = {name: value for name, value in whole.items() if _is_short(value)}
    if isinstance(row, dict):
        kept["row"] = {"id": row.get("id")}
    return msgspec.json.encode(kept | {"truncated": True}).decode()


def _is_short(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= 255)
