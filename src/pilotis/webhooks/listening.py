"""Forwards an app's events to a local program during development.

A temporary webhook gets deliveries like any other, but no lane: the process that created it sends them. It is deleted
at the end, or by a periodic task when its process has not renewed it for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.events.types import Catalogue
from pilotis.http.api.principals import OPERATOR, AppInfo
from pilotis.http.outgoing import Outgoing, OutgoingSettings
from pilotis.kit.clock import now
from pilotis.kit.ids import uuid7
from pilotis.security.encryption.service import Secrets
from pilotis.webhooks import delivery_store, store
from pilotis.webhooks.deliveries import single_result
from pilotis.webhooks.sender import Outcome, Sender, endpoint_of
from pilotis.webhooks.service import Webhooks
from pilotis.webhooks.types import CreatedWebhook, NewWebhook

HOLD_SECONDS = 60.0
_LOOK_SECONDS = 0.25
_PAGE = 50

Report = Callable[[str, UUID, Outcome], None]
"""Called for each forwarded event with its type, its id, and the program's response."""


class Listener:
    """Forwards events until it is cancelled."""

    def __init__(
        self, database: Database, secrets: Secrets, catalogue: Catalogue, webhooks: Webhooks, max_bytes: int
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._catalogue = catalogue
        self._webhooks = webhooks
        self._max_bytes = max_bytes

    async def run(
        self,
        app: AppInfo,
        url: str,
        types: Sequence[str],
        ready: Callable[[CreatedWebhook], None],
        report: Report,
    ) -> None:
        """Forward events of these types to a loopback URL; `ready` is called with the temporary webhook."""
        new = NewWebhook(url=url, event_types=list(types), name="pilotis webhook listen")
        webhook = await self._webhooks.create(app, OPERATOR, uuid7(), new, listening_seconds=HOLD_SECONDS)
        outgoing = Outgoing(OutgoingSettings(host="127.0.0.1", base_url="http://127.0.0.1"))
        try:
            ready(webhook)
            await self._forward(app.app_id, webhook.id, Sender(outgoing, self._catalogue, self._max_bytes), report)
        finally:
            await outgoing.close()
            await self._webhooks.delete(app, OPERATOR, webhook.id)

    async def _forward(self, app_id: UUID, webhook_id: UUID, sender: Sender, report: Report) -> None:
        row = await store.for_sending(self._database.of(app_id), app_id, webhook_id)
        assert row is not None
        endpoint = endpoint_of(row, await self._secrets.app(app_id), now())
        loop = asyncio.get_running_loop()
        hold_at = loop.time()
        while True:
            if loop.time() >= hold_at:
                await self._webhooks.hold_listener(app_id, webhook_id, HOLD_SECONDS)
                hold_at = loop.time() + HOLD_SECONDS / 4
            found = await delivery_store.due(self._database.of(app_id), app_id, webhook_id, (), _PAGE)
            for delivery in found:
                if delivery.event is None:
                    continue
                outcome = await sender.send(endpoint, delivery.event, delivery.delivery_id, delivery.attempts + 1)
                async with self._database.transaction(app_id) as connection:
                    await delivery_store.end_alone(connection, app_id, single_result(delivery.delivery_id, outcome))
                report(delivery.event.type, delivery.event.event_id, outcome)
            if not found:
                await asyncio.sleep(_LOOK_SECONDS)
