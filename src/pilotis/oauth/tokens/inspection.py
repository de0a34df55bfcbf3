"""Operations on issued tokens: userinfo, introspection (RFC 7662), revocation (RFC 7009)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import InsufficientScopeError
from pilotis.kit import json
from pilotis.kit.crypto import MasterKeyring
from pilotis.kit.errors import UnauthorizedError
from pilotis.oauth import scope_store
from pilotis.oauth.clients import BUILT_IN_SCOPES
from pilotis.oauth.records import KnownClient
from pilotis.oauth.registry import find_client
from pilotis.oauth.tokens import refresh_tokens, store
from pilotis.oauth.tokens.issuing import AccessClaims, InvalidAccessTokenError, Issuer
from pilotis.oauth.tokens.records import TokenState
from pilotis.oauth.tokens.types import Introspection

# Claims of the built-in scopes that come from a member's `custom_data`, from the key of the same name.
_CUSTOM_CLAIMS = {"address": ("address",), "phone": ("phone_number",), "profile": ("picture",)}


class InvalidOAuthTokenError(UnauthorizedError):
    """401 `invalid_token`: the OAuth access token is malformed, expired, revoked, or bound to another key."""

    code = "INVALID_OAUTH_TOKEN"
    oauth_code = "invalid_token"
    message = "The access token is malformed, expired, revoked, or bound to another key."


class Inspector(NamedTuple):
    """Who asks about tokens: a client, or with a secret key the app itself, which has no `client_id`."""

    app_id: UUID
    client_id: str | None
    is_resource_server: bool


class Inspection:
    """Describes and revokes issued tokens."""

    def __init__(self, database: Database, issuer: Issuer, keyring: MasterKeyring) -> None:
        self._database = database
        self._issuer = issuer
        self._keyring = keyring

    async def userinfo(self, claims: AccessClaims) -> dict[str, Any]:
        """Return what the member of an access token has shared (OpenID Connect Core 1.0, section 5.3).

        Raises `InvalidOAuthTokenError`, or `InsufficientScopeError` without `openid`.
        """
        if claims.grant_id is None:
            raise InsufficientScopeError
        if "openid" not in claims.scopes:
            await self._require_state(claims.app_id, claims.grant_id, claims.jti)
            raise InsufficientScopeError
        return await self.shared(claims.app_id, claims.grant_id, claims.jti, claims.scopes)

    async def shared(self, app_id: UUID, grant_id: UUID, jti: UUID, scopes: frozenset[str]) -> dict[str, Any]:
        """Return the claims of the scopes about the member of a grant; raises `InvalidOAuthTokenError`."""
        row = await self._require_state(app_id, grant_id, jti)
        return _claims(scopes, row, await self._own_claims(app_id, scopes))

    async def _require_state(self, app_id: UUID, grant_id: UUID, jti: UUID) -> TokenState:
        row = await store.token_state(self._database, app_id, grant_id, jti)
        if row is None:
            raise InvalidOAuthTokenError
        return row

    async def _own_claims(self, app_id: UUID, scopes: frozenset[str]) -> dict[str, str]:
        """Return the claims of the app's scopes, each with its key in `custom_data`."""
        found: dict[str, str] = {}
        if scopes - BUILT_IN_SCOPES:
            for row in await scope_store.scope_texts(self._database, app_id):
                if row.name in scopes:
                    found |= json.decode(row.claims.encode())
        return found

    async def introspect(self, caller: Inspector, token: str) -> Introspection:
        """Describe a token to the client that it was issued to, or to a resource server of the same app."""
        if refresh := refresh_tokens.read(self._keyring, token):
            return await self._introspect_refresh(caller, refresh)
        try:
            claims = await self._issuer.read_access_token(token)
        except InvalidAccessTokenError:
            return _INACTIVE
        own = claims.client_id == caller.client_id or caller.is_resource_server
        if claims.app_id != caller.app_id or not own:
            return _INACTIVE
        username = None
        if claims.grant_id is not None:
            row = await store.token_state(self._database, claims.app_id, claims.grant_id, claims.jti)
            if row is None:
                return _INACTIVE
            username = row.nickname
        elif await self._is_void(claims):
            return _INACTIVE
        return Introspection(
            active=True,
            scope=claims.scope,
            client_id=claims.client_id,
            sub=claims.sub,
            username=username,
            token_type="Bearer" if claims.jkt is None else "DPoP",
            exp=claims.exp,
            iat=claims.iat,
            iss=claims.iss,
            aud=claims.aud,
            jti=str(claims.jti),
            sid=None if claims.sid is None else str(claims.sid),
            app_id=str(claims.app_id),
            cnf=claims.cnf,
        )

    async def is_valid(self, claims: AccessClaims) -> bool:
        """Return whether an access token, its grant, member, session and client are valid."""
        if claims.grant_id is not None:
            return await store.token_state(self._database, claims.app_id, claims.grant_id, claims.jti) is not None
        return not await self._is_void(claims)

    async def _is_void(self, claims: AccessClaims) -> bool:
        """Return whether a client's own token was revoked, or its client no longer exists."""
        if await store.is_revoked(self._database, claims.app_id, claims.jti):
            return True
        return await find_client(self._database, claims.client_id, claims.app_id) is None

    async def _introspect_refresh(self, caller: Inspector, token: refresh_tokens.RefreshToken) -> Introspection:
        if token.app_id != caller.app_id:
            return _INACTIVE
        row = await store.grant(self._database, token.app_id, token.grant_id)
        if row is None or row.refreshed_at is None or row.refresh_expires_at is None:
            return _INACTIVE
        if not (row.lives and row.may_refresh) or row.refresh_id != token.refresh_id:
            return _INACTIVE
        if caller.client_id not in {None, row.client_id}:
            return _INACTIVE
        return Introspection(
            active=True,
            scope=" ".join(row.scopes),
            client_id=row.client_id,
            sub=row.member_id,
            username=row.nickname,
            exp=int(min(row.refresh_expires_at, row.expires_at).timestamp()),
            iat=int(row.refreshed_at.timestamp()),
            iss=row.issuer,
            sid=str(row.session_id),
            app_id=str(row.app_id),
        )

    async def revoke(self, caller: KnownClient, token: str) -> None:
        """Revoke a client's own token; a refresh token with its whole grant. Ignores any other token."""
        if refresh := refresh_tokens.read(self._keyring, token):
            row = await store.grant(self._database, refresh.app_id, refresh.grant_id)
            if row is not None and (row.app_id, row.client_id) == (caller.app_id, caller.client_id):
                async with self._database.transaction(caller.app_id) as connection:
                    await store.revoke(connection, caller.app_id, refresh.grant_id, "revoked_by_client")
            return
        try:
            claims = await self._issuer.read_access_token(token)
        except InvalidAccessTokenError:
            return
        if (claims.app_id, claims.client_id) == (caller.app_id, caller.client_id):
            expires_at = datetime.fromtimestamp(claims.exp, UTC)
            await store.revoke_token(self._database, claims.app_id, claims.jti, expires_at)


_INACTIVE = Introspection(active=False)


def _claims(scopes: frozenset[str], row: TokenState, own: dict[str, str]) -> dict[str, Any]:
    """Return the claims of the scopes (OpenID Connect Core 1.0, section 5.4)."""
    custom: dict[str, Any] = json.decode(row.custom_data.encode())
    claims: dict[str, Any] = {}
    claims |= {name: custom[key] for name, key in own.items() if key in custom}
    for scope, names in _CUSTOM_CLAIMS.items():
        if scope in scopes:
            claims |= {name: custom[name] for name in names if name in custom}
    if "profile" in scopes:
        claims["updated_at"] = int(row.updated_at.timestamp())
        if row.nickname is not None:
            claims |= {"name": row.nickname, "nickname": row.nickname}
        if row.picture is not None:
            claims["picture"] = row.picture
    if "email" in scopes and row.verified_email is not None:
        claims |= {"email": row.verified_email, "email_verified": True}
    elif "email" in scopes and "@" in (row.login_id or ""):
        claims |= {"email": row.login_id, "email_verified": False}
    return {**claims, "sub": row.member_id}
