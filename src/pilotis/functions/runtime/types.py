"""What the pool of sandboxes is asked for, and what it answers: settings, calls, errors."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

import msgspec

from pilotis.functions.runtime.call import Outcome, Program
from pilotis.functions.runtime.egress import EgressPolicy
from pilotis.functions.runtime.isolation import Found
from pilotis.functions.runtime.policy import Runtime
from pilotis.kit.errors import PilotisError, UnavailableError

Start = Literal["warm", "ready", "cold"]
Key = tuple[UUID, UUID, str, int]
"""The key to which a sandbox is bound: app, function, version, and the revision of its settings."""


class RuntimeUnavailableError(UnavailableError):
    """503: this server cannot run functions of this runtime safely; the message says why."""

    code = "RUNTIME_UNAVAILABLE"
    message = "This server cannot run functions."


class FunctionBusyError(PilotisError):
    """429: the maximum number of calls of the app's functions is already waiting."""

    status = 429
    code = "FUNCTION_BUSY"
    message = "Too many calls of the app's functions are waiting. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


class FunctionsOverloadedError(UnavailableError):
    """503: no sandbox became free within 5 seconds, or the process is stopping."""

    code = "FUNCTIONS_OVERLOADED"
    message = "All sandboxes are in use. Try again shortly."


class QueueTimeoutError(Exception):
    """The call's time limit passed before it started."""


class PoolSettings(NamedTuple):
    """The maximum number of sandboxes, the number of prestarted ones, and the lifetime of an idle one.

    `ca_file` contains certificate authorities that functions with egress trust in addition to the machine's.
    """

    sandboxes: int
    ready_javascript: int
    ready_python: int
    idle_seconds: float
    uid_base: int
    ca_file: str | None = None
    isolation: str = "auto"
    """A key of `isolation.CHOICES`."""
    is_local: bool = False
    """Whether only this machine reaches the server."""

    def ready(self, runtime: Runtime) -> int:
        """Return the number of prestarted sandboxes of a runtime."""
        return self.ready_javascript if runtime is Runtime.JAVASCRIPT else self.ready_python


class Wanted(NamedTuple):
    """What a call needs: the key and what starts a sandbox for it.

    At most `at_once` calls of the app run concurrently.
    """

    key: Key
    runtime: Runtime
    memory_mb: int
    at_once: int
    waiting: int
    may_wait: bool
    per_version: int
    load: Callable[[], Awaitable[Program]]
    egress: EgressPolicy | None = None
    """What it may connect to; None is nothing at all."""

    @property
    def app_id(self) -> UUID:
        """The app that is called."""
        return self.key[0]


class Ran(msgspec.Struct, kw_only=True):
    """The outcome of a call, and how it got its sandbox; times are in milliseconds."""

    outcome: Outcome
    start: Start
    queue_ms: float
    load_ms: float


class ConnectFor(Protocol):
    """Connects to a host and a port for an app, if that is permitted; raises `OutgoingError`."""

    def __call__(self, host: str, port: int, *, tenant: UUID) -> Awaitable[socket.socket]:
        """Return the connection."""


def needs_namespaces(what: str, found: Found) -> RuntimeUnavailableError:
    """Return the error of what this machine's isolation does not offer."""
    level = found.isolation.value if found.isolation else "none"
    return RuntimeUnavailableError(
        f"{what} need bubblewrap; this server isolates by {level}. {found.reason or ''}".strip()
    )


def default_sandboxes() -> int:
    """Return the default number of sandboxes: half of the memory divided by 320 MB, at most 32."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(2, min(32, memory // 2 // (320 * 1024 * 1024)))
