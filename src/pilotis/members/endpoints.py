"""The routes of app member authentication (interface: App member authentication)."""

from __future__ import annotations

from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.api.principals import Access, InvalidTokenError
from pilotis.http.api.request import Call
from pilotis.kit.clock import optional_rfc3339
from pilotis.kit.errors import RateLimitedError
from pilotis.kit.languages import preferred
from pilotis.members.challenges.service import HEADER, ChallengeRequiredError
from pilotis.members.gate.service import MemberBannedError, MemberInactiveError, SecondFactorRequiredError
from pilotis.members.hooks import HookFailedError, RejectedByHookError
from pilotis.members.invitations.types import TokenExpiredError
from pilotis.members.known_devices.service import HEADER as DEVICE_HEADER
from pilotis.members.service import (
    InvalidCredentialsError,
    LoginDisabledError,
    LoginIdTakenError,
    Members,
    NoDeletionPendingError,
    NoPasswordError,
    NoRobot,
    NotAGuestError,
    SignUpClosedError,
    WrongPasswordError,
)
from pilotis.members.types import (
    Account,
    AccountDeletion,
    Confirmation,
    CurrentMember,
    CustomDataChange,
    CustomDataResult,
    EndedAccount,
    OwnChange,
    PasswordChange,
    SignedIn,
    SignedInGuest,
    SignIn,
    SignUp,
)


class MemberEndpoints(Endpoints, tag="App member authentication"):
    """Sign-up, sign-in, guests, a member's own record, sign-out."""

    def __init__(self, members: Members) -> None:
        self._members = members

    @post(
        "/v1/public/app-members/signup",
        access=Access.PUBLIC_KEY,
        status=201,
        creates="member_id",
        rate="signup",
        errors=[
            LoginIdTakenError,
            LoginDisabledError,
            NotAGuestError,
            SignUpClosedError,
            TokenExpiredError,
            MemberInactiveError,
            MemberBannedError,
            RejectedByHookError,
            HookFailedError,
            ChallengeRequiredError,
        ],
    )
    async def sign_up(self, call: Call, body: SignUp) -> SignedIn:
        """Sign up a member with login_id and password.

        With a guest's access token as bearer, the guest becomes that member and keeps its id and its data.

        To `email` a code and a link are mailed that verify it. The answer is the same if it is another member's.

        With the token of a mailed `invitation` its address is the member's, and verified, with the roles and the team
        that it promises. The token works once.
        """
        await self._members.require_challenge(call.app, call.client, call.header(HEADER), "signup")
        return await self._members.sign_up(
            call.client,
            call.app,
            call.actor,
            body,
            call.principal.member,
            call.user_agent,
            preferred(call.header(b"accept-language")),
        )

    @post(
        "/v1/public/app-members/signin",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[
            InvalidCredentialsError,
            LoginDisabledError,
            MemberInactiveError,
            MemberBannedError,
            SecondFactorRequiredError,
            RejectedByHookError,
            HookFailedError,
            ChallengeRequiredError,
        ],
    )
    async def sign_in(self, call: Call, body: SignIn) -> SignedIn:
        """Sign a member in with login_id and password.

        A member that has set up a second factor gets 401 `SECOND_FACTOR_REQUIRED` with a ticket instead of tokens.

        The answer's `X-Device-Token` is worth keeping: while others guess the member's password, a sign-in that sends
        it along takes no challenge.
        """
        await self._members.require_challenge(call.app, call.client, call.header(HEADER), "signin")
        proofs = NoRobot(call.header(HEADER), call.header(DEVICE_HEADER))
        signed_in, device = await self._members.sign_in(call.client, call.app, body, call.user_agent, proofs)
        if device is not None:
            call.answer_headers.append((DEVICE_HEADER, device.encode()))
        return signed_in

    @post(
        "/v1/public/app-members",
        access=Access.PUBLIC_KEY,
        status=201,
        creates="member_id",
        rate="guest",
        errors=[LoginDisabledError, SignUpClosedError, ChallengeRequiredError, RejectedByHookError, HookFailedError],
    )
    async def create_guest(self, call: Call) -> SignedInGuest:
        """Create an anonymous guest member and sign it in."""
        await self._members.require_challenge(call.app, call.client, call.header(HEADER), "guest")
        return await self._members.create_guest(call.app, call.actor, call.user_agent)

    @get("/v1/public/app-members/me", access=Access.ACCOUNT, only_reads=True, errors=[MemberInactiveError])
    async def me(self, call: Call) -> CurrentMember:
        """Read the signed-in member's own record."""
        return await self._members.own_record(call.app, call.member)

    @get("/v1/public/app-members/me/account", access=Access.ACCOUNT, only_reads=True, errors=[MemberInactiveError])
    async def account(self, call: Call) -> Account:
        """Read the signed-in member's own account, with the roles and claims that the app gave it."""
        return await self._members.account(call.app, call.member)

    @patch("/v1/public/app-members/me", access=Access.ACCOUNT, errors=[MemberInactiveError])
    async def change(self, call: Call, body: OwnChange) -> CurrentMember:
        """Change the signed-in member's own nickname; null removes it."""
        return await self._members.change_nickname(call.app, call.member, body.nickname)

    @patch(
        "/v1/public/app-members/me/password",
        access=Access.ACCOUNT,
        needs_room=False,
        errors=[MemberInactiveError, WrongPasswordError, NoPasswordError, RateLimitedError],
    )
    async def change_password(self, call: Call, body: PasswordChange) -> Confirmation:
        """Change the signed-in member's password, and end its other sessions.

        Tries of the current password are limited as sign-ins are, for the member from wherever they come.
        """
        await self._members.change_password(call.client, call.app, call.member, body)
        return Confirmation("Password changed.")

    @delete(
        "/v1/public/app-members/me",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, WrongPasswordError, RateLimitedError],
    )
    async def delete(self, call: Call, body: AccountDeletion | None) -> EndedAccount:
        """Delete the signed-in member's account permanently, and end its sessions at once.

        A member that has a password sends it. Rows and files that it created stay, unless the account settings say
        otherwise by `on_member_delete`. In a table of the access level Creator no other member sees them, but the
        console and secret keys do. Its login_id is free again. Where the account settings have `deletion_grace_days`,
        a member that is no guest is deleted at `deletes_at`, and may come back until then: it signs in, and calls
        `restore`.
        """
        given = body or AccountDeletion()
        deletes_at = await self._members.delete(call.client, call.app, call.member, call.actor, given)
        message = "Account deleted." if deletes_at is None else "Account will be deleted."
        return EndedAccount(message, call.member.member_id, optional_rfc3339(deletes_at))

    @post(
        "/v1/public/app-members/me/restore",
        access=Access.ACCOUNT,
        needs_room=False,
        errors=[MemberInactiveError, NoDeletionPendingError],
    )
    async def restore(self, call: Call) -> Account:
        """Keep the account that the signed-in member has deleted, before its `deletes_at`.

        Until then a sign-in begins a session that is good for the member's own account only: everything else answers
        403 `DELETION_PENDING`. This completes it.
        """
        return await self._members.restore(call.app, call.member, call.actor)

    @patch("/v1/public/app-members/me/custom-data", access=Access.ACCOUNT, errors=[MemberInactiveError])
    async def merge_custom_data(self, call: Call, body: CustomDataChange) -> CustomDataResult:
        """Merge keys into the member's custom_data; a key set to null is deleted.

        The merge is a JSON Merge Patch (RFC 7396): objects are merged at every depth, anything else is replaced.
        """
        return await self._members.merge_custom_data(call.app, call.member, body.custom_data)

    @post(
        "/v1/public/app-members/signout",
        access=Access.PUBLIC_KEY_AND_MEMBER,
        needs_room=False,
        errors=[InvalidTokenError, MemberInactiveError],
    )
    async def sign_out(self, call: Call) -> Confirmation:
        """Sign the member out. Its access and refresh tokens stop working immediately."""
        await self._members.sign_out(call.app, call.member)
        return Confirmation("Signed out.")
