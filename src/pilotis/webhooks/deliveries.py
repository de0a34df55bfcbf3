"""The deliveries of webhooks for console users: the log, tests, redelivery, statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.events.service import Events
from pilotis.events.types import Event, EventType, NewEvent
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.jobs.lanes import add_work
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.webhooks import delivery_store, log_store, store
from pilotis.webhooks.consents import Consents, allowed
from pilotis.webhooks.delivery_store import NewDelivery, Result
from pilotis.webhooks.errors import (
    DeliveryNotFoundError,
    EventExpiredError,
    TestNotRepeatableError,
    UnknownEventTypeError,
    WebhookDisabledError,
    WebhookNotFoundError,
)
from pilotis.webhooks.events import WEBHOOK_TEST
from pilotis.webhooks.log_store import AttemptRecord, DeliveryRecord, HourRecord
from pilotis.webhooks.own_types import OwnTypes
from pilotis.webhooks.sender import Outcome, Sender, endpoint_of, request_headers
from pilotis.webhooks.store import WebhookRecord
from pilotis.webhooks.target import KIND
from pilotis.webhooks.types import (
    MASK,
    AllStats,
    Delivery,
    DeliveryAttempt,
    DeliveryDetails,
    DeliveryPage,
    HourStats,
    LogQuery,
    Recovered,
    Recovery,
    RequestedDelivery,
    SentRequest,
    TestResult,
    WebhookHours,
)

MAX_RECOVERY_DAYS = 30


class Deliveries:
    """Reads and repeats deliveries. `wake` claims due lanes."""

    by_day = log_store.BY_DAY
    """Counts deliveries by day; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        events: Events,
        secrets: Secrets,
        sender: Callable[[], Sender],
        own_types: OwnTypes,
        consents: Consents,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._events = events
        self._secrets = secrets
        self._sender = sender
        self._own_types = own_types
        self._consents = consents
        self._wake = wake

    async def page(self, app: AppInfo, webhook_id: UUID, query: LogQuery) -> DeliveryPage:
        """Return a page of a webhook's deliveries with their attempts, newest first."""
        await self._require(app.app_id, webhook_id)
        limit = app.limits.page_size(query.limit)
        rows = await log_store.page(self._database.of(app.app_id), app.app_id, webhook_id, query, limit + 1)
        items = await self._with_attempts(self._database.of(app.app_id), app.app_id, rows[:limit])
        return DeliveryPage(items, limit, items[-1].id if items and len(rows) > limit else None)

    async def read(self, app: AppInfo, webhook_id: UUID, delivery_id: UUID) -> DeliveryDetails:
        """Return a delivery and the request that it sends; raises `DeliveryNotFoundError`."""
        webhook = await self._require(app.app_id, webhook_id)
        row = await log_store.read(self._database.of(app.app_id), app.app_id, webhook_id, delivery_id)
        if row is None:
            raise DeliveryNotFoundError
        (delivery,) = await self._with_attempts(self._database.of(app.app_id), app.app_id, [row])
        event = await self._events.read(row.event_app_id, row.event_id)
        request = SentRequest(dict.fromkeys(webhook.header_names, MASK), None)
        # The request of a consumer's webhook is readable as long as it may be sent.
        if event is not None and (row.is_test or await self._is_allowed(webhook, event)):
            body = self._sender().body(event, webhook.client_id, is_test=row.is_test).decode()
            headers = request_headers(event, delivery_id, max(row.attempts, 1))
            headers |= {"Idempotency-Key": str(event.event_id), "webhook-id": str(event.event_id)}
            request = SentRequest(headers | request.headers, body)
        return DeliveryDetails(**msgspec.structs.asdict(delivery), request=request)

    async def test(self, app: AppInfo, actor: Actor, webhook_id: UUID, event_type: str) -> TestResult:
        """Send an example of a type at once, also to an inactive webhook; it is not retried."""
        row = await store.for_sending(self._database.of(app.app_id), app.app_id, webhook_id)
        if row is None:
            raise WebhookNotFoundError
        event = await self._example(app.app_id, row.provider_app_id or app.app_id, event_type)
        endpoint = endpoint_of(row, await self._secrets.app(app.app_id), now())
        delivery_id = uuid7()
        outcome = await self._sender().send(endpoint, event, delivery_id, 1, is_test=True)
        delivery = NewDelivery(
            app_id=app.app_id,
            delivery_id=delivery_id,
            target_id=webhook_id,
            event_app_id=app.app_id,
            event_id=event.event_id,
            event_type=event.type,
        )
        async with self._database.transaction(app.app_id) as connection:
            await self._events.keep(connection, app.app_id, _new_event(event))
            await delivery_store.insert_test(connection, delivery, single_result(delivery_id, outcome))
            await record(connection, app.app_id, actor, "webhook.test", webhook_id, event_type=event_type)
        return TestResult(
            success=outcome.ok,
            delivery_id=delivery_id,
            event_id=event.event_id,
            status_code=outcome.status_code,
            duration_ms=outcome.duration_ms,
            error=outcome.error,
            response_excerpt=outcome.excerpt,
        )

    async def redeliver(self, app: AppInfo, actor: Actor, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send a delivery again, with a new schedule; its earlier attempts are kept."""
        async with self._database.transaction(app.app_id) as connection:
            await self._lock_active(connection, app.app_id, webhook_id)
            row = await log_store.read(connection, app.app_id, webhook_id, delivery_id)
            if row is None:
                raise DeliveryNotFoundError
            if row.is_test:
                raise TestNotRepeatableError
            if not await self._events.can_be_sent(connection, row.event_app_id, row.event_id):
                raise EventExpiredError
            await add_work(connection, KIND, [(app.app_id, webhook_id)])
            await log_store.send_again(connection, app.app_id, webhook_id, delivery_id)
            await record(connection, app.app_id, actor, "webhook.redeliver", webhook_id, delivery_id=str(delivery_id))
            row = await log_store.read(connection, app.app_id, webhook_id, delivery_id)
            assert row is not None
            (delivery,) = await self._with_attempts(connection, app.app_id, [row])
        self._wake()
        return delivery

    async def recover(self, app: AppInfo, actor: Actor, webhook_id: UUID, wanted: Recovery) -> Recovered:
        """Send all failed deliveries since a time again, or all; at most those of the last 30 days."""
        since = max(wanted.since, now() - timedelta(days=MAX_RECOVERY_DAYS))
        states = ["failed", "succeeded"] if wanted.include_succeeded else ["failed"]
        async with self._database.transaction(app.app_id) as connection:
            await self._lock_active(connection, app.app_id, webhook_id)
            await add_work(connection, KIND, [(app.app_id, webhook_id)])
            number = await log_store.recover(
                connection, app.app_id, webhook_id, since, wanted.until, wanted.event_types, states
            )
            await record(connection, app.app_id, actor, "webhook.recover", webhook_id, deliveries=number)
        self._wake()
        return Recovered(number)

    async def hours(self, app: AppInfo, number: int) -> AllStats:
        """Return the number of each webhook's deliveries by the hour in which they ended."""
        rows = await log_store.hours(self._database.of(app.app_id), app.app_id, number)
        data = [
            WebhookHours(webhook_id, [_hour(row) for row in group])
            for webhook_id, group in groupby(rows, key=lambda row: row.webhook_id)
        ]
        return AllStats(number, data)

    async def of_request(self, app_id: UUID, request_id: str, limit: int) -> list[RequestedDelivery]:
        """Return the deliveries that a request has led to, oldest first."""
        return await log_store.of_request(self._database.of(app_id), app_id, request_id, limit)

    async def _require(self, app_id: UUID, webhook_id: UUID) -> WebhookRecord:
        row = await store.read(self._database.of(app_id), app_id, webhook_id)
        if row is None:
            raise WebhookNotFoundError
        return row

    async def _lock_active(self, connection: Connection, app_id: UUID, webhook_id: UUID) -> None:
        row = await store.lock(connection, app_id, webhook_id)
        if row is None:
            raise WebhookNotFoundError
        if not row.is_active:
            raise WebhookDisabledError

    async def _with_attempts(
        self, database: TenantDatabase | Connection, app_id: UUID, rows: Sequence[DeliveryRecord]
    ) -> list[Delivery]:
        found = await log_store.attempts(database, app_id, [row.delivery_id for row in rows])
        attempts: dict[UUID, list[DeliveryAttempt]] = {}
        for one in found:
            attempts.setdefault(one.delivery_id, []).append(_attempt(one))
        return [_delivery(row, attempts.get(row.delivery_id, [])) for row in rows]

    async def _is_allowed(self, webhook: WebhookRecord, event: Event) -> bool:
        built_in = {type_.name for type_ in self._events.catalogue.offered()}
        return await allowed(self._consents, webhook.app_id, webhook.client_id, event, built_in)

    async def _example(self, app_id: UUID, provider_app_id: UUID, event_type: str) -> Event:
        """Return an event that was never emitted, from the example of the app's own or the provider's type."""
        type_ = self._events.catalogue.get(event_type)
        if type_ is not None and not type_.internal:
            return _event(app_id, type_)
        example = await self._own_types.example(provider_app_id, event_type)
        if example is None:
            raise UnknownEventTypeError(f"There is no event type {event_type}.")
        return msgspec.structs.replace(_event(app_id, WEBHOOK_TEST), type=event_type, **example)


def _event(app_id: UUID, type_: EventType[Any]) -> Event:
    return Event(
        app_id=app_id,
        event_id=uuid7(),
        type=type_.name,
        version=type_.version,
        table_id=None,
        storage_id=None,
        member_id=None,
        subject=None,
        actor_kind=SYSTEM.kind,
        actor_id=None,
        depth=0,
        data=msgspec.json.encode(type_.example).decode(),
        created_at=now(),
    )


def _new_event(event: Event) -> NewEvent:
    return NewEvent(
        event_id=event.event_id,
        type=event.type,
        version=event.version,
        actor_kind=event.actor_kind,
        actor_id=event.actor_id,
        depth=event.depth,
        request_id=event.request_id,
        data=msgspec.Raw(event.data.encode()),
    )


def single_result(delivery_id: UUID, outcome: Outcome) -> Result:
    """Return the result of a delivery that is attempted only once."""
    return Result(
        delivery_id=delivery_id,
        state="succeeded" if outcome.ok else "failed",
        number=1,
        tries=1,
        delay=None,
        reason=None,
        attempted=True,
        ok=outcome.ok,
        at=outcome.at,
        duration_ms=outcome.duration_ms,
        status_code=outcome.status_code,
        error=outcome.error,
        excerpt=outcome.excerpt,
        headers=outcome.headers,
    )


def _attempt(row: AttemptRecord) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=row.number,
        at=rfc3339(row.at),
        status_code=row.status_code,
        duration_ms=row.duration_ms,
        error=row.error,
        response_excerpt=row.response_excerpt,
        response_headers=None if row.headers is None else msgspec.Raw(row.headers.encode()),
    )


def _delivery(row: DeliveryRecord, attempts: list[DeliveryAttempt]) -> Delivery:
    return Delivery(
        id=row.delivery_id,
        event_id=row.event_id,
        event_type=row.event_type,
        status=row.state,
        is_test=row.is_test,
        attempt_count=row.attempts,
        status_code=row.status_code,
        error=row.error,
        duration_ms=row.duration_ms,
        next_attempt_at=optional_rfc3339(row.next_attempt_at),
        next_attempt_reason=row.next_attempt_reason,
        created_at=rfc3339(row.created_at),
        finished_at=optional_rfc3339(row.finished_at),
        request_id=row.request_id,
        attempts=attempts,
    )


def _hour(row: HourRecord) -> HourStats:
    return HourStats(
        hour=rfc3339(row.hour),
        succeeded=row.succeeded,
        failed=row.failed,
        p50_ms=row.p50_ms,
        p95_ms=row.p95_ms,
    )
