"""Cross-origin requests (Fetch standard, section 3.2): public routes for any origin, console routes for the console's.

A route can override this with `cors`. No answer allows credentials: what another site's page may read depends only on
headers that it sends explicitly, never on cookies.
"""

from __future__ import annotations

from pilotis import __version__
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.request import Call

Headers = list[tuple[bytes, bytes]]

_ALLOWED_HEADERS = (
    b"authorization, content-type, x-public-key, x-capability, x-challenge-token, x-device-token, x-request-id"
    b", idempotency-key, dpop, range, last-event-id"
    b", tus-resumable, upload-length, upload-defer-length, upload-metadata, upload-concat, upload-offset"
    b", upload-checksum"
)
_EXPOSED_HEADERS = (
    b"x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, etag, allow"
    b", content-range, content-disposition, last-modified, location, tus-resumable, tus-version, tus-extension"
    b", tus-max-size, tus-checksum-algorithm, upload-offset, upload-length, upload-metadata"
    b", upload-expires, upload-file-id, www-authenticate, dpop-nonce, date, idempotent-replayed, x-pilotis-version"
    b", x-device-token"
)
_READABLE = [
    (b"access-control-expose-headers", _EXPOSED_HEADERS),
    # By it a client knows what the server can do, before it sends what an older one would reject.
    (b"x-pilotis-version", __version__.encode()),
]
_ANY = [(b"access-control-allow-origin", b"*"), *_READABLE]

_NONE: Headers = []
_NO_ORIGIN = [(b"vary", b"origin")]


class Cors:
    """Computes the headers; `console_origin` is the only origin that may call console routes from a browser."""

    def __init__(self, console_origin: str) -> None:
        self.console_origin = console_origin
        self._console = _for_origin(console_origin)

    def answer(self, endpoint: Endpoint | None, call: Call | None) -> Headers:
        """Return the headers of an actual answer."""
        rule = "public" if endpoint is None else endpoint.cors
        if rule == "public":
            return _ANY
        if rule == "console":
            return self._console
        if rule == "none":
            return _NONE
        assert call is not None
        origin = rule(call)
        return _NO_ORIGIN if origin is None else _for_origin(origin)

    def preflight(self, endpoint: Endpoint | None, call: Call, methods: str) -> Headers:
        """Return the headers of the answer to OPTIONS for an endpoint, on a path with these methods."""
        allowed = self.answer(endpoint, call)
        if allowed is _NONE or allowed is _NO_ORIGIN:
            return [*allowed, (b"allow", methods.encode())]
        return [
            *allowed,
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", b"7200"),
            (b"allow", methods.encode()),
        ]


def _for_origin(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        *_READABLE,
        (b"vary", b"origin"),
    ]
