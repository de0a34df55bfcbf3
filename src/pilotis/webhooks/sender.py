"""One attempt: composes, signs and sends the request, and converts the response to an outcome."""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from pilotis.events.envelope import compose
from pilotis.events.types import Catalogue, Event
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest, OutgoingResponse, RedirectError
from pilotis.kit import spans
from pilotis.kit.clock import now
from pilotis.security.encryption.types import Purpose
from pilotis.webhooks.consents import visible
from pilotis.webhooks.schedule import retry_after
from pilotis.webhooks.signatures import signature_headers, signing_key
from pilotis.webhooks.store import WebhookRecord

MAX_ANSWER_BYTES = 64 * 1024
MAX_EXCERPT_BYTES = 2048
_MAX_HEADER_BYTES = 1024
_KEPT_HEADERS = ("content-type", "retry-after", "server", "location", "www-authenticate")
STATUS = "STATUS"
GONE = 410


class Decrypter(Protocol):
    """Decrypts an app's secrets."""

    def decrypt(self, purpose: Purpose, name: str, encrypted: bytes) -> bytes:
        """Return the plaintext of a value encrypted for this place."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook's decrypted data for an attempt."""

    webhook_id: UUID
    url: str
    headers: Mapping[str, str]
    signing_keys: Sequence[hmac.HMAC]
    timeout_seconds: int
    max_in_flight: int
    is_active: bool
    client_id: str | None
    provider_app_id: UUID | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt. `error` is a code, None for success; `wait` is the requested pause in seconds."""

    at: datetime
    duration_ms: int
    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    headers: dict[str, str] | None = None
    wait: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the receiver accepted the delivery."""
        return self.error is None


def endpoint_of(row: WebhookRecord, secrets: Decrypter, at: datetime) -> Endpoint:
    """Return a webhook's data for an attempt at a given time."""
    active = [open_secret(secrets, row.webhook_id, row.secret)]
    expires_at = row.previous_secret_expires_at
    if row.previous_secret is not None and expires_at is not None and expires_at > at:
        active.append(open_secret(secrets, row.webhook_id, row.previous_secret))
    return Endpoint(
        webhook_id=row.webhook_id,
        url=row.url,
        headers=open_headers(secrets, row.webhook_id, row.headers),
        signing_keys=[signing_key(secret) for secret in active],
        timeout_seconds=row.timeout_seconds,
        max_in_flight=row.max_in_flight,
        is_active=row.is_active,
        client_id=row.client_id,
        provider_app_id=row.provider_app_id,
    )


def open_secret(secrets: Decrypter, webhook_id: UUID, encrypted: bytes) -> str:
    """Return a webhook's decrypted secret."""
    return secrets.decrypt(Purpose.WEBHOOK_SECRET, str(webhook_id), encrypted).decode()


def open_headers(secrets: Decrypter, webhook_id: UUID, encrypted: bytes | None) -> dict[str, str]:
    """Return a webhook's decrypted custom headers."""
    if encrypted is None:
        return {}
    opened = secrets.decrypt(Purpose.WEBHOOK_HEADERS, str(webhook_id), encrypted)
    return msgspec.json.decode(opened, type=dict[str, str])


class Sender:
    """Sends deliveries. `max_bytes` bounds a body; larger events are sent in short form."""

    def __init__(self, outgoing: Outgoing, catalogue: Catalogue, max_bytes: int) -> None:
        self._outgoing = outgoing
        self._catalogue = catalogue
        self._max_bytes = max_bytes

    def body(self, event: Event, client_id: str | None, *, is_test: bool = False) -> bytes:
        """Return the request body for an event, to the app itself or to a client of it."""
        event = visible(event, client_id)
        is_domain = self._catalogue.get(event.type) is None
        return compose(event, max_bytes=self._max_bytes, is_domain=is_domain, is_test=is_test)

    async def send(
        self, endpoint: Endpoint, event: Event, delivery_id: UUID, number: int, *, is_test: bool = False
    ) -> Outcome:
        """Make one attempt; failures are part of the outcome."""
        described: dict[str, spans.Attribute] = {
            "pilotis.app_id": str(event.app_id),
            "pilotis.webhook_id": str(endpoint.webhook_id),
            "pilotis.event.type": event.type,
            "pilotis.delivery.attempt": number,
        }
        leading = event.request_id
        with spans.span("delivery", described, kind="producer", request_id=leading, is_root=True) as span:
            outcome = await self._send(endpoint, event, delivery_id, number, is_test=is_test)
            if outcome.error is not None:
                span.fail(outcome.error)
            return outcome

    async def _send(
        self, endpoint: Endpoint, event: Event, delivery_id: UUID, number: int, *, is_test: bool
    ) -> Outcome:
        body = self.body(event, endpoint.client_id, is_test=is_test)
        signed = signature_headers(str(event.event_id), body, endpoint.signing_keys, int(time.time()))
        headers = {**request_headers(event, delivery_id, number), **signed, **endpoint.headers}
        request = OutgoingRequest(url=endpoint.url, headers=headers, body=body)
        at, started = now(), time.perf_counter()
        try:
            response = await self._outgoing.send(
                request,
                reach=Reach.SERVER,
                seconds=endpoint.timeout_seconds,
                max_bytes=MAX_ANSWER_BYTES,
                tenant=event.app_id,
            )
        except RedirectError as error:
            return _outcome(at, started, error.response, error.failure.value)
        except OutgoingError as error:
            return Outcome(at=at, duration_ms=_milliseconds(started), error=error.failure.value)
        return _outcome(at, started, response, None if 200 <= response.status < 300 else STATUS)


def request_headers(event: Event, delivery_id: UUID, number: int) -> dict[str, str]:
    """Return the headers of an attempt, without signatures and custom headers."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "Pilotis-Webhooks/1",
        "Accept": "*/*",
        "X-Service-Event": event.type,
        "X-Service-Delivery": str(delivery_id),
        "X-Service-Attempt": str(number),
    }


def _outcome(at: datetime, started: float, response: OutgoingResponse, error: str | None) -> Outcome:
    excerpt = response.body[:MAX_EXCERPT_BYTES].decode(errors="replace")
    return Outcome(
        at=at,
        duration_ms=_milliseconds(started),
        status_code=response.status,
        error=error,
        excerpt=_storable(excerpt) or None,
        headers=_kept_headers(response),
        wait=retry_after(response.status, response.header("retry-after"), at),
    )


def _kept_headers(response: OutgoingResponse) -> dict[str, str]:
    kept, room = {}, _MAX_HEADER_BYTES
    for name in _KEPT_HEADERS:
        if (value := response.header(name)) is not None:
            kept[name] = _storable(value.encode("utf-8", "surrogateescape").decode(errors="replace"))[:room]
            room -= len(name) + len(kept[name])
            if room <= 0:
                break
    return kept


def _storable(text: str) -> str:
    """Return the text without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")


def _milliseconds(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
