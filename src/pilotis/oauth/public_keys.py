"""Clients' public keys (RFC 7517), and the signatures made with them: DPoP proofs and client assertions. Pure.

joserfc handles JOSE. Keys are cached with their thumbprints, because a client uses the same one for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

ALGORITHMS = ("ES256", "EdDSA", "PS256")
"""The algorithms with which clients may sign."""

_KEY_TYPES = {("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA", ("RSA", None): "PS256"}
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_MIN_RSA_CHARACTERS = 342
"""The base64url of 2048 bits."""
_MAX_CACHED = 1024
# What joserfc raises for members and headers of unexpected types.
_BROKEN = (JoseError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def _quiet(algorithm: Any) -> Any:
    """Return an algorithm that does not warn about its name: RFC 9864 renames EdDSA, but clients use the old name."""
    found = copy(algorithm)
    found.security_warning = None
    return found


class _Registry(jws.JWSRegistry):
    # The header of an RSA key is longer than joserfc's default limit.
    max_header_length = 2048
    algorithms = {name: _quiet(algorithm) for name, algorithm in jws.JWSRegistry.algorithms.items()}  # noqa: RUF012


_REGISTRIES = {name: _Registry(algorithms=[name], strict_check_header=False) for name in ALGORITHMS}


class PublicKey:
    """A client's key: the algorithm that it is for, and its thumbprint (RFC 7638)."""

    def __init__(self, key: Key, algorithm: str) -> None:
        self._key = key
        self.algorithm = algorithm
        self.thumbprint = key.thumbprint()

    def signed_payload(self, token: bytes) -> bytes:
        """Return the payload of a compact JWS that this key signed with its algorithm; raises `ValueError`."""
        try:
            return jws.deserialize_compact(token, self._key, registry=_REGISTRIES[self.algorithm]).payload
        except _BROKEN:
            raise ValueError("The token was not signed by this key.") from None


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
    try:
        return PublicKey(import_key({**given}), algorithm)
    except _BROKEN:
        raise ValueError("The members of the key do not form a key.") from None
