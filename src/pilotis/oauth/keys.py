"""The keys that sign OAuth tokens: from a setting, or created here and stored under the master key.

Every node signs with the same key and accepts the same keys. The database's clock decides which key signs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import structlog
from asyncpg import Connection

from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.db.waiters import CONSOLE
from pilotis.http.api.principals import OPERATOR, Actor
from pilotis.kit import json, rs256
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import ConflictError, NotFoundError, UnavailableError
from pilotis.kit.rs256 import PrivateKey, PublicKey
from pilotis.oauth import store
from pilotis.oauth.store import StoredKey
from pilotis.oauth.types import Jwk, JwkSet, ShownKey
from pilotis.security.audit.service import record
from pilotis.security.encryption.cipher import DecryptionError
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

CACHED_SECONDS = 60.0
"""Lifetime of the cached keys: less than a tenth of the time for which a new key is published before it signs."""

_log = structlog.get_logger("pilotis.oauth")


class SigningKeyMissingError(UnavailableError):
    """503: the server has no key to sign OAuth tokens; `pilotis oauth keys create` creates one, or the console."""

    code = "OAUTH_KEY_MISSING"
    message = (
        "The server has no key to sign OAuth tokens. Create one in the console or with `pilotis oauth keys create`."
    )


class SigningKeyExistsError(ConflictError):
    """409: the server already has a key to sign OAuth tokens."""

    code = "OAUTH_KEY_EXISTS"
    message = "The server already has a signing key. Replace it with `pilotis oauth keys rotate`."


class SigningKeyNotFoundError(NotFoundError):
    """404: the server has no key to sign OAuth tokens yet."""

    code = "OAUTH_KEY_NOT_FOUND"
    message = "The server has no signing key yet. Create one with `pilotis oauth keys create`."


class Keys(NamedTuple):
    """The key that signs, or None, and the keys that verify, by id.

    `published` are the keys of the public key set; `known` also contains those of older ID tokens.
    """

    signing: PrivateKey | None
    published: dict[str, PublicKey]
    known: dict[str, PublicKey]

    def key_set(self) -> JwkSet:
        """Return the public key set."""
        return JwkSet([Jwk(**key.jwk()) for key in self.published.values()])


class SigningKeys:
    """The server's signing keys. If keys are `configured`, the first of them signs, whatever the database contains."""

    def __init__(self, database: Database, secrets: Secrets, configured: Sequence[PrivateKey] = ()) -> None:
        self._database = database
        self._secrets = secrets.server()
        self._configured = configured
        self._cached: Keys | None = None
        self._cached_until = 0.0
        self._resets = 0
        self._reads: SingleFlight[Keys] = SingleFlight()

    async def current(self) -> Keys:
        """Return the current keys; raises `UnavailableError` if they may have changed and cannot be read."""
        if self._cached is not None and time.monotonic() < self._cached_until:
            return self._cached
        return await self._reads.run("keys", self._read)

    async def _read(self) -> Keys:
        resets, until = self._resets, time.monotonic() + CACHED_SECONDS
        async with self._database.connection(CONSOLE, read_only=True) as connection:
            keys = self._decrypted(await store.keys(connection))
        # What was read before a change that was announced meanwhile answers this request, and no later one.
        if resets == self._resets:
            self._cached, self._cached_until = keys, until
        return keys

    async def signing(self) -> PrivateKey:
        """Return the key that signs; raises `SigningKeyMissingError`."""
        key = (await self.current()).signing
        if key is None:
            raise SigningKeyMissingError
        return key

    def reset(self) -> None:
        """Clear the cache."""
        self._resets += 1
        self._cached_until = 0.0

    async def create(self, actor: Actor = OPERATOR) -> ShownKey:
        """Create the first key, which signs at once; raises `SigningKeyExistsError`."""
        self._require_own()
        async with self._database.transaction(CONSOLE) as connection:
            await store.lock_keys(connection)
            if any(row.state != "known" for row in await store.keys(connection)):
                raise SigningKeyExistsError
            return await self._add(connection, actor, "oauth_key.create", at_once=True)

    async def rotate(self, *, at_once: bool = False) -> ShownKey:
        """Create a key that replaces the current one, which keeps verifying for one more day.

        The new key is published ten minutes before it signs. With `at_once`, after a theft, it signs at once and
        everything signed before becomes invalid. Raises `SigningKeyNotFoundError`, or `SigningKeyExistsError` if the
        next key has already been published.
        """
        self._require_own()
        async with self._database.transaction(CONSOLE) as connection:
            await store.lock_keys(connection)
            states = {row.state for row in await store.keys(connection)}
            if not states & {"signing", "next"}:
                raise SigningKeyNotFoundError
            if "next" in states and not at_once:
                raise SigningKeyExistsError(
                    "The next key has already been published, and will sign within ten minutes."
                )
            shown = await self._add(connection, OPERATOR, "oauth_key.rotate", at_once=at_once)
            await (store.forget_others if at_once else store.retire_others)(connection, shown.kid)
        return shown

    async def all(self) -> list[ShownKey]:
        """Return the known keys: those of the setting, in its order, and then those of the database, newest first."""
        async with self._database.connection(CONSOLE) as connection:
            rows = await store.keys(connection)
        own = [_of_setting(key.kid, is_first=place == 0) for place, key in enumerate(self._configured)]
        return own + [_shown(row, may_sign=not own) for row in rows]

    def _require_own(self) -> None:
        if self._configured:
            raise SigningKeyExistsError(
                "OAUTH_RSA_PRIVATE_KEY_PEM is set, so its first key signs. Rotate the key there."
            )

    async def _add(self, connection: Connection, actor: Actor, action: str, *, at_once: bool) -> ShownKey:
        key = await asyncio.to_thread(rs256.generate)
        private = await self._secrets.encrypt(connection, Purpose.OAUTH_SIGNING_KEY, key.kid, key.pem())
        await store.insert_key(connection, key.kid, key.public.jwk(), private, at_once=at_once)
        await record(connection, CONSOLE, actor, action, key.kid, at_once=at_once)
        await publish(connection, Topic.OAUTH_KEYS, "changed")
        return next(_shown(row) for row in await store.keys(connection) if row.kid == key.kid)

    def _decrypted(self, rows: Sequence[StoredKey]) -> Keys:
        known = {row.kid: rs256.from_jwk(json.decode(row.public_key.encode())) for row in rows}
        published = {row.kid: known[row.kid] for row in rows if row.state != "known"}
        if self._configured:
            own = {key.kid: key.public for key in self._configured}
            return Keys(self._configured[0], own | published, own | known)
        signing = next((self._private(row) for row in rows if row.state == "signing"), None)
        return Keys(signing, published, known)

    def _private(self, row: StoredKey) -> PrivateKey | None:
        if row.private_key is None:
            return None
        try:
            return rs256.from_pem(self._secrets.decrypt(Purpose.OAUTH_SIGNING_KEY, row.kid, row.private_key))
        except DecryptionError:
            _log.exception("signing key cannot be decrypted", kid=row.kid)
            return None


def _of_setting(kid: str, *, is_first: bool) -> ShownKey:
    return ShownKey(
        kid=kid,
        state="signing" if is_first else "published",
        source="setting",
        created_at=None,
        signs_from=None,
        published_until=None,
    )


def _shown(row: StoredKey, *, may_sign: bool = True) -> ShownKey:
    return ShownKey(
        kid=row.kid,
        state=row.state if may_sign or row.state == "known" else "published",
        source="database",
        created_at=rfc3339(row.created_at),
        signs_from=rfc3339(row.signs_from),
        published_until=optional_rfc3339(row.published_until),
    )
