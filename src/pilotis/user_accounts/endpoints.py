"""The routes of second factors of console users, and of their forgotten passwords."""

from __future__ import annotations

from pilotis.accounts.factors.errors import (
    FactorNotFoundError,
    InvalidSecondFactorError,
    TotpSetError,
    UpgradeUnfinishedError,
)
from pilotis.accounts.factors.types import NewRecoveryCodes, NewTotp, TotpCode
from pilotis.accounts.passkeys.errors import InvalidPasskeyError
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, ReauthenticationRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.languages import preferred
from pilotis.members.service import WrongPasswordError
from pilotis.members.types import Confirmation
from pilotis.user_accounts.passkeys.service import UserPasskeys
from pilotis.user_accounts.resets import UserResets
from pilotis.user_accounts.service import UserFactorService
from pilotis.user_accounts.types import (
    Reproved,
    UserFactors,
    UserReauthentication,
    UserResetRequest,
    UserSecondFactor,
)
from pilotis.users.types import SignedInUser

_FACTORS = "/v1/auth/factors"


class UserFactorEndpoints(Endpoints, tag="Console users"):
    """Second factors of console users."""

    def __init__(self, factors: UserFactorService, passkeys: UserPasskeys, resets: UserResets) -> None:
        self._factors = factors
        self._passkeys = passkeys
        self._resets = resets

    @post(
        "/v1/auth/second-factor",
        access=Access.OPEN,
        console=True,
        needs_room=False,
        errors=[InvalidSecondFactorError, RateLimitedError],
    )
    async def finish(self, call: Call, body: UserSecondFactor) -> SignedInUser:
        """Finish a console user's sign-in that answered 401 `SECOND_FACTOR_REQUIRED`, by its ticket and a factor.

        The ticket is valid for ten minutes and five tries; a user's factors take ten wrong codes an hour in all.
        """
        return await self._factors.finish(call.client, body, call.user_agent)

    @post(
        "/v1/auth/reauthenticate",
        access=Access.CONSOLE,
        needs_room=False,
        errors=[
            InvalidSecondFactorError,
            InvalidPasskeyError,
            WrongPasswordError,
            ReauthenticationRequiredError,
            RateLimitedError,
        ],
    )
    async def reauthenticate(self, call: Call, body: UserReauthentication) -> Reproved:
        """Prove again who the signed-in console user is, for routes that answer 403 `REAUTHENTICATION_REQUIRED`.

        A user with an authenticator app or a passkey proves it by that, any other by the password.
        """
        if body.passkey is not None:
            return await self._passkeys.reauthenticate(call.user, body.ticket or "", body.passkey)
        return await self._factors.reauthenticate(call.client, call.user, body)

    @get(_FACTORS, access=Access.CONSOLE)
    async def own(self, call: Call) -> UserFactors:
        """Read which second factors the signed-in console user has."""
        return await self._factors.own(call.user, await self._passkeys.own(call.user.user_id))

    @post(
        f"{_FACTORS}/totp",
        access=Access.CONSOLE_FRESH,
        errors=[TotpSetError, UpgradeUnfinishedError, ReauthenticationRequiredError],
    )
    async def begin_totp(self, call: Call) -> NewTotp:
        """Begin to set up an authenticator app; it counts once `confirm` gets one of its codes."""
        return await self._factors.begin_totp(call.user)

    @post(
        f"{_FACTORS}/totp/confirm",
        access=Access.CONSOLE_FRESH,
        errors=[InvalidSecondFactorError, FactorNotFoundError, ReauthenticationRequiredError],
    )
    async def confirm_totp(self, call: Call, body: TotpCode) -> NewRecoveryCodes:
        """Set up the authenticator app by one of its codes, and get recovery codes, which are shown only now."""
        return await self._factors.confirm_totp(call.actor, call.user, body.code)

    @delete(
        f"{_FACTORS}/totp",
        access=Access.CONSOLE_FRESH,
        errors=[FactorNotFoundError, ReauthenticationRequiredError],
    )
    async def remove_totp(self, call: Call) -> Deleted:
        """Remove the signed-in console user's authenticator app with its recovery codes."""
        await self._factors.remove_totp(call.actor, call.user)
        return Deleted("Authenticator app removed.", call.user.user_id)

    @post(
        f"{_FACTORS}/recovery-codes",
        access=Access.CONSOLE_FRESH,
        errors=[FactorNotFoundError, ReauthenticationRequiredError],
    )
    async def renew_recovery_codes(self, call: Call) -> NewRecoveryCodes:
        """Replace the signed-in console user's recovery codes by new ones, which are shown only now."""
        return await self._factors.renew_recovery_codes(call.actor, call.user)

    @post(
        "/v1/auth/password-reset/request",
        access=Access.OPEN,
        console=True,
        status=202,
        rate="signup",
        needs_room=False,
    )
    async def ask_for_reset(self, call: Call, body: UserResetRequest) -> Confirmation:
        """Mail a link for a new password to a console user, where the server has an SMTP server.

        The answer is always the same, and as fast: it does not tell whether there is such a user. Without an SMTP
        server the operator prints a link with `pilotis user reset`.
        """
        await self._resets.ask(body.email, preferred(call.header(b"accept-language")))
        return Confirmation("If there is such a console user, a mail is on its way.")
