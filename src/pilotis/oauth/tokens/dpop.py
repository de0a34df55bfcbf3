"""DPoP proofs, which show that the sender of a token has its key (RFC 9449, section 4.3). Pure.

Typed decoding by msgspec rejects what Python's json module accepts, such as NaN.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, from_base64url
from pilotis.oauth.errors import OAuthError
from pilotis.oauth.public_keys import public_key

WINDOW_SECONDS = 60
REMEMBERED_SECONDS = 6 * 60
"""How long a used proof is rejected: the maximum lifetime of a nonce plus the window."""

_MAX_CHARACTERS = 8192
_MAX_JTI = 256
_PURPOSE = "oauth/dpop-nonce"
_STEP_SECONDS = 60
_STEPS = (-2, -1, 0, 1, 2)


class InvalidDpopProofError(OAuthError):
    """400 `invalid_dpop_proof`: the DPoP proof is missing, malformed, for another request, or was used before."""

    code = "INVALID_DPOP_PROOF"
    oauth_code = "invalid_dpop_proof"
    message = "The DPoP proof is not valid."


class UseDpopNonceError(OAuthError):
    """400 `use_dpop_nonce`: the DPoP proof must contain the nonce from the header DPoP-Nonce."""

    code = "USE_DPOP_NONCE"
    oauth_code = "use_dpop_nonce"
    message = "Send a new proof with the nonce from the header DPoP-Nonce."


class Proof(NamedTuple):
    """A valid proof: the thumbprint of its key, its id and its nonce."""

    jkt: str
    jti: str
    nonce: str | None

    @property
    def hash(self) -> bytes:
        """The hash under which a used proof is stored."""
        return hashlib.sha256(f"{self.jkt}\n{self.jti}".encode()).digest()


class _Header(msgspec.Struct):
    typ: str
    alg: str
    jwk: dict[str, str | int | bool | list[str] | None]


class _Claims(msgspec.Struct):
    jti: str
    htm: str
    htu: str
    iat: float
    ath: str | None = None
    nonce: str | None = None


class Nonces:
    """Stateless nonces: an HMAC of the minute, so that every node accepts every node's nonces.

    `epoch` names the time since which used proofs are known; nonces of another epoch are not accepted.
    """

    def __init__(self, keyring: MasterKeyring, epoch: bytes = b"") -> None:
        self._keyring = keyring
        self._epoch = epoch

    def since(self, epoch: bytes) -> Nonces:
        """Return the nonces of another epoch."""
        return Nonces(self._keyring, epoch)

    def newest(self) -> str:
        """Return the current nonce."""
        return self._of(self._keyring.keys.current, int(time.time() // _STEP_SECONDS) + 1)

    def is_good(self, nonce: str) -> bool:
        """Return whether a nonce was issued within the last minutes."""
        step = int(time.time() // _STEP_SECONDS)
        known = [self._of(key, step + offset) for key in self._keyring.keys.accepted for offset in _STEPS]
        return any(hmac.compare_digest(one.encode(), nonce.encode()) for one in known)

    def _of(self, key: bytes, step: int) -> str:
        return _nonce(key, step, self._epoch)


@lru_cache(maxsize=64)
def _nonce(key: bytes, step: int, epoch: bytes) -> str:
    return base64url(hmac.digest(derive_key(key, _PURPOSE), step.to_bytes(8) + epoch, "sha256")[:18])


def check(
    lines: Sequence[bytes],
    method: str,
    url: str,
    nonces: Nonces,
    *,
    nonce_required: bool = False,
    access_token: str | None = None,
) -> Proof:
    """Return the proof in a request's `DPoP` header lines; raises `InvalidDpopProofError` or `UseDpopNonceError`.

    With an `access_token`, the proof must be for that token. Does not check whether the proof was used before.
    """
    if len(lines) != 1 or len(lines[0]) > _MAX_CHARACTERS:
        raise InvalidDpopProofError("Send exactly one DPoP header.")
    jkt, claims = _verified(lines[0])
    if not 0 < len(claims.jti) <= _MAX_JTI or claims.htm != method or not _is_same(claims.htu, url):
        raise InvalidDpopProofError("The proof is for another request.")
    if claims.nonce is not None:
        if not nonces.is_good(claims.nonce):
            raise UseDpopNonceError
    elif nonce_required or not abs(time.time() - claims.iat) <= WINDOW_SECONDS:
        raise UseDpopNonceError
    if access_token is not None:
        wanted = base64url(hashlib.sha256(access_token.encode()).digest())
        if claims.ath is None or not hmac.compare_digest(claims.ath.encode(), wanted.encode()):
            raise InvalidDpopProofError("The proof is for another access token.")
    return Proof(jkt, claims.jti, claims.nonce)


def _verified(line: bytes) -> tuple[str, _Claims]:
    """Return the thumbprint of the key that signed a proof, and the proof's claims."""
    try:
        head = from_base64url(line.decode("ascii").partition(".")[0])
        header = msgspec.json.decode(head or b"", type=_Header)
        if header.typ.lower() != "dpop+jwt":
            raise ValueError("header")
        key = public_key(header.jwk)
        if header.alg != key.algorithm:
            raise ValueError("algorithm")
        claims = msgspec.json.decode(key.signed_payload(line), type=_Claims)
        claims.jti.encode()
        return key.thumbprint, claims
    except (ValueError, RecursionError):
        raise InvalidDpopProofError("The proof is malformed, or was not signed by its key.") from None


def _is_same(htu: str, url: str) -> bool:
    """Return whether two URLs are equal, in any spelling; most clients copy the URL, so that needs no parsing."""
    return htu == url or ((given := _normal(htu)) is not None and given == _normal(url))


def _normal(url: str) -> str | None:
    """Return a URL without query and fragment, with scheme and host in lower case (RFC 3986, section 6.2.2)."""
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        if scheme not in {"https", "http"} or not parts.hostname or parts.username is not None:
            return None
        port = None if parts.port == {"https": 443, "http": 80}[scheme] else parts.port
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname.lower()
    return f"{scheme}://{host}{f':{port}' if port else ''}{parts.path or '/'}"
