"""What a sandbox runs: a program, its calls one after the other, and the outcome of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from pilotis.functions.runtime.frames import Frame
from pilotis.kit import json
from pilotis.kit.errors import PilotisError

MAX_RESULT = 6 * 1024 * 1024
MAX_DEPTH = 64
MAX_LOG_BYTES = 64 * 1024
MAX_LOG_LINES = 1000
MAX_LINE = 10_000
CONCURRENT_API_CALLS = 8
MAX_DROPPED = 2**31 - 1
"""The largest number of dropped lines that a record can have."""

Status = Literal["success", "error", "timeout"]


class LogLine(msgspec.Struct, array_like=True):
    """A line of the log: seconds since 1970, a level, a text."""

    time: float
    level: str
    message: str


def log_line(level: str, text: str) -> LogLine:
    """Return a line of now, of what a function says."""
    return LogLine(time.time(), level, storable(text[:MAX_LINE]))


def storable(text: str) -> str:
    """Return a text of a function without NUL, which cannot be stored in the database."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


class Outcome(msgspec.Struct, kw_only=True):
    """The outcome of a call.

    `result` is JSON text, `duration` the handler's time in milliseconds by the server's clock.
    """

    status: Status
    result: bytes = b"null"
    error: str | None = None
    error_code: str | None = None
    duration: float = 0.0
    cpu_ms: float = 0.0
    peak_memory_mb: float | None = None
    logs: list[LogLine] = []
    log_dropped: int = 0


class Program(NamedTuple):
    """What a sandbox is bound to permanently: the files by path, the entry file, the variables."""

    files: Mapping[str, bytes]
    entry: str
    env: Mapping[str, str]
    commonjs: bool = False
    packages: str | None = None
    """A directory of Python packages, which is part of a sandbox from its start."""


class Invocation(msgspec.Struct, kw_only=True):
    """One call. `deadline` is a time of the loop's clock, `cpu_seconds` the maximum processor time.

    `api` serves calls of the app's API and requests for a token, which are unavailable if `api` is None. `measure`
    requests the peak memory.
    """

    payload: bytes
    context: dict[str, Any]
    deadline: float
    cpu_seconds: float
    api: Callable[[Frame], Awaitable[dict[str, Any]]] | None = None
    measure: bool = False


class StartError(Exception):
    """The sandbox did not start; the text is its output."""


class LoadError(Exception):
    """The function's files could not be loaded; `stack` and `code` give the details."""

    def __init__(self, message: str, code: str, stack: str) -> None:
        super().__init__(message)
        self.code, self.stack = code, stack


class CurrentCall:
    """The current call of a sandbox: its log, and the calls of the API that it waits for."""

    def __init__(self, id_: int, call: Invocation, ended: asyncio.Future[Outcome], cpu_before: float) -> None:
        self.id, self.call, self.ended, self.cpu_before = id_, call, ended, cpu_before
        self.logs: list[LogLine] = []
        self.dropped = self.api_calls = self._log_bytes = 0
        self.slots = asyncio.Semaphore(CONCURRENT_API_CALLS)
        self.tasks: set[asyncio.Task[None]] = set()

    def log(self, level: str, message: str) -> None:
        """Add a line to the log, or count it if there are too many."""
        if len(self.logs) >= MAX_LOG_LINES or self._log_bytes + len(message) > MAX_LOG_BYTES:
            self.dropped += 1
            return
        self._log_bytes += len(message)
        level = level if level in {"debug", "info", "warn", "error"} else "info"
        self.logs.append(log_line(level, message))

    def drop(self, number: int) -> None:
        """Count lines that the sandbox has dropped itself."""
        self.dropped = min(self.dropped + number, MAX_DROPPED)

    def cancel_calls(self) -> None:
        """Cancel the calls of the API that have no answer yet."""
        for task in self.tasks:
            task.cancel()


def outcome_of(frame: Frame) -> Outcome:
    """Return the outcome that a frame says."""
    if not frame.ok:
        if frame.code in {"RESULT_NOT_JSON", "RESULT_TOO_LARGE", "MEMORY_EXCEEDED", "NEVER_SETTLED"}:
            code = frame.code
        else:
            code = "FUNCTION_ERROR"
        outcome = Outcome(status="error", error=storable(frame.error or "")[:2000], error_code=code)
        if frame.stack:
            outcome.logs = [log_line("error", frame.stack)]
        return outcome
    result = bytes(frame.result)
    if len(result) > MAX_RESULT:
        return Outcome(status="error", error="The result is larger than 6 MB.", error_code="RESULT_TOO_LARGE")
    try:
        json.check_depth(result, MAX_DEPTH)
    except PilotisError:
        text = f"The result is nested more than {MAX_DEPTH} levels deep."
        return Outcome(status="error", error=text, error_code="RESULT_NOT_JSON")
    return Outcome(status="success", result=result)
