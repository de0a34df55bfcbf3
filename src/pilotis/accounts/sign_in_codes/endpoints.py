"""The route of codes that give a sign-in to a page of the app."""

from __future__ import annotations

from pilotis.accounts.sign_in_codes.types import SignInCode, SignInCodeRequest
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.members.gate.service import MemberInactiveError
from pilotis.oauth.social.service import SocialLogin


class SignInCodeEndpoints(Endpoints, tag="App member authentication"):
    """The way back from a page of the server to the app's own."""

    def __init__(self, social: SocialLogin) -> None:
        self._social = social

    @post("/v1/public/app-members/me/sign-in-code", access=Access.ACCOUNT, errors=[MemberInactiveError])
    async def create(self, call: Call, body: SignInCodeRequest) -> SignInCode:
        """Get the address at which a page of the app takes over this sign-in, as pages of the server do.

        The code works once, within a minute, with the verifier of `code_challenge`. The session that it begins has been
        proved as this one has.
        """
        url = await self._social.codes.give(call.app, call.member, body.redirect_uri, body.code_challenge, body.state)
        return SignInCode(url, self._social.codes.lifetime_seconds)
