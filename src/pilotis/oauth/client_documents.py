"""Clients whose id is the URL of their metadata (OAuth Client ID Metadata Document, draft 02)."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from pilotis.db.batching import SingleFlight
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest, OutgoingResponse
from pilotis.kit.networks import is_loopback
from pilotis.oauth.client_metadata import has_secret, parse, registration
from pilotis.oauth.errors import InvalidRequestError, OAuthError
from pilotis.oauth.https import is_loopback_url
from pilotis.oauth.redirect_uris import origin_of
from pilotis.oauth.types import NewClient

_SECONDS = 5.0
_MAX_BYTES = 16 * 1024
_MIN_CACHED, _MAX_CACHED = 30, 24 * 3600
_MAX_DOCUMENTS = 1000
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=(\d{1,9})\s*(?:,|$)")


class _Named(msgspec.Struct):
    client_id: str
    client_secret: msgspec.Raw = msgspec.Raw()


class _Cached(NamedTuple):
    client: NewClient
    until: float


class ClientDocuments:
    """Reads clients' documents, and caches valid ones as their headers say; errors are not cached.

    `issuer` is the server's address: only one on loopback, for development, also reads documents by http.
    """

    def __init__(self, outgoing: Callable[[], Outgoing], issuer: str) -> None:
        self._outgoing = outgoing
        self._schemes = ("https", "http") if is_loopback_url(issuer) else ("https",)
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        self._reading: SingleFlight[NewClient] = SingleFlight()

    def is_cached(self, url: str) -> bool:
        """Return whether this process has read the document, and its lifetime has not ended."""
        found = self._cached.get(url)
        return found is not None and time.monotonic() < found.until

    async def read(self, url: str) -> NewClient:
        """Return the client that a document describes; raises `InvalidRequestError`."""
        self.check(url)
        # Anybody can make requests that need the document, so at most one at a time goes to its address.
        return await self._reading.run(url, partial(self._fetch, url))

    async def _fetch(self, url: str) -> NewClient:
        if self.is_cached(url):
            return self._cached[url].client
        request = OutgoingRequest(url=url, method="GET", headers={"Accept": "application/json"})
        try:
            answer = await self._outgoing().send(
                request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant="client documents"
            )
        except OutgoingError as error:
            raise InvalidRequestError(f"The client's metadata could not be read ({error.failure.value}).") from None
        if answer.status != 200 or answer.is_truncated:
            raise InvalidRequestError(
                f"The client's metadata could not be read: the answer was {answer.status}, or over {_MAX_BYTES} bytes."
            )
        client = _described(url, answer.body)
        self._cached[url] = _Cached(client, time.monotonic() + _lifetime(answer))
        self._cached.move_to_end(url)
        while len(self._cached) > _MAX_DOCUMENTS:
            self._cached.popitem(last=False)
        return client

    def check(self, url: str) -> None:
        """Raise `InvalidRequestError` unless a URL may be a client's id (section 3 of the draft)."""
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in self._schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or parts.username is not None or "#" in url or not parts.path.strip("/"):
            raise InvalidRequestError("A client_id that is a URL must be https, with a path, and without a fragment.")
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise InvalidRequestError("A client_id that is a URL must be https.")
        if {".", ".."} & set(parts.path.lower().replace("%2e", ".").split("/")):
            raise InvalidRequestError("A client_id that is a URL must not have the path segments . and ..")


def _described(url: str, body: bytes) -> NewClient:
    try:
        named = msgspec.json.decode(body, type=_Named)
        if named.client_id != url:
            raise InvalidRequestError("The document's client_id is not its URL.")
        # Without a secret, the default of RFC 7591 means nothing.
        given = parse(body)
        if "token_endpoint_auth_method" not in msgspec.json.decode(body):
            given.token_endpoint_auth_method = "none"  # noqa: S105 - a name
        client = registration(given, is_dynamic=True)
    except OAuthError as error:
        raise InvalidRequestError(f"The client's metadata are not valid: {error.text}") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise InvalidRequestError("The client's metadata are not JSON with client_id.") from None
    if has_secret(client) or bytes(named.client_secret):
        raise InvalidRequestError("A client with a document has no secret: use none or private_key_jwt.")
    own = origin_of(url)
    if any(origin_of(uri) != own and not is_loopback_url(uri) for uri in client.redirect_uris):
        raise InvalidRequestError("The client's redirect URIs must have the origin of its document, or be on loopback.")
    return client


def _lifetime(answer: OutgoingResponse) -> float:
    """Return for how many seconds a document may be cached (RFC 9111, section 5.2.2)."""
    control = (answer.header("cache-control") or "").lower()
    found = _MAX_AGE.search(control)
    seconds = int(found[1]) if found and not ("no-store" in control or "no-cache" in control) else 0
    return max(_MIN_CACHED, min(_MAX_CACHED, seconds))
