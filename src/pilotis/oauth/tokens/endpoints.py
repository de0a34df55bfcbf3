"""The routes that clients call directly: token, introspection, revocation, userinfo."""

from __future__ import annotations

from typing import Any

from pilotis.apps.service import Apps
from pilotis.db.pool import Database
from pilotis.http.api.bodies import Raw
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.incoming import Incoming
from pilotis.http.api.principals import Access, Actor, InsufficientScopeError
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.oauth.dynamic_clients import secret_key_of
from pilotis.oauth.errors import InvalidClientError, InvalidRequestError
from pilotis.oauth.flow.service import Authorization
from pilotis.oauth.flow.types import PushedAnswer
from pilotis.oauth.https import Https
from pilotis.oauth.parameters import Parameters, parse
from pilotis.oauth.records import KnownClient
from pilotis.oauth.redirect_uris import origin_of
from pilotis.oauth.registry import find_client
from pilotis.oauth.tokens.access_tokens import AccessTokens, dpop_refused, proof_lines
from pilotis.oauth.tokens.client_authentication import ClientAuthentication
from pilotis.oauth.tokens.dpop import InvalidDpopProofError, UseDpopNonceError
from pilotis.oauth.tokens.inspection import Inspection, Inspector, InvalidOAuthTokenError
from pilotis.oauth.tokens.issuing import InvalidAccessTokenError, Issuer
from pilotis.oauth.tokens.proofs import Proofs
from pilotis.oauth.tokens.service import Tokens
from pilotis.oauth.tokens.types import Introspection, TokenAnswer

NOT_STORED = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))
_FORM = "application/x-www-form-urlencoded"


def _asked_origin(request: Incoming) -> str | None:
    """Return a preflight's origin, which is always allowed: only the request itself shows the token's client."""
    return request.header(b"origin") if request.scope["method"] == "OPTIONS" else None


class TokenEndpoints(Endpoints, tag="Pages", error_styles={"/oauth": "oauth"}):
    """The token endpoint and related routes. Their types follow the RFCs, and the metadata document lists them."""

    def __init__(
        self,
        database: Database,
        https: Https,
        issuer: Issuer,
        authentication: ClientAuthentication,
        tokens: Tokens,
        inspection: Inspection,
        proofs: Proofs,
        access_tokens: AccessTokens,
        authorization: Authorization,
        apps: Apps,
    ) -> None:
        self._apps = apps
        self._access_tokens = access_tokens
        self._proofs = proofs
        self._authorization = authorization
        self._database = database
        self._https = https
        self._issuer = issuer
        self._authentication = authentication
        self._tokens = tokens
        self._inspection = inspection

    @post("/oauth/token", access=Access.OPEN, returns=TokenAnswer, body_media_type=_FORM, needs_room=False)
    async def token(self, call: Call, body: Raw) -> Reply:
        """Exchange a code, a refresh token or client credentials for tokens (RFC 6749, section 3.2)."""
        self._https.check(call)
        await self._issuer.require_key()
        form = form_of(call, body)
        client = await self._client(call, form)
        actor = Actor("oauth_client", client.client_id, call.request_id)
        jkt = await self._key(call, client)
        return _answer(await self._tokens.grant(client, form, jkt, actor))

    @post("/oauth/par", access=Access.OPEN, status=201, returns=PushedAnswer, body_media_type=_FORM)
    async def push(self, call: Call, body: Raw) -> Reply:
        """Push an authorization request, and get its `request_uri` (RFC 9126)."""
        self._https.check(call)
        form = form_of(call, body)
        client = await self._client(call, form, admits=True)
        jkt = await self._key(call, client)
        return _answer(await self._authorization.push(call.client, client, form, jkt), 201)

    async def _key(self, call: Call, client: KnownClient) -> str | None:
        """Return the thumbprint of the key that a client proves; raises an error if the client must prove one."""
        jkt = await self._proofs.key_of(
            client.app_id,
            (call.scope["method"], call.scope["path"]),
            proof_lines(call),
            call.answer_headers,
            nonce_required=client.provider.dpop_nonce == "required",
        )
        if jkt is None and client.dpop_bound_access_tokens:
            raise InvalidDpopProofError("The client must send a DPoP proof.")
        return jkt

    @post(
        "/oauth/introspect",
        access=Access.OPEN,
        cors="none",
        returns=Introspection,
        body_media_type=_FORM,
        needs_room=False,
    )
    async def introspect(self, call: Call, body: Raw) -> Reply:
        """Describe a token to its client, to a resource server of the app, or to a secret key's owner (RFC 7662)."""
        self._https.check(call)
        form = form_of(call, body)
        return _answer(await self._inspection.introspect(await self._inspector(call, form), form.need("token")))

    async def _inspector(self, call: Call, form: Parameters) -> Inspector:
        if (call.header(b"authorization") or "").lower().startswith("bearer "):
            key = await secret_key_of(self._apps, call.need_bearer())
            return Inspector(key.app.app_id, None, is_resource_server=True)
        client = await self._client(call, form)
        if client.is_public:
            raise InvalidClientError("A public client cannot use introspection.")
        return Inspector(client.app_id, client.client_id, client.is_resource_server)

    @post("/oauth/revoke", access=Access.OPEN, returns=str, body_media_type=_FORM, needs_room=False)
    async def revoke(self, call: Call, body: Raw) -> Reply:
        """Revoke one of the client's own tokens (RFC 7009). The response is the same for an unknown token."""
        self._https.check(call)
        form = form_of(call, body)
        client = await self._client(call, form)
        await self._inspection.revoke(client, form.need("token"))
        return Reply(b"", 200, NOT_STORED)

    @get("/oauth/userinfo", access=Access.OPEN, cors=_asked_origin, returns=dict)
    async def userinfo(self, call: Call) -> Reply:
        """Read what the member of an access token has shared (OpenID Connect Core 1.0, section 5.3)."""
        return await self._userinfo(call, None)

    @post(
        "/oauth/userinfo", access=Access.OPEN, cors=_asked_origin, returns=dict, body_media_type=_FORM, needs_room=False
    )
    async def userinfo_by_post(self, call: Call, body: Raw) -> Reply:
        """Read the same, with the token in the header or in a form (RFC 6750, section 2.2)."""
        return await self._userinfo(call, form_of(call, body).get("access_token") if body else None)

    async def _userinfo(self, call: Call, posted: str | None) -> Reply:
        self._https.check(call)
        scheme, _, given = (call.header(b"authorization") or "").partition(" ")
        token = given.strip() or posted
        if not token or (given and posted) or (given and scheme.lower() not in {"bearer", "dpop"}):
            raise InvalidOAuthTokenError("Send an access token.", headers={"WWW-Authenticate": "Bearer"})
        try:
            await self._allow_origin(call, token)
            claims = await self._issuer.read_access_token(token)
            if self._issuer.issuer not in (claims.aud if isinstance(claims.aud, list) else [claims.aud]):
                raise InsufficientScopeError
            await self._access_tokens.require_bound(call, claims, scheme.lower(), token)
            return _answer(await self._inspection.userinfo(claims))
        except InvalidAccessTokenError:
            raise InvalidOAuthTokenError(headers=_challenge("invalid_token")) from None
        except (InvalidDpopProofError, UseDpopNonceError) as error:
            raise dpop_refused(error) from None
        except (InvalidOAuthTokenError, InsufficientScopeError) as error:
            error.headers |= _challenge(error.oauth_code)
            raise

    async def _allow_origin(self, call: Call, token: str) -> None:
        """Allow a page of the token's client to read the response, even if the token has expired."""
        origin = call.header(b"origin")
        if origin is None:
            return
        claims = await self._issuer.read_access_token(token, expired=True)
        client = await find_client(self._database, claims.client_id, claims.app_id)
        if client is not None and origin in {origin_of(uri) for uri in client.redirect_uris}:
            allowed = (b"access-control-allow-origin", origin.encode("latin-1"))
            call.answer_headers += [allowed, (b"access-control-expose-headers", b"www-authenticate, dpop-nonce")]

    async def _client(self, call: Call, form: Parameters, *, admits: bool = False) -> KnownClient:
        header = call.header(b"authorization")
        return await self._authentication.authenticate(call.client, header, form, admits=admits)


def form_of(call: Call, body: bytes) -> Parameters:
    """Return the parameters of a form; raises `InvalidRequestError` for another content type."""
    content_type = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != _FORM.encode():
        raise InvalidRequestError(f"Send the parameters as {_FORM}.")
    return parse(body)


def _answer(found: Any, status: int = 200) -> Reply:
    return Reply(json.encode(found), status, NOT_STORED)


def _challenge(error: str) -> dict[str, str]:
    scope = ', scope="openid"' if error == "insufficient_scope" else ""
    return {"WWW-Authenticate": f'Bearer error="{error}"{scope}'}
