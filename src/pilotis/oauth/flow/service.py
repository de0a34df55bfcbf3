"""From an authorization request to a code, either at once or after the member has decided on the consent page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.http.api.cookies import SetCookie
from pilotis.http.api.principals import Client
from pilotis.kit import json
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.oauth import scope_store
from pilotis.oauth.dynamic_clients import DynamicClients
from pilotis.oauth.errors import InvalidRequestError, RedirectedError, RequestRefusedError, UnauthorizedClientError
from pilotis.oauth.flow import store
from pilotis.oauth.flow.granting import REQUEST_PREFIX, begin_grant, request_cookie, signed_in
from pilotis.oauth.flow.records import BrowserSession
from pilotis.oauth.flow.requests import AuthorizationRequest, checked, checked_redirect_uri, redirect_to
from pilotis.oauth.flow.texts import language
from pilotis.oauth.flow.types import PushedAnswer
from pilotis.oauth.parameters import PUSHED_PREFIX, Parameters
from pilotis.oauth.records import KnownClient
from pilotis.oauth.redirect_uris import is_registered
from pilotis.oauth.registry import find_client, is_dynamic
from pilotis.oauth.tokens.issuing import Issuer
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import mint

PUSHED_SECONDS = 90
REQUESTS_RATE = "oauth_requests"
"""The limit on sign-ins that are started from one address, and on codes that one session gets without a question."""
_REQUEST_LIFETIME = timedelta(minutes=10)
_CONSENT_PATH = "/oauth/consent"


NO_CLIENT = "This server has no client with this client_id."
NO_RESOURCE = (
    "There is no client with this client_id. One that no app has registered must send the resource of an app"
    " that accepts such clients."
)


class Step(NamedTuple):
    """The redirect to send, and the cookies to set."""

    location: str
    cookies: Sequence[SetCookie] = ()


class _Covering(NamedTuple):
    """A consent that covers the request, so that the member need not be asked; `is_stale` as in `store.consent`."""

    consent_id: UUID | None
    is_stale: bool


class Authorization:
    """The authorization endpoint; `issuer` identifies the server in every response."""

    def __init__(self, database: Database, issuer: Issuer, dynamic: DynamicClients, rate_limits: RateLimits) -> None:
        self._database = database
        self._issuer = issuer
        self._dynamic = dynamic
        self._rate_limits = rate_limits

    async def begin(self, caller: Client, parameters: Parameters, cookies: Mapping[str, str]) -> Step:
        """Process an authorization request and return the next step.

        Raises an `OAuthError` if redirecting to the client would not be safe; any other error is reported by redirect.
        """
        client_id, app_id = parameters.need("client_id"), None
        if is_dynamic(client_id):
            app_id = await self._dynamic.app_of(parameters)
            await self._dynamic.admit(caller, client_id, app_id)
        client = await find_client(self._database, client_id, app_id)
        if client is None:
            raise InvalidRequestError(NO_CLIENT if app_id or not is_dynamic(client_id) else NO_RESOURCE)
        if not client.provider.is_provider:
            raise InvalidRequestError("The client's app is not a provider.")
        pushed_uri = parameters.get("request_uri") or ""
        if pushed_uri.startswith(PUSHED_PREFIX):
            request, pushed_hash = await self._pushed(client, pushed_uri)
        else:
            redirect_uri, pushed_hash = checked_redirect_uri(client, parameters), None
            try:
                request = await self.check(client, parameters, redirect_uri, is_pushed=False)
            except RedirectedError as error:
                state = parameters.get("state")
                return Step(
                    redirect_to(
                        redirect_uri,
                        self._issuer.issuer,
                        state,
                        error=error.error,
                        error_description=error.description,
                    )
                )
        return await self._decide(caller, client, request, pushed_hash, cookies, parameters.get("ui_locales"))

    async def check(
        self, client: KnownClient, parameters: Parameters, redirect_uri: str, *, is_pushed: bool
    ) -> AuthorizationRequest:
        """Return the validated request; raises `RedirectedError`."""
        rows = await scope_store.scope_texts(self._database, client.app_id)
        request = checked(
            client,
            parameters,
            redirect_uri,
            known_scopes=[row.name for row in rows],
            default_scopes=[row.name for row in rows if row.is_default],
            issuer=self._issuer.issuer,
            is_pushed=is_pushed,
        )
        hint = parameters.get("id_token_hint")
        if hint is None:
            return request
        claims = await self._issuer.hinted_member(hint)
        if claims is None:
            raise RedirectedError("invalid_request", "id_token_hint must be an ID token of this server.")
        return msgspec.structs.replace(request, hinted=claims["sub"])

    async def push(self, caller: Client, client: KnownClient, parameters: Parameters, jkt: str | None) -> PushedAnswer:
        """Store a pushed request of an authenticated client, and return its `request_uri`; raises an `OAuthError`.

        `jkt` is the thumbprint of the key that the client has proved; the code will be bound to it.
        """
        if not client.provider.is_provider:
            raise UnauthorizedClientError("The app is not a provider.")
        if parameters.get("request_uri") is not None:
            raise InvalidRequestError("A pushed request cannot contain request_uri.")
        redirect_uri = checked_redirect_uri(client, parameters)
        try:
            request = await self.check(client, parameters, redirect_uri, is_pushed=True)
        except RedirectedError as error:
            raise RequestRefusedError(error) from None
        if jkt is not None and request.dpop_jkt not in {None, jkt}:
            raise InvalidRequestError("dpop_jkt does not match the key of the proof.")
        request = msgspec.structs.replace(request, dpop_jkt=jkt or request.dpop_jkt)
        if client.is_public:
            await self._rate_limits.count(caller, None, REQUESTS_RATE)
        pushed = mint(PUSHED_PREFIX, client.app_id)
        await store.insert_request(
            self._database,
            client.app_id,
            pushed.hash,
            client.client_id,
            json.encode(request).decode(),
            timedelta(seconds=PUSHED_SECONDS),
            is_pushed=True,
        )
        return PushedAnswer(pushed.text, PUSHED_SECONDS)

    async def _pushed(self, client: KnownClient, uri: str) -> tuple[AuthorizationRequest, bytes]:
        pushed_hash = secret_hash(uri)
        found = await store.open_pushed(self._database, client.app_id, pushed_hash, client.client_id, _REQUEST_LIFETIME)
        if found is None:
            raise InvalidRequestError("The pushed request is unknown, used or expired.")
        request = msgspec.json.decode(found, type=AuthorizationRequest)
        if not is_registered(request.redirect_uri, client.redirect_uris):
            raise InvalidRequestError("The client no longer has the redirect_uri of the pushed request.")
        return request, pushed_hash

    async def _decide(
        self,
        caller: Client,
        client: KnownClient,
        request: AuthorizationRequest,
        pushed_hash: bytes | None,
        cookies: Mapping[str, str],
        locales: str | None,
    ) -> Step:
        session = await signed_in(self._database, client.app_id, cookies)
        is_fresh = (
            session is not None
            and not request.asks_sign_in
            and (request.max_age is None or session.age <= timedelta(seconds=request.max_age))
            and request.hinted in {None, session.member_id}
            and session.level >= request.level
        )
        if session is not None and is_fresh and not request.must_ask(client):
            found = await self._covering(client, request, session.member_id)
            if found is not None:
                await self._rate_limits.count(caller, None, REQUESTS_RATE, group=str(session.session_id))
                return Step(await self._code_at_once(client, request, pushed_hash, session, found))
        if request.is_silent:
            error = "consent_required" if is_fresh else "login_required"
            return Step(
                request.answer(self._issuer.issuer, error=error, error_description="The member must give consent.")
            )
        # The request is stored, and nobody has authenticated.
        await self._rate_limits.count(caller, None, REQUESTS_RATE)
        return await self._ask(client, request, pushed_hash, locales)

    async def _covering(self, client: KnownClient, request: AuthorizationRequest, member_id: str) -> _Covering | None:
        """Return the consent that covers the request; a first-party client needs none."""
        if client.first_party:
            return _Covering(None, is_stale=False)
        row = await store.consent(self._database, client.app_id, member_id, client.client_id)
        if row is None or not set(request.scopes) <= set(row.scopes):
            return None
        return _Covering(row.consent_id, row.is_stale)

    async def _code_at_once(
        self,
        client: KnownClient,
        request: AuthorizationRequest,
        pushed_hash: bytes | None,
        session: BrowserSession,
        covering: _Covering,
    ) -> str:
        app_id, consent_id = client.app_id, covering.consent_id
        # Only a pushed request has to be used up together with the grant; otherwise one statement is all that counts.
        is_pushed = pushed_hash is not None
        acquiring = self._database.transaction(app_id) if is_pushed else self._database.connection(app_id)
        async with acquiring as connection:
            if pushed_hash is not None and not await store.use_pushed(connection, app_id, pushed_hash):
                raise InvalidRequestError("The pushed request is unknown, used or expired.")
            if consent_id is not None and covering.is_stale:
                await store.touch_consent(connection, app_id, consent_id)
            return await begin_grant(
                connection,
                self._issuer.issuer,
                client,
                request,
                request.scopes,
                session.member_id,
                session.session_id,
                session.created_at,
                session.amr,
                session.level,
                consent_id,
            )

    async def _ask(
        self, client: KnownClient, request: AuthorizationRequest, pushed_hash: bytes | None, locales: str | None
    ) -> Step:
        asked, browser = mint(REQUEST_PREFIX, client.app_id), random_token()
        await store.insert_request(
            self._database,
            client.app_id,
            asked.hash,
            client.client_id,
            json.encode(request).decode(),
            _REQUEST_LIFETIME,
            pushed_hash=pushed_hash,
            browser_hash=secret_hash(browser),
        )
        query = {"request_id": asked.text}
        page = client.provider.consent_url
        if page is not None:
            query["client_id"] = client.client_id
        elif locales is not None:
            query["lang"] = language(locales)
        page = page or self._issuer.issuer + _CONSENT_PATH
        cookie = SetCookie(
            name=request_cookie(asked.hash), value=browser, max_age=int(_REQUEST_LIFETIME.total_seconds())
        )
        return Step(f"{page}{'&' if '?' in page else '?'}{urlencode(query)}", [cookie])
