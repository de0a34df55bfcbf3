"""Client authentication by `private_key_jwt` (RFC 7523; OpenID Connect Core 1.0, section 9). Pure."""

from __future__ import annotations

import hashlib
import time
from typing import NamedTuple

import msgspec

from pilotis.kit.crypto import from_base64url
from pilotis.oauth.public_keys import PublicKey, public_key
from pilotis.oauth.types import ClientKeys

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_SECONDS = 300
_LEEWAY = 10
REMEMBERED_SECONDS = MAX_SECONDS + _LEEWAY
_MAX_CHARACTERS = 8192
_MAX_JTI = 256


class Assertion(NamedTuple):
    """A valid assertion: the hash under which its id is stored once used, and its earliest time of issue."""

    hash: bytes
    issued_at: float


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str = "JWT"
    crit: list[str] | None = None


class _Claims(msgspec.Struct):
    iss: str
    sub: str
    aud: str
    exp: float
    jti: str
    iat: float | None = None
    nbf: float | None = None


def client_of(text: str) -> str | None:
    """Return the client that an assertion names, without any verification; None for any other text."""
    try:
        return msgspec.json.decode(_part(text, 1), type=_Claims).iss
    except (ValueError, RecursionError):
        return None


def check(text: str, client_id: str, keys: ClientKeys, issuer: str) -> Assertion:
    """Return a client's assertion, signed by one of its keys for this issuer; raises `ValueError`.

    Does not check whether it was used before.
    """
    header = msgspec.json.decode(_part(text, 0), type=_Header)
    if header.crit is not None or header.typ.lower() not in {"jwt", "client-authentication+jwt"}:
        raise ValueError("another kind of token")
    payload = _signed(text, header, keys)
    claims = msgspec.json.decode(payload, type=_Claims)
    now = time.time()
    if claims.iss != client_id or claims.sub != client_id or claims.aud != issuer:
        raise ValueError("for another client or server")
    if not now - _LEEWAY < claims.exp <= now + MAX_SECONDS + _LEEWAY:
        raise ValueError("expired, or valid for too long")
    if any(at is not None and not at <= now + _LEEWAY for at in (claims.iat, claims.nbf)):
        raise ValueError("not valid yet")
    if not 0 < len(claims.jti) <= _MAX_JTI:
        raise ValueError("jti")
    digest = hashlib.sha256(f"{client_id}\n{claims.jti}".encode()).digest()
    return Assertion(digest, claims.iat if claims.iat is not None else claims.exp - MAX_SECONDS)


def _signed(text: str, header: _Header, keys: ClientKeys) -> bytes:
    for jwk in keys.keys:
        key: PublicKey = public_key(jwk)
        if key.algorithm == header.alg and header.kid in {None, jwk.get("kid")}:
            try:
                return key.signed_payload(text.encode())
            except ValueError:
                continue
    raise ValueError("not signed by a key of the client")


def _part(text: str, number: int) -> bytes:
    if len(text) > _MAX_CHARACTERS or not text.isascii() or text.count(".") != 2:
        raise ValueError("not a token")
    return from_base64url(text.split(".")[number]) or b""
