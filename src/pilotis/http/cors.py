"""Cross-origin requests (Fetch standard, section 3.2): public routes for any origin, console routes for the console's.

No answer allows credentials: Pilotis knows no cookies, only headers that a page sends on purpose.
"""

from __future__ import annotations

from pilotis.http.endpoint import Endpoint

Headers = list[tuple[bytes, bytes]]

_ALLOWED_HEADERS = (
    b"authorization, content-type, x-public-key, x-request-id, idempotency-key, dpop, range, tus-resumable"
    b", upload-length, upload-defer-length, upload-metadata, upload-concat, upload-offset, upload-checksum"
)
_EXPOSED_HEADERS = (
    b"x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, etag, allow"
    b", content-range, content-disposition, last-modified, location, tus-resumable, tus-version, tus-extension"
    b", tus-max-size, tus-checksum-algorithm, upload-offset, upload-length, upload-metadata"
    b", upload-expires, upload-file-id"
)
_ANY = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _EXPOSED_HEADERS)]


class Cors:
    """Decides on the headers; `console_origin` is the one origin that may call console routes from a browser."""

    def __init__(self, console_origin: str) -> None:
        self._console = [
            (b"access-control-allow-origin", console_origin.encode()),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"origin"),
        ]

    def answer(self, endpoint: Endpoint | None) -> Headers:
        """Return the headers of an actual answer."""
        return self._console if endpoint is not None and endpoint.is_console else _ANY

    def preflight(self, endpoint: Endpoint | None, methods: str) -> Headers:
        """Return the headers of the answer to OPTIONS for an endpoint, on a path that takes these methods."""
        return [
            *self.answer(endpoint),
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", b"7200"),
            (b"allow", methods.encode()),
        ]
