"""The routes that are authenticated by a refresh token."""

from __future__ import annotations

from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access, InvalidTokenError
from pilotis.http.api.request import Call
from pilotis.members.gate.service import MemberInactiveError
from pilotis.members.types import Confirmation
from pilotis.security.authenticator import Authentication
from pilotis.security.sessions.service import RefreshTokenReusedError, TokenPair


class TokenEndpoints(Endpoints, tag="Tokens"):
    """Refresh for console users and members, and sign-out for console users."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    @post(
        "/v1/auth/re-issue",
        access=Access.REFRESH_TOKEN,
        needs_room=False,
        errors=[InvalidTokenError, RefreshTokenReusedError, MemberInactiveError],
    )
    async def refresh(self, call: Call) -> TokenPair:
        """Exchange a refresh token for a new pair of tokens.

        Each refresh token can be used once. For 10 seconds a retry gets the same pair; a later use ends the session.
        """
        return await self._authentication.refresh(call.need_bearer())

    @post("/v1/auth/logout", access=Access.REFRESH_TOKEN, needs_room=False, errors=[InvalidTokenError])
    @get("/v1/auth/logout", access=Access.REFRESH_TOKEN, errors=[InvalidTokenError])
    async def sign_out(self, call: Call) -> Confirmation:
        """Sign out the console user of a refresh token."""
        await self._authentication.sign_out_console(call.need_bearer())
        return Confirmation("Signed out.")
