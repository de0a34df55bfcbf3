"""Codes of authenticator apps (RFC 6238): SHA-1, six digits, 30 seconds, one step before and after. Pure."""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.twofactor.totp import TOTP

STEP_SECONDS = 30
_BYTES, _DIGITS = 20, 6


def new_secret() -> bytes:
    """Return a secret of 160 bits."""
    return secrets.token_bytes(_BYTES)


def shown(secret: bytes) -> str:
    """Return a secret as a person enters it in an authenticator app."""
    return base64.b32encode(secret).decode()


def uri(secret: bytes, account: str, issuer: str) -> str:
    """Return the URI that authenticator apps read from a QR code."""
    # A colon separates the issuer from the account.
    return _totp(secret).get_provisioning_uri(account.replace(":", " "), issuer.replace(":", " "))


def qr(text: str) -> str:
    """Return a QR code as an SVG element, black on white."""
    # Imported with the first code: few processes need it.
    import segno

    code = segno.make(text, error="m", micro=False)
    return str(code.svg_inline(scale=4, light="#fff", title="QR code"))


def step_of(secret: bytes, code: str, now: float) -> int | None:
    """Return the time step whose code it is; None if it is none of the last, the current and the next one."""
    current = int(now) // STEP_SECONDS
    totp, found = _totp(secret), None
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(totp.generate(step * STEP_SECONDS), code.encode()):
            found = step
    return found


def _totp(secret: bytes) -> TOTP:
    from cryptography.hazmat.primitives.hashes import SHA1
    from cryptography.hazmat.primitives.twofactor.totp import TOTP

    return TOTP(secret, _DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303 - RFC 6238; authenticator apps know no other
