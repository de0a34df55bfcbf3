"""Verifies ID tokens of vendors: signature, issuer, client and nonce. Pure.

The rules are those of OpenID Connect Core 1.0, section 3.1.3.7; joserfc does the JOSE.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from pilotis.kit.crypto import from_base64url
from pilotis.oauth.social.vendors import VendorError

_KEY_TYPES = {"RS256": "RSA", "ES256": "EC"}
CLOCK_SECONDS = 60
"""How far a vendor's clock may be from ours."""
_MAX_CHARACTERS = 32_768
_SECRET_SECONDS = 300
_MAX_HEADER = 2048
_PUBLIC = ("kty", "n", "e", "crv", "x", "y")


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: Any = None


class UnknownKeyError(VendorError):
    """The vendor has no key with the id in the token."""


def verified_claims(
    token: str,
    keys: Sequence[dict[str, Any]],
    *,
    issuers: Sequence[str],
    client_ids: Sequence[str],
    nonce: str,
    max_age: float | None = None,
) -> dict[str, Any]:
    """Return the claims of an ID token for one of the clients; `keys` are JWKs.

    A token that was issued more than `max_age` seconds ago is invalid. Raises `UnknownKeyError`, or another
    `VendorError`.
    """
    header = _header(token)
    if header.alg not in _KEY_TYPES or header.crit is not None:
        raise VendorError("The ID token is not signed by RS256 or ES256.")
    usable = [key for key in keys if key.get("kty") == _KEY_TYPES[header.alg] and key.get("use", "sig") == "sig"]
    found = [key for key in usable if header.kid is None or key.get("kid") == header.kid]
    if len(found) != 1:
        raise UnknownKeyError("The ID token does not name a key of the vendor.")
    public: dict[str, Any] = {name: found[0][name] for name in _PUBLIC if name in found[0]}
    claims = _signed_claims(token, public, header.alg)
    _check_origin(claims, issuers, client_ids)
    _check_times(claims, max_age)
    _check_nonce(claims, nonce)
    return claims


def _signed_claims(token: str, key: dict[str, Any], algorithm: str) -> dict[str, Any]:
    # joserfc is imported with the first token: few servers use other vendors' accounts, and each would start later.
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    registry = jws.JWSRegistry(algorithms=[algorithm])
    registry.max_header_length = _MAX_HEADER
    try:
        signed = jws.deserialize_compact(token.encode(), import_key(key), registry=registry)
        claims: dict[str, Any] = msgspec.json.decode(signed.payload, type=dict[str, Any])
    except (JoseError, ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise VendorError("The ID token's signature is invalid.") from None
    return claims


def apple_secret(key_pem: str, *, team_id: str, key_id: str, client_id: str) -> str:
    """Return the client secret for Apple: a JWT under the developer's key; raises `VendorError` for an invalid key."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey

    now = int(time.time())
    claims = {
        "iss": team_id,
        "iat": now,
        "exp": now + _SECRET_SECONDS,
        "aud": "https://appleid.apple.com",
        "sub": client_id,
    }
    try:
        return jwt.encode({"alg": "ES256", "kid": key_id}, claims, ECKey.import_key(key_pem))
    except (JoseError, ValueError, TypeError):
        raise VendorError("The secret is not a private key of Apple, a .p8 file.") from None


def _header(token: str) -> _Header:
    if len(token) > _MAX_CHARACTERS or not token.isascii() or token.count(".") != 2:
        raise VendorError("The vendor's ID token is malformed.")
    try:
        return msgspec.json.decode(from_base64url(token.partition(".")[0]) or b"", type=_Header)
    except (msgspec.DecodeError, ValueError):
        raise VendorError("The vendor's ID token is malformed.") from None


def _check_origin(claims: dict[str, Any], issuers: Sequence[str], client_ids: Sequence[str]) -> None:
    if claims.get("iss") not in issuers:
        raise VendorError("The ID token is from another issuer.")
    named = claims.get("aud")
    audiences = named if isinstance(named, list) else [named]
    # Of several audiences the one that asked for the token is the authorized party (steps 3 to 5).
    party = claims.get("azp", audiences[0] if len(audiences) == 1 else None)
    if not any(one in client_ids for one in audiences) or party not in client_ids:
        raise VendorError("The ID token is for another client.")


def _check_times(claims: dict[str, Any], max_age: float | None) -> None:
    now, expires, issued = time.time(), _time(claims, "exp"), _time(claims, "iat")
    if expires is None or expires < now - CLOCK_SECONDS:
        raise VendorError("The ID token has expired.")
    if issued is None or issued > now + CLOCK_SECONDS:
        raise VendorError("The ID token was issued in the future, or does not say when.")
    if max_age is not None and issued < now - max_age - CLOCK_SECONDS:
        raise VendorError("The ID token was issued too long ago.")


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _check_nonce(claims: dict[str, Any], nonce: str) -> None:
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise VendorError("The ID token has the nonce of another request.")


def signed_part(token: str) -> bytes:
    """Return what the signature of a token covers, in one form only: a signature can be written in several."""
    return token.rpartition(".")[0].encode()
