"""The routes of social login: for the setup by owners, for the pages of apps, and for the redirects of vendors."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from pilotis.http.api.bodies import Raw
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access, InvalidTokenError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.http.replies.redirect import Redirect
from pilotis.http.replies.reply import Answer, Reply
from pilotis.kit import json
from pilotis.kit.errors import RateLimitedError
from pilotis.members.gate.service import MemberBannedError, MemberInactiveError, SecondFactorRequiredError
from pilotis.members.hooks import HookFailedError, RejectedByHookError
from pilotis.members.service import SignUpClosedError
from pilotis.members.types import SignedIn
from pilotis.oauth.clients import OAuthClientNotFoundError
from pilotis.oauth.flow.endpoints import explained
from pilotis.oauth.flow.texts import language
from pilotis.oauth.parameters import Parameters, parse
from pilotis.oauth.social.errors import (
    CodeChallengeRequiredError,
    IdentityTakenError,
    InvalidCodeError,
    InvalidIdTokenError,
    InvalidRedirectUriError,
    ProviderNotEnabledError,
    ProviderUnavailableError,
    TooManySocialProvidersError,
)
from pilotis.oauth.social.id_token_sign_in import IdTokens
from pilotis.oauth.social.providers import SocialProviderNotFoundError, SocialProviders
from pilotis.oauth.social.service import SocialLogin
from pilotis.oauth.social.types import (
    DeletedProvider,
    Exchange,
    Exchanged,
    IdTokenSignIn,
    SocialLoginQuery,
    SocialLoginUrl,
    SocialProvider,
    SocialProviderChange,
)
from pilotis.oauth.tokens.endpoints import NOT_STORED, form_of


class SocialProviderEndpoints(Endpoints, tag="OAuth"):
    """The providers of social login that an app has set up."""

    def __init__(self, providers: SocialProviders) -> None:
        self._providers = providers

    @get("/v1/apps/:app_id/oauth/social", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[SocialProvider]:
        """List the providers of social login, by name."""
        return await self._providers.page(call.app, query)

    @put("/v1/apps/:app_id/oauth/social/:provider", access=Access.APP_OWNER, errors=[TooManySocialProvidersError])
    async def put(self, call: Call, app_id: UUID, provider: str, body: SocialProviderChange) -> SocialProvider:
        """Set up a provider of social login, or change the given fields.

        `GOOGLE`, `APPLE`, `GITHUB`, `KAKAO`, `NAVER` and `FACEBOOK` are built in; any other name takes an issuer of
        OpenID Connect, in `options.issuer`. Register the `redirect_uri` of the response with the vendor.
        """
        return await self._providers.put(app_id, call.actor, provider.upper(), body)

    @delete("/v1/apps/:app_id/oauth/social/:provider", access=Access.APP_OWNER, errors=[SocialProviderNotFoundError])
    async def delete(self, call: Call, app_id: UUID, provider: str) -> DeletedProvider:
        """Remove a provider of social login. Members keep their linked accounts, in case it is set up again."""
        await self._providers.delete(app_id, call.actor, provider.upper())
        return DeletedProvider("Provider removed.", provider.upper())


class SocialLoginEndpoints(Endpoints, tag="OAuth"):
    """The sign-in of a member with a provider, by a page of the app."""

    def __init__(self, social: SocialLogin) -> None:
        self._social = social

    @get(
        "/v1/public/oauth/clients/:client_id/social-login-url",
        access=Access.OPEN,
        errors=[
            OAuthClientNotFoundError,
            ProviderNotEnabledError,
            InvalidRedirectUriError,
            CodeChallengeRequiredError,
            InvalidTokenError,
            RateLimitedError,
        ],
    )
    async def social_login_url(self, call: Call, client_id: str, query: SocialLoginQuery) -> SocialLoginUrl:
        """Get the URL at which a member signs in with a provider.

        The browser returns to `redirect_uri` with a `code` for `POST /v1/auth/oauth/exchange`, or with an `error`:
        `access_denied`, `identity_taken` or `provider_error`. With a member's access token as bearer, the account at
        the provider becomes another way for that member to sign in; a guest becomes a member.
        """
        return await self._social.begin(call.client, client_id, query, call.bearer())

    @post(
        "/v1/auth/oauth/exchange",
        access=Access.OPEN,
        cors="public",
        returns=Exchanged,
        errors=[InvalidCodeError, IdentityTakenError, MemberInactiveError, RateLimitedError],
    )
    async def exchange(self, call: Call, body: Exchange) -> Reply:
        """Exchange the code of a social login for the member's tokens.

        A code is valid for 60 seconds and can be used once; a second use ends the session of the first.
        """
        return Reply(json.encode(await self._social.exchange(call.client, body, call.user_agent)), headers=NOT_STORED)


class IdTokenEndpoints(Endpoints, tag="App member authentication"):
    """The sign-in of a member by a vendor's own button."""

    def __init__(self, id_tokens: IdTokens) -> None:
        self._id_tokens = id_tokens

    @post(
        "/v1/public/app-members/id-token-sign-in",
        access=Access.PUBLIC_KEY,
        errors=[
            ProviderNotEnabledError,
            ProviderUnavailableError,
            InvalidIdTokenError,
            IdentityTakenError,
            MemberInactiveError,
            MemberBannedError,
            SecondFactorRequiredError,
            SignUpClosedError,
            RejectedByHookError,
            HookFailedError,
            RateLimitedError,
        ],
        returns=SignedIn,
    )
    async def sign_in(self, call: Call, body: IdTokenSignIn) -> Reply:
        """Sign a member in by the ID token that a vendor's own button gave, such as Google One Tap.

        The answer is 201 if that has made the member, else 200. With a member's access token as bearer, the account at
        the vendor becomes another way for that member to sign in; a guest becomes a member. A token serves once, within
        ten minutes of its issue.
        """
        signed_in, is_new = await self._id_tokens.sign_in(
            call.client, call.app, body, call.principal.member, call.user_agent
        )
        return Reply(json.encode(signed_in), status=201 if is_new else 200, headers=NOT_STORED)


class SocialCallbacks(Endpoints, tag="Pages"):
    """The routes to which vendors redirect browsers. Errors without a page of the app to return to are HTML pages."""

    def __init__(self, social: SocialLogin) -> None:
        self._social = social

    @get("/v1/public/oauth/:provider/callback", access=Access.OPEN, cors="none")
    async def returned(self, call: Call, provider: str) -> Answer | Reply:
        """Return from a provider of social login."""
        return await self._returned(call, provider, lambda: parse(call.scope["query_string"]))

    @post("/v1/public/oauth/:provider/callback", access=Access.OPEN, cors="none", needs_room=False)
    async def returned_by_post(self, call: Call, provider: str, body: Raw) -> Answer | Reply:
        """Return from a provider that responds with a form, such as Apple."""
        return await self._returned(call, provider, lambda: form_of(call, body))

    async def _returned(self, call: Call, provider: str, read: Callable[[], Parameters]) -> Answer | Reply:
        async def work() -> Answer:
            return Redirect(location=await self._social.returned(provider, read()))

        return await explained(call, None, language(call.header(b"accept-language")), work)
