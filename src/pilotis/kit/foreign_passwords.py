"""Password hashes that other products have made: which are accepted, how they are stored, and what fits them. Pure.

Each is stored as one text that says its scheme, so that a column has them all: bcrypt's crypt format, the PHC string
format of argon2, scrypt and PBKDF2, and of Firebase's scrypt what remains of it without the project's key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

_MAX_BCRYPT_COST = 14
_MAX_ARGON2_KIB, _MAX_ARGON2_PASSES, _MAX_ARGON2_LANES = 128 * 1024, 10, 16
_MAX_SCRYPT_BYTES, _MAX_SCRYPT_WORK = 128 * 1024 * 1024, 2**22
_MAX_ITERATIONS = 2_000_000
# libsodium reads no longer ones.
_MAX_ARGON2_LENGTH = 127
_BCRYPT_BYTES = 72

_BCRYPT = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_ARGON2 = re.compile(
    r"\$argon2(?:id|i)\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$[A-Za-z0-9+/]{11,64}\$[A-Za-z0-9+/]{21,90}", re.ASCII
)
_SCRYPT = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/.]{1,90})\$([A-Za-z0-9+/.]{21,90})")
_PBKDF2 = re.compile(r"\$pbkdf2-sha256\$i=(\d{1,7})\$([A-Za-z0-9+/]{1,90})\$([A-Za-z0-9+/]{21,90})")
_FIREBASE = re.compile(
    r"\$firebase-scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=1\$([A-Za-z0-9+/]{1,180})\$([A-Za-z0-9+/]{21,180})"
)


class ForeignHashError(ValueError):
    """A hash is malformed, of a kind that is not accepted, or so costly that each sign-in would burden the server."""


def bcrypt(text: str) -> str:
    """Return what is stored of a hash in bcrypt's crypt format; raises `ForeignHashError`."""
    found = _BCRYPT.fullmatch(text)
    if found is None:
        raise ForeignHashError("A bcrypt hash is expected, such as $2b$10$… with 60 characters.")
    if not 4 <= int(found[1]) <= _MAX_BCRYPT_COST:
        raise ForeignHashError(f"The cost of a bcrypt hash is 4 to {_MAX_BCRYPT_COST}.")
    return text


def argon2(text: str) -> str:
    """Return what is stored of an argon2id or argon2i hash in the PHC string format; raises `ForeignHashError`."""
    found = _ARGON2.fullmatch(text)
    if found is None or len(text) > _MAX_ARGON2_LENGTH:
        raise ForeignHashError("An argon2id or argon2i hash is expected, such as $argon2id$v=19$m=65536,t=3,p=4$…$….")
    memory, passes, lanes = map(int, found.groups())
    if memory > _MAX_ARGON2_KIB or not 1 <= passes <= _MAX_ARGON2_PASSES or not 1 <= lanes <= _MAX_ARGON2_LANES:
        limits = f"m is at most {_MAX_ARGON2_KIB}, t at most {_MAX_ARGON2_PASSES}, p at most {_MAX_ARGON2_LANES}"
        raise ForeignHashError(f"An argon2 hash is too costly: {limits}.")
    return text


def scrypt(text: str) -> str:
    """Return what is stored of an scrypt hash in the PHC string format; raises `ForeignHashError`."""
    found = _SCRYPT.fullmatch(text)
    if found is None:
        raise ForeignHashError("An scrypt hash is expected, such as $scrypt$ln=15,r=8,p=1$…$….")
    _require_scrypt(*map(int, found.groups()[:3]))
    _decoded(found[4]), _decoded(found[5])
    return text


def pbkdf2_sha256(digest: str, salt: str, iterations: int) -> str:
    """Return what is stored of a PBKDF2-SHA256 hash, given in base64; raises `ForeignHashError`."""
    if not 1 <= iterations <= _MAX_ITERATIONS:
        raise ForeignHashError(f"PBKDF2 has 1 to {_MAX_ITERATIONS} iterations.")
    return _checked(_PBKDF2, f"$pbkdf2-sha256$i={iterations}${_encoded(_decoded(salt))}${_encoded(_decoded(digest))}")


def firebase_scrypt(digest: str, salt: str, salt_separator: str, signer_key: str, rounds: int, mem_cost: int) -> str:
    """Return what is stored of a hash of Firebase Authentication, given in base64; raises `ForeignHashError`.

    Firebase encrypts the project's key, by AES-256 in counter mode, with what scrypt makes of the password. What is
    stored is the stream that this cipher adds to the key, so that the key is not stored with each member.
    """
    _require_scrypt(mem_cost, rounds, 1)
    encrypted, key = _decoded(digest), _decoded(signer_key)
    if len(encrypted) != len(key):
        raise ForeignHashError("A hash of Firebase is as long as the signer_key, 64 bytes.")
    stream = bytes(left ^ right for left, right in zip(encrypted, key, strict=True))
    whole = _decoded(salt) + _decoded(salt_separator)
    return _checked(_FIREBASE, f"$firebase-scrypt$ln={mem_cost},r={rounds},p=1${_encoded(whole)}${_encoded(stream)}")


def check_stored(text: str) -> None:
    """Raise `ForeignHashError` for what no function here has returned, or what would burden each sign-in."""
    if text.startswith("$2"):
        bcrypt(text)
    elif text.startswith("$argon2"):
        argon2(text)
    elif text.startswith("$scrypt$"):
        scrypt(text)
    elif found := _PBKDF2.fullmatch(text):
        if not 1 <= int(found[1]) <= _MAX_ITERATIONS:
            raise ForeignHashError(f"PBKDF2 has 1 to {_MAX_ITERATIONS} iterations.")
    elif found := _FIREBASE.fullmatch(text):
        _require_scrypt(int(found[1]), int(found[2]), 1)
    else:
        raise ForeignHashError("This is no hash of a password.")


def is_foreign(stored: str) -> bool:
    """Return whether a stored hash is replaced by one of Pilotis' own at the next sign-in."""
    return not stored.startswith("$argon2id$")


def matches(stored: str, password: bytes) -> bool | None:
    """Return whether a password fits a stored hash; None if that is argon2, or no hash at all."""
    if _BCRYPT.fullmatch(stored):
        return _fits_bcrypt(stored, password)
    if found := _SCRYPT.fullmatch(stored):
        wanted = _decoded(found[5])
        log_n, r, p = (int(found[number]) for number in (1, 2, 3))
        made = _scrypt(password, _decoded(found[4]), log_n, r, p, len(wanted))
    elif found := _PBKDF2.fullmatch(stored):
        wanted = _decoded(found[3])
        made = hashlib.pbkdf2_hmac("sha256", password, _decoded(found[2]), int(found[1]), len(wanted))
    elif found := _FIREBASE.fullmatch(stored):
        wanted = _decoded(found[4])
        made = _stream(_scrypt(password, _decoded(found[3]), int(found[1]), int(found[2]), 1, 32), len(wanted))
    else:
        return None
    return hmac.compare_digest(made, wanted)


def _fits_bcrypt(stored: str, password: bytes) -> bool:
    # Imported when first needed: most servers never see such a hash.
    import bcrypt as library

    try:
        # bcrypt has always ignored what follows; the library leaves that to its callers.
        return library.checkpw(password[:_BCRYPT_BYTES], stored.encode())
    except ValueError:
        return False


def _scrypt(password: bytes, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    # OpenSSL counts some buffers beside the large one.
    memory = 128 * r * (2**log_n + p + 2) + 1024 * 1024
    return hashlib.scrypt(password, salt=salt, n=2**log_n, r=r, p=p, maxmem=memory, dklen=length)


def _stream(key: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(length))


def _require_scrypt(log_n: int, r: int, p: int) -> None:
    if not (1 <= log_n <= 30 and r >= 1 and p >= 1):
        raise ForeignHashError("The parameters of scrypt are at least 1.")
    if 128 * r * 2**log_n > _MAX_SCRYPT_BYTES or 2**log_n * r * p > _MAX_SCRYPT_WORK:
        raise ForeignHashError(f"An scrypt hash is too costly: it needs at most {_MAX_SCRYPT_BYTES >> 20} MiB.")


def _checked(form: re.Pattern[str], text: str) -> str:
    if not form.fullmatch(text):
        raise ForeignHashError("The hash has 16 to 128 bytes, and the salt 1 to 128.")
    return text


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the bytes of base64, with or without padding, of either alphabet, and of passlib's with dots."""
    plain = text.rstrip("=").translate(str.maketrans("-_.", "+/+"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ForeignHashError("A hash, a salt or a key is not base64.") from None
