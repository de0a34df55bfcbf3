"""The logic of the consent page: what a member is asked, and the result of the decision."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.api.cookies import SetCookie
from pilotis.http.api.principals import Actor, AppMember
from pilotis.kit import json, origin
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.oauth import scope_store
from pilotis.oauth.clients import BUILT_IN_SCOPES, OAuthClientNotFoundError, logo_url
from pilotis.oauth.errors import InvalidScopeError
from pilotis.oauth.events import CONNECTION_CREATED, ConnectionEvent, about
from pilotis.oauth.flow import store
from pilotis.oauth.flow.errors import (
    GuestNotAllowedError,
    OAuthRequestDecidedError,
    OAuthRequestExpiredError,
    OAuthRequestNotFoundError,
    ReauthenticationRequiredError,
    WrongBrowserError,
)
from pilotis.oauth.flow.granting import PROVIDER_COOKIE, REQUEST_PREFIX, begin_grant, request_cookie, signed_in
from pilotis.oauth.flow.records import SignIn, WaitingRequest
from pilotis.oauth.flow.requests import AuthorizationRequest
from pilotis.oauth.flow.texts import ScopeText, language, texts_of
from pilotis.oauth.flow.types import (
    AppName,
    Approval,
    Approved,
    AskedScope,
    ConsentClient,
    ConsentInfo,
    ConsentSession,
    Denied,
    LoginApp,
    LoginClient,
    LoginOptions,
    MemberName,
)
from pilotis.oauth.records import KnownClient, ScopeTexts
from pilotis.oauth.redirect_uris import is_registered, origin_of
from pilotis.oauth.registry import find_client
from pilotis.oauth.social.providers import enabled_providers
from pilotis.oauth.tokens.issuing import Issuer
from pilotis.security.sessions.service import Sessions
from pilotis.security.single_use import app_of

_SIGNED_IN_FOR = timedelta(hours=24)
_TOKEN_SECONDS = 300


class Caller(NamedTuple):
    """The origin of the page that sent a decision, and the browser's request cookies by name."""

    origin: str | None
    cookies: Mapping[str, str]


class Decision(NamedTuple):
    """The response to the consent page, and the cookies to set."""

    approved: Approved
    cookies: Sequence[SetCookie] = ()


class PageData(NamedTuple):
    """The data of the consent page."""

    request_id: str
    client_id: str
    app_id: UUID


class _Waiting(NamedTuple):
    """A request that awaits a member's decision, with its client."""

    hash: bytes
    row: WaitingRequest
    request: AuthorizationRequest
    client: KnownClient


class Consent:
    """The service behind the consent routes; `issuer` identifies the server in every response."""

    def __init__(self, database: Database, events: Events, issuer: Issuer, sessions: Sessions) -> None:
        self._database = database
        self._events = events
        self._issuer = issuer
        self._sessions = sessions

    async def page_data(self, request_id: str) -> PageData:
        """Return the data of the consent page; raises an error if the request was decided or has expired."""
        waiting = await self._waiting(request_id)
        return PageData(request_id, waiting.client.client_id, waiting.client.app_id)

    async def session(self, request_id: str, cookies: Mapping[str, str]) -> ConsentSession | None:
        """Return the member that is signed in with the provider in the request's browser, with a short-lived token."""
        app_id = app_of(REQUEST_PREFIX, request_id)
        row = None if app_id is None else await signed_in(self._database, app_id, cookies)
        if app_id is None or row is None:
            return None
        token = self._sessions.short_token(app_id, row.member_id, row.session_id, _TOKEN_SECONDS)
        return ConsentSession(row.member_id, row.nickname, token)

    async def login_options(self, client_id: str, request_id: str | None) -> LoginOptions:
        """Return how members may sign in for a client; raises `OAuthClientNotFoundError`.

        The request names the app where the client's id does not.
        """
        client = await find_client(self._database, client_id, app_of(REQUEST_PREFIX, request_id or ""))
        if client is None or not client.provider.is_provider:
            raise OAuthClientNotFoundError
        provider = client.provider
        enabled = await enabled_providers(self._database, provider.app_id)
        return LoginOptions(
            client_id=client.client_id,
            client=LoginClient(client.name, logo_url(self._issuer.issuer, client.logo_url), client.client_uri),
            provider_app=LoginApp(provider.app_id, provider.name, provider.public_key),
            allow_id_password_login=provider.allow_id_password_login,
            allow_guest_login=False,
            enabled_oauth_providers=[one.provider for one in enabled],
            providers=enabled,
        )

    async def info(
        self, principal: AppMember, request_id: str, wanted_language: str | None, cookies: Mapping[str, str]
    ) -> ConsentInfo:
        """Return what the member is asked; the request then belongs to the member.

        It belonged to nobody, or to another member in the request's browser.
        """
        waiting = await self._of_member(principal, request_id, cookies)
        member, request, client = principal.member, waiting.request, waiting.client
        async with self._database.transaction(client.app_id) as connection:
            reauthentication = not await self._is_new_enough(connection, waiting, principal)
            if not reauthentication:
                await store.bind_request(connection, client.app_id, waiting.hash, member.member_id)
        consent = await store.consent(self._database, client.app_id, member.member_id, client.client_id)
        granted = set(consent.scopes) if consent else set()
        covered = client.first_party or set(request.scopes) <= granted
        nickname = await store.nickname(self._database, client.app_id, member.member_id)
        return ConsentInfo(
            request_id=request_id,
            expires_at=rfc3339(waiting.row.expires_at),
            consent_required=not covered or request.must_ask(client),
            reauthentication_required=reauthentication,
            scope=" ".join(request.scopes),
            provider_app=AppName(client.app_id, client.provider.name),
            member=MemberName(member.member_id, nickname),
            client=_shown_client(client, request, self._issuer.issuer),
            scopes=await self._asked(client, request, granted, language(wanted_language)),
        )

    async def approve(self, principal: AppMember, approval: Approval, caller: Caller) -> Decision:
        """Create the grant that a member approves, and return the redirect with the code."""
        waiting = await self._of_member(principal, approval.request_id)
        client, request, member = waiting.client, waiting.request, principal.member
        is_own_page = self._require_browser(waiting, caller)
        scopes = await self._chosen(client, request, approval.scopes)
        cookies: list[SetCookie] = []
        async with self._database.transaction(client.app_id) as connection:
            session = await self._decided(connection, waiting, principal, "approved")
            consent_id = None
            if not client.first_party:
                consent_id = await self._connect(connection, principal, client, scopes)
            location = await begin_grant(
                connection,
                self._issuer.issuer,
                client,
                request,
                scopes,
                member.member_id,
                member.session_id,
                session.created_at,
                session.amr,
                session.level,
                consent_id,
            )
            left = _SIGNED_IN_FOR - session.age
            if is_own_page and left > timedelta(0):
                cookie = random_token()
                await store.insert_browser(connection, client.app_id, secret_hash(cookie), member.session_id, left)
                name = PROVIDER_COOKIE + client.app_id.hex
                cookies.append(SetCookie(name=name, value=cookie, max_age=int(left.total_seconds())))
        return Decision(Approved(location, consent_id, scopes), cookies)

    async def _connect(
        self, connection: Connection, principal: AppMember, client: KnownClient, scopes: list[str]
    ) -> UUID:
        """Add the scopes to the member's consent, and return its id."""
        member_id = principal.member.member_id
        row = await store.add_consent(connection, client.app_id, uuid7(), member_id, client.client_id, scopes)
        if row.grew:
            new = ConnectionEvent(
                consent_id=row.consent_id, client_id=client.client_id, member_id=member_id, scopes=row.scopes
            )
            actor = Actor(principal.kind, principal.actor_id, origin.current(), principal.depth)
            await self._events.emit_all(connection, client.app_id, [about(CONNECTION_CREATED, actor, new)])
        return row.consent_id

    async def deny(self, principal: AppMember, request_id: str, caller: Caller) -> Denied:
        """Report to the client that the member denied the request."""
        waiting = await self._of_member(principal, request_id)
        self._require_browser(waiting, caller)
        async with self._database.transaction(waiting.client.app_id) as connection:
            await self._decided(connection, waiting, principal, "denied")
        return Denied(
            waiting.request.answer(
                self._issuer.issuer, error="access_denied", error_description="The member denied the request."
            )
        )

    async def _decided(self, connection: Connection, waiting: _Waiting, principal: AppMember, state: str) -> SignIn:
        """Record the decision and return the member's session; of concurrent decisions the first wins."""
        app_id, member = waiting.client.app_id, principal.member
        row = await store.lock_request(connection, app_id, waiting.hash)
        if row is None or row.member_id not in {None, member.member_id}:
            raise OAuthRequestNotFoundError
        _require_open(row)
        if state == "approved" and not await self._is_new_enough(connection, waiting, principal):
            raise ReauthenticationRequiredError
        session = await store.session(connection, app_id, member.session_id)
        if session is None:
            raise ReauthenticationRequiredError
        await store.bind_request(connection, app_id, waiting.hash, member.member_id)
        if not await store.decide_request(connection, app_id, waiting.hash, row.pushed_hash, state):
            raise OAuthRequestDecidedError
        return session

    async def _is_new_enough(self, connection: Connection, waiting: _Waiting, principal: AppMember) -> bool:
        """Return whether the sign-in is as recent and as strong as the request requires, and by the expected member."""
        request, member = waiting.request, principal.member
        if request.hinted not in {None, member.member_id} or member.level < request.level:
            return False
        if not request.asks_sign_in and request.max_age is None:
            return True
        session = await store.session(connection, waiting.client.app_id, member.session_id)
        if session is None:
            return False
        if session.created_at >= waiting.row.created_at:
            return True
        return not request.asks_sign_in and session.age <= timedelta(seconds=request.max_age or 0)

    async def _waiting(self, request_id: str) -> _Waiting:
        app_id = app_of(REQUEST_PREFIX, request_id)
        request_hash = secret_hash(request_id)
        row = None if app_id is None else await store.request(self._database, app_id, request_hash)
        if row is None:
            raise OAuthRequestNotFoundError
        _require_open(row)
        client = await find_client(self._database, row.client_id, app_id)
        if client is None or not client.provider.is_provider:
            raise OAuthRequestNotFoundError
        request = msgspec.json.decode(row.request, type=AuthorizationRequest)
        # The app may have removed the address since, because it is in other hands.
        if not is_registered(request.redirect_uri, client.redirect_uris):
            raise OAuthRequestNotFoundError
        return _Waiting(request_hash, row, request, client)

    async def _of_member(
        self, principal: AppMember, request_id: str, cookies: Mapping[str, str] | None = None
    ) -> _Waiting:
        if principal.member.is_guest:
            raise GuestNotAllowedError
        if app_of(REQUEST_PREFIX, request_id) != principal.app.app_id:
            raise OAuthRequestNotFoundError
        waiting = await self._waiting(request_id)
        is_free = waiting.row.member_id in {None, principal.member.member_id}
        if not is_free and not (cookies and _is_browser(waiting, cookies)):
            raise OAuthRequestNotFoundError
        return waiting

    def _require_browser(self, waiting: _Waiting, caller: Caller) -> bool:
        """Return whether the decision comes from the server's own consent page.

        Raises `WrongBrowserError` for foreign pages.
        """
        if caller.origin is None:
            return False
        if caller.origin == origin_of(self._issuer.issuer):
            if not _is_browser(waiting, caller.cookies):
                raise WrongBrowserError
            return True
        page = waiting.client.provider.consent_url
        if page is None or caller.origin != origin_of(page):
            raise WrongBrowserError
        return False

    async def _chosen(
        self, client: KnownClient, request: AuthorizationRequest, chosen: Sequence[str] | None
    ) -> list[str]:
        """Return the scopes that the member approves; required scopes that were requested are always included."""
        if chosen is None:
            return request.scopes
        if not set(chosen) <= set(request.scopes):
            raise InvalidScopeError("The client did not request this scope.")
        rows = await scope_store.scope_texts(self._database, client.app_id)
        required = {"openid"} | {row.name for row in rows if row.is_required}
        return [name for name in request.scopes if name in required or name in chosen]

    async def _asked(
        self, client: KnownClient, request: AuthorizationRequest, granted: set[str], tongue: Language
    ) -> list[AskedScope]:
        own = {row.name: row for row in await scope_store.scope_texts(self._database, client.app_id)}
        asked = []
        for name in request.scopes:
            row = own.get(name)
            text = texts_of(tongue).scopes[name] if name in BUILT_IN_SCOPES else _own_text(row, name, tongue)
            asked.append(
                AskedScope(
                    name=name,
                    title=text.title,
                    description=text.description,
                    is_required=name == "openid" or bool(row and row.is_required),
                    already_granted=name in granted,
                )
            )
        return asked


def _is_browser(waiting: _Waiting, cookies: Mapping[str, str]) -> bool:
    """Return whether the cookies are those of the browser that began the request."""
    cookie = cookies.get(request_cookie(waiting.hash), "")
    return hmac.compare_digest(secret_hash(cookie), waiting.row.browser_hash or b"")


def _own_text(row: ScopeTexts | None, name: str, tongue: str) -> ScopeText:
    """Return the texts of an app's scope; a scope deleted in the meantime is shown by its name."""
    if row is None:
        return ScopeText(name)
    translated: dict[str, str] = json.decode(row.translations.encode()).get(tongue, {})
    own = ScopeText(row.title, row.description)
    return ScopeText(translated.get("title", own.title), translated.get("description", own.description))


def _require_open(row: WaitingRequest) -> None:
    if row.state != "pending":
        raise OAuthRequestDecidedError
    if row.is_expired:
        raise OAuthRequestExpiredError


def _shown_client(client: KnownClient, request: AuthorizationRequest, issuer: str) -> ConsentClient:
    return ConsentClient(
        client_id=client.client_id,
        name=client.name,
        logo_url=logo_url(issuer, client.logo_url),
        client_uri=client.client_uri,
        policy_uri=client.policy_uri,
        tos_uri=client.tos_uri,
        first_party=client.first_party,
        is_verified=not client.is_dynamic,
        redirect_host=redirect_host(request.redirect_uri),
    )


def redirect_host(uri: str) -> str:
    """Return the destination as shown to the member: host and port, or a private scheme."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"
