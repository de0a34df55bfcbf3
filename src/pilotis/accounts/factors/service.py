"""Second factors of members: set up, asked for at sign-in, removed; and proofs that a session is still its member's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from asyncpg import Connection

from pilotis import __version__
from pilotis.accounts.factors import store
from pilotis.accounts.factors.errors import (
    FactorNotFoundError,
    InvalidSecondFactorError,
    LastFactorError,
    TotpSetError,
    UpgradeUnfinishedError,
)
from pilotis.accounts.factors.types import (
    NewRecoveryCodes,
    NewTotp,
    OwnFactors,
    Reauthenticated,
    Reauthentication,
    RecoveryCodesLeft,
    SecondFactor,
    TotpFactor,
)
from pilotis.accounts.factors.vault import Vault
from pilotis.accounts.passkeys import store as passkey_store
from pilotis.accounts.passkeys.types import shown
from pilotis.accounts.service import require_fresh
from pilotis.db.pool import Database
from pilotis.db.versions import is_known_everywhere
from pilotis.http.api.principals import (
    Actor,
    AppInfo,
    Client,
    InvalidTokenError,
    MemberInfo,
    ReauthenticationRequiredError,
    TokenFault,
)
from pilotis.kit import totp
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.passwords import Passwords
from pilotis.mail.service import Mails, NewMail, Writer
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import settled
from pilotis.members.service import LoginDisabledError, Members, WrongPasswordError
from pilotis.members.types import Method, SignedIn
from pilotis.security.encryption.service import Secrets
from pilotis.security.rate_limits import RateLimits

_DAY_SECONDS = 24 * 3600
Changed = Callable[[Actor, str, str], Awaitable[None]]
"""Records that a member's factors were changed by an action."""


class Factors:
    """The second factors of members."""

    def __init__(
        self,
        database: Database,
        members: Members,
        mails: Mails,
        passwords: Passwords,
        rate_limits: RateLimits,
        secrets: Secrets,
    ) -> None:
        self._database = database
        self._members = members
        self._mails = mails
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._secrets = secrets

    async def own(self, app: AppInfo, member: MemberInfo) -> OwnFactors:
        """Return the signed-in member's second factors."""
        database = self._database.of(app.app_id)
        found = await store.totp(database, app.app_id, member.member_id)
        return OwnFactors(
            totp=TotpFactor(rfc3339(found.confirmed_at)) if found and found.confirmed_at else None,
            recovery_codes=RecoveryCodesLeft(await store.recovery_codes_left(database, app.app_id, member.member_id)),
            passkeys=[shown(row) for row in await passkey_store.of_member(database, app.app_id, member.member_id)],
        )

    async def begin_totp(self, app: AppInfo, member: MemberInfo) -> NewTotp:
        """Return a new authenticator app for the signed-in member; it counts once a code of it is entered.

        Raises `LoginDisabledError`, `TotpSetError`, `UpgradeUnfinishedError` and `ReauthenticationRequiredError`.
        """
        if app.accounts.second_factor == "off" or "totp" not in app.accounts.second_factors:
            raise LoginDisabledError
        secret = totp.new_secret()
        vault = await self._vault(app)
        sealed = vault.sealed_totp(member.member_id, secret)
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)
            if not await is_known_everywhere(connection, __version__):
                raise UpgradeUnfinishedError
            if not await store.put_totp(connection, app.app_id, member.member_id, sealed):
                raise TotpSetError
        account = await self._members.account(app, member)
        name = account.email or account.login_id or account.nickname or member.member_id
        uri = totp.uri(secret, name, app.name)
        return NewTotp(secret=totp.shown(secret), uri=uri, qr=totp.qr(uri))

    async def confirm_totp(self, app: AppInfo, actor: Actor, member: MemberInfo, code: str) -> NewRecoveryCodes:
        """Set up the authenticator app whose code it is, and return recovery codes; the session has two factors now.

        Raises `InvalidSecondFactorError`, `FactorNotFoundError` and `ReauthenticationRequiredError`.
        """
        vault = await self._vault(app)
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)
            found = await store.totp(connection, app.app_id, member.member_id)
            if found is None or found.confirmed_at is not None:
                raise FactorNotFoundError
            if not await vault.use_totp(connection, member.member_id, code):
                raise InvalidSecondFactorError
            codes = await vault.new_codes(connection, member.member_id)
            await self._changed(connection, writer, app, actor, member.member_id, "member.add_factor")
            await self._members.reprove(connection, app, member, "totp", 2)
        return codes

    async def remove_totp(self, app: AppInfo, actor: Actor, member: MemberInfo) -> None:
        """Remove the signed-in member's authenticator app, and its recovery codes.

        Raises `FactorNotFoundError`, `LastFactorError` and `ReauthenticationRequiredError`.
        """
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)
            if not await store.delete_totp(connection, app.app_id, member.member_id):
                raise FactorNotFoundError
            passkeys = await passkey_store.of_member(connection, app.app_id, member.member_id)
            if app.accounts.second_factor == "required" and not passkeys:
                raise LastFactorError
            await store.delete_recovery_codes(connection, app.app_id, member.member_id)
            await self._changed(connection, writer, app, actor, member.member_id, "member.remove_factor")

    async def renew_recovery_codes(self, app: AppInfo, member: MemberInfo) -> NewRecoveryCodes:
        """Replace the signed-in member's recovery codes.

        Raises `FactorNotFoundError` and `ReauthenticationRequiredError`.
        """
        vault = await self._vault(app)
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)
            found = await store.totp(connection, app.app_id, member.member_id)
            if found is None or found.confirmed_at is None:
                raise FactorNotFoundError
            codes = await vault.new_codes(connection, member.member_id)
            await self._tell(connection, writer, member.member_id)
        return codes

    async def remove_all(self, app: AppInfo, actor: Actor, member_id: str) -> None:
        """Remove all second factors of a member that has lost them; raises `MemberNotFoundError`."""
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            if await self._members.lock_account(connection, app.app_id, member_id) is None:
                raise MemberNotFoundError
            await store.delete_all(connection, app.app_id, member_id)
            await passkey_store.delete_all(connection, app.app_id, member_id)
            await self._changed(connection, writer, app, actor, member_id, "member.remove_factors")

    async def finish(self, app: AppInfo, client: Client, given: SecondFactor, agent: str | None) -> SignedIn:
        """Finish a sign-in by a second factor.

        Tries count for the ticket, and for the member over all its tickets. Raises `InvalidSecondFactorError`,
        `RateLimitedError`, and what the gate does.
        """
        ticket = await self._members.gate.count_try(app.app_id, given.ticket)
        if ticket is None:
            raise InvalidSecondFactorError
        await self.count(app, client, ticket.member_id)
        vault = await self._vault(app)
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            entrant = await self._members.gate.use(connection, app.app_id, ticket)
            if entrant is None:
                raise InvalidSecondFactorError
            method = await vault.use(connection, ticket.member_id, given)
            if method is None:
                raise InvalidSecondFactorError
            if method == "recovery_code":
                await self._tell(connection, writer, ticket.member_id)
            entered = await self._members.gate.complete(connection, app, client, ticket, entrant, method, agent)
            if entered is None:
                raise InvalidSecondFactorError
        await self.forgive(app, ticket.member_id)
        return settled(entered)

    async def reauthenticate(
        self, app: AppInfo, client: Client, member: MemberInfo, given: Reauthentication
    ) -> Reauthenticated:
        """Prove again who the signed-in member is: by its second factor if it has one, else by its password.

        Raises `InvalidSecondFactorError`, `WrongPasswordError`, `ReauthenticationRequiredError` for a password that is
        not enough, and `RateLimitedError`.
        """
        vault = await self._vault(app)
        if given.password is not None:
            await self._require_password(app, client, member, given.password)
        else:
            await self.count(app, client, member.member_id)
        async with self._database.transaction(app.app_id) as connection:
            method: Method | None = "password"
            if given.password is None:
                method = await vault.use(connection, member.member_id, given)
            if method is None:
                raise InvalidSecondFactorError
            level = 1 if method == "password" else 2
            when = await self._members.reprove(connection, app, member, method, level)
        if given.password is None:
            await self.forgive(app, member.member_id)
        if when is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Reauthenticated(access_token=self._members.access_token(app, member), auth_time=rfc3339(when))

    async def _vault(self, app: AppInfo) -> Vault:
        secrets = await self._secrets.app(app.app_id)
        return Vault(app.app_id, secrets.encrypt, secrets.decrypt)

    async def _require_password(self, app: AppInfo, client: Client, member: MemberInfo, password: str) -> None:
        found = await store.totp(self._database.of(app.app_id), app.app_id, member.member_id)
        if found is not None and found.confirmed_at is not None:
            raise ReauthenticationRequiredError(["totp", "recovery_code"])
        key = f"password:{app.app_id}:{member.member_id}"
        stored = await self._members.password_hash(app.app_id, member.member_id)
        await self._rate_limits.attempt_password(client, app, key)
        if stored is None or not await self._passwords.verify(stored, password):
            raise WrongPasswordError
        await self._rate_limits.forgive(app, key)

    async def count(self, app: AppInfo, client: Client, member_id: str) -> None:
        """Count a try of a member's second factor; the member gets a mail when there were too many."""
        try:
            await self._rate_limits.attempt_factor(client, app, _tries_key(app, member_id))
        except RateLimitedError:
            writer = await self._mails.writer(app.app_id)
            key = f"factor-notice:{app.app_id}:{member_id}"
            async with self._database.transaction(app.app_id) as connection:
                if await self._rate_limits.permits(connection, key, 1, _DAY_SECONDS):
                    await self._tell(connection, writer, member_id)
            raise

    async def forgive(self, app: AppInfo, member_id: str) -> None:
        """Forget the wrong tries of a member's second factor, after a right one."""
        await self._rate_limits.forgive(app, _tries_key(app, member_id))

    @asynccontextmanager
    async def change(self, app: AppInfo) -> AsyncGenerator[tuple[Connection, Changed]]:
        """Open a transaction that changes a member's factors, with what records and tells that."""
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:

            async def changed(actor: Actor, member_id: str, action: str) -> None:
                await self._changed(connection, writer, app, actor, member_id, action)

            yield connection, changed

    async def _changed(
        self, connection: Connection, writer: Writer, app: AppInfo, actor: Actor, member_id: str, action: str
    ) -> None:
        """Record the kinds of factors that a member has now, and tell it."""
        found = await store.totp(connection, app.app_id, member_id)
        kinds = ["totp"] if found and found.confirmed_at else []
        if await store.recovery_codes_left(connection, app.app_id, member_id):
            kinds.append("recovery_code")
        if await passkey_store.of_member(connection, app.app_id, member_id):
            kinds.append("passkey")
        await self._members.set_factors(connection, app, actor, member_id, kinds, action)
        await self._tell(connection, writer, member_id)

    async def _tell(self, connection: Connection, writer: Writer, member_id: str) -> None:
        """Mail a notice to a member's address, if it has one."""
        state = await self._members.lock_account(connection, writer.app_id, member_id)
        if state is not None and state.email is not None:
            mail = NewMail("security_notice", state.email, state.language or writer.sending.language, member_id)
            await writer.write(connection, mail)


def _tries_key(app: AppInfo, member_id: str) -> str:
    return f"factor:{app.app_id}:{member_id}"
