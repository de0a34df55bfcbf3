"""JSON Web Signatures under RS256 (RFC 7515; RFC 7518, section 3.3) and their public keys (RFC 7517).

Third parties verify these tokens. They are separate from those of `kit.signing` by type, algorithm and keys. The header
is always `alg`, `typ` and `kid`, so only that form is accepted: no other `alg`, no `crit`, no key inside a token (RFC
8725, sections 3.1 and 3.10). The library is imported with the first key: a server that is no provider does without.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilotis.kit.crypto import base64url, from_base64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

MIN_BITS = 2048
_MAX_BITS = 8192
_EXPONENT = 65537
_MAX_CHARACTERS = 16_384
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)


class KeyFormatError(ValueError):
    """The text is not a private RSA key suitable for signing; the message gives the reason."""


class SignatureError(Exception):
    """The text is not a token of this kind signed by one of the keys."""


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    alg: str
    typ: str
    kid: str


class PublicKey:
    """A key that verifies. `kid` is its thumbprint (RFC 7638)."""

    def __init__(self, key: RSAPublicKey) -> None:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        self.scheme = PKCS1v15(), SHA256()
        self._refusal = InvalidSignature
        self._key = key
        numbers = key.public_numbers()
        self._n, self._e = _unsigned(numbers.n), _unsigned(numbers.e)
        # The required members in the order of their names, without blanks (RFC 7638, section 3.2).
        required = f'{{"e":"{self._e}","kty":"RSA","n":"{self._n}"}}'
        self.kid = base64url(hashlib.sha256(required.encode()).digest())

    def jwk(self) -> dict[str, str]:
        """Return the key as a JWK (RFC 7517, section 4; RFC 7518, section 6.3.1)."""
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": self._n, "e": self._e}

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Return whether the signature was made with this key."""
        try:
            self._key.verify(signature, data, *self.scheme)
        except self._refusal:
            return False
        return True


class PrivateKey:
    """A signing key."""

    def __init__(self, key: RSAPrivateKey) -> None:
        """Check the length; raises `KeyFormatError` for a key that is too short or too long."""
        if not MIN_BITS <= key.key_size <= _MAX_BITS:
            raise KeyFormatError(f"The RSA key must have {MIN_BITS} to {_MAX_BITS} bits, not {key.key_size}.")
        self._key = key
        self.public = PublicKey(key.public_key())

    @property
    def kid(self) -> str:
        """The thumbprint of the public key."""
        return self.public.kid

    def signature(self, data: bytes) -> bytes:
        """Return the signature of the data; takes about a third of a millisecond."""
        return self._key.sign(data, *self.public.scheme)

    def pem(self) -> bytes:
        """Return the key as unencrypted PKCS #8 (RFC 5958) in PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def generate(bits: int = MIN_BITS) -> PrivateKey:
    """Generate a key; takes a tenth of a second or more."""
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    return PrivateKey(generate_private_key(_EXPONENT, bits))


def from_pem(pem: bytes) -> PrivateKey:
    """Parse a private RSA key from a PEM block; raises `KeyFormatError`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFormatError("The text is not an unencrypted private key in PEM.") from None
    if not isinstance(key, RSAPrivateKey):
        raise KeyFormatError("The private key is not an RSA key.")
    return PrivateKey(key)


def keys_of_pem(text: str) -> list[PrivateKey]:
    """Return the private keys of one or more PEM blocks; line breaks may also be written as backslash and n.

    Raises `KeyFormatError` for a text without a block, or with an unsuitable key.
    """
    text = text.replace("\\n", "\n")
    blocks = [found[0] for found in _PEM.finditer(text)]
    if not blocks or _PEM.sub("", text).strip():
        raise KeyFormatError("The text must be one or more private keys in PEM and nothing else.")
    return [from_pem(block.encode()) for block in blocks]


def from_jwk(jwk: Mapping[str, Any]) -> PublicKey:
    """Parse a public RSA key from a JWK; raises `KeyFormatError`."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    parts = [from_base64url(part) if isinstance(part := jwk.get(name), str) else None for name in ("n", "e")]
    if jwk.get("kty") != "RSA" or not all(parts):
        raise KeyFormatError("The object is not an RSA key with n and e.")
    n, e = (int.from_bytes(part or b"") for part in parts)
    try:
        return PublicKey(RSAPublicNumbers(e, n).public_key())
    except ValueError:
        raise KeyFormatError("n and e do not form an RSA key.") from None


def sign(key: PrivateKey, typ: str, claims: Mapping[str, Any]) -> str:
    """Return the claims as a signed token with the `typ` of its kind, such as `at+jwt`."""
    header = base64url(msgspec.json.encode(_Header("RS256", typ, key.kid)))
    data = f"{header}.{base64url(msgspec.json.encode(claims))}"
    return f"{data}.{base64url(key.signature(data.encode()))}"


def verify(keys: Mapping[str, PublicKey], typ: str, token: str) -> dict[str, Any]:
    """Return the claims of a token with this `typ`, signed by the key that it names.

    Raises `SignatureError`. The caller checks the claims, including those of time.
    """
    if len(token) > _MAX_CHARACTERS or not token.isascii() or token.count(".") != 2:
        raise SignatureError("not a token")
    head, payload, signature = (from_base64url(part) for part in token.split("."))
    try:
        header = msgspec.json.decode(head or b"", type=_Header)
    except (msgspec.DecodeError, ValueError):
        raise SignatureError("another header") from None
    if (header.alg, header.typ) != ("RS256", typ):
        raise SignatureError("another kind")
    key = keys.get(header.kid)
    if key is None or not key.verifies(signature or b"", token.rpartition(".")[0].encode()):
        raise SignatureError("not signed by the key")
    try:
        return msgspec.json.decode(payload or b"", type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise SignatureError("not an object") from None


def _unsigned(number: int) -> str:
    """Return a number as base64url without leading zero bytes (RFC 7518, section 2)."""
    return base64url(number.to_bytes((number.bit_length() + 7) // 8))
