"""The routes of members for proofs by mail."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.errors import (
    EmailRequiredError,
    EmailVerifiedError,
    InvalidMailCodeError,
    LastWayInError,
    PasswordSetError,
)
from pilotis.accounts.mail_sign_in import MailSignIn
from pilotis.accounts.service import Proofs
from pilotis.accounts.types import (
    EmailConfirmation,
    EmailSignIn,
    EmailSignInConfirmation,
    EmailTicket,
    EmailVerification,
    FirstPassword,
    MailedReset,
    MailedToken,
    NewEmail,
    ResetRequest,
)
from pilotis.http.api.endpoint import Endpoints, delete, post, put
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, Role, console
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.languages import preferred
from pilotis.mail.service import NoAddressError
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.challenges.service import HEADER, ChallengeRequiredError
from pilotis.members.gate.service import MemberBannedError, MemberInactiveError, SecondFactorRequiredError
from pilotis.members.hooks import HookFailedError, RejectedByHookError
from pilotis.members.invitations.types import TokenExpiredError
from pilotis.members.service import LoginDisabledError, NoPasswordError, SignUpClosedError, WrongPasswordError
from pilotis.members.types import Account, Confirmation, DeletedAccount, SignedIn

_MEMBERS = "/v1/public/app-members"
_UNDONE = "The account has this address again. Choose a new password by the link that was mailed to it."


class ProofEndpoints(Endpoints, tag="App member authentication"):
    """Verification of addresses, and forgotten passwords."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    @post(
        f"{_MEMBERS}/me/email",
        access=Access.ACCOUNT,
        status=202,
        rate="mail_requests",
        errors=[MemberInactiveError, ReauthenticationRequiredError, EmailVerifiedError],
    )
    async def ask_for_email(self, call: Call, body: NewEmail) -> EmailTicket:
        """Mail a code and a link that verify an address of the signed-in member, or mail them again.

        The answer is the same if the address belongs to another member: then its owner is told, by mail.
        """
        language = preferred(call.header(b"accept-language"))
        return await self._proofs.ask_for_email(call.app, call.client, call.member, body.email, language)

    @post(
        f"{_MEMBERS}/me/email/confirm",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, InvalidMailCodeError, TokenExpiredError],
    )
    async def confirm_email(self, call: Call, body: EmailConfirmation) -> Account:
        """Verify the signed-in member's address by the mailed code, or by the token of the link.

        A code works in the session that signed up, or with its ticket, within ten minutes and five tries.
        """
        return await self._proofs.confirm(call.app, call.actor, call.member, body)

    @post(
        f"{_MEMBERS}/email-verification",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[TokenExpiredError, WrongPasswordError, NoPasswordError, RateLimitedError],
    )
    async def verify_email(self, call: Call, body: EmailVerification) -> Confirmation:
        """Verify an address by a link that was opened where nobody is signed in.

        It takes the account's password: who only reads the mail must not confirm an account that another one made.
        """
        await self._proofs.verify(call.app, call.client, body)
        return Confirmation("Address verified.")

    @post(f"{_MEMBERS}/email-verification/deny", access=Access.PUBLIC_KEY, errors=[TokenExpiredError])
    async def deny_email(self, call: Call, body: MailedToken) -> Confirmation:
        """Say that one did not sign up: the account does not get the address."""
        await self._proofs.deny(call.app, body.token)
        return Confirmation("The account does not get this address.")

    @delete(
        f"{_MEMBERS}/me/email",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, ReauthenticationRequiredError, LastWayInError, EmailRequiredError],
    )
    async def remove_email(self, call: Call) -> DeletedAccount:
        """Remove the signed-in member's address, which gets a mail with a link that undoes it for seven days."""
        await self._proofs.remove_email(call.app, call.actor, call.member)
        return DeletedAccount("Address removed.", call.member.member_id)

    @put(
        f"{_MEMBERS}/me/password",
        access=Access.ACCOUNT,
        needs_room=False,
        errors=[
            MemberInactiveError,
            LoginDisabledError,
            NoPasswordError,
            PasswordSetError,
            ReauthenticationRequiredError,
        ],
    )
    async def set_first_password(self, call: Call, body: FirstPassword) -> Confirmation:
        """Set the password of a member that has none, such as one that signed in by mail or at a vendor."""
        await self._proofs.set_first_password(call.app, call.actor, call.member, body.password)
        return Confirmation("Password set.")

    @post(f"{_MEMBERS}/email-undo", access=Access.PUBLIC_KEY, needs_room=False, errors=[TokenExpiredError])
    async def undo_email(self, call: Call, body: MailedToken) -> Confirmation:
        """Get an account back by the link that its former address was sent when it was changed or removed.

        All sessions, the password and the second factors end, and a link for a new password is mailed.
        """
        await self._proofs.undo(call.app, call.client, body.token)
        return Confirmation(_UNDONE)

    @post(
        f"{_MEMBERS}/password-reset",
        access=Access.PUBLIC_KEY,
        status=202,
        rate="mail_requests",
        errors=[ChallengeRequiredError, RejectedByHookError, HookFailedError],
    )
    async def ask_for_reset(self, call: Call, body: ResetRequest) -> Confirmation:
        """Mail a link for a new password to a member's verified address.

        The answer is always the same, and as fast: it does not tell whether there is such a member.
        """
        language = preferred(call.header(b"accept-language"))
        await self._proofs.require_challenge(call.app, call.client, call.header(HEADER), "reset")
        await self._proofs.ask_for_reset(call.app, call.client, body, language)
        return Confirmation("If there is such a member with a verified address, a mail is on its way.")

    @post(
        f"{_MEMBERS}/password-reset/confirm",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[TokenExpiredError],
    )
    async def reset_password(self, call: Call, body: MailedReset) -> Confirmation:
        """Set a new password by the token of a mailed link. All sessions of the member end; nobody is signed in."""
        await self._proofs.reset(call.app, call.client, body)
        return Confirmation("Password changed. Sign in with the new one.")


class MailSignInEndpoints(Endpoints, tag="App member authentication"):
    """Sign-in by a mailed code or link."""

    def __init__(self, sign_in: MailSignIn) -> None:
        self._sign_in = sign_in

    @post(
        f"{_MEMBERS}/email-sign-in",
        access=Access.PUBLIC_KEY,
        status=202,
        rate="mail_requests",
        errors=[LoginDisabledError, ChallengeRequiredError, RejectedByHookError, HookFailedError],
    )
    async def ask(self, call: Call, body: EmailSignIn) -> EmailTicket:
        """Mail a code, a link or both that sign in, as `methods` of the account settings say.

        Where sign-up is open an address without a member gets one. The answer is always the same, and as fast.
        """
        language = preferred(call.header(b"accept-language"))
        await self._sign_in.require_challenge(call.app, call.client, call.header(HEADER))
        return await self._sign_in.ask(call.app, call.client, body, language)

    @post(
        f"{_MEMBERS}/email-sign-in/confirm",
        access=Access.PUBLIC_KEY,
        other_statuses=(201,),
        returns=SignedIn,
        errors=[
            InvalidMailCodeError,
            TokenExpiredError,
            MemberInactiveError,
            MemberBannedError,
            SignUpClosedError,
            SecondFactorRequiredError,
            RejectedByHookError,
            HookFailedError,
        ],
    )
    async def confirm(self, call: Call, body: EmailSignInConfirmation) -> Reply:
        """Sign in by the mailed code with its ticket, or by the token of the link; 201 if that made the member."""
        signed_in, is_new = await self._sign_in.confirm(call.app, call.client, body, call.user_agent)
        return Reply(json.encode(signed_in), status=201 if is_new else 200)


class ProofAdministrationEndpoints(Endpoints, tag="App member administration"):
    """Forgotten passwords, for the app's team."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    @post(
        "/v1/apps/:app_id/members/:member_id/mail-reset",
        access=console(Role.EDITOR, secret_key=True),
        status=202,
        errors=[MemberNotFoundError, NoAddressError],
    )
    async def mail_reset(self, call: Call, app_id: UUID, member_id: str) -> Confirmation:
        """Mail a link for a new password to a member, which chooses the password itself."""
        await self._proofs.mail_reset(call.app, call.actor, call.client, member_id)
        return Confirmation("A mail is on its way.")
