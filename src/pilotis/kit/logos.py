"""Pictures that stand for an app or a client: read from a request, and encoded again before anyone sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol
from uuid import UUID

from pilotis.kit.errors import BadRequestError, PayloadTooLargeError

MAX_BYTES = 1_000_000
HEADERS = (
    (b"cache-control", b"public, max-age=300"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)
"""What is answered with a logo: a deleted one is gone soon, and the picture is nothing but a picture."""
# Each format is told by its first bytes, and decoded as that format alone.
_FORMATS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class Encoder(Protocol):
    """Encodes an app's image, in a media type, again as WebP with at most `side` pixels on each side."""

    async def __call__(self, app_id: UUID, data: bytes, mime_type: str, *, side: int) -> bytes:
        """Return the new image; raises `BadRequestError` for one that cannot be decoded, or `UnavailableError`."""


class InvalidLogoError(BadRequestError):
    """400: a logo is not a complete PNG, JPEG, GIF or WebP image, or has too many pixels."""

    code = "INVALID_LOGO"
    message = "Send a complete image as PNG, JPEG, GIF or WebP."


async def encoded_logo(encode: Encoder, app_id: UUID, body: AsyncIterator[bytes], *, side: int) -> bytes:
    """Return the picture of a request's body as WebP; raises `InvalidLogoError` or `PayloadTooLargeError`."""
    data = await _read(body)
    kind = _media_type(data)
    if kind is None:
        raise InvalidLogoError
    try:
        return await encode(app_id, data, kind, side=side)
    except BadRequestError as error:
        raise InvalidLogoError(error.text) from None


def is_webp(data: bytes) -> bool:
    """Return whether bytes begin as a WebP image does (RFC 9649, section 2.4)."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def check_logo(text: str) -> None:
    """Raise ValueError for bytes, written as PostgreSQL does, that are no logo of a server."""
    data = bytes.fromhex(text.removeprefix("\\x"))
    if len(data) > MAX_BYTES or not is_webp(data):
        raise ValueError("a logo is none of Pilotis")


async def _read(body: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for chunk in body:
        data += chunk
        if len(data) > MAX_BYTES:
            raise PayloadTooLargeError(f"A logo has at most {MAX_BYTES} bytes.")
    return bytes(data)


def _media_type(data: bytes) -> str | None:
    """Return the type of an image by its first bytes, or None."""
    if is_webp(data):
        return "image/webp"
    return next((kind for prefix, kind in _FORMATS if data.startswith(prefix)), None)
