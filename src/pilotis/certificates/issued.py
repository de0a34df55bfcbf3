"""A node's memory of the certificates in the database, for handshakes, which cannot wait for it."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from datetime import datetime

import structlog

from pilotis.certificates import store
from pilotis.certificates.contexts import CertificateError, context_of
from pilotis.certificates.store import Served
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.db.waiters import BACKGROUND
from pilotis.security.encryption.cipher import DecryptionError
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

_MAX_CONTEXTS = 1_000
_BATCH_SIZE = 100
_RETRY_SECONDS = 1.0
_log = structlog.get_logger("pilotis.https")


class IssuedCertificates:
    """The certificates that were got by ACME: all of them, 3 kB each, and the contexts of those used last."""

    def __init__(self, database: Database, control: Control, secrets: Secrets) -> None:
        self._database = database
        self._control = control
        self._secrets = secrets.server()
        self._served: dict[str, Served] = {}
        self._contexts: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()
        self._is_stale = False
        self._forget = False
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Subscribe to changes, and load the certificates."""
        self._control.subscribe(Topic.CERTIFICATE, lambda _: self._refresh_soon(), self._refresh_soon)
        # Keys in memory may be encrypted under a master key that is forgotten, also while no message arrives.
        self._control.subscribe(Topic.MASTER_KEY, lambda _: self._refresh_soon(forget=True), lambda: None)
        self._control.watch(lost=lambda: None, regained=lambda: self._refresh_soon(forget=True))
        await self._load(forget=False)

    async def close(self) -> None:
        """Cancel the running task."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])

    def not_after(self, name: str) -> datetime | None:
        """Return the end of a name's certificate; None without one."""
        found = self._served.get(name)
        return found.not_after if found else None

    def context(self, name: str) -> ssl.SSLContext | None:
        """Return the context of a name's certificate; None without one."""
        served = self._served.get(name)
        if served is None:
            return None
        known = self._contexts.get(name)
        if known is not None and known[0] == served.issued_at:
            self._contexts.move_to_end(name)
            return known[1]
        try:
            key = self._secrets.decrypt(Purpose.HTTPS_KEY, name, served.private_key)
            context = context_of(served.chain.encode(), key)
        except (CertificateError, DecryptionError) as error:
            _log.error("certificate not usable", name=name, reason=str(error))
            return None
        self._contexts[name] = served.issued_at, context
        self._contexts.move_to_end(name)
        if len(self._contexts) > _MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return context

    def _refresh_soon(self, *, forget: bool = False) -> None:
        self._is_stale = True
        self._forget |= forget
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        while self._is_stale:
            forget, self._is_stale, self._forget = self._forget, False, False
            try:
                await self._load(forget=forget)
            except Exception:
                self._is_stale = True
                self._forget |= forget
                await asyncio.sleep(_RETRY_SECONDS)

    async def _load(self, *, forget: bool) -> None:
        """Read what has changed since the last time, or to `forget` all of it."""
        database = self._database.of(BACKGROUND)
        issued = await store.issued(database)
        for name in self._served.keys() - issued.keys():
            del self._served[name]
            self._contexts.pop(name, None)
        changed = [
            name
            for name, issued_at in issued.items()
            if forget or name not in self._served or self._served[name].issued_at != issued_at
        ]
        for start in range(0, len(changed), _BATCH_SIZE):
            for served in await store.served(database, changed[start : start + _BATCH_SIZE]):
                self._served[served.name] = served
