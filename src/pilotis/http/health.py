"""Liveness and readiness, for load balancers and supervisors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import structlog

from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.hosts import host_of
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.kit.errors import Detail, PilotisError, UnavailableError

CHECK_SECONDS = 2.0
KEPT_SECONDS = 1.0

_log = structlog.get_logger("pilotis.health")

Check = Callable[[], Awaitable[object]]


class Alive(msgspec.Struct):
    """The process is alive.

    `isolation` is the weakest with which it runs functions, `none` if it cannot run them safely, and `unknown` until
    there is a function to run.
    """

    isolation: str
    status: Literal["ok"] = "ok"


class Passed(msgspec.Struct):
    """What a request through a reverse proxy lacks.

    `missing` has the names of headers that the proxy does not pass on or set, `is_trusted` says whether the connection
    came from one of `trusted_proxies`.
    """

    is_trusted: bool
    missing: list[str]


class Ready(msgspec.Struct, omit_defaults=True):
    """All parts that were checked are ready.

    `lost_nodes` are the nodes of the database, `host:port`, that do not answer: the apps on them are unavailable. It is
    absent if there are none.
    """

    status: Literal["ready"]
    parts: list[str]
    lost_nodes: list[str] = []


class NotReadyError(UnavailableError):
    """503: a part is not ready; `details` names it."""

    code = "NOT_READY"
    message = "A part of the service is not ready; details names it."

    def __init__(self, details: list[Detail]) -> None:
        super().__init__()
        self.details = tuple(details)


class HealthEndpoints(Endpoints, tag="Health"):
    """Liveness and readiness. `checks` are functions by part; each raises if its part is not ready.

    `facts` returns what the features say, by the field of `Alive`, `lost_nodes` the nodes of the database that do not
    answer.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        facts: Mapping[str, Callable[[], str]] | None = None,
        lost_nodes: Callable[[], Awaitable[list[str]]] | None = None,
    ) -> None:
        self._checks = checks
        self._facts = facts or {}
        self._find_lost_nodes = lost_nodes
        self._lost_nodes: list[str] = []
        self._asked = -KEPT_SECONDS
        self._failed: list[Detail] = []
        self._asking = asyncio.Lock()

    @get("/healthz", access=Access.OPEN)
    async def alive(self, _call: Call) -> Alive:
        """Report that the process is alive. Checks nothing else, not even the database."""
        return msgspec.convert({field: tell() for field, tell in self._facts.items()}, Alive)

    @get("/healthz/proxy", access=Access.OPEN)
    async def proxy(self, call: Call) -> Passed:
        """Report which headers a reverse proxy in front does not pass on; `pilotis doctor --url` asks this."""
        client = call.scope.get("client")
        return Passed(client is not None and client[0] in call.server.trusted_proxies, _missing(call))

    @get("/readyz", access=Access.OPEN, errors=[NotReadyError])
    async def ready(self, _call: Call) -> Ready:
        """Report whether the server can answer requests.

        The database answers within 2 seconds, and has a schema on which this version works. A process that
        is stopping is not ready. The result is cached for one second.
        """
        async with self._asking:
            if time.monotonic() - self._asked >= KEPT_SECONDS:
                self._failed = [detail for detail in [await _failure(*item) for item in self._checks.items()] if detail]
                self._lost_nodes = [] if self._failed else await self._lost()
                self._asked = time.monotonic()
        if self._failed:
            raise NotReadyError(self._failed)
        return Ready("ready", list(self._checks), self._lost_nodes)

    async def _lost(self) -> list[str]:
        """Return the nodes that do not answer: the others' apps are served, so the server is ready all the same."""
        if self._find_lost_nodes is None:
            return []
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._find_lost_nodes()
        except (TimeoutError, PilotisError) as error:
            _log.warning("nodes not checked", error=type(error).__name__)
            return []


def _missing(call: Call) -> list[str]:
    """Return the headers without which a server behind a proxy cannot tell its clients and sites apart."""
    own = urlsplit(call.server.base_url)
    missing = [] if host_of(call.scope) == (own.hostname or "").lower() else ["Host"]
    if b"x-forwarded-for" not in call.headers:
        missing.append("X-Forwarded-For")
    if call.headers.get(b"x-forwarded-proto", b"").strip().lower() != own.scheme.encode():
        missing.append("X-Forwarded-Proto")
    return missing


async def _failure(part: str, check: Check) -> Detail | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except TimeoutError:
        return Detail(part, "TIMEOUT", f"The {part} did not answer within {CHECK_SECONDS:g} seconds.")
    except PilotisError as error:
        return Detail(part, error.code, error.text)
    except Exception as error:
        _log.warning("not ready", part=part, exc_info=error)
        return Detail(part, "FAILED", f"The {part} does not have the state that this version needs.")
    return None
