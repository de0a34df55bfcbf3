"""Whether this process is alive, and whether it can do its work. For load balancers and supervisors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
import structlog

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get
from pilotis.http.principals import Access
from pilotis.kit.errors import Detail, PilotisError, UnavailableError

CHECK_SECONDS = 2.0
KEPT_SECONDS = 1.0

_log = structlog.get_logger("pilotis.health")

Check = Callable[[], Awaitable[object]]


class Alive(msgspec.Struct):
    """This process answers."""

    status: Literal["ok"] = "ok"


class Ready(msgspec.Struct):
    """Every part that was asked answers."""

    status: Literal["ready"]
    parts: list[str]


class NotReadyError(UnavailableError):
    """503: a part does not answer; `details` names it."""

    code = "NOT_READY"
    message = "A part of the service is not ready; details names it."

    def __init__(self, details: list[Detail]) -> None:
        super().__init__()
        self.details = tuple(details)


class HealthEndpoints(Endpoints, tag="Health"):
    """Alive and ready. `checks` are the parts by name; each raises where its part is not ready."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._asked = -KEPT_SECONDS
        self._failed: list[Detail] = []
        self._asking = asyncio.Lock()

    @get("/healthz", access=Access.OPEN)
    async def alive(self, _call: Call) -> Alive:
        """Tell that the process is alive. Asks nothing else of it, nor of the database."""
        return Alive()

    @get("/readyz", access=Access.OPEN, errors=[NotReadyError])
    async def ready(self, _call: Call) -> Ready:
        """Tell whether requests can be answered: the database answers within 2 seconds and is of this version.

        What was found out holds for a second, however many ask.
        """
        async with self._asking:
            if time.monotonic() - self._asked >= KEPT_SECONDS:
                self._failed = [detail for detail in [await _failure(*item) for item in self._checks.items()] if detail]
                self._asked = time.monotonic()
        if self._failed:
            raise NotReadyError(self._failed)
        return Ready("ready", list(self._checks))


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
        return Detail(part, "FAILED", f"The {part} is not as this version needs it.")
    return None
