"""Recovery codes: ten, each of ten letters and digits, which work once. Pure."""

from __future__ import annotations

import base64
import secrets

NUMBER = 10
_HALF = 5


def new_codes() -> list[str]:
    """Return new codes as they are shown, such as `ABCDE-23456`; each has 50 random bits."""
    texts = [base64.b32encode(secrets.token_bytes(7)).decode()[: 2 * _HALF] for _ in range(NUMBER)]
    return [f"{text[:_HALF]}-{text[_HALF:]}" for text in texts]


def normal(code: str) -> bytes:
    """Return a code without what does not matter when it is entered: case, spaces and hyphens."""
    return code.upper().replace("-", "").replace(" ", "").encode()
