"""OAuth requires https, except on loopback (RFC 6749, section 3.1; RFC 8252)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from pilotis.kit.networks import is_loopback
from pilotis.oauth.errors import HttpsRequiredError


def is_loopback_url(url: str) -> bool:
    """Return whether a server at this address is reached from its own machine alone."""
    host = urlsplit(url).hostname or ""
    return is_loopback(host) or host.endswith(".localhost")


class Bounds(Protocol):
    """The server's settings that the check needs: the trusted proxies."""

    @property
    def trusted_proxies(self) -> frozenset[str]:
        """The proxies' addresses."""


class Request(Protocol):
    """The parts of a request that the check needs."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope."""

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The headers, by lower-case name."""

    @property
    def server(self) -> Bounds:
        """The server's settings."""


class Https:
    """Rejects requests that arrived over http."""

    def __init__(self, base_url: str, *, allow_http: bool) -> None:
        self._is_free = allow_http or is_loopback_url(base_url)

    def check(self, request: Request) -> None:
        """Raise `HttpsRequiredError` for a request that arrived over http, according to a trusted proxy if any."""
        if self._is_free or request.scope.get("scheme") == "https":
            return
        client = request.scope.get("client")
        forwarded = request.headers.get(b"x-forwarded-proto")
        if client is None or client[0] not in request.server.trusted_proxies:
            raise HttpsRequiredError
        if forwarded is None:
            raise HttpsRequiredError(
                "The proxy does not say that it was reached by https: let it send `X-Forwarded-Proto: https`."
            )
        if forwarded.strip().lower() != b"https":
            raise HttpsRequiredError(
                "Use https: the proxy's X-Forwarded-Proto says that it was reached by another way."
            )
