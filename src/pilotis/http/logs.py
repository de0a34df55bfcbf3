"""Structured logs: one event a request, never a secret. JSON lines, or text for people on a terminal.

An exception is logged as its type and the places it passed, never with its message or variables: a database error's
message quotes the row that did not fit, and a frame's variables hold passwords.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import BinaryIO, TextIO, cast
from uuid import UUID

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from pilotis.http.call import Call
from pilotis.kit import json

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_MOST_FRAMES = 20


def configure(format_: str, level: str, stream: TextIO | None = None) -> None:
    """Set logging up for this process; `format_` is `auto`, `json` or `console`, `stream` stderr by default."""
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
    global _lines
    _lines = lines if _LEVELS[level] <= logging.INFO else None
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


def places(error: BaseException) -> list[str]:
    """Return an exception and its causes, outermost first: a line with the type, then `module:line function` each."""
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
    event = _Request(
        call.request_id,
        call.scope["method"],
        call.endpoint.path if call.endpoint else None,
        status,
        round(seconds * 1000, 2),
        app.app_id if app else None,
        call.principal.kind,
        datetime.now(UTC),
    )
    if _lines:
        # What structlog does on the way to these bytes takes as long as authentication and binding together.
        _lines.write(json.encode(event) + b"\n")
        _lines.flush()
    else:
        told = msgspec.to_builtins(event)
        _log.info(told.pop("event"), **{name: value for name, value in told.items() if name not in _OWN})


_OWN = {"level", "timestamp"}


class _Lines:
    """A stream whose lines of one turn of the event loop leave in one write."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held: list[bytes] = []
        atexit.register(self._write)

    def write(self, line: bytes) -> None:
        self._held.append(line)

    def flush(self) -> None:
        if len(self._held) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self._write)
        except RuntimeError:  # no loop runs
            self._write()

    def _write(self) -> None:
        held, self._held = self._held, []
        if held:
            self._stream.write(b"".join(held))
            self._stream.flush()


_log = structlog.get_logger("pilotis.request")
_lines: _Lines | None = None


class _Bridge(logging.Handler):
    """Passes what libraries log through `logging` on, without the parts that may quote a value."""

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
    steps = list(traceback.walk_tb(trace))[-_MOST_FRAMES:]
    return [f"  {frame.f_globals.get('__name__')}:{line} {frame.f_code.co_name}" for frame, line in steps]
