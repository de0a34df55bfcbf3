"""The routes of members for proofs by mail."""

from __future__ import annotations

from pilotis.accounts.errors import (
    EmailVerifiedError,
    InvalidMailCodeError,
    ReauthenticationRequiredError,
    TokenExpiredError,
)
from pilotis.accounts.examples import EXAMPLES
from pilotis.accounts.service import Proofs
from pilotis.accounts.types import (
    EmailConfirmation,
    EmailTicket,
    EmailVerification,
    MailedToken,
    NewEmail,
    PasswordReset,
    ResetRequest,
)
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.languages import preferred
from pilotis.members.service import MemberInactiveError, NoPasswordError, WrongPasswordError
from pilotis.members.types import Account, Confirmation

_MEMBERS = "/v1/public/app-members"


class ProofEndpoints(Endpoints, tag="App member authentication", examples=EXAMPLES):
    """Verification of addresses, and forgotten passwords."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    @post(
        f"{_MEMBERS}/me/email",
        access=Access.MEMBER,
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
        access=Access.MEMBER,
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

    @post(f"{_MEMBERS}/password-reset", access=Access.PUBLIC_KEY, status=202, rate="mail_requests")
    async def ask_for_reset(self, call: Call, body: ResetRequest) -> Confirmation:
        """Mail a link for a new password to a member's verified address.

        The answer is always the same, and as fast: it does not tell whether there is such a member.
        """
        language = preferred(call.header(b"accept-language"))
        await self._proofs.ask_for_reset(call.app, call.client, body, language)
        return Confirmation("If there is such a member with a verified address, a mail is on its way.")

    @post(
        f"{_MEMBERS}/password-reset/confirm",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[TokenExpiredError],
    )
    async def reset_password(self, call: Call, body: PasswordReset) -> Confirmation:
        """Set a new password by the token of a mailed link. All sessions of the member end; nobody is signed in."""
        await self._proofs.reset(call.app, call.client, body)
        return Confirmation("Password changed. Sign in with the new one.")
