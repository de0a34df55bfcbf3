"""The routes of app member authentication (interface: App member authentication)."""

from __future__ import annotations

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get, patch, post
from pilotis.http.principals import Access, InvalidTokenError
from pilotis.members.service import (
    InvalidCredentialsError,
    LoginDisabledError,
    LoginIdTakenError,
    MemberInactiveError,
    Members,
    NotAGuestError,
)
from pilotis.members.types import (
    CustomData,
    CustomDataChange,
    Message,
    OwnRecord,
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
        rate="signup",
        errors=[LoginIdTakenError, LoginDisabledError, NotAGuestError],
    )
    async def sign_up(self, call: Call, body: SignUp) -> SignedIn:
        """Sign a member up with login_id and password.

        With a guest's access token as bearer, the guest becomes that member and keeps its id and its data.
        """
        return await self._members.sign_up(call.app, body, call.principal.member)

    @post(
        "/v1/public/app-members/signin",
        access=Access.PUBLIC_KEY,
        errors=[InvalidCredentialsError, LoginDisabledError, MemberInactiveError],
    )
    async def sign_in(self, call: Call, body: SignIn) -> SignedIn:
        """Sign a member in with login_id and password."""
        return await self._members.sign_in(call, body)

    @post(
        "/v1/public/app-members",
        access=Access.PUBLIC_KEY,
        status=201,
        rate="guest",
        errors=[LoginDisabledError],
    )
    async def create_guest(self, call: Call) -> SignedInGuest:
        """Make an anonymous guest member and sign it in."""
        return await self._members.create_guest(call.app)

    @get("/v1/public/app-members/me", access=Access.MEMBER, errors=[MemberInactiveError])
    async def me(self, call: Call) -> OwnRecord:
        """Read the signed-in member's own record."""
        return await self._members.own_record(call.app, call.member)

    @patch("/v1/public/app-members/me/custom-data", access=Access.MEMBER, errors=[MemberInactiveError])
    async def merge_custom_data(self, call: Call, body: CustomDataChange) -> CustomData:
        """Merge keys into the member's custom_data; a key set to null is deleted.

        The merge is a JSON Merge Patch (RFC 7396): objects are merged at every depth, anything else is replaced.
        """
        return await self._members.merge_custom_data(call.app, call.member, body.custom_data)

    @post(
        "/v1/public/app-members/signout",
        access=Access.PUBLIC_KEY_AND_MEMBER,
        errors=[InvalidTokenError, MemberInactiveError],
    )
    async def sign_out(self, call: Call) -> Message:
        """Sign the member out: its access and refresh tokens stop working at once."""
        await self._members.sign_out(call.app, call.member)
        return Message("Signed out.")
