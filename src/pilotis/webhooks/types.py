"""The types of requests and answers about webhooks and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.http.api.json_schemas import JsonObject

MASK = "•••"
"""The placeholder for a custom header's value; in a change it keeps the stored value."""

Name = Annotated[str, msgspec.Meta(max_length=100)]
Description = Annotated[str, msgspec.Meta(max_length=1000)]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2048, examples=["https://example.com/hooks"])]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=100, examples=["row.created"])]
Patterns = Annotated[list[Pattern], msgspec.Meta(min_length=1, max_length=100)]
TableIds = Annotated[list[UUID], msgspec.Meta(min_length=1, max_length=200)]
Headers = Annotated[dict[str, str], msgspec.Meta(max_length=10)]
TimeoutSeconds = Annotated[int, msgspec.Meta(ge=1, le=30)]
MaxInFlight = Annotated[int, msgspec.Meta(ge=1, le=32)]
ClientId = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[\x21-\x7E]+$")]
OverlapSeconds = Annotated[int, msgspec.Meta(ge=0, le=30 * 24 * 3600)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Hours = Annotated[int, msgspec.Meta(ge=1, le=24 * 30)]

WebhookStatus = Literal["arming", "active", "failing", "disabled"]
DeliveryStatus = Literal["pending", "succeeded", "failed", "cancelled"]


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A webhook to create.

    `event_types` are names such as `row.created`, a prefix such as `row.*`, or `*`. `table_ids` restricts events about
    tables; null means all tables. `headers` are sent with each delivery.
    """

    url: Url
    event_types: Patterns
    name: Name = ""
    description: Description = ""
    table_ids: TableIds | None = None
    headers: Headers = {}
    timeout_seconds: TimeoutSeconds = 15
    max_in_flight: MaxInFlight = 4
    is_active: bool = True
    provider_app_id: UUID | None = None
    client_id: ClientId | None = None
    client_secret: str | None = None


class WebhookChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A change of a webhook; absent fields stay as they are. `headers` replaces the set, and `•••` keeps a value."""

    url: Url | UnsetType = UNSET
    event_types: Patterns | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    table_ids: TableIds | UnsetType | None = UNSET
    headers: Headers | UnsetType = UNSET
    timeout_seconds: TimeoutSeconds | UnsetType = UNSET
    max_in_flight: MaxInFlight | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    provider_app_id: UUID | UnsetType | None = UNSET
    client_id: ClientId | UnsetType | None = UNSET
    client_secret: str | UnsetType | None = UNSET


class Webhook(msgspec.Struct, kw_only=True):
    """A webhook. Only the beginning of its secret and the names of its headers are shown."""

    id: UUID
    app_id: UUID
    name: str
    description: str
    url: str
    event_types: list[str]
    table_ids: list[UUID] | None
    provider_app_id: UUID | None
    client_id: ClientId | None
    headers: dict[str, str]
    is_active: bool
    status: WebhookStatus
    disabled_reason: str | None
    failing_since: str | None
    timeout_seconds: int
    max_in_flight: int
    secret_prefix: str
    previous_secret_expires_at: str | None
    pending_count: int
    last_success_at: str | None
    last_failure_at: str | None
    created_at: str
    updated_at: str


class CreatedWebhook(Webhook, kw_only=True):
    """A new webhook with its secret, which is shown only once."""

    secret: str


class WebhookStats(msgspec.Struct, kw_only=True):
    """Statistics of deliveries. `failed_count` counts recoverable ones; durations are of the last 24 hours."""

    pending: int
    succeeded_24h: int
    failed_24h: int
    failed_count: int
    p50_ms: int | None
    p95_ms: int | None


class WebhookDetails(Webhook, kw_only=True):
    """A webhook and the statistics of its deliveries."""

    stats: WebhookStats


class Rotation(msgspec.Struct, forbid_unknown_fields=True):
    """How long the previous secret also signs; 0 revokes it at once, after a leak."""

    overlap_seconds: OverlapSeconds = 24 * 3600


class RotatedSecret(msgspec.Struct):
    """A webhook's new secret, which is shown only once."""

    id: UUID
    secret: str
    previous_secret_expires_at: str | None


class LogQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The deliveries to list, newest first. `before` is the id at which the previous page ended (`next_before`)."""

    status: DeliveryStatus | None = None
    event_type: Pattern | None = None
    event_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: Count | None = None
    before: UUID | None = None


class DeliveryAttempt(msgspec.Struct, kw_only=True):
    """One attempt: its time, its duration and the receiver's response."""

    number: int
    at: str
    status_code: int | None
    duration_ms: int
    error: str | None
    response_excerpt: str | None
    response_headers: JsonObject | None


class Delivery(msgspec.Struct, kw_only=True):
    """The delivery of an event to a webhook, with its attempts. `request_id` is the request that led to the event."""

    id: UUID
    event_id: UUID
    event_type: str
    status: DeliveryStatus
    is_test: bool
    attempt_count: int
    status_code: int | None
    error: str | None
    duration_ms: int | None
    next_attempt_at: str | None
    next_attempt_reason: str | None
    created_at: str
    finished_at: str | None
    request_id: str | None
    attempts: list[DeliveryAttempt]


class DeliveryPage(msgspec.Struct):
    """A page of deliveries; `next_before` is null on the last page."""

    data: list[Delivery]
    limit: int
    next_before: UUID | None


class SentRequest(msgspec.Struct):
    """The request of each attempt, without the signatures; `body` is null once the event is no longer stored."""

    headers: dict[str, str]
    body: str | None


class DeliveryDetails(Delivery, kw_only=True):
    """A delivery and its request."""

    request: SentRequest


class NewTest(msgspec.Struct, forbid_unknown_fields=True):
    """The type whose example is sent."""

    event_type: Pattern = "webhook.test"


class TestResult(msgspec.Struct, kw_only=True):
    """The result of a test; `success` is whether the receiver answered with 2xx."""

    success: bool
    delivery_id: UUID
    event_id: UUID
    status_code: int | None
    duration_ms: int
    error: str | None
    response_excerpt: str | None


class Recovery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The deliveries to resend: those created since a time, by default only failed ones."""

    since: datetime
    until: datetime | None = None
    event_types: Patterns | None = None
    include_succeeded: bool = False


class Recovered(msgspec.Struct):
    """The number of deliveries that will be resent."""

    queued: int


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The period of the statistics."""

    hours: Hours = 24


class HourStats(msgspec.Struct, kw_only=True):
    """The deliveries that ended in an hour."""

    hour: str
    succeeded: int
    failed: int
    p50_ms: int | None
    p95_ms: int | None


class WebhookHours(msgspec.Struct):
    """The hours in which deliveries of a webhook ended."""

    webhook_id: UUID
    hours: list[HourStats]


class AllStats(msgspec.Struct):
    """Statistics of all webhooks of an app."""

    hours: int
    data: list[WebhookHours]


class RequestedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of an event that a request has led to, with the name and the address of its webhook."""

    delivery_id: UUID
    target_id: UUID
    name: str
    url: str
    event_type: str
    state: DeliveryStatus
    error: str | None
    created_at: datetime
    duration_ms: int | None
