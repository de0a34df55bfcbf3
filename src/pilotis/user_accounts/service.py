"""Second factors of console users: set up, asked for at sign-in and for what is dangerous, removed."""

from __future__ import annotations

import hmac
import time
from uuid import UUID

from asyncpg import Connection

from pilotis import __version__
from pilotis.accounts.factors.errors import (
    FactorNotFoundError,
    InvalidSecondFactorError,
    TotpSetError,
    UpgradeUnfinishedError,
)
from pilotis.accounts.factors.types import (
    NewRecoveryCodes,
    NewTotp,
    RecoveryCodesLeft,
    TotpFactor,
)
from pilotis.accounts.passkeys.types import Passkey
from pilotis.db.pool import Database
from pilotis.db.versions import is_known_everywhere
from pilotis.http.api.principals import (
    OPERATOR,
    Actor,
    Client,
    InvalidTokenError,
    ReauthenticationRequiredError,
    TokenFault,
    UserInfo,
)
from pilotis.kit import recovery_codes, totp
from pilotis.kit.clock import rfc3339
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.security.rate_limits import RateLimits
from pilotis.security.sessions.service import CONSOLE
from pilotis.user_accounts import store
from pilotis.user_accounts.passkeys import store as passkey_store
from pilotis.user_accounts.types import Reproved, UserFactors, UserReauthentication, UserSecondFactor
from pilotis.users.service import Users
from pilotis.users.types import SignedInUser

_ISSUER = "Pilotis"


class UserFactorService:
    """The second factors of console users."""

    def __init__(self, database: Database, users: Users, rate_limits: RateLimits, secrets: Secrets) -> None:
        self._database = database
        self._users = users
        self._rate_limits = rate_limits
        self._secrets = secrets

    async def own(self, user: UserInfo, passkeys: list[Passkey]) -> UserFactors:
        """Return the signed-in console user's second factors, of which `passkeys` are known."""
        found = await store.totp(self._database.of(CONSOLE), user.user_id)
        left = await store.recovery_codes(self._database.of(CONSOLE), user.user_id)
        return UserFactors(
            totp=TotpFactor(rfc3339(found.confirmed_at)) if found and found.confirmed_at else None,
            recovery_codes=RecoveryCodesLeft(len(left)),
            passkeys=passkeys,
        )

    async def begin_totp(self, user: UserInfo) -> NewTotp:
        """Return a new authenticator app; it counts once a code of it is entered.

        Raises `TotpSetError` and `UpgradeUnfinishedError`.
        """
        secret = totp.new_secret()
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            if not await is_known_everywhere(connection, __version__):
                raise UpgradeUnfinishedError
            name = str(user.user_id)
            sealed = await self._secrets.server().encrypt(connection, Purpose.TOTP_SECRET, name, secret)
            if not await store.put_totp(connection, user.user_id, sealed):
                raise TotpSetError
        uri = totp.uri(secret, user.email, _ISSUER)
        return NewTotp(secret=totp.shown(secret), uri=uri, qr=totp.qr(uri))

    async def confirm_totp(self, actor: Actor, user: UserInfo, code: str) -> NewRecoveryCodes:
        """Set up the authenticator app whose code it is, and return recovery codes; the session has two factors now.

        Raises `InvalidSecondFactorError` and `FactorNotFoundError`.
        """
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            found = await store.totp(connection, user.user_id)
            if found is None or found.confirmed_at is not None:
                raise FactorNotFoundError
            if not await self._use_totp(connection, user.user_id, code, confirmed=False):
                raise InvalidSecondFactorError
            codes = await self._new_codes(connection, user.user_id)
            await self.record_kinds(connection, actor, user.user_id, "user.add_factor")
            await self._users.reprove(connection, user, "totp", 2)
        return codes

    async def remove_totp(self, actor: Actor, user: UserInfo) -> None:
        """Remove the signed-in console user's authenticator app and recovery codes; raises `FactorNotFoundError`."""
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            if not await store.delete_all(connection, user.user_id):
                raise FactorNotFoundError
            await self.record_kinds(connection, actor, user.user_id, "user.remove_factor")

    async def reset(self, email: str) -> UUID:
        """Remove the second factors of a console user that has lost them, for the operator, and return its id.

        Raises `UserNotFoundError`.
        """
        user_id = await self._users.id_of(email)
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user_id)
            await store.delete_all(connection, user_id)
            await passkey_store.delete_all(connection, user_id)
            await self.record_kinds(connection, OPERATOR, user_id, "user.reset_factors")
        return user_id

    async def renew_recovery_codes(self, actor: Actor, user: UserInfo) -> NewRecoveryCodes:
        """Replace the signed-in console user's recovery codes; raises `FactorNotFoundError` without an app."""
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            found = await store.totp(connection, user.user_id)
            if found is None or found.confirmed_at is None:
                raise FactorNotFoundError
            codes = await self._new_codes(connection, user.user_id)
            await self.record_kinds(connection, actor, user.user_id, "user.renew_recovery_codes")
        return codes

    async def finish(self, client: Client, given: UserSecondFactor, agent: str | None) -> SignedInUser:
        """Finish a sign-in by its ticket and a second factor; raises `InvalidSecondFactorError`, `RateLimitedError`."""
        ticket = await self._users.count_try(given.ticket)
        if ticket is None:
            raise InvalidSecondFactorError
        key = _tries_key(ticket.user_id)
        await self._rate_limits.attempt_factor(client, None, key)
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, ticket.user_id)
            method = await self._use(connection, ticket.user_id, given.totp, given.recovery_code)
            if method is None:
                raise InvalidSecondFactorError
            signed_in = await self._users.finish(connection, client, ticket, method, agent)
            if signed_in is None:
                raise InvalidSecondFactorError
        await self._rate_limits.forgive(None, key)
        return signed_in

    async def reauthenticate(self, client: Client, user: UserInfo, given: UserReauthentication) -> Reproved:
        """Prove again who the signed-in console user is: by its second factor if it has one, else by its password.

        Raises `InvalidSecondFactorError`, `WrongPasswordError`, `ReauthenticationRequiredError` for a password that is
        not enough, and `RateLimitedError`.
        """
        key = _tries_key(user.user_id)
        if given.password is None:
            await self._rate_limits.attempt_factor(client, None, key)
        elif user.factors:
            # Nothing weaker than the second factor.
            raise ReauthenticationRequiredError(user.factors)
        else:
            await self._users.require_password(client, user.user_id, given.password)
        async with self._database.transaction(CONSOLE) as connection:
            await self._users.lock(connection, user.user_id)
            method: str | None = "password"
            if given.password is None:
                method = await self._use(connection, user.user_id, given.totp, given.recovery_code)
            if method is None:
                raise InvalidSecondFactorError
            when = await self._users.reprove(connection, user, method, 1 if method == "password" else 2)
        if given.password is None:
            await self._rate_limits.forgive(None, key)
        if when is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Reproved(rfc3339(when))

    async def record_kinds(self, connection: Connection, actor: Actor, user_id: UUID, action: str) -> None:
        """Record the kinds of second factors that a locked console user has after a change."""
        found = await store.totp(connection, user_id)
        kinds = ["totp", "recovery_code"] if found is not None and found.confirmed_at is not None else []
        if await passkey_store.of_user(connection, user_id):
            kinds.append("passkey")
        await self._users.set_factors(connection, actor, user_id, kinds, action)

    async def _use(self, connection: Connection, user_id: UUID, code: str | None, recovery: str | None) -> str | None:
        """Use a second factor, and return which one it was; None if it is not valid."""
        if code is not None:
            return "totp" if await self._use_totp(connection, user_id, code, confirmed=True) else None
        wanted = recovery_codes.normal(recovery or "")
        for one in await store.recovery_codes(connection, user_id):
            plain = self._secrets.server().decrypt(Purpose.RECOVERY_CODE, one.name, one.code)
            if hmac.compare_digest(plain, wanted):
                used = await store.use_recovery_code(connection, one.name, one.code)
                return "recovery_code" if used else None
        return None

    async def _use_totp(self, connection: Connection, user_id: UUID, code: str, *, confirmed: bool) -> bool:
        found = await store.totp(connection, user_id)
        if found is None or (confirmed and found.confirmed_at is None):
            return False
        secret = self._secrets.server().decrypt(Purpose.TOTP_SECRET, str(user_id), found.secret)
        step = totp.step_of(secret, code, time.time())
        return step is not None and await store.use_step(connection, user_id, found.secret, step)

    async def _new_codes(self, connection: Connection, user_id: UUID) -> NewRecoveryCodes:
        codes, sealed = recovery_codes.new_codes(), []
        for number, code in enumerate(codes, 1):
            name, plain = f"{user_id}/{number}", recovery_codes.normal(code)
            server = self._secrets.server()
            sealed.append((name, await server.encrypt(connection, Purpose.RECOVERY_CODE, name, plain)))
        await store.put_recovery_codes(connection, user_id, sealed)
        return NewRecoveryCodes(codes)


def _tries_key(user_id: UUID) -> str:
    return f"factor:console:{user_id}"
