"""The routes of console users."""

from __future__ import annotations

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get, post
from pilotis.http.principals import Access
from pilotis.users.service import (
    EmailTakenError,
    InvalidInvitationError,
    InvalidUserCredentialsError,
    UserInactiveError,
    Users,
)
from pilotis.users.types import SignedInUser, User, UserSignIn, UserSignUp


class UserEndpoints(Endpoints, tag="Console users"):
    """Sign-up with a token, sign-in, the own record."""

    def __init__(self, users: Users) -> None:
        self._users = users

    @post(
        "/v1/auth/signup",
        access=Access.OPEN,
        status=201,
        rate="signup",
        errors=[EmailTakenError, InvalidInvitationError],
    )
    async def sign_up(self, call: Call, body: UserSignUp) -> SignedInUser:  # noqa: ARG002 - handlers take the call
        """Sign a console user up with the token of the first-run link or of an invitation.

        The first console user owns the apps that are there.
        """
        return await self._users.sign_up(body)

    @post(
        "/v1/auth/signin",
        access=Access.OPEN,
        errors=[InvalidUserCredentialsError, UserInactiveError],
    )
    async def sign_in(self, call: Call, body: UserSignIn) -> SignedInUser:
        """Sign a console user in with e-mail and password."""
        return await self._users.sign_in(call, body)

    @get("/v1/auth/me", access=Access.CONSOLE)
    async def me(self, call: Call) -> User:
        """Read the signed-in console user."""
        return await self._users.read(call.user.user_id)
