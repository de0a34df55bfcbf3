"""Webhooks as a target kind: the fan-out of events inserts a delivery for each webhook that wants one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from asyncpg import Connection

from pilotis.events.types import Catalogue, Event, Target
from pilotis.jobs.lanes import Lane, LaneSource, add_work
from pilotis.kit.ids import uuid7
from pilotis.webhooks import delivery_store, store
from pilotis.webhooks.consents import Consents, allowed
from pilotis.webhooks.delivery_store import QUEUE_FULL, NewDelivery
from pilotis.webhooks.holder import Holder
from pilotis.webhooks.store import ListeningWebhook

KIND = "webhook"


class PendingLimit:
    """Limits how many deliveries are added for each webhook, without counting the pending ones each time.

    After a count, this process adds at most an eighth of the remaining room before it counts again, so that several
    processes together stay below the limit, or exceed it only slightly.
    """

    def __init__(self, max_pending: int) -> None:
        self._max = max_pending
        self._left: dict[UUID, int] = {}

    async def of(self, connection: Connection, wanted: Counter[tuple[UUID, UUID]]) -> dict[UUID, int]:
        """Return how many of the wanted deliveries each webhook, given by app and id, may get."""
        room: dict[UUID, int] = {}
        uncounted: dict[UUID, list[UUID]] = {}
        for (app_id, target_id), number in wanted.items():
            room[target_id] = number
            if self._left.get(target_id, 0) < number:
                uncounted.setdefault(app_id, []).append(target_id)
        for app_id, target_ids in uncounted.items():
            pending = await delivery_store.pending(connection, app_id, target_ids, self._max)
            for target_id in target_ids:
                room[target_id] = self._max - pending[target_id]
                self._left[target_id] = room[target_id] // 8 + wanted[app_id, target_id]
        for (_, target_id), number in wanted.items():
            self._left[target_id] -= number
        return room


class WebhookTargets:
    """Takes events for webhooks, and runs the lanes of those with deliveries."""

    name = KIND

    def __init__(
        self,
        *,
        max_pending: int,
        first_delay: float,
        catalogue: Catalogue,
        consents: Consents,
        announce: Callable[[], None],
    ) -> None:
        """`announce` notifies other processes that a lane which this one does not hold may have work."""
        self._pending_limit = PendingLimit(max_pending)
        self._first_delay = first_delay
        self._catalogue = catalogue
        self._consents = consents
        self._announce = announce
        self._source: LaneSource | None = None
        self._holders: dict[UUID, Holder] = {}
        self._taken: dict[UUID, set[UUID]] = {}
        self._stopping = False

    def attach(self, source: LaneSource) -> None:
        """Set what claims the lanes."""
        self._source = source

    async def take(self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:
        """Insert a delivery for each event and each active webhook that may receive it."""
        webhook_ids = list({target.target_id for _, target in matched})
        webhooks = {row.webhook_id: row for row in await store.for_fan_out(connection, app_id, webhook_ids)}
        built_in = {type_.name for type_ in self._catalogue.offered()}
        wanted = [
            (event, webhooks[target.target_id])
            for event, target in matched
            if target.target_id in webhooks
            and self._is_offered(event, built_in)
            and await self._is_allowed(webhooks[target.target_id], event, built_in)
        ]
        if not wanted:
            return
        room = await self._pending_limit.of(connection, Counter((row.app_id, row.webhook_id) for _, row in wanted))
        deliveries = []
        for event, row in wanted:
            room[row.webhook_id] -= 1
            deliveries.append(
                NewDelivery(
                    app_id=row.app_id,
                    delivery_id=uuid7(),
                    target_id=row.webhook_id,
                    event_app_id=app_id,
                    event_id=event.event_id,
                    event_type=event.type,
                    error=QUEUE_FULL if room[row.webhook_id] < 0 else None,
                )
            )
        await delivery_store.insert(connection, deliveries, self._first_delay)
        # The program that created a temporary webhook serves it.
        lanes = {(row.app_id, row.webhook_id) for _, row in wanted if row.listening_until is None}
        await add_work(connection, KIND, sorted(lanes, key=lambda lane: lane[1]))
        self._taken.setdefault(app_id, set()).update(webhook_id for _, webhook_id in lanes)

    def taken(self, app_id: UUID) -> None:
        """Wake the holders of the lanes that have work, here and in other processes."""
        if self._source is not None:
            self._source.wake()
        # Other holders have no work.
        for webhook_id in self._taken.pop(app_id, ()):
            if holder := self._holders.get(webhook_id):
                holder.wake()
        self._announce()

    def wake(self) -> None:
        """Claim due lanes, and let lane holders read further deliveries."""
        if self._source is not None:
            self._source.wake()
        for holder in self._holders.values():
            holder.wake()

    async def hold(self, lane: Lane, make: Callable[[Lane], Holder]) -> None:
        """Work on a lane with a holder that `make` returns."""
        holder = self._holders[lane.target_id] = make(lane)
        if self._stopping:
            holder.stop()
        try:
            await holder.run()
        finally:
            if self._holders.get(lane.target_id) is holder:
                del self._holders[lane.target_id]

    async def drain(self) -> None:
        """Start no further attempts: the process is stopping."""
        self._stopping = True
        for holder in self._holders.values():
            holder.stop()

    async def _is_allowed(self, webhook: ListeningWebhook, event: Event, built_in: Collection[str]) -> bool:
        return await allowed(self._consents, webhook.app_id, webhook.client_id, event, built_in)

    def _is_offered(self, event: Event, built_in: Collection[str]) -> bool:
        """Return whether the event is offered to subscribers; a type that no feature declares is an app's own."""
        return event.type in built_in or self._catalogue.get(event.type) is None
