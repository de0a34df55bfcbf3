"""Signatures by clients' keys, done by joserfc. Imported when the first one is verified: few servers need it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

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


def imported_key(members: Mapping[str, str]) -> tuple[Key, str]:
    """Return the public key of a JWK's members, and its thumbprint (RFC 7638); raises `ValueError`."""
    try:
        key = import_key({**members})
        return key, key.thumbprint()
    except _BROKEN:
        raise ValueError("The members of the key do not form a key.") from None


def signed_payload(token: bytes, key: Key, algorithms: Sequence[str]) -> bytes:
    """Return the payload of a compact JWS that the key signed by one of the algorithms; raises `ValueError`."""
    registry = _Registry(algorithms=list(algorithms), strict_check_header=False)
    try:
        return jws.deserialize_compact(token, key, registry=registry).payload
    except _BROKEN:
        raise ValueError("The token was not signed by this key.") from None
