"""Creates and reads access tokens (RFC 9068) and ID tokens (OpenID Connect Core 1.0, section 2)."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from pilotis.kit import rs256
from pilotis.kit.crypto import base64url
from pilotis.kit.ids import uuid7
from pilotis.kit.rs256 import PrivateKey, SignatureError
from pilotis.oauth.keys import SigningKeys
from pilotis.oauth.records import KnownClient
from pilotis.oauth.resources import own_resources
from pilotis.oauth.tokens.records import ACR_VALUES, MULTI_FACTOR

ACCESS_TYPE = "at+jwt"
ID_TYPE = "JWT"
_LEEWAY = 60
# Claims about a token, which an app's scope must not make up even where this one lacks them.
_TOKEN_CLAIMS = frozenset({"nonce", "acr", "nbf", "jti", "c_hash", "cnf", "act", "events", "client_id", "scope"})


class AccessClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of an access token; times are in seconds since 1970."""

    iss: str
    sub: str
    aud: str | list[str]
    client_id: str
    scope: str
    iat: int
    exp: int
    jti: UUID
    app_id: UUID
    sid: UUID | None = None
    grant_id: UUID | None = None
    auth_time: int | None = None
    cnf: dict[str, str] | None = None

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes as a set."""
        return frozenset(self.scope.split())

    @property
    def jkt(self) -> str | None:
        """The thumbprint of the key that the token is bound to (RFC 9449, section 6.1)."""
        return (self.cnf or {}).get("jkt")


class InvalidAccessTokenError(Exception):
    """The text is not a valid access token of this server."""


class Issuer:
    """Signs tokens with the server's key, and verifies access tokens."""

    def __init__(self, keys: SigningKeys, issuer: str) -> None:
        self._keys = keys
        self.issuer = issuer

    def audience(self, app_id: UUID, resources: Sequence[str], scopes: Sequence[str]) -> str | list[str]:
        """Return the `aud` of an access token: the resources, by default the app, plus the issuer with `openid`."""
        found = [*(resources or [self.default_resource(app_id)]), *([self.issuer] if "openid" in scopes else [])]
        return found[0] if len(found) == 1 else found

    def default_resource(self, app_id: UUID) -> str:
        """Return the resource of tokens for which the client requested none."""
        return own_resources(self.issuer, app_id)[0]

    async def access_token(
        self,
        client: KnownClient,
        *,
        sub: str,
        scopes: Sequence[str],
        resources: Sequence[str],
        sid: UUID | None = None,
        grant_id: UUID | None = None,
        auth_time: datetime | None = None,
        jkt: str | None = None,
    ) -> str:
        """Return a new access token for a client."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": sub,
            "aud": self.audience(client.app_id, resources, scopes),
            "client_id": client.client_id,
            "scope": " ".join(scopes),
            "iat": now,
            "exp": now + client.provider.access_token_seconds,
            "jti": str(uuid7()),
            "app_id": str(client.app_id),
        }
        if grant_id is not None and auth_time is not None:
            claims |= {"sid": str(sid), "grant_id": str(grant_id), "auth_time": int(auth_time.timestamp())}
        if jkt is not None:
            claims["cnf"] = {"jkt": jkt}
        return rs256.sign(await self._key(), ACCESS_TYPE, claims)

    async def id_token(
        self,
        client: KnownClient,
        *,
        sub: str,
        sid: UUID,
        auth_time: datetime,
        amr: Sequence[str],
        access_token: str,
        nonce: str | None,
        shared: Mapping[str, Any],
    ) -> str:
        """Return an ID token for an access token; only the first one of a grant has the `nonce`.

        `shared` are claims about the member; they replace none of the token's own.
        """
        now = int(time.time())
        digest = hashlib.sha256(access_token.encode()).digest()
        claims: dict[str, Any] = {
            **{name: value for name, value in shared.items() if name not in _TOKEN_CLAIMS},
            "iss": self.issuer,
            "sub": sub,
            "aud": client.client_id,
            "azp": client.client_id,
            "iat": now,
            "exp": now + client.provider.access_token_seconds,
            "auth_time": int(auth_time.timestamp()),
            "at_hash": base64url(digest[: len(digest) // 2]),
            "sid": str(sid),
            "amr": list(amr),
            "acr": ACR_VALUES[MULTI_FACTOR in amr],
            "app_id": str(client.app_id),
        }
        if nonce is not None:
            claims["nonce"] = nonce
        return rs256.sign(await self._key(), ID_TYPE, claims)

    async def read_access_token(self, token: str, *, expired: bool = False) -> AccessClaims:
        """Return the claims of an access token without checking revocation, even of an `expired` one.

        Raises `InvalidAccessTokenError`.
        """
        try:
            decoded = rs256.verify((await self._keys.current()).published, ACCESS_TYPE, token)
            claims = msgspec.convert(decoded, AccessClaims)
        except (SignatureError, msgspec.ValidationError):
            raise InvalidAccessTokenError from None
        if claims.iss != self.issuer or not claims.iat - _LEEWAY <= time.time() < (math.inf if expired else claims.exp):
            raise InvalidAccessTokenError
        return claims

    async def hinted_member(self, id_token: str) -> dict[str, Any] | None:
        """Return the claims of an ID token of this server, expired or not, or None for any other text."""
        try:
            decoded = rs256.verify((await self._keys.current()).known, ID_TYPE, id_token)
        except SignatureError:
            return None
        return decoded if decoded.get("iss") == self.issuer and isinstance(decoded.get("sub"), str) else None

    async def require_key(self) -> None:
        """Raise `SigningKeyMissingError` if the server has no signing key."""
        await self._key()

    async def _key(self) -> PrivateKey:
        return await self._keys.signing()
