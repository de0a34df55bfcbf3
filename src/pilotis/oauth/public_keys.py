"""Clients' public keys (RFC 7517), and the signatures made with them: DPoP proofs and client assertions. Pure.

`pilotis.oauth.jose` does the work. Keys are cached with their thumbprints: a client uses the same one for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS = ("ES256", "EdDSA", "PS256")
"""The algorithms with which clients may sign."""

_KEY_TYPES = {("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA", ("RSA", None): "PS256"}
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_MIN_RSA_CHARACTERS = 342
"""The base64url of 2048 bits."""
_MAX_CACHED = 1024


class PublicKey:
    """A client's key: the algorithm that it is for, and its thumbprint (RFC 7638)."""

    def __init__(self, key: Key, algorithm: str, thumbprint: str) -> None:
        self._key = key
        self.algorithm = algorithm
        self.thumbprint = thumbprint

    def signed_payload(self, token: bytes) -> bytes:
        """Return the payload of a compact JWS that this key signed with its algorithm; raises `ValueError`."""
        from pilotis.oauth import jose

        return jose.signed_payload(token, self._key, [self.algorithm])


def public_key(jwk: Mapping[str, Any]) -> PublicKey:
    """Return the key of a JWK; raises `ValueError` with a message.

    It must be public, and of P-256, Ed25519 or RSA with 2048 bits or more.
    """
    if _PRIVATE & jwk.keys():
        raise ValueError("The key contains private members. Send the public key alone.")
    if jwk.get("use", "sig") != "sig":
        raise ValueError("The key is not for signatures.")
    return _imported(tuple((name, text) for name in _PUBLIC if isinstance(text := jwk.get(name), str)))


@lru_cache(maxsize=_MAX_CACHED)
def _imported(members: tuple[tuple[str, str], ...]) -> PublicKey:
    given = dict(members)
    algorithm = _KEY_TYPES.get((given.get("kty", ""), given.get("crv")))
    if algorithm is None or (algorithm == "PS256" and len(given.get("n", "")) < _MIN_RSA_CHARACTERS):
        raise ValueError("The key must be of P-256, Ed25519, or RSA with 2048 bits or more.")
    from pilotis.oauth import jose

    key, thumbprint = jose.imported_key(given)
    return PublicKey(key, algorithm, thumbprint)
