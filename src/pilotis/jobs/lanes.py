"""Lanes: a lane is the queue of one target, such as a webhook's receiver, and one process at a time holds it.

Code that adds work for the target calls `add_work` in the same transaction. The holder reads the target's work from the
feature's own table, and returns the lane with the time at which more work is due. `work_seq` prevents lost work: a lane
that received work after the holder last looked cannot be returned.

A paused lane, whose target asked for a pause or keeps failing, has `open_at`: new work does not make it due earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs.kinds import Hold, LeaseLostError
from pilotis.jobs.source import NodeSource
from pilotis.jobs.sql import fair_claim
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import QueryTimeoutError, StorageFullError, UnavailableError
from pilotis.kit.reports import Report

FAILED_SECONDS = 5.0
"""Pause after the holder of a lane raised an exception or ended without returning the lane."""

OVERDUE = timedelta(minutes=1)
"""After how long a due lane without a holder is reported."""

_RETRY_SECONDS = 0.5

_CLAIM = fair_claim(
    table="pilotis.lanes",
    waiting="w.kind = $6 and w.owner is null and w.due_at is not null",
    due="due_at",
    key="target_id",
    changes="",
    returning="x.app_id, x.kind, x.target_id, x.fence, x.work_seq, x.failures, x.open_at",
).replace("x.target_id = taken.target_id", "x.target_id = taken.target_id and x.kind = $6")


class Lane(msgspec.Struct, kw_only=True):
    """A lane that this process holds. `work_seq` is the value that the holder saw when it last read the target's work.

    The holder sets `failures`, and `open_at`, until which the lane is paused; returning the lane stores both.
    """

    app_id: UUID
    kind: str
    target_id: UUID
    owner: UUID
    fence: int
    work_seq: int
    failures: int
    open_at: datetime | None
    is_returned: bool = False

    @property
    def hold(self) -> Hold:
        """Return the id of the target, and the fence of the claim."""
        return self.target_id, self.fence


async def add_work(
    connection: Connection, kind: str, targets: Sequence[tuple[UUID, UUID]], due_at: datetime | None = None
) -> None:
    """Make lanes due now or at a given time, in the transaction that adds the work; each is given by app and target.

    A paused lane becomes due at its `open_at`. Pass all lanes of a transaction in one call: the rows are locked in one
    order, so concurrent transactions cannot deadlock.
    """
    await connection.execute(
        """
        insert into pilotis.lanes as l (app_id, kind, target_id, due_at, work_seq)
        select distinct t.app_id, $1, t.target_id, coalesce($4, now()), 1
        from unnest($2::uuid[], $3::uuid[]) as t (app_id, target_id) order by t.app_id, t.target_id
        on conflict (app_id, kind, target_id) do update set
            due_at = least(l.due_at, greatest(excluded.due_at, l.open_at)), work_seq = l.work_seq + 1
        """,
        kind,
        [app_id for app_id, _ in targets],
        [target_id for _, target_id in targets],
        due_at,
    )


async def remove(connection: Connection, kind: str, app_id: UUID, target_id: UUID) -> None:
    """Delete a lane together with its target; a process that holds it can no longer write results."""
    await connection.execute(
        "delete from pilotis.lanes where app_id = $1 and kind = $2 and target_id = $3", app_id, kind, target_id
    )


async def close(connection: Connection, kind: str, app_id: UUID, target_id: UUID) -> None:
    """Revoke a lane from its holder, which can no longer write results, and leave it idle until work is added."""
    await connection.execute(
        """
        update pilotis.lanes set owner = null, due_at = null, fence = fence + 1, failures = 0, open_at = null
        where app_id = $1 and kind = $2 and target_id = $3
        """,
        app_id,
        kind,
        target_id,
    )


async def delete_orphans(connection: Connection, kind: str) -> None:
    """Delete the lanes of apps that were purged."""
    await connection.execute(
        """
        delete from pilotis.lanes l
        where l.kind = $1 and not exists (select from pilotis.apps a where a.app_id = l.app_id)
        """,
        kind,
    )


class LaneCount(NamedTuple):
    """The number of lanes of a kind in a state: `waiting` (due), `held`, or `resting` until more is due."""

    kind: str
    state: str
    number: int


async def overview(connection: TenantDatabase) -> list[LaneCount]:
    """Return how many lanes there are by kind and state; idle ones are not counted."""
    rows = await connection.fetch(
        """
        select kind, state, count(*) as number from (
            select kind, case when owner is not null then 'held' when due_at <= now() then 'waiting' else 'resting' end
                as state
            from pilotis.lanes where owner is not null or due_at is not null
        ) lanes group by kind, state order by kind, state
        """
    )
    return [LaneCount(*row) for row in rows]


async def report(connection: Connection) -> list[Report]:
    """Return reports for the operator about lanes that have been due for more than a minute."""
    rows = await connection.fetch(
        """
        select kind, count(*) as number, min(due_at) as oldest from pilotis.lanes
        where owner is null and due_at < now() - $1::interval group by kind order by kind
        """,
        OVERDUE,
    )
    return [
        Report(
            f"{number} lanes of {kind} have been due since {rfc3339(oldest)}; no server works on them.",
            "Start a server whose setting background allows their queue.",
        )
        for kind, number, oldest in rows
    ]


class LaneSource(NodeSource):
    """The lanes of one kind, as a source for the worker.

    `hold` works on a lane until nothing is due, and ends with `return_lane`. If it raises or does not call that, the
    lane is due again after `failed_seconds`. It reports each attempt to `finished`: the kind, the result (`completed`
    or `failed`), and the duration in seconds.
    """

    def __init__(
        self,
        kind: str,
        database: Database,
        hold: Callable[[Lane], Awaitable[None]],
        *,
        queue: str = "deliveries",
        lease_seconds: float,
        failed_seconds: float = FAILED_SECONDS,
    ) -> None:
        super().__init__()
        self.queue = queue
        self.kind = kind
        self.probe = (
            f"select min(due_at) from pilotis.lanes where kind = '{kind}' and owner is null and due_at is not null"
        )
        self.owned = f"select target_id, fence from pilotis.lanes where owner = $1 and kind = '{kind}'"
        self._database = database
        self._hold = hold
        self._lease_seconds = lease_seconds
        self._failed_seconds = failed_seconds
        self.finished: Callable[[str, str, float], None] = lambda _kind, _result, _seconds: None

    async def claim(self, node_id: UUID, free: int, full: Sequence[UUID]) -> Sequence[Lane]:
        """Claim due lanes, fairly across apps."""
        rows = await self._database.fetch(
            _CLAIM, node_id, free, list(full), self._after, self._lease_seconds, self.kind, tenant=BACKGROUND
        )
        return self._claimed([Lane(owner=node_id, **row) for row in rows])

    async def run(self, held: Lane) -> None:
        """Work on the lane."""
        try:
            await self._hold(held)
        except Exception:
            # If the lease is lost, another process holds the lane; if it is only uncertain, this process may still hold
            # it.
            await self._pause(held)
            raise
        if not held.is_returned:
            await self._pause(held)

    def require_lease(self, lane: Lane) -> None:
        """Raise `LeaseLostError` unless the lease is certain; call it before each effect outside the database."""
        self.require_lease_of(lane.owner)

    async def lock_held(self, connection: Connection, lane: Lane) -> None:
        """Lock the lane for the rest of the transaction that writes results; raises `LeaseLostError`."""
        held = await connection.fetchval(
            """
            select true from pilotis.lanes
            where app_id = $1 and kind = $2 and target_id = $3 and owner = $4 and fence = $5 for update
            """,
            lane.app_id,
            lane.kind,
            lane.target_id,
            lane.owner,
            lane.fence,
        )
        if not held:
            raise LeaseLostError

    async def refresh_work_seq(self, lane: Lane) -> None:
        """Record the current `work_seq` before the target's work is read; raises `LeaseLostError`."""
        work_seq = await self._database.fetchval(
            """
            select work_seq from pilotis.lanes
            where app_id = $1 and kind = $2 and target_id = $3 and owner = $4 and fence = $5
            """,
            lane.app_id,
            lane.kind,
            lane.target_id,
            lane.owner,
            lane.fence,
            tenant=BACKGROUND,
        )
        if work_seq is None:
            raise LeaseLostError
        lane.work_seq = work_seq

    async def return_lane(self, lane: Lane, due_at: datetime | None) -> bool:
        """Return the lane until more work is due; False if work was added since `work_seq` was read.

        That work must be read first. `failures` and `open_at` are stored as the lane has them. Raises `LeaseLostError`.
        """
        seen = await self._database.fetchrow(
            """
            with held as (
                select work_seq from pilotis.lanes
                where app_id = $1 and kind = $2 and target_id = $3 and owner = $4 and fence = $5 for update
            ),
            given as (
                update pilotis.lanes l set owner = null, due_at = $7, failures = $8, open_at = $9 from held
                where l.app_id = $1 and l.kind = $2 and l.target_id = $3 and held.work_seq = $6 returning 1
            )
            select work_seq, exists (select from given) as is_returned from held
            """,
            lane.app_id,
            lane.kind,
            lane.target_id,
            lane.owner,
            lane.fence,
            lane.work_seq,
            due_at,
            lane.failures,
            lane.open_at,
            tenant=BACKGROUND,
        )
        if seen is None:
            raise LeaseLostError
        lane.work_seq, lane.is_returned = seen
        return lane.is_returned

    async def release(self, connection: Connection, owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
        """Return the lanes that a process holds, except those in `keep`; they are due at once."""
        await connection.execute(
            """
            update pilotis.lanes l set owner = null, due_at = greatest(now(), open_at), fence = fence + $3::int
            where owner = $1 and kind = $2 and not exists (
                select from unnest($4::uuid[], $5::bigint[]) as kept (target_id, fence)
                where kept.target_id = l.target_id and kept.fence = l.fence)
            """,
            owner,
            self.kind,
            int(lost),
            [target_id for target_id, _ in keep],
            [fence for _, fence in keep],
        )

    async def _pause(self, lane: Lane) -> None:
        """Return a lane that its holder did not return, and retry it after a pause even if work arrives before."""
        while True:
            with suppress(UnavailableError, QueryTimeoutError, StorageFullError):
                await self._database.execute(
                    """
                    update pilotis.lanes
                    set owner = null, due_at = greatest(now() + make_interval(secs => $6), open_at)
                    where app_id = $1 and kind = $2 and target_id = $3 and owner = $4 and fence = $5
                    """,
                    lane.app_id,
                    lane.kind,
                    lane.target_id,
                    lane.owner,
                    lane.fence,
                    self._failed_seconds,
                    tenant=BACKGROUND,
                )
                return
            # No other process claims the lane while it names this process as its owner, so retry until the database
            # answers.
            await asyncio.sleep(_RETRY_SECONDS)
