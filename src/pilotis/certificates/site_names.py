"""Names of sites below the server's own domain for them, which handshakes ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

import structlog

_MAX_ASKED = 100
_PAUSE_SECONDS = 1.0
_log = structlog.get_logger("pilotis.https")


class SiteNames:
    """Finds out which names that handshakes have asked for belong to sites.

    `is_name` says whether a host could be one, from its form; `served` returns those of some hosts that are. `found` is
    called with each of these. Strangers can ask for any number of names: of those that wait at the same time some are
    left out, and all together cost a statement a second.
    """

    def __init__(
        self,
        is_name: Callable[[str], bool],
        served: Callable[[Sequence[str]], Awaitable[Collection[str]]],
        found: Callable[[str], None],
    ) -> None:
        self.is_name = is_name
        self.served = served
        self._found = found
        self._asked: dict[str, None] = {}
        self._asking: asyncio.Task[None] | None = None

    def ask(self, name: str) -> None:
        """Find out about a name soon."""
        if len(self._asked) >= _MAX_ASKED:
            return
        self._asked[name] = None
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())

    async def close(self) -> None:
        """Cancel the running task."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        while self._asked:
            names, self._asked = list(self._asked), {}
            try:
                for name in await self.served(names):
                    self._found(name)
            except Exception as error:
                # The database is away: the next handshake asks again.
                _log.warning("names of sites not looked up", error=type(error).__name__)
            await asyncio.sleep(_PAUSE_SECONDS)
