"""Getting and renewing certificates by ACME (RFC 8555): one job a name, at most so many names of sites an hour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import structlog

from pilotis.certificates import store
from pilotis.certificates.contexts import facts_of
from pilotis.certificates.errors import AccountUnknownError, OrderError
from pilotis.certificates.store import Account
from pilotis.certificates.types import OrderJob
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs.kinds import Job, JobKind, Periodic
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import now
from pilotis.kit.ids import uuid7
from pilotis.kit.threads import finished
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

if TYPE_CHECKING:
    from pilotis.certificates.authority import Authority, Order

RENEWED_AT = 2 / 3
"""The part of its life after which a certificate is renewed, unless the authority says another time."""
LATEST = 0.9
"""The part of its life after which it is renewed whatever the authority says."""

_QUEUE = "certificates"
_ORDER_SECONDS = 300.0
_PROOF_SECONDS = 90.0
_ISSUE_SECONDS = 120.0
_POLL_SECONDS = (0.25, 3.0)
_DUE_SECONDS = 60.0
_ASKED_FOR = 20
_THREADS = 2
_log = structlog.get_logger("pilotis.https")

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Ordering(NamedTuple):
    """How certificates are got: from which authority, by whom, and how many of sites in an hour."""

    directory: str
    email: str | None
    ca_file: str | None
    proxy: str | None
    orders_per_hour: int


class Orders:
    """Gets the certificates of the server's own `names`, and of those further ones that `wanted` returns.

    Those of which `is_site` says that they are sites' names below the server's take half of what is ordered in an hour,
    so that they leave the domains of sites their share: an owner of an app makes as many of them as it likes.
    """

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        secrets: Secrets,
        ordering: Ordering,
        names: Sequence[str],
        wanted: Callable[[Sequence[str]], Awaitable[set[str]]],
        is_site: Callable[[str], bool],
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._secrets = secrets.server()
        self._ordering = ordering
        self._names = names
        self._wanted = wanted
        self._is_site = is_site
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="acme")
        self._registering = asyncio.Lock()
        self.kind = JobKind(
            name="certificates.order", queue=_QUEUE, payload=OrderJob, run=self._run, seconds=_ORDER_SECONDS
        )
        self.periodic = Periodic(name="certificates.due", every_seconds=_DUE_SECONDS, run=self._run_due)

    async def start(self) -> None:
        """Get at once what is due."""
        await self._jobs.request(self.periodic.name)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def order(self, name: str) -> None:
        """Get the certificate of a name, unless that is under way."""
        async with self._database.transaction(BACKGROUND) as connection:
            await self._jobs.enqueue(connection, self.kind, None, OrderJob(name), key=name, subject=name, again=False)

    async def _run_due(self, job: Job[dict[str, Any]]) -> None:
        """Order what is due, ask the authority when to renew, and delete what nobody needs."""
        database = self._database.of(BACKGROUND)
        due = await store.due(database, self._names)
        wanted = await self._wanted(due)
        for name in wanted:
            await self.order(name)
        async with job.transaction() as connection:
            await store.delete_certificates(connection, [name for name in due if name not in wanted])
            await store.delete_old(connection)
        asked = await store.to_ask_for(database, _ASKED_FOR)
        if asked:
            await self._ask(asked)

    async def _ask(self, asked: Sequence[store.Certificate]) -> None:
        try:
            async with self._authority() as authority:
                for known in asked:
                    await self._ask_for(authority, known)
        except OrderError as error:
            for known in asked:
                await self._ask_later(known, error)

    async def _ask_for(self, authority: Authority, known: store.Certificate) -> None:
        assert known.chain is not None
        assert known.not_before is not None
        assert known.not_after is not None
        try:
            renew_at, ask_at = await self._in_thread(authority.renewal, known.chain)
        except OrderError as error:
            # Others need not wait for it: the authority does not know the certificates of the one before it.
            await self._ask_later(known, error)
            return
        life = known.not_after - known.not_before
        latest = known.not_before + life * LATEST
        usual = known.not_before + life * RENEWED_AT
        database = self._database.of(BACKGROUND)
        await store.store_renewal(database, known.name, min(renew_at or usual, latest), ask_at)

    async def _ask_later(self, known: store.Certificate, error: OrderError) -> None:
        _log.warning("authority not asked when to renew", name=known.name, reason=str(error))
        assert known.renew_at is not None
        database = self._database.of(BACKGROUND)
        await store.store_renewal(database, known.name, known.renew_at, now() + timedelta(hours=1))

    async def _run(self, job: Job[OrderJob]) -> None:
        name = job.payload.name
        known = await store.certificate(self._database.of(BACKGROUND), name)
        if name not in await self._wanted([name]) or (known is not None and not _is_due(known)):
            return
        if name not in self._names and await self._waits(job, name):
            return
        try:
            async with self._authority() as authority:
                await self._get(job, authority, name)
        except OrderError as error:
            async with job.transaction() as connection:
                next_try = await store.store_failure(connection, name, str(error))
            _log.warning("no certificate", name=name, reason=str(error), next_try_at=next_try.isoformat())

    async def _waits(self, job: Job[OrderJob], name: str) -> bool:
        """Count an order for a site's name, or postpone it."""
        async with job.transaction() as connection:
            limit, is_site = self._ordering.orders_per_hour, self._is_site(name)
            free_at = await store.begin_order(connection, uuid7(), name, limit, is_site=is_site)
            if free_at is not None:
                await self._jobs.enqueue(
                    connection, self.kind, None, job.payload, key=name, subject=name, run_at=free_at
                )
        return free_at is not None

    async def _get(self, job: Job[OrderJob], authority: Authority, name: str) -> None:
        from pilotis.certificates import authority as acme

        key = acme.new_key()
        order = await self._in_thread(authority.begin, name, key)
        await self._prove(job, authority, order, name)
        finalized = await self._in_thread(authority.finalize, order)
        chain = None
        async with _limited(_ISSUE_SECONDS, "The authority did not issue the certificate in time."):
            while chain is None:
                job.require_lease()
                chain = await self._in_thread(authority.chain, finalized)
        facts = facts_of(chain.encode())
        if not facts.covers(name) or facts.not_after <= now():
            raise OrderError("The authority issued a certificate for another name or time.")
        renew_at = facts.not_before + (facts.not_after - facts.not_before) * RENEWED_AT
        async with job.transaction() as connection:
            encrypted = await self._secrets.encrypt(connection, Purpose.HTTPS_KEY, name, key)
            await store.store_certificate(
                connection, name, chain, encrypted, facts.not_before, facts.not_after, renew_at
            )
            await publish(connection, Topic.CERTIFICATE, name)
            await job.finish(connection)
        _log.info("certificate issued", name=name, not_after=facts.not_after.isoformat())

    async def _prove(self, job: Job[OrderJob], authority: Authority, order: Order, name: str) -> None:
        """Let the authority see that the name leads here."""
        database = self._database.of(BACKGROUND)
        for challenge in order.challenges:
            await store.insert_challenge(database, challenge.token, name, challenge.answer)
        try:
            for challenge in order.challenges:
                job.require_lease()
                await self._in_thread(authority.answer, challenge)
            pause, longest = _POLL_SECONDS
            async with _limited(_PROOF_SECONDS, "The authority did not look at the name in time."):
                while not await self._in_thread(authority.is_ready, order):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
        finally:
            # What remains after a cancellation is deleted an hour later.
            for challenge in order.challenges:
                await store.delete_challenge(database, challenge.token)

    @asynccontextmanager
    async def _authority(self) -> AsyncGenerator[Authority]:
        """Connect to the authority with the server's account, which is created the first time."""
        directory = self._ordering.directory
        # The jobs of several names may be the first at the same time.
        async with self._registering:
            account = await store.account(self._database.of(BACKGROUND), directory) or await self._register()
        key = self._secrets.decrypt(Purpose.HTTPS_KEY, directory, account.private_key)
        async with self._connected(key, account.url) as authority:
            try:
                yield authority
            except AccountUnknownError:
                await store.delete_account(self._database.of(BACKGROUND), directory, account.url)
                raise

    @asynccontextmanager
    async def _connected(self, key: bytes, url: str | None) -> AsyncGenerator[Authority]:
        # Imported by the first job: it takes 20 MB, and comes with an extra.
        from pilotis.certificates import authority as acme

        directory, _, ca_file, proxy, _ = self._ordering
        authority = await self._in_thread(acme.Authority, directory, key, url, ca_file, proxy)
        try:
            yield authority
        finally:
            authority.close()

    async def _register(self) -> Account:
        """Create an account at the authority, and return it, or the one that another node has stored meanwhile."""
        from pilotis.certificates import authority as acme

        directory, key = self._ordering.directory, acme.new_key()
        async with self._connected(key, None) as authority:
            url = await self._in_thread(authority.register, self._ordering.email)
        async with self._database.transaction(BACKGROUND) as connection:
            encrypted = await self._secrets.encrypt(connection, Purpose.HTTPS_KEY, directory, key)
            await store.insert_account(connection, directory, encrypted, url)
            stored = await store.account(connection, directory)
        assert stored is not None
        return stored

    async def _in_thread(self, call: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
        return await finished(self._threads.submit(call, *arguments, **named))


def _is_due(known: store.Certificate) -> bool:
    moment: datetime = now()
    if known.next_try_at is not None and known.next_try_at > moment:
        return False
    return known.renew_at is None or known.renew_at <= moment


@asynccontextmanager
async def _limited(seconds: float, sentence: str) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise OrderError(sentence) from None
