"""Signed tokens: JWT (RFC 7519) under HS256, one key and one audience for each kind of token.

The kind is checked three times over: by the key it is signed with, by `typ` and by `aud`. So no kind passes for
another. Only one header is ever signed, so only that one is taken: no other `alg`, no `crit`, no key that a token
brings along (RFC 8725, sections 3.1 and 3.10).
"""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import Annotated
from uuid import UUID

import msgspec
from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import OctKey

from pilotis.kit.crypto import MasterKeyring, MasterKeys, derive_key, from_base64url

ISSUER = "pilotis"
_ALGORITHM = "HS256"
_HEADER = {"alg": _ALGORITHM, "typ": "JWT"}
_LONGEST = 2048

Subject = Annotated[str, msgspec.Meta(pattern=r"^[\w-]{1,64}$")]


class TokenKind(enum.StrEnum):
    """The kinds of token; the value is the `typ` claim and names the key's purpose."""

    MEMBER_ACCESS = "member_access"
    MEMBER_REFRESH = "member_refresh"
    CONSOLE_ACCESS = "console_access"
    CONSOLE_REFRESH = "console_refresh"

    @property
    def audience(self) -> str:
        """The `aud` claim: the routes the token is meant for."""
        return "pilotis:" + self.value.replace("_", ":")


class Claims(msgspec.Struct, frozen=True):
    """A token's claims; times in seconds since 1970, `app_id` is the nil UUID for console users."""

    sub: Subject
    app_id: UUID
    sid: UUID
    jti: UUID
    iat: int
    exp: int
    typ: str
    aud: str
    iss: str


class TokenError(Exception):
    """The text is no token of the kind: malformed, tampered with, expired, or another kind's."""


class TokenSigner:
    """Signs tokens of every kind under the current master key, and verifies them under any that is accepted."""

    def __init__(self, keyring: MasterKeyring) -> None:
        self._keyring = keyring
        self._derive(keyring.keys)

    def sign(self, kind: TokenKind, *, sub: str, app_id: UUID, sid: UUID, jti: UUID, iat: int, exp: int) -> str:
        """Return the token; the same claims give the same text."""
        claims = Claims(sub, app_id, sid, jti, iat, exp, kind.value, kind.audience, ISSUER)
        return jwt.encode(dict(_HEADER), msgspec.to_builtins(claims), self._in_force()[kind][0])

    def verify(self, kind: TokenKind, token: str, now: float) -> Claims:
        """Return the claims of a token of the kind that is valid at `now`; raises `TokenError`."""
        if len(token) > _LONGEST:
            raise TokenError("too long")
        try:
            decoded = self._decoded(kind, token)
            claims = msgspec.convert(decoded.claims, Claims)
        except (JoseError, msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
            raise TokenError(str(error)) from None
        if decoded.header != _HEADER:
            raise TokenError("another header")
        if (claims.typ, claims.aud, claims.iss) != (kind.value, kind.audience, ISSUER):
            raise TokenError("another kind")
        if not claims.iat - 60 <= now < claims.exp:
            raise TokenError("expired")
        return claims

    def _decoded(self, kind: TokenKind, token: str) -> jwt.Token:
        try:
            return _decoded(token, self._in_force()[kind])
        except BadSignatureError:
            # Another node may have taken a new key into use a moment before this one hears of it.
            if not self._keyring.refresh():
                raise
            return _decoded(token, self._in_force()[kind])

    def _in_force(self) -> dict[TokenKind, list[OctKey]]:
        if self._keyring.keys is not self._derived_from:
            self._derive(self._keyring.keys)
        return self._keys

    def _derive(self, keys: MasterKeys) -> None:
        self._derived_from = keys
        self._keys = {
            kind: [OctKey.import_key(derive_key(key, f"token/{kind.value}")) for key in keys.accepted]
            for kind in TokenKind
        }


def _decoded(token: str, keys: list[OctKey]) -> jwt.Token:
    """Return the token under the first of the keys that verifies it; raises `BadSignatureError` if none does."""
    for key in keys[:-1]:
        with suppress(BadSignatureError):
            return jwt.decode(token, key, algorithms=[_ALGORITHM])
    return jwt.decode(token, keys[-1], algorithms=[_ALGORITHM])


def looks_like(kind: TokenKind, token: str) -> bool:
    """Tell whether a token claims to be of the kind, so that the right verification can be chosen. Proves nothing."""
    if len(token) > _LONGEST:
        return False
    try:
        decoded = msgspec.json.decode(_payload(token))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return isinstance(decoded, dict) and decoded.get("typ") == kind.value


def _payload(token: str) -> bytes:
    parts = token.split(".")
    return (from_base64url(parts[1]) if len(parts) == 3 else None) or b""
