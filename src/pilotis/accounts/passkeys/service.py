"""Passkeys: added to an account, and signed in with, alone or as a second factor."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from asyncpg import Connection

from pilotis import __version__
from pilotis.accounts.errors import LastWayInError
from pilotis.accounts.factors.errors import InvalidSecondFactorError, LastFactorError, UpgradeUnfinishedError
from pilotis.accounts.factors.service import Factors
from pilotis.accounts.passkeys import store
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError, TooManyPasskeysError
from pilotis.accounts.passkeys.store import StoredPasskey
from pilotis.accounts.passkeys.types import NewPasskey, Passkey, PasskeyChallenge, PasskeySignIn, asked, shown
from pilotis.accounts.service import require_fresh
from pilotis.db.pool import Database
from pilotis.db.versions import is_known_everywhere
from pilotis.http.api.principals import Actor, AppInfo, Client, MemberInfo
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.members.gate.service import SecondFactorRequiredError, settled
from pilotis.members.hooks import Passes
from pilotis.members.service import LoginDisabledError, Members
from pilotis.members.types import SignedIn
from pilotis.oauth.links.service import MemberLinks

if TYPE_CHECKING:
    from pilotis.accounts.passkeys.ceremony import Site, Used

MAX_PASSKEYS = 10
LIFETIME = timedelta(minutes=5)
"""How long a challenge waits for its answer."""


class Passkeys:
    """The passkeys of members; `base_url` is the server's address, whose pages may ask for them."""

    def __init__(
        self, database: Database, members: Members, factors: Factors, links: MemberLinks, base_url: str
    ) -> None:
        self._database = database
        self._members = members
        self._factors = factors
        self._links = links
        self._base_url = base_url

    async def begin_sign_in(self, app: AppInfo) -> PasskeyChallenge:
        """Return what any passkey of the app's members signs; raises `LoginDisabledError`."""
        from pilotis.accounts.passkeys import ceremony

        site, challenge, ticket = self._site(app), secrets.token_bytes(32), random_token()
        database = self._database.of(app.app_id)
        await store.put_challenge(database, app.app_id, secret_hash(ticket), challenge, None, LIFETIME)
        return asked(ticket, ceremony.request(site, challenge))

    async def sign_in(self, app: AppInfo, client: Client, given: PasskeySignIn, agent: str | None) -> SignedIn:
        """Sign in by a passkey; raises `InvalidPasskeyError`, and what the gate does."""
        site = self._site(app)
        challenge = await store.use_challenge(self._database, app.app_id, secret_hash(given.ticket))
        if challenge is None or challenge.member_id is not None:
            raise InvalidPasskeyError
        passkey, used = await self._signed(app, site, challenge.challenge, given.credential)
        actor = Actor("member", passkey.member_id, client.request_id)

        async def attempt(passes: Passes) -> SignedIn | SecondFactorRequiredError:
            async with self._database.transaction(app.app_id) as connection:
                entrant = await self._members.gate.lock(connection, app.app_id, passkey.member_id)
                await self._use(connection, app, passkey, used)
                return await self._members.gate.admit(
                    connection, app, actor, entrant, ["passkey"], agent, passes=passes
                )

        return settled(await self._members.hooks.passing(app, client, attempt))

    async def begin_second_factor(self, app: AppInfo, text: str) -> PasskeyChallenge:
        """Return what a passkey of the member signs whose sign-in waits for a second factor.

        Raises `InvalidSecondFactorError`, `PasskeyNotFoundError` and `LoginDisabledError`.
        """
        from pilotis.accounts.passkeys import ceremony

        site, challenge = self._site(app), secrets.token_bytes(32)
        ticket = await self._members.gate.challenge(app.app_id, text, challenge)
        if ticket is None:
            raise InvalidSecondFactorError
        known = await store.of_member(self._database.of(app.app_id), app.app_id, ticket.member_id)
        if not known:
            raise PasskeyNotFoundError
        return asked(text, ceremony.request(site, challenge, [one.credential_id for one in known]))

    async def finish(self, app: AppInfo, client: Client, given: PasskeySignIn, agent: str | None) -> SignedIn:
        """Finish a sign-in by a passkey as second factor; raises `InvalidSecondFactorError`, and what the gate does."""
        site = self._site(app)
        ticket = await self._members.gate.count_try(app.app_id, given.ticket)
        if ticket is None or ticket.challenge is None:
            raise InvalidSecondFactorError
        passkey, used = await self._signed(app, site, ticket.challenge, given.credential)
        async with self._database.transaction(app.app_id) as connection:
            entrant = await self._members.gate.use(connection, app.app_id, ticket)
            if entrant is None or passkey.member_id != ticket.member_id:
                raise InvalidSecondFactorError
            await self._use(connection, app, passkey, used)
            entered = await self._members.gate.complete(connection, app, client, ticket, entrant, "passkey", agent)
            if entered is None:
                raise InvalidSecondFactorError
        return settled(entered)

    async def begin_proof(self, app: AppInfo, member: MemberInfo) -> PasskeyChallenge:
        """Return what a passkey of the signed-in member signs, to prove again who it is.

        Raises `LoginDisabledError` and `PasskeyNotFoundError`.
        """
        from pilotis.accounts.passkeys import ceremony

        site, challenge, ticket = self._site(app), secrets.token_bytes(32), random_token()
        database = self._database.of(app.app_id)
        known = await store.of_member(database, app.app_id, member.member_id)
        if not known:
            raise PasskeyNotFoundError
        hashed = secret_hash(ticket)
        await store.put_challenge(database, app.app_id, hashed, challenge, member.member_id, LIFETIME)
        return asked(ticket, ceremony.request(site, challenge, [one.credential_id for one in known]))

    @asynccontextmanager
    async def proof(
        self, app: AppInfo, member: MemberInfo, ticket: str, answer: Mapping[str, Any]
    ) -> AsyncGenerator[Connection]:
        """Open a transaction in which a passkey of the signed-in member is used; raises `InvalidPasskeyError`."""
        site = self._site(app)
        challenge = await store.use_challenge(self._database, app.app_id, secret_hash(ticket))
        if challenge is None or challenge.member_id != member.member_id:
            raise InvalidPasskeyError
        passkey, used = await self._signed(app, site, challenge.challenge, answer)
        if passkey.member_id != member.member_id:
            raise InvalidPasskeyError
        async with self._database.transaction(app.app_id) as connection:
            await self._use(connection, app, passkey, used)
            yield connection

    async def begin(self, app: AppInfo, member: MemberInfo) -> PasskeyChallenge:
        """Return what the browser creates a passkey with for the signed-in member.

        Raises `LoginDisabledError`, `ReauthenticationRequiredError`, `TooManyPasskeysError` and
        `UpgradeUnfinishedError`.
        """
        from pilotis.accounts.passkeys import ceremony

        site, challenge, ticket = self._site(app), secrets.token_bytes(32), random_token()
        account = await self._members.account(app, member)
        name = account.email or account.login_id or account.nickname or member.member_id
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)
            if not await is_known_everywhere(connection, __version__):
                raise UpgradeUnfinishedError
            known = await store.of_member(connection, app.app_id, member.member_id)
            if len(known) >= MAX_PASSKEYS:
                raise TooManyPasskeysError
            hashed = secret_hash(ticket)
            await store.put_challenge(connection, app.app_id, hashed, challenge, member.member_id, LIFETIME)
        ids = [one.credential_id for one in known]
        return asked(ticket, ceremony.creation(site, challenge, member.member_id, name, ids))

    async def add(self, app: AppInfo, actor: Actor, member: MemberInfo, passkey_id: UUID, given: NewPasskey) -> Passkey:
        """Add a passkey to the signed-in member's account.

        Raises `InvalidPasskeyError`, `LoginDisabledError`, `ReauthenticationRequiredError` and `TooManyPasskeysError`.
        """
        from pilotis.accounts.passkeys import ceremony

        site = self._site(app)
        challenge = await store.use_challenge(self._database, app.app_id, secret_hash(given.ticket))
        if challenge is None or challenge.member_id != member.member_id:
            raise InvalidPasskeyError
        try:
            new = ceremony.registered(site, challenge.challenge, given.credential)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None
        async with self._factors.change(app) as (connection, changed):
            await require_fresh(self._members, connection, app, member)
            if len(await store.of_member(connection, app.app_id, member.member_id)) >= MAX_PASSKEYS:
                raise TooManyPasskeysError
            row = await store.insert(
                connection, app.app_id, passkey_id, member.member_id, *new[:2], given.name, *new[2:]
            )
            if row is None:
                raise InvalidPasskeyError
            await changed(actor, member.member_id, "member.add_passkey")
        return shown(row)

    async def own(self, app: AppInfo, member: MemberInfo) -> list[Passkey]:
        """Return the signed-in member's passkeys, the oldest first."""
        rows = await store.of_member(self._database.of(app.app_id), app.app_id, member.member_id)
        return [shown(row) for row in rows]

    async def read(self, app: AppInfo, member: MemberInfo, passkey_id: UUID) -> Passkey:
        """Return a passkey of the signed-in member; raises `PasskeyNotFoundError`."""
        found = [one for one in await self.own(app, member) if one.id == passkey_id]
        if not found:
            raise PasskeyNotFoundError
        return found[0]

    async def rename(self, app: AppInfo, member: MemberInfo, passkey_id: UUID, name: str) -> Passkey:
        """Rename a passkey of the signed-in member; raises `PasskeyNotFoundError`."""
        row = await store.rename(self._database, app.app_id, member.member_id, passkey_id, name)
        if row is None:
            raise PasskeyNotFoundError
        return shown(row)

    async def remove(self, app: AppInfo, actor: Actor, member: MemberInfo, passkey_id: UUID) -> None:
        """Remove a passkey from the signed-in member's account.

        Raises `PasskeyNotFoundError`, `LastWayInError`, `LastFactorError` and `ReauthenticationRequiredError`.
        """
        async with self._factors.change(app) as (connection, changed):
            await require_fresh(self._members, connection, app, member)
            if not await store.delete(connection, app.app_id, member.member_id, passkey_id):
                raise PasskeyNotFoundError
            state = await self._members.lock_own(connection, app, member)
            if not await store.of_member(connection, app.app_id, member.member_id):
                by_mail = state.email is not None and (app.accounts.email_code or app.accounts.email_link)
                has_identity = await self._links.has_identity(connection, app.app_id, member.member_id)
                if not (has_identity or by_mail or state.password_hash is not None):
                    raise LastWayInError
                if app.accounts.second_factor == "required" and "totp" not in state.factors:
                    raise LastFactorError
            await changed(actor, member.member_id, "member.remove_passkey")

    async def _signed(
        self, app: AppInfo, site: Site, challenge: bytes, answer: Mapping[str, Any]
    ) -> tuple[StoredPasskey, Used]:
        """Return the passkey that has signed the challenge; raises `InvalidPasskeyError`."""
        from pilotis.accounts.passkeys import ceremony

        try:
            answered = ceremony.answered(answer)
            found = await store.by_credential(self._database, app.app_id, answered.raw_id)
            if found is None:
                raise InvalidPasskeyError
            return found, ceremony.used(site, challenge, found.credential, found.sign_count, answered)
        except ceremony.InvalidCredentialError:
            raise InvalidPasskeyError from None

    async def _use(self, connection: Connection, app: AppInfo, passkey: StoredPasskey, used: Used) -> None:
        if not await store.use(
            connection, app.app_id, passkey.passkey_id, passkey.sign_count, used.sign_count, used.is_synced
        ):
            raise InvalidPasskeyError

    def _site(self, app: AppInfo) -> Site:
        """Return where passkeys of the app work; raises `LoginDisabledError`."""
        from pilotis.accounts.passkeys.ceremony import Site

        if not app.accounts.passkey:
            raise LoginDisabledError
        parts = urlsplit(self._base_url)
        own = f"{parts.scheme}://{parts.netloc}"
        if app.accounts.passkey_domain is None:
            return Site(app.name, parts.hostname or "", (own,))
        return Site(app.name, app.accounts.passkey_domain, app.accounts.allowed_origins)
