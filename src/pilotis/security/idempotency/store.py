"""Idempotency keys in the table `pilotis.idempotency_keys`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.http.api.idempotency import (
    NO_APP,
    IdempotencyKeyInUseError,
    IdempotencyKeyReusedError,
    KeptReply,
    Reservation,
)
from pilotis.kit.errors import OutcomeUnknownError, PilotisError, UnavailableError
from pilotis.security.encryption.cipher import DecryptionError
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

Key = tuple[UUID, bytes]
WAIT_SECONDS = 5.0
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_BATCH_SIZE = 5000
_FAILURES = (PilotisError, asyncpg.PostgresError, OSError)

# A takeover locks the node's row and deletes it, so a node that was taken over cannot reserve keys.
_RESERVE = """
    insert into pilotis.idempotency_keys as k (app_id, scope_hash, body_hash, resource_id, owner, expires_at)
    select $1, $2, $3, $4, holder.node_id, now() + make_interval(hours => $6)
    from (select node_id from pilotis.nodes where node_id = $5 for key share) holder
    on conflict (app_id, scope_hash) do update set
        owner = excluded.owner,
        body_hash = excluded.body_hash,
        resource_id = case when k.expires_at <= now() then excluded.resource_id else k.resource_id end,
        status = null,
        reply = null,
        expires_at = excluded.expires_at
    where k.owner is null and (k.expires_at <= now() or (k.status is null and k.body_hash = excluded.body_hash))
    returning resource_id
"""
_READ = """
    select body_hash, resource_id, status, reply from pilotis.idempotency_keys where app_id = $1 and scope_hash = $2
"""


class _Stored(msgspec.Struct, frozen=True):
    """The request of a key: while it runs it has no status, and a response that is too large is not stored."""

    body_hash: bytes
    resource_id: UUID
    status: int | None
    reply: bytes | None


class IdempotencyKeys:
    """The keys for which this node runs requests, and the responses of all nodes; `node` returns this node's id."""

    def __init__(self, database: Database, secrets: Secrets, node: Callable[[], UUID]) -> None:
        self._database = database
        self._secrets = secrets
        self._node = node
        # Which requests with keys run here; and keys that this node may hold although none of them runs.
        self._running: set[Key] = set()
        self._abandoned: set[Key] = set()
        self._releases: SingleFlight[None] = SingleFlight()

    async def reserve(self, app_id: UUID, scope: bytes, body: bytes, resource_id: UUID, hours: int) -> Reservation:
        """See `IdempotencyStore.reserve`."""
        key = app_id, scope
        if key in self._abandoned:
            await self._release(key)
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + WAIT_SECONDS, _FIRST_PAUSE
        while True:
            try:
                reserved = await self._database.fetchval(
                    _RESERVE,
                    app_id,
                    scope,
                    body,
                    resource_id,
                    self._node(),
                    hours,
                    tenant=app_id,
                )
            except BaseException as error:
                if not _says_nothing_was_done(error):
                    # It may be reserved all the same, and nobody would run its request. This caller has waited enough.
                    self._abandoned.add(key)
                raise
            if reserved is not None:
                self._running.add(key)
                return Reservation(resource_id=reserved, is_new=reserved == resource_id)
            row = await self._database.fetchrow(
                _READ,
                app_id,
                scope,
                tenant=app_id,
            )
            stored = None if row is None else _Stored(**row)
            if stored is not None and stored.body_hash != body:
                raise IdempotencyKeyReusedError
            if stored is not None and stored.status is not None:
                reply = await self._decrypted(app_id, stored.resource_id, stored.reply)
                return Reservation(resource_id=stored.resource_id, is_new=False, reply=reply)
            if loop.time() + pause > deadline:
                # Without a row this node is not, or no longer, a member of the cluster.
                raise IdempotencyKeyInUseError if stored is not None else UnavailableError
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def keep(self, app_id: UUID, scope: bytes, resource_id: UUID, status: int, reply: KeptReply | None) -> None:
        """See `IdempotencyStore.keep`."""
        async with self._ending((app_id, scope)):
            encrypted = None if reply is None else await self._encrypted(app_id, resource_id, reply)
            await self._database.execute(
                """
                update pilotis.idempotency_keys set owner = null, status = $4, reply = $5
                where app_id = $1 and scope_hash = $2 and owner = $3
                """,
                app_id,
                scope,
                self._node(),
                status,
                encrypted,
                tenant=app_id,
            )

    async def free(self, app_id: UUID, scope: bytes) -> None:
        """See `IdempotencyStore.free`."""
        async with self._ending((app_id, scope)):
            await self._database.execute(
                "delete from pilotis.idempotency_keys where app_id = $1 and scope_hash = $2 and owner = $3",
                app_id,
                scope,
                self._node(),
                tenant=app_id,
            )

    async def abandon(self, app_id: UUID, scope: bytes) -> None:
        """See `IdempotencyStore.abandon`."""
        self._running.discard((app_id, scope))
        await self._release_or_retry((app_id, scope))

    async def settle(self) -> None:
        """Release the keys that could not be released when their requests ended: see `Holding.settle`."""
        by_app = defaultdict[UUID, list[Key]](list)
        for key in self._abandoned:
            by_app[key[0]].append(key)
        await asyncio.gather(*map(self._release_all, by_app.values()))

    async def release(self, connection: Connection, owner: UUID, *, lost: bool) -> None:  # noqa: ARG002 - see `Holding`
        """Let other nodes run the requests of a node that is gone: see `Holding.release`."""
        await connection.execute("update pilotis.idempotency_keys set owner = null where owner = $1", owner)

    async def delete_expired(self, connection: Connection) -> None:
        """Delete expired keys."""
        deleted: Any = _BATCH_SIZE
        while deleted == _BATCH_SIZE:
            deleted = await connection.fetchval(
                """
                with gone as (
                    delete from pilotis.idempotency_keys where (app_id, scope_hash) in (
                        select app_id, scope_hash from pilotis.idempotency_keys
                        where expires_at <= now() and owner is null limit $1
                    ) returning 1
                ) select count(*) from gone
                """,
                _BATCH_SIZE,
            )

    async def _encrypted(self, app_id: UUID, resource_id: UUID, reply: KeptReply) -> bytes:
        name, data = str(resource_id), msgspec.msgpack.encode(reply)
        if app_id == NO_APP:
            return self._secrets.server().encrypt_for_a_while(Purpose.IDEMPOTENT_REPLY, name, data)
        return (await self._secrets.app(app_id)).encrypt(Purpose.IDEMPOTENT_REPLY, name, data)

    async def _decrypted(self, app_id: UUID, resource_id: UUID, encrypted: bytes | None) -> KeptReply | None:
        """Return a stored response; None if it was too large to store, or its master key is gone."""
        if encrypted is None:
            return None
        secrets = self._secrets.server() if app_id == NO_APP else await self._secrets.app(app_id)
        try:
            data = secrets.decrypt(Purpose.IDEMPOTENT_REPLY, str(resource_id), encrypted)
        except DecryptionError:
            return None
        return msgspec.msgpack.decode(data, type=KeptReply)

    @contextlib.asynccontextmanager
    async def _ending(self, key: Key) -> AsyncIterator[None]:
        """End a request's hold on its key, whatever the statement within does."""
        self._running.discard(key)
        try:
            yield
        except BaseException:
            await self._release_or_retry(key)
            raise

    async def _release_or_retry(self, key: Key) -> None:
        """Release a key of which no request runs here: now, or when the database is there again."""
        self._abandoned.add(key)
        await self._release_all([key])

    async def _release_all(self, keys: Sequence[Key]) -> None:
        """Release an app's abandoned keys, until its database fails for one of them."""
        with contextlib.suppress(*_FAILURES):
            for key in keys:
                await self._release(key)

    async def _release(self, key: Key) -> None:
        """Release an abandoned key; nobody here reserves it until that is certain."""
        await self._releases.run(key, functools.partial(self._release_once, *key))

    async def _release_once(self, app_id: UUID, scope: bytes) -> None:
        key = app_id, scope
        if key in self._abandoned and key not in self._running:
            await self._database.execute(
                "update pilotis.idempotency_keys set owner = null where app_id = $1 and scope_hash = $2 and owner = $3",
                app_id,
                scope,
                self._node(),
                tenant=app_id,
            )
        self._abandoned.discard(key)


def _says_nothing_was_done(error: BaseException) -> bool:
    """Whether a statement has failed for certain, or was never sent."""
    return isinstance(error, (PilotisError, asyncpg.PostgresError)) and not isinstance(error, OutcomeUnknownError)
