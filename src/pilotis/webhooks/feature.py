"""Webhooks and their deliveries."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from pilotis.data.tables.feature import TablesFeature
from pilotis.db.topics import Topic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.integrations.feature import IntegrationsFeature
from pilotis.jobs.lanes import Lane, LaneSource
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn, within
from pilotis.oauth.feature import OAuthFeature
from pilotis.security.encryption.types import Purpose
from pilotis.webhooks.attempts import AttemptSlots
from pilotis.webhooks.deliveries import Deliveries
from pilotis.webhooks.endpoints import WebhookEndpoints
from pilotis.webhooks.events import EVENT_TYPES
from pilotis.webhooks.holder import Holder, Tools
from pilotis.webhooks.listening import Listener
from pilotis.webhooks.metrics import DeliveryCounts
from pilotis.webhooks.schedule import Schedule
from pilotis.webhooks.sender import Sender
from pilotis.webhooks.service import Webhooks
from pilotis.webhooks.target import KIND, WebhookTargets
from pilotis.webhooks.tasks import periodic

QUEUE = "deliveries"


class WebhooksFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Webhooks."""

    described = (WebhookEndpoints,)
    archived: ClassVar[Archived] = {
        "webhooks": Copied(
            columns="webhook_id name description url event_types table_ids headers header_names secret secret_prefix"
            " timeout_seconds max_in_flight created_at updated_at",
            replaced={"is_active": "f"},
            checks={"timeout_seconds": within(1, 30), "max_in_flight": within(1, 20)},
            secrets=[
                SecretColumn("secret", Purpose.WEBHOOK_SECRET, "{webhook_id}"),
                SecretColumn("headers", Purpose.WEBHOOK_HEADERS, "{webhook_id}"),
            ],
            where="t.provider_app_id is null and t.listening_until is null",
        ),
        "webhook_health": LeftOut("deliveries are of the server that sent them"),
        "deliveries": LeftOut("deliveries are of the server that sent them"),
        "delivery_attempts": LeftOut("deliveries are of the server that sent them"),
    }

    webhooks: Webhooks
    deliveries: Deliveries
    listener: Listener


def feature(
    floor: Floor, tables: TablesFeature, integrations: IntegrationsFeature, oauth: OAuthFeature
) -> WebhooksFeature:
    """Return the feature."""
    settings, limits = floor.settings, floor.limits
    schedule = Schedule(
        gaps=settings.webhook_schedule,
        jitter=settings.webhook_jitter,
        breaker_seconds=settings.webhook_breaker_seconds,
    )
    consents = oauth.connections
    counts = DeliveryCounts()
    targets = WebhookTargets(
        max_pending=limits.webhook_pending,
        first_delay=schedule.gaps[0],
        catalogue=floor.events.catalogue,
        consents=consents,
        announce=lambda: floor.control.publish_soon(Topic.WORK, QUEUE),
    )
    webhooks = Webhooks(
        floor.database,
        floor.events,
        floor.secrets,
        lambda: floor.outgoing,
        tables.tables,
        integrations.types,
        consents,
        max_pending=limits.webhook_pending,
    )

    # The client for outgoing requests is created on first use.
    @cache
    def sender() -> Sender:
        return Sender(floor.outgoing, floor.events.catalogue, limits.webhook_body_bytes)

    @cache
    def tools() -> Tools:
        return Tools(
            database=floor.database,
            secrets=floor.secrets,
            sender=sender(),
            schedule=schedule,
            slots=AttemptSlots(),
            consents=consents,
            catalogue=floor.events.catalogue,
            disable=webhooks.disable,
            counts=counts,
        )

    async def hold(lane: Lane) -> None:
        await targets.hold(lane, lambda held: Holder(tools(), source, held))

    source = LaneSource(KIND, floor.database, hold, queue=QUEUE, lease_seconds=settings.node_lease_seconds)
    targets.attach(source)
    floor.control.subscribe(Topic.WORK, lambda queue: targets.wake() if queue == QUEUE else None, lambda: None)

    def wake() -> None:
        targets.wake()
        floor.control.publish_soon(Topic.WORK, QUEUE)

    deliveries = Deliveries(floor.database, floor.events, floor.secrets, sender, integrations.types, consents, wake)
    listener = Listener(floor.database, floor.secrets, floor.events.catalogue, webhooks, limits.webhook_body_bytes)
    return WebhooksFeature(
        name="webhooks",
        endpoints=[WebhookEndpoints(webhooks, deliveries, floor.rate_limits)],
        event_types=EVENT_TYPES,
        targets=[targets],
        sources=[source],
        periodic=periodic(floor.database, webhooks, floor.limits),
        drain=targets.drain,
        webhooks=webhooks,
        deliveries=deliveries,
        listener=listener,
        metrics=counts.declared(),
    )
