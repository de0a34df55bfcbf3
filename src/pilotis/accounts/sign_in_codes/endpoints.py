"""The route of codes that give a sign-in to a page of the app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from pilotis.accounts.sign_in_codes.types import (
    MemberSignInCode,
    MemberSignInCodeRequest,
    SignInCode,
    SignInCodeRequest,
)
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access, Role, SecretKey, console
from pilotis.http.api.request import Call
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import DeletionPendingError, MemberInactiveError, SignInNotAllowedError
from pilotis.oauth.social.service import SocialLogin

MaySignIn = Callable[[UUID, UUID], Awaitable[bool]]
"""Returns whether a secret key of an app may sign members in."""


class MemberSignInCodeEndpoints(Endpoints, tag="App member administration"):
    """Sign-ins for which the app's own server vouches."""

    def __init__(self, social: SocialLogin, may_sign_in: MaySignIn) -> None:
        self._social = social
        self._may_sign_in = may_sign_in

    @post(
        "/v1/apps/:app_id/members/:member_id/sign-in-code",
        access=console(Role.EDITOR, secret_key=True),
        needs_room=False,
        errors=[SignInNotAllowedError, MemberNotFoundError, MemberInactiveError],
    )
    async def create(self, call: Call, app_id: UUID, member_id: str, body: MemberSignInCodeRequest) -> MemberSignInCode:
        """Get a code that signs a member in, for a server that knows by its own means who it is.

        It takes a secret key with `may_sign_in_members`. The page or program that made the challenge exchanges the code
        within a minute; a second factor is asked for there. The audit log has each code.
        """
        key = call.principal
        may = isinstance(key, SecretKey) and await self._may_sign_in(app_id, key.secret_key_id)
        code = await self._social.codes.vouch(call.app, call.actor, member_id, body.code_challenge, is_allowed=may)
        return MemberSignInCode(code, self._social.codes.lifetime_seconds)


class SignInCodeEndpoints(Endpoints, tag="App member authentication"):
    """The way back from a page of the server to the app's own."""

    def __init__(self, social: SocialLogin) -> None:
        self._social = social

    @post(
        "/v1/public/app-members/me/sign-in-code",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, DeletionPendingError],
    )
    async def create(self, call: Call, body: SignInCodeRequest) -> SignInCode:
        """Get the address at which a page of the app takes over this sign-in, as pages of the server do.

        The code works once, within a minute, with the verifier of `code_challenge`. The session that it begins has been
        proved as this one has.
        """
        url = await self._social.codes.give(call.app, call.member, body.redirect_uri, body.code_challenge, body.state)
        return SignInCode(url, self._social.codes.lifetime_seconds)
