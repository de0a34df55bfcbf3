"""The routes of webhooks and their deliveries. Only console users can call them; keys cannot."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.tables.service import TableBusyError, TableNotFoundError
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging
from pilotis.security.rate_limits import RateLimits
from pilotis.webhooks.deliveries import Deliveries
from pilotis.webhooks.errors import (
    AddressNotAllowedError,
    ClientNotLinkedError,
    DeliveryNotFoundError,
    EventExpiredError,
    InvalidHeaderError,
    InvalidUrlError,
    TestNotRepeatableError,
    TooManyWebhooksError,
    UnknownEventTypeError,
    WebhookDisabledError,
    WebhookNotFoundError,
)
from pilotis.webhooks.service import Webhooks
from pilotis.webhooks.types import (
    AllStats,
    CreatedWebhook,
    Delivery,
    DeliveryDetails,
    DeliveryPage,
    LogQuery,
    NewTest,
    NewWebhook,
    Recovered,
    Recovery,
    RotatedSecret,
    Rotation,
    StatsQuery,
    TestResult,
    Webhook,
    WebhookChange,
    WebhookDetails,
)

_WEBHOOKS = "/v1/apps/:app_id/webhooks"
_WEBHOOK = f"{_WEBHOOKS}/:webhook_id"
_DELIVERY = f"{_WEBHOOK}/logs/:delivery_id"
_INVALID = [
    InvalidUrlError,
    AddressNotAllowedError,
    UnknownEventTypeError,
    InvalidHeaderError,
    ClientNotLinkedError,
    TableNotFoundError,
    TableBusyError,
]


class WebhookEndpoints(Endpoints, tag="Webhooks"):
    """Webhooks: events of an app, sent to a URL."""

    def __init__(self, webhooks: Webhooks, deliveries: Deliveries, rates: RateLimits) -> None:
        self._webhooks = webhooks
        self._deliveries = deliveries
        self._rates = rates

    @post(
        _WEBHOOKS,
        access=Access.APP_EDITOR,
        status=201,
        creates="webhook_id",
        errors=[*_INVALID, TooManyWebhooksError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewWebhook) -> CreatedWebhook:
        """Create a webhook. Its secret is shown only once.

        Every change that begins after the response is delivered, at least once, with the same `Idempotency-Key` each
        time, in no guaranteed order.
        """
        return await self._webhooks.create(call.app, call.actor, UUID(call.new_id()), body)

    @get(_WEBHOOKS, access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[Webhook]:
        """List webhooks, newest first."""
        return await self._webhooks.page(call.app, query)

    @get(_WEBHOOK, access=Access.APP_VIEWER, errors=[WebhookNotFoundError])
    async def read(self, call: Call, app_id: UUID, webhook_id: UUID) -> WebhookDetails:
        """Read a webhook and the statistics of its deliveries."""
        return await self._webhooks.details(call.app, webhook_id)

    @put(_WEBHOOK, access=Access.APP_EDITOR, errors=[WebhookNotFoundError, *_INVALID])
    async def change(self, call: Call, app_id: UUID, webhook_id: UUID, body: WebhookChange) -> Webhook:
        """Change a webhook; absent fields stay as they are.

        `is_active: false` fails pending deliveries, and no events are kept for the webhook while it is inactive.
        Activating it resends nothing; use recover for that.
        """
        return await self._webhooks.change(call.app, call.actor, webhook_id, body)

    @delete(_WEBHOOK, access=Access.APP_EDITOR, errors=[WebhookNotFoundError])
    async def delete(self, call: Call, app_id: UUID, webhook_id: UUID) -> Deleted:
        """Delete a webhook. Its pending deliveries are cancelled."""
        await self._webhooks.delete(call.app, call.actor, webhook_id)
        return Deleted("Webhook deleted.", webhook_id)

    @post(f"{_WEBHOOK}/regenerate-secret", access=Access.APP_EDITOR, errors=[WebhookNotFoundError])
    async def rotate(self, call: Call, app_id: UUID, webhook_id: UUID, body: Rotation) -> RotatedSecret:
        """Replace the secret. It is shown only once.

        The previous secret also signs for `overlap_seconds`, so that the receiver can be updated; after a
        leak send 0.
        """
        return await self._webhooks.rotate(call.app, call.actor, webhook_id, body.overlap_seconds)

    @get(f"{_WEBHOOK}/logs", access=Access.APP_VIEWER, errors=[WebhookNotFoundError])
    async def logs(self, call: Call, app_id: UUID, webhook_id: UUID, query: LogQuery) -> DeliveryPage:
        """List deliveries with their attempts, newest first.

        Successful ones are kept for 7 days, others for 30.
        """
        return await self._deliveries.page(call.app, webhook_id, query)

    @post(f"{_WEBHOOK}/test", access=Access.APP_EDITOR, errors=[WebhookNotFoundError, UnknownEventTypeError])
    async def test(self, call: Call, app_id: UUID, webhook_id: UUID, body: NewTest) -> TestResult:
        """Send the example of an event type now, also to an inactive webhook.

        If the receiver fails, the status is still 200, with `success: false`. A test is not retried.
        """
        await self._rates.count(call.client, call.app, "webhook_tests", group=str(webhook_id))
        return await self._deliveries.test(call.app, call.actor, webhook_id, body.event_type)

    @get(_DELIVERY, access=Access.APP_VIEWER, errors=[WebhookNotFoundError, DeliveryNotFoundError])
    async def delivery(self, call: Call, app_id: UUID, webhook_id: UUID, delivery_id: UUID) -> DeliveryDetails:
        """Read a delivery and its request."""
        return await self._deliveries.read(call.app, webhook_id, delivery_id)

    @post(
        f"{_DELIVERY}/redeliver",
        access=Access.APP_EDITOR,
        errors=[
            WebhookNotFoundError,
            DeliveryNotFoundError,
            EventExpiredError,
            WebhookDisabledError,
            TestNotRepeatableError,
        ],
    )
    async def redeliver(self, call: Call, app_id: UUID, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send a delivery again. Its earlier attempts are kept, and its schedule restarts."""
        return await self._deliveries.redeliver(call.app, call.actor, webhook_id, delivery_id)

    @post(f"{_WEBHOOK}/recover", access=Access.APP_EDITOR, errors=[WebhookNotFoundError, WebhookDisabledError])
    async def recover(self, call: Call, app_id: UUID, webhook_id: UUID, body: Recovery) -> Recovered:
        """Resend all deliveries that have failed since a time, at most those of the last 30 days.

        Events from times when the webhook was inactive are not included.
        """
        return await self._deliveries.recover(call.app, call.actor, webhook_id, body)

    @get("/v1/apps/:app_id/webhook-stats", access=Access.APP_VIEWER)
    async def stats(self, call: Call, app_id: UUID, query: StatsQuery) -> AllStats:
        """Count the deliveries of each webhook by the hour in which they ended."""
        return await self._deliveries.hours(call.app, query.hours)
