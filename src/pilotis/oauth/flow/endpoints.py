"""The authorization endpoint, the consent page, and the API that the page calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, cast
from uuid import UUID

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.http.api.bodies import Raw
from pilotis.http.api.cookies import CookiesWithPrefix
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, AppInfo, AppMember
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.http.replies.redirect import Redirect
from pilotis.http.replies.reply import Answer, Reply
from pilotis.kit import json
from pilotis.kit.errors import PilotisError
from pilotis.kit.languages import Language
from pilotis.oauth.clients import OAuthClientNotFoundError
from pilotis.oauth.errors import InvalidScopeError
from pilotis.oauth.flow.connections import Connections, ConsentNotFoundError
from pilotis.oauth.flow.consent import Caller, Consent
from pilotis.oauth.flow.errors import (
    GuestNotAllowedError,
    LoginRequiredError,
    OAuthRequestDecidedError,
    OAuthRequestExpiredError,
    OAuthRequestNotFoundError,
    ReauthenticationRequiredError,
    WrongBrowserError,
)
from pilotis.oauth.flow.granting import PROVIDER_COOKIE, REQUEST_COOKIE, REQUEST_PREFIX
from pilotis.oauth.flow.pages import consent_page, problem_page
from pilotis.oauth.flow.service import Authorization
from pilotis.oauth.flow.texts import language
from pilotis.oauth.flow.types import (
    Approval,
    Approved,
    Connection,
    ConsentInfo,
    ConsentQuery,
    ConsentSession,
    Denial,
    Denied,
    Disconnected,
    LoginOptions,
    LoginQuery,
)
from pilotis.oauth.https import Https
from pilotis.oauth.parameters import Parameters, parse
from pilotis.oauth.tokens.endpoints import NOT_STORED, form_of
from pilotis.security.single_use import app_of

Cookies = Annotated[dict[str, str], CookiesWithPrefix(PROVIDER_COOKIE)]
RequestCookies = Annotated[dict[str, str], CookiesWithPrefix(REQUEST_COOKIE)]

_REQUEST_ERRORS = [OAuthRequestNotFoundError, OAuthRequestDecidedError, OAuthRequestExpiredError, GuestNotAllowedError]


class AuthorizationPages(
    Endpoints, tag="Pages", error_styles={"/oauth/authorize": "page", "/oauth/consent": "page", "/oauth": "oauth"}
):
    """Pages that a browser visits; errors are shown as pages, too."""

    def __init__(self, https: Https, apps: Apps, authorization: Authorization, consent: Consent) -> None:
        self._https = https
        self._apps = apps
        self._authorization = authorization
        self._consent = consent

    @get("/oauth/authorize", access=Access.OPEN, cors="none", origins="any")
    async def authorize(self, call: Call, cookies: Cookies) -> Answer | Reply:
        """Start an authorization request (RFC 6749, section 4.1.1)."""
        return await self._authorize(call, lambda: parse(call.scope["query_string"]), cookies)

    @post("/oauth/authorize", access=Access.OPEN, cors="none", origins="any", needs_room=False)
    async def authorize_by_post(self, call: Call, body: Raw, cookies: Cookies) -> Answer | Reply:
        """Start an authorization request by a form (OpenID Connect Core 1.0, section 3.1.2.1)."""
        return await self._authorize(call, lambda: form_of(call, body), cookies)

    async def _authorize(self, call: Call, read: Callable[[], Parameters], cookies: dict[str, str]) -> Answer | Reply:
        async def work() -> Answer:
            self._https.check(call)
            step = await self._authorization.begin(call.client, read(), cookies)
            return Redirect(location=step.location, cookies=step.cookies)

        # A request that is not valid says nothing about the app that it names.
        return await explained(call, None, language(call.header(b"accept-language")), work)

    @get("/oauth/consent", access=Access.OPEN, cors="none", returns=str)
    async def consent_screen(self, call: Call) -> Answer | Reply:
        """Show the consent screen of a request."""
        query = dict(pair.partition("=")[::2] for pair in call.scope["query_string"].decode("latin-1").split("&"))
        tongue = language(query.get("lang") or call.header(b"accept-language"))
        request_id = query.get("request_id", "")
        app = await known_app(self._apps, app_of(REQUEST_PREFIX, request_id))

        async def work() -> Answer | Reply:
            self._https.check(call)
            data = await self._consent.page_data(request_id)
            if app is None:
                raise OAuthRequestNotFoundError
            return consent_page(data, app, tongue)

        return await explained(call, app, tongue, work)


class ConsentSessionEndpoints(Endpoints, tag="Pages", error_styles={"/oauth/consent/session": "oauth"}):
    """The only route that uses the provider's cookie for authentication."""

    def __init__(self, https: Https, consent: Consent) -> None:
        self._https = https
        self._consent = consent

    @post("/oauth/consent/session", access=Access.OPEN, cors="none", origins="own", returns=ConsentSession)
    async def session(self, call: Call, body: Raw, cookies: Cookies) -> Reply:
        """Return the member that is signed in with the provider in this browser, with a short-lived token."""
        self._https.check(call)
        found = await self._consent.session(form_of(call, body).need("request_id"), cookies)
        if found is None:
            raise LoginRequiredError
        return Reply(json.encode(found), 200, NOT_STORED)


class ConsentEndpoints(Endpoints, tag="OAuth"):
    """The API of a consent page: the server's own, or one of an app."""

    def __init__(self, consent: Consent) -> None:
        self._consent = consent

    @get(
        "/v1/public/oauth/clients/:client_id/login-options",
        access=Access.OPEN,
        errors=[OAuthClientNotFoundError],
    )
    async def login_options(self, call: Call, client_id: str, query: LoginQuery) -> LoginOptions:
        """Read how a member of the client's provider app may sign in."""
        return await self._consent.login_options(client_id, query.request_id)

    @get("/v1/oauth/consent/info", access=Access.MEMBER, origins="any", errors=_REQUEST_ERRORS)
    async def info(self, call: Call, query: ConsentQuery, cookies: RequestCookies) -> ConsentInfo:
        """Read what a client requests from the member.

        The request belongs to the first member that reads it, until another one does in the same browser. If
        `consent_required` is false, the page should approve at once; if `reauthentication_required` is true, the member
        must sign in again first. Titles are in the language of `Accept-Language`.
        """
        return await self._consent.info(_member(call), query.request_id, call.header(b"accept-language"), cookies)

    @post(
        "/v1/oauth/consent/approve",
        access=Access.MEMBER,
        origins="any",
        returns=Approved,
        errors=[*_REQUEST_ERRORS, ReauthenticationRequiredError, WrongBrowserError, InvalidScopeError],
    )
    async def approve(self, call: Call, body: Approval, cookies: RequestCookies) -> Reply:
        """Approve a client's request, and get the redirect URI that contains the code.

        Of several decisions about one request, the first is final.
        """
        decision = await self._consent.approve(_member(call), body, Caller(call.header(b"origin"), cookies))
        return Reply(json.encode(decision.approved), headers=NOT_STORED, cookies=decision.cookies)

    @post(
        "/v1/oauth/consent/deny",
        access=Access.MEMBER,
        origins="any",
        errors=[*_REQUEST_ERRORS, WrongBrowserError],
    )
    async def deny(self, call: Call, body: Denial, cookies: RequestCookies) -> Denied:
        """Deny a client's request, and get the redirect URI that contains `access_denied`."""
        return await self._consent.deny(_member(call), body.request_id, Caller(call.header(b"origin"), cookies))


class ConnectionEndpoints(Endpoints, tag="OAuth"):
    """The clients that the signed-in member has connected."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @get("/v1/account/oauth/connections", access=Access.MEMBER)
    async def page(self, call: Call, query: Paging) -> ItemPage[Connection]:
        """List the clients that the member has connected, newest first."""
        member = _member(call)
        return await self._connections.page(member.app, member.member.member_id, query, call.header(b"accept-language"))

    @delete("/v1/account/oauth/connections/:consent_id", access=Access.MEMBER, errors=[ConsentNotFoundError])
    async def remove(self, call: Call, consent_id: UUID) -> Disconnected:
        """Disconnect a client: its tokens are revoked at once, and it receives no more events about the member."""
        member = _member(call)
        await self._connections.end(member.app.app_id, call.actor, member.member.member_id, consent_id)
        return Disconnected("Disconnected.", consent_id)


async def known_app(apps: Apps, app_id: UUID | None) -> AppInfo | None:
    """Return an existing app, or None."""
    try:
        return None if app_id is None else await apps.by_id(app_id)
    except AppNotFoundError:
        return None


async def explained(
    call: Call, app: AppInfo | None, tongue: Language, work: Callable[[], Awaitable[Answer | Reply]]
) -> Answer | Reply:
    """Return the result of `work`, or a page that explains its error, which looks as those of the app."""
    try:
        return await work()
    except PilotisError as error:
        if error.status >= 500:
            raise
        return problem_page(error, call.request_id, app, tongue)


def _member(call: Call) -> AppMember:
    return cast("AppMember", call.principal)
