"""Passkeys of console users: added to an account, signed in with, and a proof that a session is still its user's.

A passkey verifies its user, so that it is two factors by itself: neither a password nor a code is asked for beside it.
They belong to the console's own host.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis import __version__
from pilotis.accounts.factors.errors import UpgradeUnfinishedError
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError, TooManyPasskeysError
from pilotis.accounts.passkeys.types import NewPasskey, Passkey, PasskeyChallenge, PasskeySignIn
from pilotis.db.pool import Database
from pilotis.db.versions import is_known_everywhere
from pilotis.http.api.principals import Actor, Client, InvalidTokenError, TokenFault, UserInfo
from pilotis.kit import clock, json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.security.sessions.service import CONSOLE
from pilotis.user_accounts.passkeys import store
from pilotis.user_accounts.passkeys.store import StoredPasskey
from pilotis.user_accounts.service import UserFactorService
from pilotis.user_accounts.types import Reproved
from pilotis.users.service import Users
from pilotis.users.types import SignedInUser

if TYPE_CHECKING:
    from pilotis.accounts.passkeys.ceremony import Site

_MAX = 10
_LIFETIME = timedelta(minutes=5)


class UserPasskeys:
    """The passkeys of console users; `origin` is the console's."""

    def __init__(self, database: Database, users: Users, factors: UserFactorService, origin: str) -> None:
        self._database = database
        self._users = users
        self._factors = factors
        self._origin = origin

    async def begin_sign_in(self) -> PasskeyChallenge:
        """Return what any passkey of a console user signs: to sign in, or to prove again who somebody is."""
        from pilotis.accounts.passkeys import ceremony

        challenge, ticket = secrets.token_bytes(32), random_token()
        await store.put_challenge(self._database.of(CONSOLE), secret_hash(ticket), challenge, None, _LIFETIME)
        return _challenge(ticket, ceremony.request(self._site(), challenge))

    async def sign_in(self, client: Client, given: PasskeySignIn, agent: str | None) -> SignedInUser:
        """Sign a console user in by a passkey; raises `InvalidPasskeyError` and `UserInactiveError`."""
        signed = await self._signed(given.ticket, given.credential)
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, signed.user_id)
            await _use(connection, signed)
            return await self._users.enter(connection, client, signed.user_id, ["passkey"], agent)

    async def reauthenticate(self, user: UserInfo, ticket: str, credential: Mapping[str, Any]) -> Reproved:
        """Prove by a passkey that a session is still its user's; raises `InvalidPasskeyError`."""
        signed = await self._signed(ticket, credential)
        if signed.user_id != user.user_id:
            raise InvalidPasskeyError
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, signed.user_id)
            await _use(connection, signed)
            when = await self._users.reprove(connection, user, "passkey", 2)
        if when is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Reproved(rfc3339(when))

    async def begin(self, user: UserInfo) -> PasskeyChallenge:
        """Return what the browser creates a passkey with for the signed-in console user.

        Raises `TooManyPasskeysError` and `UpgradeUnfinishedError`.
        """
        from pilotis.accounts.passkeys import ceremony

        challenge, ticket = secrets.token_bytes(32), random_token()
        async with self._database.transaction(CONSOLE) as connection:
            if not await is_known_everywhere(connection, __version__):
                raise UpgradeUnfinishedError
            known = await store.of_user(connection, user.user_id)
            if len(known) >= _MAX:
                raise TooManyPasskeysError
            await store.put_challenge(connection, secret_hash(ticket), challenge, user.user_id, _LIFETIME)
        ids = [one.credential_id for one in known]
        return _challenge(ticket, ceremony.creation(self._site(), challenge, str(user.user_id), user.email, ids))

    async def add(self, actor: Actor, user: UserInfo, passkey_id: UUID, given: NewPasskey) -> Passkey:
        """Add a passkey to the signed-in user's account; raises `InvalidPasskeyError` and `TooManyPasskeysError`."""
        from pilotis.accounts.passkeys import ceremony

        asked = await store.use_challenge(self._database.of(CONSOLE), secret_hash(given.ticket))
        if asked is None or asked.user_id != user.user_id:
            raise InvalidPasskeyError
        try:
            made = ceremony.registered(self._site(), asked.challenge, given.credential)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None
        new = StoredPasskey(
            passkey_id,
            user.user_id,
            made.credential_id,
            made.credential,
            given.name,
            made.sign_count,
            made.is_synced,
            clock.now(),
            None,
        )
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            if len(await store.of_user(connection, user.user_id)) >= _MAX:
                raise TooManyPasskeysError
            if not await store.insert(connection, new):
                raise InvalidPasskeyError
            await self._factors.record_kinds(connection, actor, user.user_id, "user.add_passkey")
            await self._users.reprove(connection, user, "passkey", 2)
        return _shown(new)

    async def own(self, user_id: UUID) -> list[Passkey]:
        """Return a console user's passkeys, the oldest first."""
        return [_shown(one) for one in await store.of_user(self._database.of(CONSOLE), user_id)]

    async def read(self, user: UserInfo, passkey_id: UUID) -> Passkey:
        """Return a passkey of the signed-in console user; raises `PasskeyNotFoundError`."""
        found = [one for one in await self.own(user.user_id) if one.id == passkey_id]
        if not found:
            raise PasskeyNotFoundError
        return found[0]

    async def remove(self, actor: Actor, user: UserInfo, passkey_id: UUID) -> None:
        """Remove a passkey from the signed-in console user's account; raises `PasskeyNotFoundError`."""
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            if not await store.delete(connection, user.user_id, passkey_id):
                raise PasskeyNotFoundError
            await self._factors.record_kinds(connection, actor, user.user_id, "user.remove_passkey")

    async def _signed(self, ticket: str, answer: Mapping[str, Any]) -> _Signed:
        """Return the passkey that has signed the challenge of a ticket; raises `InvalidPasskeyError`."""
        from pilotis.accounts.passkeys import ceremony

        database = self._database.of(CONSOLE)
        asked = await store.use_challenge(database, secret_hash(ticket))
        if asked is None or asked.user_id is not None:
            raise InvalidPasskeyError
        try:
            found = await store.by_credential(database, ceremony.credential_id(answer))
            if found is None:
                raise InvalidPasskeyError
            used = ceremony.used(self._site(), asked.challenge, found.credential, found.sign_count, answer)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None
        return _Signed(found.passkey_id, found.user_id, found.sign_count, used.sign_count, used.is_synced)

    def _site(self) -> Site:
        from pilotis.accounts.passkeys.ceremony import Site

        return Site("Pilotis", urlsplit(self._origin).hostname or "", [self._origin])


class _Signed(msgspec.Struct, frozen=True):
    """A passkey that has signed a challenge: its counter as it was stored, and as it is now."""

    passkey_id: UUID
    user_id: UUID
    before: int
    sign_count: int
    is_synced: bool


async def _use(connection: Connection, signed: _Signed) -> None:
    if not await store.use(connection, signed.passkey_id, signed.before, signed.sign_count, signed.is_synced):
        raise InvalidPasskeyError


def _challenge(ticket: str, options: dict[str, Any]) -> PasskeyChallenge:
    return PasskeyChallenge(ticket=ticket, options=msgspec.Raw(json.encode(options)))


def _shown(row: StoredPasskey) -> Passkey:
    return Passkey(
        id=row.passkey_id,
        name=row.name,
        is_synced=row.is_synced,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )
