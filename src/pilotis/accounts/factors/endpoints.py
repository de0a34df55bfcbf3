"""The routes of second factors."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.errors import InvalidMailCodeError
from pilotis.accounts.factors.errors import (
    FactorNotFoundError,
    InvalidSecondFactorError,
    LastFactorError,
    TotpSetError,
    UpgradeUnfinishedError,
)
from pilotis.accounts.factors.mailed import MailedFactors
from pilotis.accounts.factors.service import Factors
from pilotis.accounts.factors.types import (
    NewRecoveryCodes,
    NewTotp,
    OwnFactors,
    Reauthenticated,
    Reauthentication,
    ReauthenticationStart,
    ReauthenticationTicket,
    SecondFactor,
    TotpCode,
)
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.accounts.passkeys.types import PasskeySignIn, SecondFactorStart, SecondFactorTicket
from pilotis.accounts.reproofs import Reproofs
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, Role, console
from pilotis.http.api.request import Call
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.languages import preferred
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import MemberBannedError, MemberInactiveError
from pilotis.members.service import LoginDisabledError, WrongPasswordError
from pilotis.members.types import DeletedAccount, SignedIn

_MEMBERS = "/v1/public/app-members"


class FactorEndpoints(Endpoints, tag="App member authentication"):
    """Second factors, and proofs that a session is still its member's."""

    def __init__(self, factors: Factors, passkeys: Passkeys, mailed: MailedFactors, reproofs: Reproofs) -> None:
        self._factors = factors
        self._mailed = mailed
        self._reproofs = reproofs
        self._passkeys = passkeys

    @post(
        f"{_MEMBERS}/second-factor",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[
            InvalidSecondFactorError,
            InvalidPasskeyError,
            RateLimitedError,
            MemberInactiveError,
            MemberBannedError,
        ],
    )
    async def finish(self, call: Call, body: SecondFactor) -> SignedIn:
        """Finish a sign-in that answered 401 `SECOND_FACTOR_REQUIRED`, by its ticket and a second factor.

        The ticket is valid for ten minutes and five tries; a member's factors take ten wrong codes an hour in all.
        """
        if body.passkey is not None:
            given = PasskeySignIn(body.ticket, body.passkey)
            return await self._passkeys.finish(call.app, call.client, given, call.user_agent)
        if body.email_code is not None:
            return await self._mailed.finish(call.app, call.client, body.ticket, body.email_code, call.user_agent)
        return await self._factors.finish(call.app, call.client, body, call.user_agent)

    @post(
        f"{_MEMBERS}/second-factor/start",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[LoginDisabledError, InvalidSecondFactorError, PasskeyNotFoundError],
    )
    async def begin_second_factor(self, call: Call, body: SecondFactorTicket) -> SecondFactorStart:
        """Begin to finish a sign-in by a passkey, or where the app accepts that, by a mailed code.

        `second-factor` then takes it as `passkey` or `email_code`. An address gets five such mails an hour.
        """
        if body.method == "email_code":
            language = preferred(call.header(b"accept-language"))
            await self._mailed.begin(call.app, call.client, body.ticket, language)
            return SecondFactorStart(ticket=body.ticket, options=None)
        challenge = await self._passkeys.begin_second_factor(call.app, body.ticket)
        return SecondFactorStart(ticket=challenge.ticket, options=challenge.options)

    @post(
        f"{_MEMBERS}/me/reauthenticate",
        access=Access.ACCOUNT,
        needs_room=False,
        errors=[
            MemberInactiveError,
            InvalidSecondFactorError,
            InvalidMailCodeError,
            InvalidPasskeyError,
            WrongPasswordError,
            RateLimitedError,
        ],
    )
    async def reauthenticate(self, call: Call, body: Reauthentication) -> Reauthenticated:
        """Prove again who the signed-in member is, for routes that need a session that began within five minutes.

        A member with an authenticator app proves it by that or by a passkey, any other by its password, a passkey or a
        code that `reauthenticate/start` mails.
        """
        ticket = body.ticket or ""
        if body.code is not None:
            return await self._reproofs.by_code(call.app, call.member, ticket, body.code)
        if body.passkey is not None:
            return await self._reproofs.by_passkey(call.app, call.member, ticket, body.passkey)
        return await self._factors.reauthenticate(call.app, call.client, call.member, body)

    @post(
        f"{_MEMBERS}/me/reauthenticate/start",
        access=Access.ACCOUNT,
        rate="mail_requests",
        errors=[MemberInactiveError, ReauthenticationRequiredError, PasskeyNotFoundError, LoginDisabledError],
    )
    async def start(self, call: Call, body: ReauthenticationStart) -> ReauthenticationTicket:
        """Begin to prove again who the signed-in member is, by a code that is mailed to it, or by a passkey."""
        if body.method == "passkey":
            return await self._reproofs.ask_passkey(call.app, call.member)
        language = preferred(call.header(b"accept-language"))
        return await self._reproofs.mail(call.app, call.client, call.member, language)

    @get(f"{_MEMBERS}/me/factors", access=Access.ACCOUNT, only_reads=True, errors=[MemberInactiveError])
    async def own(self, call: Call) -> OwnFactors:
        """Read which second factors the signed-in member has."""
        return await self._factors.own(call.app, call.member)

    @post(
        f"{_MEMBERS}/me/totp",
        access=Access.ACCOUNT,
        errors=[
            MemberInactiveError,
            LoginDisabledError,
            TotpSetError,
            ReauthenticationRequiredError,
            UpgradeUnfinishedError,
        ],
    )
    async def begin_totp(self, call: Call) -> NewTotp:
        """Begin to set up an authenticator app; it counts once `confirm` gets one of its codes."""
        return await self._factors.begin_totp(call.app, call.member)

    @post(
        f"{_MEMBERS}/me/totp/confirm",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, InvalidSecondFactorError, FactorNotFoundError, ReauthenticationRequiredError],
    )
    async def confirm_totp(self, call: Call, body: TotpCode) -> NewRecoveryCodes:
        """Set up the authenticator app by one of its codes, and get recovery codes, which are shown only now."""
        return await self._factors.confirm_totp(call.app, call.actor, call.member, body.code)

    @delete(
        f"{_MEMBERS}/me/totp",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, FactorNotFoundError, LastFactorError, ReauthenticationRequiredError],
    )
    async def remove_totp(self, call: Call) -> DeletedAccount:
        """Remove the signed-in member's authenticator app with its recovery codes."""
        await self._factors.remove_totp(call.app, call.actor, call.member)
        return DeletedAccount("Authenticator app removed.", call.member.member_id)

    @post(
        f"{_MEMBERS}/me/recovery-codes",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, FactorNotFoundError, ReauthenticationRequiredError],
    )
    async def renew_recovery_codes(self, call: Call) -> NewRecoveryCodes:
        """Replace the signed-in member's recovery codes by new ones, which are shown only now."""
        return await self._factors.renew_recovery_codes(call.app, call.member)

    @delete(
        "/v1/apps/:app_id/members/:member_id/factors",
        access=console(Role.EDITOR, secret_key=True),
        errors=[MemberNotFoundError],
    )
    async def remove_all(self, call: Call, app_id: UUID, member_id: str) -> DeletedAccount:
        """Remove all second factors of a member that has lost them. It is told by mail."""
        await self._factors.remove_all(call.app, call.actor, member_id)
        return DeletedAccount("Second factors removed.", member_id)
