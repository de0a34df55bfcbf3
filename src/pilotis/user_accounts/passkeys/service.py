"""Passkeys of console users: added to an account, signed in with, and a proof that a session is still its user's.

A passkey verifies its user, so that it is two factors by itself: neither a password nor a code is asked for beside it.
They belong to the console's own host.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from asyncpg import Connection

from pilotis import __version__
from pilotis.accounts.factors.errors import UpgradeUnfinishedError
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError, TooManyPasskeysError
from pilotis.accounts.passkeys.service import LIFETIME, MAX_PASSKEYS
from pilotis.accounts.passkeys.types import NewPasskey, Passkey, PasskeyChallenge, PasskeySignIn, asked, shown
from pilotis.db.pool import Database
from pilotis.db.versions import is_known_everywhere
from pilotis.http.api.principals import Actor, Client, InvalidTokenError, TokenFault, UserInfo
from pilotis.kit import clock
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.security.sessions.service import CONSOLE
from pilotis.user_accounts.passkeys import store
from pilotis.user_accounts.passkeys.store import StoredPasskey
from pilotis.user_accounts.service import UserFactorService
from pilotis.user_accounts.types import Reproved
from pilotis.users.service import Users
from pilotis.users.types import SignedInUser

if TYPE_CHECKING:
    from pilotis.accounts.passkeys.ceremony import Site, Used


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
        await store.put_challenge(self._database.of(CONSOLE), secret_hash(ticket), challenge, None, LIFETIME)
        return asked(ticket, ceremony.request(self._site(), challenge))

    async def sign_in(self, client: Client, given: PasskeySignIn, agent: str | None) -> SignedInUser:
        """Sign a console user in by a passkey; raises `InvalidPasskeyError` and `UserInactiveError`."""
        passkey, used = await self._signed(given.ticket, given.credential)
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, passkey.user_id)
            await _use(connection, passkey, used)
            return await self._users.enter(connection, client, passkey.user_id, ["passkey"], agent)

    async def reauthenticate(self, user: UserInfo, ticket: str, credential: Mapping[str, Any]) -> Reproved:
        """Prove by a passkey that a session is still its user's; raises `InvalidPasskeyError`."""
        passkey, used = await self._signed(ticket, credential)
        if passkey.user_id != user.user_id:
            raise InvalidPasskeyError
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, passkey.user_id)
            await _use(connection, passkey, used)
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
            if len(known) >= MAX_PASSKEYS:
                raise TooManyPasskeysError
            await store.put_challenge(connection, secret_hash(ticket), challenge, user.user_id, LIFETIME)
        ids = [one.credential_id for one in known]
        return asked(ticket, ceremony.creation(self._site(), challenge, str(user.user_id), user.email, ids))

    async def add(self, actor: Actor, user: UserInfo, passkey_id: UUID, given: NewPasskey) -> Passkey:
        """Add a passkey to the signed-in user's account; raises `InvalidPasskeyError` and `TooManyPasskeysError`."""
        from pilotis.accounts.passkeys import ceremony

        begun = await store.use_challenge(self._database.of(CONSOLE), secret_hash(given.ticket))
        if begun is None or begun.user_id != user.user_id:
            raise InvalidPasskeyError
        try:
            made = ceremony.registered(self._site(), begun.challenge, given.credential)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None
        new = StoredPasskey(
            passkey_id=passkey_id,
            user_id=user.user_id,
            credential_id=made.credential_id,
            credential=made.credential,
            name=given.name,
            sign_count=made.sign_count,
            is_synced=made.is_synced,
            created_at=clock.now(),
            last_used_at=None,
        )
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            if len(await store.of_user(connection, user.user_id)) >= MAX_PASSKEYS:
                raise TooManyPasskeysError
            if not await store.insert(connection, new):
                raise InvalidPasskeyError
            await self._factors.record_kinds(connection, actor, user.user_id, "user.add_passkey")
            await self._users.reprove(connection, user, "passkey", 2)
        return shown(new)

    async def own(self, user_id: UUID) -> list[Passkey]:
        """Return a console user's passkeys, the oldest first."""
        return [shown(one) for one in await store.of_user(self._database.of(CONSOLE), user_id)]

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

    async def _signed(self, ticket: str, answer: Mapping[str, Any]) -> tuple[StoredPasskey, Used]:
        """Return the passkey that has signed the challenge of a ticket; raises `InvalidPasskeyError`."""
        from pilotis.accounts.passkeys import ceremony

        database = self._database.of(CONSOLE)
        begun = await store.use_challenge(database, secret_hash(ticket))
        if begun is None or begun.user_id is not None:
            raise InvalidPasskeyError
        try:
            answered = ceremony.answered(answer)
            found = await store.by_credential(database, answered.raw_id)
            if found is None:
                raise InvalidPasskeyError
            return found, ceremony.used(self._site(), begun.challenge, found.credential, found.sign_count, answered)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None

    def _site(self) -> Site:
        from pilotis.accounts.passkeys.ceremony import Site

        return Site("Pilotis", urlsplit(self._origin).hostname or "", (self._origin,))


async def _use(connection: Connection, passkey: StoredPasskey, used: Used) -> None:
    if not await store.use(connection, passkey.passkey_id, passkey.sign_count, used.sign_count, used.is_synced):
        raise InvalidPasskeyError
