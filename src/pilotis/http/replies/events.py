"""Server-sent events (HTML standard, section 9.2): an answer that stays open and delivers events as they happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import ClassVar, Protocol

import msgspec

from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Answer, Reply
from pilotis.kit.errors import PilotisError

RETRY = b"retry: 1000\n\n"
PING = b": ping\n\n"
LAST_EVENT_ID = {"Last-Event-ID": "The id of the last event that was seen; the stream continues after it."}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event: its `data`, often JSON, its type, and the id that a client sends when it reconnects."""

    data: bytes
    event: str | None = None
    id: str | None = None

    def encode(self) -> bytes:
        """Return the encoded lines; raises `ValueError` for a type or id that contains a line break or U+0000."""
        lines = []
        for name, value in (("event", self.event), ("id", self.id)):
            if value is not None:
                if any(character in value for character in "\r\n\0"):
                    raise ValueError(f"The {name} of an event must be one line.")
                lines.append(f"{name}: {value}\n".encode())
        text = self.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines += [b"data: %b\n" % line for line in text.split(b"\n")]
        return b"".join(lines) + b"\n"


class ResumeQuery(msgspec.Struct):
    """The event after which a stream continues, for clients that cannot send the header `Last-Event-ID`."""

    last_event_id: str | None = None

    def last_seen(self, call: Call) -> str | None:
        """Return the id of the last event that the client has seen, as it was sent; the header wins."""
        header = call.header(b"last-event-id")
        return self.last_event_id if header is None else header


class Events(Answer, frozen=True):
    """Sends what `source` yields until it ends; the source is closed in any case.

    Once a minute the credentials of the call are checked again, and `recheck` is called, if given: if it raises a
    `PilotisError` of status 401, 403 or 404, the stream ends.
    """

    media_type: ClassVar[str] = "text/event-stream"

    source: AsyncGenerator[Event]
    recheck: Callable[[], Awaitable[object]] | None = None

    def reply(self) -> Reply:
        """See `Answer.reply`."""
        # nginx would otherwise buffer the events.
        headers = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        return Reply(self, headers=headers, content_type=b"text/event-stream")


class Outlet(Protocol):
    """Where the answer to one request goes, while it is open."""

    def write(self, data: bytes) -> bool:
        """Send bytes without waiting for the client; False if its connection is lost or it lags too far behind."""

    @property
    def unsent(self) -> int:
        """How many bytes wait for the client."""

    def check_soon(self) -> None:
        """Check the credentials of the call now, and not only when a minute is over."""

    def close(self) -> None:
        """End the answer; what was written is still sent."""


class Pushed(Answer, frozen=True):
    """Sends what others write: `opened` is called with the outlet once the answer has begun, `closed` when it is over.

    `closed` is called in any case, also if `opened` never was. Once a minute the credentials of the call are checked
    again. `ending` returns the last event for a stop of the server, and for credentials that are valid no more.
    """

    media_type: ClassVar[str] = "text/event-stream"

    opened: Callable[[Outlet], Awaitable[None]]
    closed: Callable[[], None]
    ending: Callable[[PilotisError | None], bytes]

    def reply(self) -> Reply:
        """See `Answer.reply`."""
        headers = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        return Reply(self, headers=headers, content_type=b"text/event-stream")


def bye(reason: str) -> bytes:
    """Return the last event of a stream, with the reason for its end."""
    return Event(event="bye", data=f'{{"reason":"{reason}"}}'.encode()).encode()
