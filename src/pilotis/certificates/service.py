"""Which certificate a handshake gets: the operator's own, one that was got by ACME, or none."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from pilotis.certificates import store
from pilotis.certificates.contexts import new_context
from pilotis.certificates.issued import IssuedCertificates
from pilotis.certificates.orders import Orders
from pilotis.certificates.own_files import CHECK_SECONDS, OwnFiles
from pilotis.certificates.site_names import SiteNames
from pilotis.db.pool import Database
from pilotis.db.waiters import UNAUTHENTICATED
from pilotis.kit.errors import QueryTimeoutError, UnavailableError
from pilotis.kit.networks import is_address

_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,256}")
_MAX_LOOKUPS = 4
_ASKED_SECONDS = 60.0
_log = structlog.get_logger("pilotis.https")


class Certificates:
    """The certificates of a server.

    `names` are its own, `is_domain` says which others are verified domains of sites, and `sites`, if not None, which
    are names of sites below the server's domain for them. Those that `own` does not cover come from `orders` and are
    found in `issued`; without these there are only the operator's own files.
    """

    def __init__(
        self,
        database: Database,
        names: Sequence[str],
        is_domain: Callable[[str], bool],
        own: OwnFiles | None,
        issued: IssuedCertificates | None,
        orders: Orders | None,
        sites: Callable[[Callable[[str], None]], SiteNames] | None = None,
    ) -> None:
        """`sites` takes what is to be called with a name that has a site."""
        self._database = database
        self._names = names
        self._is_domain = is_domain
        self._own = own
        self._issued = issued
        self._orders = orders
        self._sites = None if sites is None or orders is None else sites(self._order_soon)
        self._lookups = asyncio.Semaphore(_MAX_LOOKUPS)
        self._asked: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._ordering: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self.context = new_context()
        """The context to listen with: it has no certificate, and chooses one by the name (RFC 6066, section 3)."""
        self.context.sni_callback = self._choose

    async def start(self) -> None:
        """Load the certificates, order what is due, and watch the operator's files."""
        if self._own is not None:
            self._watching = asyncio.create_task(self._watch(self._own))
        if self._issued is not None:
            await self._issued.start()
        if self._orders is not None:
            await self._orders.start()

    async def close(self) -> None:
        """Cancel running tasks."""
        tasks = [task for task in (self._watching, self._ordering) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._sites is not None:
            await self._sites.close()
        if self._issued is not None:
            await self._issued.close()
        if self._orders is not None:
            self._orders.close()

    def reload(self) -> None:
        """Read the operator's own files again."""
        if self._own is not None:
            self._own.reload(always=True)

    def is_served(self, name: str) -> bool:
        """Whether a name is reached by HTTPS here, or will be once it has a certificate."""
        return self.is_ordered(name) or (self._own is not None and self._own.covers(name))

    def is_ordered(self, name: str) -> bool:
        """Whether the certificate of a name comes from an authority."""
        if self._orders is None or (self._own is not None and self._own.covers(name)):
            return False
        return name in self._names or self._is_domain(name)

    async def wanted(self, names: Sequence[str]) -> set[str]:
        """Return those names whose certificates are to come from an authority, also of sites below the server's."""
        ordered = {name for name in names if self.is_ordered(name)}
        others = [name for name in names if name not in ordered and self._may_be_site(name)]
        return ordered if not others or self._sites is None else ordered | set(await self._sites.served(others))

    def is_site(self, name: str) -> bool:
        """Whether a name is below the server's domain for sites, rather than one of its own or a site's domain."""
        return not self.is_ordered(name) and self._may_be_site(name)

    def _may_be_site(self, name: str) -> bool:
        return (
            self._sites is not None
            and self._sites.is_name(name)
            and not (self._own is not None and self._own.covers(name))
        )

    async def answer(self, host: str, token: str) -> bytes | None:
        """Return the answer to a challenge of an authority for a host; None without one."""
        if self._orders is None or not _TOKEN.fullmatch(token):
            return None
        if not self.is_ordered(host) and not self._may_be_site(host):
            return None
        async with self._lookups:
            try:
                found = await store.answer(self._database.of(UNAUTHENTICATED), token, host)
            except (UnavailableError, QueryTimeoutError):
                return None
        return found.encode() if found is not None else None

    def first_end(self) -> datetime | None:
        """Return when the first certificate of the server's own names ends; None as long as there is none."""
        ends = [self._own.facts.not_after] if self._own else []
        if self._issued is not None:
            ends += [end for name in self._names if (end := self._issued.not_after(name))]
        return min(ends, default=None)

    def missing(self) -> int:
        """Return how many of the server's own names have no certificate yet."""
        return sum(not self._has(name) for name in self._names)

    def _has(self, name: str) -> bool:
        is_own = self._own is not None and self._own.covers(name)
        return is_own or (self._issued is not None and self._issued.not_after(name) is not None)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        """Set the context of a handshake, or reject it; nobody is asked while it waits.

        An address is no name (RFC 6066, section 3), but some clients send it.
        """
        found = (
            self._default() if name is None or is_address(name) else self._context_of(name.lower().removesuffix("."))
        )
        if found is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = found
        return None

    def _default(self) -> ssl.SSLContext | None:
        if self._own is not None:
            return self._own.context
        return self._context_of(self._names[0])

    def _context_of(self, name: str) -> ssl.SSLContext | None:
        if self._own is not None and self._own.covers(name):
            return self._own.context
        if self._issued is None:
            return None
        is_ordered = self.is_ordered(name)
        if not is_ordered and not self._may_be_site(name):
            return None
        # That of a site which is gone is used until it ends, and not renewed.
        context = self._issued.context(name)
        if context is None and is_ordered:
            self._order_soon(name)
        elif context is None and self._sites is not None:
            self._sites.ask(name)
        return context

    def _order_soon(self, name: str) -> None:
        """Order the certificate of a name that was asked for; again after a minute at the soonest."""
        now = time.monotonic()
        if now < self._asked.get(name, 0.0):
            return
        self._asked[name] = now + _ASKED_SECONDS
        self._wanted.add(name)
        if self._ordering is None or self._ordering.done():
            self._ordering = asyncio.create_task(self._order())

    async def _order(self) -> None:
        assert self._orders is not None
        while self._wanted:
            name = self._wanted.pop()
            try:
                await self._orders.order(name)
            except Exception as error:
                # The database is away: the next handshake after a minute, or the periodic task, does it.
                _log.warning("certificate not ordered", name=name, error=type(error).__name__)

    async def _watch(self, own: OwnFiles) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            own.reload()
