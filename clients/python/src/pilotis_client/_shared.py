"""What both clients use, without waiting: errors, rows, sessions as stored, and when to repeat a request."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar
from urllib.parse import quote

import httpx

Data = TypeVar("Data", bound=Mapping[str, Any])
T = TypeVar("T")

PART = 8 << 20
MAX_PAGE = 200
LIVE_ROWS = 1000
TUS = {"Tus-Resumable": "1.0.0"}
_SOON = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_PASSING = {0, 429, 502, 503, 504}


class ApiError(Exception):
    """The API's answer with a status of 400 or more, or what the client met instead of an answer.

    `code` is one of the server's codes, or `NETWORK` without an answer, `TIMEOUT` without one in time, `SESSION_ENDED`
    if the member must sign in again, `FUNCTION_ERROR` for a function that failed, `BAD_ANSWER` for what is not JSON,
    `NOT_SUPPORTED_BY_SERVER` for a route that a server of an older version lacks.
    `status` is 0 without an answer; `body` is the whole body of the error; `retry_after` is in seconds.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        body: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.body: Mapping[str, Any] = body or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def details(self) -> list[dict[str, str]]:
        """Which fields of the request are wrong."""
        return list(self.body.get("details", ()))

    @property
    def request_id(self) -> str | None:
        """The request's id, as in the server's logs."""
        return self.body.get("request_id")

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _PASSING or self.code == "IDEMPOTENCY_KEY_IN_USE"


@dataclass(frozen=True)
class Row(Generic[Data]):
    """A row as the API answers it; `more` has the fields of some answers, such as `expanded`, `score` or `created`."""

    id: str
    data: Data
    created_at: str
    updated_at: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Change(Generic[Data]):
    """What happened to the rows of a question.

    `type` is `create`, `update`, `enter` (the row did not match, or was not visible, and does now), `leave`, `delete`,
    or `reset`: read the rows again, since changes may have been missed. `row` is None at `reset`, `leave` and `delete`,
    and for a row that is too large to be sent; `id` is None at `reset`.
    """

    type: str
    id: str | None = None
    row: Row[Data] | None = None


@dataclass(frozen=True)
class ChannelEvent:
    """What a channel tells.

    `type` is `message`, with `event`, `payload`, `id` and `member_id`, the signed-in member that sent it, or None;
    `presence`, with `count` and those who are `present`, each with `key`, `member_id` and `state`, above 200 none of
    them; or `missed`: messages may have been lost.
    """

    type: str
    event: str | None = None
    payload: Any = None
    id: str | None = None
    member_id: str | None = None
    present: list[dict[str, Any]] = field(default_factory=list)
    count: int | None = None


@dataclass(frozen=True)
class Page(Generic[Data]):
    """Rows, how many there are in all, or None if they were not counted, and where the next page begins, or None."""

    rows: list[Row[Data]]
    total: int | None
    cursor: str | None


class LiveRows(Generic[Data]):
    """The rows of a question, to which changes are applied as far as they tell what the list shows."""

    def __init__(self, asked: Mapping[str, Any], limit: int) -> None:
        # In another order than that of the ids, and for what is beside the columns, only the server knows.
        self._is_plain = not {"order_by", "offset", "expand", "counts"} & asked.keys()
        self._limit = limit
        self._rows: list[Row[Data]] = []
        self._total = 0

    def take(self, page: Page[Data]) -> None:
        """Take over what was read."""
        self._rows, self._total = page.rows, len(page.rows) if page.total is None else page.total

    def page(self) -> Page[Data]:
        """Return what the list shows."""
        return Page(list(self._rows), self._total, None)

    def apply(self, change: Change[Data]) -> bool:
        """Apply a change; returns whether the list shows what is so, else it must be read."""
        before = next((row for row in self._rows if row.id == change.id), None)
        if before and change.row and before.updated_at > change.row.updated_at:
            return True
        is_gone = change.type in {"leave", "delete"}
        if not self._is_plain or self._total > len(self._rows) or (change.row is None and not is_gone):
            return False
        rows = [row for row in self._rows if row.id != change.id]
        if change.row is not None and not is_gone:
            rows.append(change.row)
            rows.sort(key=lambda row: row.id)
        self._total = len(rows)
        self._rows = rows[: self._limit]
        return True


def message_of(told: Mapping[str, Any]) -> ChannelEvent:
    """Return the message that an event of a stream tells."""
    sender = (told.get("from") or {}).get("member_id")
    return ChannelEvent("message", told["event"], told["payload"], told["id"], sender)


def present_after(before: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return who is present after an event of a stream; of many only their number is told."""
    present = dict(before) if "joined" in told or "left" in told else {}
    for one in (*told.get("all", ()), *told.get("joined", ())):
        present[one["key"]] = one
    for key in told.get("left", ()):
        present.pop(key, None)
    return present


@dataclass(frozen=True)
class RowReference:
    """A row that an earlier operation of a transaction creates."""

    index: int


class Storage(Protocol):
    """Where a client keeps its session."""

    def get(self, name: str) -> str | None:
        """Return what is stored under a name."""

    def set(self, name: str, value: str) -> None:
        """Store a text under a name."""

    def remove(self, name: str) -> None:
        """Forget what is stored under a name."""


class MemoryStorage:
    """Keeps a session in memory."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        """Return what is stored under a name."""
        return self._values.get(name)

    def set(self, name: str, value: str) -> None:
        """Store a text under a name."""
        self._values[name] = value

    def remove(self, name: str) -> None:
        """Forget what is stored under a name."""
        self._values.pop(name, None)


def inc(by: float) -> dict[str, float]:
    """Return an update that adds a number to a column, whatever its value is by then."""
    return {"$inc": by}


class Clock:
    """The server's clock, as the `Date` of its answers tells it."""

    def __init__(self) -> None:
        self._skew = 0.0

    def notice(self, response: httpx.Response) -> None:
        """Correct the clock by an answer."""
        try:
            date = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, ValueError):
            return
        if abs(date - self.now()) > 5:
            self._skew = date - time.time()

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return time.time() + self._skew

    def is_fresh(self, token: str) -> bool:
        """Return whether an access token is valid for a minute at least."""
        return expiry(token) - self.now() > _SOON


def expiry(token: str) -> float:
    """Return when a token expires, in seconds since 1970; 0 for what is no token."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0


def error_of(response: httpx.Response, own_route: str | None) -> ApiError:
    """Return the error of an answer; `own_route` is what the client has asked for, None for a path of its caller's."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "code" not in body:
        body = {"code": "BAD_ANSWER", "message": f"The server answered {response.status_code}."}
    # What is not there has a code of its own: it is the route that an older server lacks.
    if own_route and body["code"] in {"NOT_FOUND", "METHOD_NOT_ALLOWED"}:
        version = response.headers.get("X-Pilotis-Version", "unknown")
        told = f"The server, of version {version}, has no {own_route}, which is needed."
        body = {**body, "code": "NOT_SUPPORTED_BY_SERVER", "message": told}
    after = response.headers.get("Retry-After", "")
    retry_after = float(after) if after.isdigit() else None
    return ApiError(response.status_code, str(body["code"]), str(body.get("message", "")), body, retry_after)


def pause(number: int, retry_after: float | None, left: float) -> float:
    """Return the seconds before a repeat: a random time that doubles, or what the server asks for; `left` at most."""
    jitter = random.random()  # noqa: S311 - no secret
    wait = max(_SHORTEST_PAUSE, jitter * min(_LONGEST_PAUSE, 2 * _SHORTEST_PAUSE * 2**number))
    return max(0.0, min(left, wait if retry_after is None else retry_after + jitter * _SHORTEST_PAUSE))


def path(*segments: str) -> str:
    """Return the segments of a path, encoded."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def file_path(place: str) -> str:
    """Return a path of files: its slashes stay."""
    return path(*place.lstrip("/").split("/"))


def filled(**values: Any) -> dict[str, Any]:
    """Return the values that are given."""
    return {name: value for name, value in values.items() if value is not None}


def listed(names: Iterable[str] | None) -> str | None:
    """Return names as a parameter takes them."""
    return None if names is None else ",".join(names)


def row_of(found: Mapping[str, Any]) -> Row[Any]:
    """Return a row of an answer."""
    known = ("id", "data", "created_at", "updated_at")
    more = {name: value for name, value in found.items() if name not in known}
    return Row(found["id"], found["data"], found["created_at"], found["updated_at"], more)


def change_of(told: Mapping[str, Any]) -> Change[Any]:
    """Return the change of an event."""
    row = told["row"]
    return Change(told["type"], row["id"], row_of(row) if "data" in row else None)


def page_of(found: Mapping[str, Any]) -> Page[Any]:
    """Return a page of an answer."""
    return Page([row_of(one) for one in found["data"]], found["total_count"], found.get("next_cursor"))


def operations_of(collected: Operations) -> list[dict[str, Any]]:
    """Return the body of a transaction or a batch."""
    referred: list[dict[str, Any]] = _referring(collected.collected)
    return referred


def _referring(value: Any) -> Any:
    if isinstance(value, RowReference):
        return {"$ref": value.index}
    if isinstance(value, Mapping):
        return {name: _referring(item) for name, item in value.items()}
    return [_referring(item) for item in value] if isinstance(value, list) else value


class Operations:
    """Collects the operations of a transaction or a batch."""

    def __init__(self) -> None:
        self.collected: list[dict[str, Any]] = []

    def create(self, table: str, data: Mapping[str, Any]) -> RowReference:
        """Create a row; a later operation may refer to it."""
        return self._add(type="create", table_id=table, data=data)

    def update(self, table: str, row: str | Row[Any] | RowReference, changes: Mapping[str, Any]) -> RowReference:
        """Change a row: one that was read only if nobody has changed it since."""
        expected = row.updated_at if isinstance(row, Row) else None
        more = filled(expected_updated_at=expected)
        return self._add(type="update", table_id=table, doc_id=_id(row), data=changes, **more)

    def upsert(self, table: str, key: str, data: Mapping[str, Any], mode: str | None = None) -> RowReference:
        """Create a row, or change the one with the same values in a unique key."""
        return self._add(type="upsert", table_id=table, key=key, data=data, **filled(mode=mode))

    def delete(self, table: str, row: str | Row[Any] | RowReference) -> None:
        """Delete a row."""
        self._add(type="delete", table_id=table, doc_id=_id(row))

    def _add(self, **operation: Any) -> RowReference:
        self.collected.append(operation)
        return RowReference(len(self.collected) - 1)


def _id(row: str | Row[Any] | RowReference) -> str | RowReference:
    return row.id if isinstance(row, Row) else row


@dataclass(frozen=True)
class Content:
    """What an upload sends: an open file, its size in bytes, and its name."""

    file: BinaryIO
    size: int
    name: str | None


def content_of(content: bytes | str | Path | BinaryIO) -> Content:
    """Open what an upload sends; the caller closes it."""
    import io

    if isinstance(content, Path):
        return Content(content.open("rb"), content.stat().st_size, content.name)
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes | bytearray):
        return Content(io.BytesIO(content), len(content), None)
    size = content.seek(0, 2)
    content.seek(0)
    return Content(content, size, None)


def metadata(**values: str | None) -> str:
    """Return the `Upload-Metadata` of tus."""
    given = filled(**values)
    return ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in given.items())
