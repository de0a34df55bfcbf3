"""Fan-out: dispatches each event exactly once to each target that wants it, in one transaction.

The process that wrote an event dispatches it: it records the app in memory, without a statement, and shortly afterwards
takes the events from the app's outbox. Other processes do so on request, after the writer has died, and periodically.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

import structlog
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.events import store
from pilotis.events.types import Catalogue, Event, Target, TargetKind
from pilotis.jobs.kinds import Hold
from pilotis.jobs.source import NodeSource
from pilotis.kit.errors import UnavailableError

GATHER_SECONDS = 0.005
BUSY_GATHER_SECONDS = 0.02
"""How long events are gathered after a dispatch of `BUSY_EVENTS` or more: it costs as much for few as for many."""
BUSY_EVENTS = 8
MAX_EVENTS = 200
CONCURRENT_APPS = 4
"""How many apps' events a process dispatches at a time."""
SWEEP_SECONDS = 600.0
"""How often each outbox is checked even if no process has reported events."""
LEFT_SECONDS = 5.0
"""How soon an outbox is checked again that was left to others: the process that can may not have been listening."""
LEFT_TO_OTHERS = -1
"""The result of `dispatch` for an app with a target kind that this process does not know."""
OWN = "own"
"""How events of types that apps have declared are counted."""
_RETRY_SECONDS = 1.0
_log = structlog.get_logger("pilotis.events")


class FanOut:
    """Dispatches events until it is stopped. `announce` asks other processes to help with an app.

    `dispatched` counts events by type, those of apps' own types as `own`.
    """

    def __init__(
        self, database: Database, catalogue: Catalogue, announce: Callable[[UUID], None] | None = None
    ) -> None:
        self._database = database
        self._catalogue = catalogue
        self._kinds: dict[str, TargetKind] = {}
        self._announce = announce or _no_op
        self._apps: dict[UUID, bool] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._dispatching: dict[UUID, asyncio.Task[None]] = {}
        self._pause = GATHER_SECONDS
        self.dispatched: Counter[str] = Counter()

    def register(self, kind: TargetKind) -> None:
        """Register a target kind; raises `ValueError` if its name is taken."""
        if kind.name in self._kinds:
            raise ValueError(f"Two target kinds have the name {kind.name}.")
        self._kinds[kind.name] = kind

    async def start(self) -> None:
        """Start dispatching."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; other processes dispatch the remaining events, or this one does after its next start."""
        tasks = [task for task in (self._task, *self._dispatching.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def schedule(self, app_id: UUID, *, announced: bool = False) -> None:
        """Schedule a dispatch for an app with new events, written by this process or `announced` by another."""
        self._apps[app_id] = self._apps.get(app_id, True) and announced
        self._wake.set()

    async def dispatch(self, app_id: UUID) -> int:
        """Dispatch at most `MAX_EVENTS` of an app's events in one transaction.

        Return how many there were, or `LEFT_TO_OTHERS`.
        """
        try:
            return await self._dispatch(app_id, MAX_EVENTS, one_by_one=False)
        except UnavailableError:
            raise
        except Exception as error:
            _log.warning("dispatching events together failed", app_id=str(app_id), error=type(error).__name__)
            # One of them is the cause: dispatching them one by one finds it.
            number = await self._dispatch(app_id, 1, one_by_one=True)
            if number > 0:
                self.schedule(app_id)
            elif number == 0:
                # The failed transaction may still have them locked: its rollback ends in the background.
                self._schedule_later(app_id)
            return number

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._pause)
            self._wake.clear()
            self._pause = GATHER_SECONDS
            self._begin()

    def _begin(self) -> None:
        """Dispatch scheduled apps side by side, because one may wait for a lock; the events of an app in order."""
        for app_id in [app_id for app_id in self._apps if app_id not in self._dispatching]:
            if len(self._dispatching) >= CONCURRENT_APPS:
                return
            task = asyncio.create_task(self._dispatch_scheduled(app_id, self._apps.pop(app_id)))
            self._dispatching[app_id] = task
            task.add_done_callback(partial(self._dispatched, app_id))

    def _dispatched(self, app_id: UUID, _: asyncio.Task[None]) -> None:
        del self._dispatching[app_id]
        if self._apps:
            self._wake.set()

    async def _dispatch_scheduled(self, app_id: UUID, announced: bool) -> None:
        try:
            number = await self.dispatch(app_id)
            if number == MAX_EVENTS:
                self.schedule(app_id)
            elif number >= BUSY_EVENTS:
                self._pause = BUSY_GATHER_SECONDS
            # Other processes may help, or know a target kind that this one does not. An announced app is not
            # announced again; otherwise two processes that do not know it would notify each other forever.
            if number == MAX_EVENTS or (number == LEFT_TO_OTHERS and not announced):
                self._announce(app_id)
        except Exception as error:
            _log.warning("dispatching events failed", app_id=str(app_id), error=type(error).__name__)
            self._schedule_later(app_id)

    def _schedule_later(self, app_id: UUID) -> None:
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.schedule, app_id)

    async def _dispatch(self, app_id: UUID, limit: int, *, one_by_one: bool) -> int:
        takers: Sequence[TargetKind] = ()
        async with self._database.transaction(BACKGROUND) as connection:
            targets = await store.targets(connection, app_id)
            if any(target.kind not in self._kinds for target in targets):
                # A process of a newer version knows that kind, as during an upgrade.
                await store.make_outbox_due(connection, app_id, LEFT_SECONDS)
                return LEFT_TO_OTHERS
            has_outbox = await store.has_outbox(connection, app_id)
            of_rows = await store.take_row_events(connection, app_id, limit) if has_outbox else []
            others = await store.undispatched(connection, app_id, limit - len(of_rows))
            events = [*of_rows, *others]
            if not events:
                return 0
            matched = [(event, target) for event in events for target in targets if target.wants(event)]
            try:
                async with connection.transaction():
                    takers = await self._store_work(connection, app_id, matched)
                    await self._mark_dispatched(
                        connection, app_id, of_rows, others, {event.event_id for event, _ in matched}
                    )
            except Exception as error:
                if not one_by_one:
                    raise
                _log.exception("event not dispatched", event_id=str(events[0].event_id), error=type(error).__name__)
                await store.record_failures(connection, events)
        self.dispatched.update(event.type if self._catalogue.get(event.type) else OWN for event in events)
        for kind in takers:
            kind.taken(app_id)
        return len(events)

    async def _store_work(
        self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]
    ) -> list[TargetKind]:
        takers = []
        for name, kind in self._kinds.items():
            if own := [(event, target) for event, target in matched if target.kind == name]:
                await kind.take(connection, app_id, own)
                takers.append(kind)
        return takers

    async def _mark_dispatched(
        self, connection: Connection, app_id: UUID, of_rows: list[Event], others: list[Event], wanted: set[UUID]
    ) -> None:
        if kept := [event for event in of_rows if event.event_id in wanted]:
            await store.store_row_events(connection, kept)
        if others:
            ids = [event.event_id for event in others]
            await store.mark_dispatched(
                connection, app_id, [one for one in ids if one in wanted], [one for one in ids if one not in wanted]
            )


class DueOutbox(NamedTuple):
    """An outbox that no process has checked for a long time, or whose writer has died."""

    app_id: UUID

    @property
    def hold(self) -> Hold:
        """Return the app's id: nobody owns an outbox, so it has no fence."""
        return self.app_id, 0


class OutboxSource(NodeSource):
    """The due outboxes, as a source for the worker; makes them due when a process dies."""

    queue = "light"
    probe = "select min(due_at) from pilotis.outboxes"
    owned = "select null::uuid, 0::bigint where $1::uuid is null"

    def __init__(self, database: Database, fan_out: FanOut) -> None:
        super().__init__()
        self._database = database
        self._fan_out = fan_out

    async def claim(self, _node_id: UUID, free: int, _full: Sequence[UUID]) -> Sequence[DueOutbox]:
        """Claim due outboxes. They are not locked: two processes may read one, but only one takes an event."""
        return [DueOutbox(app_id) for app_id in await store.due_outboxes(self._database, free, SWEEP_SECONDS)]

    async def run(self, held: DueOutbox) -> None:
        """Dispatch everything in the outbox, or notify the processes that can."""
        while (number := await self._fan_out.dispatch(held.app_id)) == MAX_EVENTS:
            pass
        if number == LEFT_TO_OTHERS:
            self._fan_out.schedule(held.app_id)

    async def release(self, connection: Connection, _owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:  # noqa: ARG002 - see `Source`
        """Make every outbox due: the process may have died between a commit and its fan-out. Nobody owns an outbox."""
        if lost:
            await store.make_outboxes_due(connection)


def _no_op(_: UUID) -> None:
    """Announce nothing: there is no other process."""
