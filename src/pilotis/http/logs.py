"""Structured logs: one event per request, without secrets. JSON lines, or readable text on a terminal.

An exception is logged as its type and its stack locations, never with its message or variables: a database error's
message quotes the rejected row, and variables contain passwords.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import BinaryIO, TextIO, cast
from uuid import UUID

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from pilotis.http.api.request import Call
from pilotis.kit import json

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_MAX_FRAMES = 20
# A system call for each iteration of a busy loop would cost more than its lines.
_GATHER_SECONDS = 0.01


def configure(format_: str, level: str, stream: TextIO | None = None) -> None:
    """Configure logging for this process; `format_` is `auto`, `json` or `console`, `stream` is stderr by default."""
    stream = stream or sys.stderr
    text = format_ == "console" or (format_ == "auto" and stream.isatty())
    rendering: list[Processor] = [_as_lines, structlog.dev.ConsoleRenderer(pad_event_to=0)] if text else [_as_json]
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_values,
        *rendering,
    ]
    lines = None if text else _Lines(stream.buffer)
    global _lines, _hold
    _lines = lines if _LEVELS[level] <= logging.INFO else None
    _hold = _lines.hold if _lines else _log_at_once
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=(
            structlog.BytesLoggerFactory(cast("BinaryIO", lines)) if lines else structlog.WriteLoggerFactory(stream)
        ),
        cache_logger_on_first_use=True,
    )
    bridge = _Bridge(structlog.get_logger("pilotis.libraries"))
    logging.basicConfig(level=logging.WARNING, handlers=[bridge], force=True)


def flush() -> None:
    """Write the lines that are still held; for a process that ends without running its exit handlers."""
    if _lines:
        _lines.write_held()


def places(error: BaseException) -> list[str]:
    """Return an exception and its causes, outermost first: a line with the type, then its `module:line function`."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines += [_type_name(current), *_frames(current.__traceback__)]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return lines


class _Request(msgspec.Struct):
    request_id: str
    method: str
    route: str | None
    status: int
    ms: float
    app_id: UUID | None
    actor: str
    timestamp: datetime
    event: str = "request"
    level: str = "info"


def log_request(call: Call, status: int, seconds: float) -> None:
    """Log a finished request: the route, never the query string or a header."""
    app = call.principal.app
    _hold(
        _Request(
            call.client.request_id,
            call.scope["method"],
            call.endpoint.path if call.endpoint else None,
            status,
            int(seconds * 100_000) / 100,
            app.app_id if app else None,
            call.principal.kind,
            datetime.now(UTC),
        )
    )


def log_area_request(request_id: str, status: int, seconds: float) -> None:
    """Log a GET request to a host without routes and credentials that was answered from a cache."""
    ms = int(seconds * 100_000) / 100
    _hold(_Request(request_id, "GET", None, status, ms, None, "anonymous", datetime.now(UTC)))


def _log_at_once(event: _Request) -> None:
    fields = msgspec.to_builtins(event)
    _log.info(fields.pop("event"), **{name: value for name, value in fields.items() if name not in _OWN})


_OWN = {"level", "timestamp"}


class _Lines:
    """A stream that writes the lines of some milliseconds of an event loop together, those of other threads at once."""

    _held: deque[bytes | _Request]
    _due: asyncio.AbstractEventLoop | None

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._renew()
        # In a process that is forked meanwhile there is neither the loop nor the thread that holds the lock, and the
        # lines are the other one's.
        os.register_at_fork(after_in_child=self._renew)
        atexit.register(self.write_held)

    def hold(self, event: _Request) -> None:
        """Write a request's line with the next ones."""
        self._held.append(event)
        if self._due is None or self._due.is_closed():
            self.flush()

    def write(self, line: bytes) -> None:
        self._held.append(line)

    def flush(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop runs
            self.write_held()
            return
        if self._due is not loop:
            self._due = loop
            loop.call_later(_GATHER_SECONDS, self.write_held)

    def write_held(self) -> None:
        self._due = None
        # Others may add lines meanwhile.
        with self._lock:
            lines = []
            while self._held:
                line = self._held.popleft()
                lines.append(line if isinstance(line, bytes) else json.encode(line) + b"\n")
            if lines:
                self._stream.write(b"".join(lines))
                self._stream.flush()

    def _renew(self) -> None:
        self._held, self._due = deque(), None
        self._lock = threading.Lock()


_log = structlog.get_logger("pilotis.request")
_lines: _Lines | None = None
# structlog's processors would take as long as authentication and binding together.
_hold: Callable[[_Request], None] = _log_at_once


class _Bridge(logging.Handler):
    """Forwards what libraries log through `logging`, without the parts that may quote a value."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        # asyncio puts the repr of a failed task, and so the exception's message, on the lines after the first.
        event = record.getMessage().partition("\n")[0]
        self._log.log(min(record.levelno, logging.CRITICAL), event, logger=record.name, exc_info=record.exc_info)


def _as_json(_logger: object, _method: str, event: EventDict) -> bytes:
    return json.encode(event)


def _as_lines(_logger: object, _method: str, event: EventDict) -> EventDict:
    if "exception" in event:
        event["exception"] = "\n".join(event["exception"])
    return event


def _without_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    if "exc_info" in event:
        error = _exception(event.pop("exc_info"))
        if error is not None:
            event["exception"] = places(error)
    return event


def _exception(given: ExcInfo | BaseException | bool | None) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1]
    return sys.exc_info()[1] if given else None


def _type_name(error: BaseException) -> str:
    sqlstate = getattr(error, "sqlstate", None)
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return f"{name} ({sqlstate})" if sqlstate else name


def _frames(trace: TracebackType | None) -> list[str]:
    steps = list(traceback.walk_tb(trace))[-_MAX_FRAMES:]
    return [f"  {frame.f_globals.get('__name__')}:{line} {frame.f_code.co_name}" for frame, line in steps]
