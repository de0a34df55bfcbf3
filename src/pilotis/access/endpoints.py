"""The routes whose credential is a refresh token."""

from __future__ import annotations

from pilotis.access.service import Access as AccessService
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get, post
from pilotis.http.principals import Access, InvalidTokenError
from pilotis.members.service import MemberInactiveError
from pilotis.members.types import Message
from pilotis.sessions.service import RefreshTokenReusedError, TokenPair


class AccessEndpoints(Endpoints, tag="Tokens"):
    """Re-issue for console users and members, logout for console users."""

    def __init__(self, access: AccessService) -> None:
        self._access = access

    @post(
        "/v1/auth/re-issue",
        access=Access.REFRESH_TOKEN,
        errors=[InvalidTokenError, RefreshTokenReusedError, MemberInactiveError],
    )
    async def refresh(self, call: Call) -> TokenPair:
        """Exchange a refresh token for a new pair of tokens.

        The refresh token is used up. For 10 seconds a retry gets the same pair; a later use ends the session.
        """
        return await self._access.refresh(call.need_bearer())

    @post("/v1/auth/logout", access=Access.REFRESH_TOKEN, errors=[InvalidTokenError])
    @get("/v1/auth/logout", access=Access.REFRESH_TOKEN, errors=[InvalidTokenError])
    async def sign_out(self, call: Call) -> Message:
        """Sign a console user out, by its refresh token."""
        await self._access.sign_out_console(call.need_bearer())
        return Message("Signed out.")
