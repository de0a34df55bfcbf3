"""Structured logs: one event a request, never a secret. JSON lines, or text for people on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog

from pilotis.http.call import Call
from pilotis.kit import json

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(format_: str, level: str) -> None:
    """Set logging up for this process; `format_` is `auto`, `json` or `console`."""
    text = format_ == "console" or (format_ == "auto" and sys.stderr.isatty())
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if text:
        processors.append(
            structlog.dev.ConsoleRenderer(pad_event_to=0, exception_formatter=structlog.dev.plain_traceback)
        )
    else:
        processors += [
            # Without the frames' variables: they hold passwords and rows.
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(serializer=_serialized),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")


def _serialized(event: object, **_: object) -> str:
    return json.encoder.encode(event).decode()


_log = structlog.get_logger("pilotis.request")


def log_request(call: Call, status: int, seconds: float) -> None:
    """Log a finished request: the route, never the query string or a header."""
    principal = call.principal
    _log.info(
        "request",
        request_id=call.request_id,
        method=call.scope["method"],
        route=call.endpoint.path if call.endpoint else None,
        status=status,
        ms=round(seconds * 1000, 2),
        app_id=str(principal.app.app_id) if principal.app else None,
        actor=principal.kind,
    )
