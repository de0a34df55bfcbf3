"""A process as a member of the cluster: its lease, its heartbeat, and the takeover of what dead processes held.

Each process has one row in `pilotis.nodes`. Rows that the process holds in other tables have its id in `owner`, and no
expiry time of their own: the lease in `pilotis.nodes` is the only one. A process that has not renewed its lease for
`fence_seconds` of its own clock stops its work before any other process may take it over. Rows that it still tries to
write afterwards have another `owner` or a newer `fence`, so the write has no effect.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection, Record

from pilotis.db import migrations
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs.kinds import Hold, Holding, LeaseUncertainError, Source
from pilotis.jobs.schedules import FIRED_BY
from pilotis.kit.clock import rfc3339
from pilotis.kit.ids import uuid7
from pilotis.kit.reports import Report

IDLE_LEASE_SECONDS = 30.0
BEAT_SECONDS = 1.0
HOLDING_BEAT_SECONDS = 3.0
IDLE_BEAT_SECONDS = 10.0
OTHER_CONNECTIONS = 2
"""The connections to the database that a process may open beside those of its pool."""
_log = structlog.get_logger("pilotis.jobs")


class Control(Protocol):
    """The connection for heartbeats. It is outside the pool, so that a busy pool cannot cost a lease."""

    async def run(self, statement: str, *arguments: Any) -> list[Record]:
        """Run a statement with its own deadline and return its rows."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies this process: the server that started it, its slot among that server's processes, and a label.

    `ports` are the ports of this machine on which the server or its database listens.
    """

    server_id: UUID
    slot: int
    name: str
    version: str
    ports: tuple[int, ...] = ()


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a heartbeat. Times are the database's; `due` has one time for each source, None if it has no work.

    `was_certain` is whether the lease was still certain when the reply arrived.
    """

    was_certain: bool
    now: datetime
    expired: bool
    schedule_due: datetime | None
    due: tuple[datetime | None, ...]


def identity(version: str, *, server_id: UUID | None = None, slot: int = 0, name: str = "") -> Identity:
    """Return the identity of this process; `name` is a readable label, by default the host name and the slot."""
    return Identity(
        server_id=server_id or uuid7(), slot=slot, name=name or f"{socket.gethostname()}/{slot}", version=version
    )


async def addresses(database: Database) -> list[tuple[str | None, list[int]]]:
    """Return where the processes of the cluster listen: each one's address as PostgreSQL sees it, and its ports."""
    rows = await database.fetch(
        "select host(address) as address, ports from pilotis.nodes where ports <> '{}'",
        tenant=BACKGROUND,
    )
    return [(address, ports) for address, ports in rows]


class Node:
    """This process's row in `pilotis.nodes`.

    `lease_seconds` is the length of the lease while something is held.
    """

    def __init__(
        self,
        database: Database,
        control: Control,
        identity: Identity,
        *,
        lease_seconds: float,
        sources: Sequence[Source[Any]],
        holdings: Sequence[Holding],
        fires: Sequence[str],
    ) -> None:
        self._database = database
        self._control = control
        self._identity = identity
        self.lease_seconds = lease_seconds
        self.sources = sources
        self.holdings = holdings
        self._holders: Sequence[Source[Any] | Holding] = (*self.sources, *holdings)
        self._fires = list(fires)
        self._statement = _heartbeat(sources)
        self._owned = _owned(sources)
        self.id = uuid7()
        self._renewed_at = 0.0
        self._contact_since: float | None = None
        self.clock_difference = 0.0
        """By how many seconds the clocks here and of the database differed at the last heartbeat, at least."""

    @property
    def fence_seconds(self) -> float:
        """Return the seconds without renewal after which the process stops its work: three quarters of the lease."""
        return self.lease_seconds * 0.75

    @property
    def certain_seconds(self) -> float:
        """Return for how many seconds from now the lease is certain; negative if it is not."""
        return self._renewed_at + self.fence_seconds - _clock()

    @property
    def is_certain(self) -> bool:
        """Whether no other process can have taken over this process's work."""
        return self.certain_seconds > 0

    def require_lease(self) -> None:
        """Raise `LeaseUncertainError`, a `LeaseLostError`, unless the lease is certain."""
        if not self.is_certain:
            raise LeaseUncertainError

    def renewed(self, since: float) -> None:
        """Record that a claim sent at `since`, as read from `clock()`, has renewed the lease."""
        self._renewed_at = max(self._renewed_at, since)

    @staticmethod
    def clock() -> float:
        """Return the seconds of a clock that also advances while the machine is suspended."""
        return _clock()

    async def join(self) -> None:
        """Insert the row, and take over at once from predecessors that are known to be dead.

        These are the process that had this slot of the server before, whose end the supervisor has seen, and rows whose
        lease was ended explicitly: those of a server whose embedded database no other process can use.
        """
        started = _clock()
        await self._database.execute(
            """
            insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until, address, ports, knows)
            values ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6), inet_client_addr(), $7, $8)
            """,
            self.id,
            self._identity.server_id,
            self._identity.slot,
            self._identity.name,
            self._identity.version,
            IDLE_LEASE_SECONDS,
            list(self._identity.ports),
            migrations.all_migrations()[-1].number,
            tenant=BACKGROUND,
        )
        self._renewed_at = started
        dead = "((server_id = $2 and slot = $3) or lease_until = '-infinity')"
        while await self._take_over(dead, self._identity.server_id, self._identity.slot):
            pass

    async def leave(self) -> None:
        """Return everything that is held and delete the row."""
        async with self._database.transaction(BACKGROUND) as connection:
            for holder in self._holders:
                await holder.release(connection, self.id, lost=False)
            await connection.execute("delete from pilotis.nodes where node_id = $1", self.id)

    async def beat(self, *, is_holding: bool) -> Beat | None:
        """Renew the lease, and return what is due; None if the database did not answer."""
        lease = self.lease_seconds if is_holding else IDLE_LEASE_SECONDS
        started, before = _clock(), time.time()
        try:
            (row,) = await self._control.run(self._statement, self.id, lease, self._fires)
            alive, renewed, now, expired, schedule_due, due = row
        except Exception as error:
            self._contact_since = None
            _log.warning("heartbeat failed", error=type(error).__name__)
            return None
        if not alive:
            await self._rejoin()
            return None
        there = now.timestamp()
        self.clock_difference = max(before - there, there - time.time(), 0.0)
        was_certain = self.is_certain
        if renewed:
            self._renewed_at = started
        if self._contact_since is None:
            self._contact_since = started
        return Beat(
            was_certain=was_certain,
            now=now,
            expired=expired,
            schedule_due=schedule_due,
            due=tuple(due),
        )

    async def take_over_expired(self) -> int:
        """Release what dead processes held, and return how many there were.

        Does nothing until this process itself has been in contact with the database for long enough to be sure.
        """
        if self._contact_since is None or _clock() - self._contact_since < self.lease_seconds:
            return 0
        number = 0
        while await self._take_over("lease_until < clock_timestamp()"):
            number += 1
        return number

    async def release_own(self, holder: Source[Any], keep: Sequence[Hold]) -> None:
        """Return the work of a source that names this process as its owner, except `keep`, which it runs."""
        async with self._database.transaction(BACKGROUND) as connection:
            await holder.release(connection, self.id, lost=False, keep=keep)

    async def release_holdings(self) -> None:
        """Return the rows that name this process and are not work of a source."""
        async with self._database.transaction(BACKGROUND) as connection:
            for holding in self.holdings:
                await holding.release(connection, self.id, lost=False)

    async def settle_holdings(self) -> None:
        """Return the rows that could not be returned when their work ended."""
        for holding in self.holdings:
            await holding.settle()

    async def owned(self) -> list[list[Hold]]:
        """Return what this process owns, by the database, for each source in their order."""
        rows = await self._control.run(self._owned, self.id)
        found: list[list[Hold]] = [[] for _ in self.sources]
        for index, item_id, fence in rows:
            found[index].append((item_id, fence))
        return found

    async def report_strays(self, number: int, age_seconds: float) -> None:
        """Store how many items this process owns and does not run, and since when, for `pilotis doctor`."""
        await self._control.run(_REPORT_STRAYS, self.id, number, age_seconds)

    async def _rejoin(self) -> None:
        """Join again under a new id: another process took this one over while it was unreachable."""
        _log.warning("taken over by another node", node=self._identity.name)
        self._contact_since = None
        self._renewed_at = 0.0
        self.id = uuid7()
        with suppress(Exception):
            await self.join()

    async def _take_over(self, dead: str, *arguments: object) -> bool:
        """Release what one dead process held; return False if there is none. Its locked row blocks its late claims."""
        async with self._database.transaction(BACKGROUND) as connection:
            owner = await connection.fetchval(
                f"select node_id from pilotis.nodes where node_id <> $1 and {dead} limit 1 for update skip locked",
                self.id,
                *arguments,
            )
            if owner is None:
                return False
            for holder in self._holders:
                await holder.release(connection, owner, lost=True)
            await connection.execute("delete from pilotis.nodes where node_id = $1", owner)
        _log.info("work of a dead node taken over", dead=str(owner))
        return True


_REPORT_STRAYS = """
    update pilotis.nodes set strays = $2, strays_since = now() - make_interval(secs => $3::float8) where node_id = $1
"""


def _owned(sources: Sequence[Source[Any]]) -> str:
    queries = [
        f"select {index}, owned.* from ({source.owned}) as owned (item_id, fence)"
        for index, source in enumerate(sources)
    ]
    return " union all ".join(queries) or "select 0, $1::uuid, 0 where false"


def _heartbeat(sources: Sequence[Source[Any]]) -> str:
    probes = ", ".join(f"({source.probe})" for source in sources) or "null::timestamptz"
    return f"""
        with renewed as (
            update pilotis.nodes set lease_until = clock_timestamp() + make_interval(secs => $2)
            where node_id = $1 and lease_until < clock_timestamp() + make_interval(secs => $2::float8 * 2 / 3)
            returning 1
        )
        select exists (select from pilotis.nodes where node_id = $1) as alive,
            exists (select from renewed) as renewed,
            clock_timestamp() as now,
            exists (select from pilotis.nodes where lease_until < clock_timestamp() and node_id <> $1) as expired,
            (select min(next_run_at) from pilotis.schedules where {FIRED_BY} = any($3::text[])) as schedule_due,
            array[{probes}]::timestamptz[] as due
    """


def _clock() -> float:
    """Return the seconds of a clock that includes suspend time, where the platform has one."""
    number = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(number)


async def report(connection: Connection) -> list[Report]:
    """Return reports for the operator about work that a living process owns and does not run."""
    rows = await connection.fetch(
        "select name, strays, strays_since from pilotis.nodes where strays > 0 and lease_until > now() order by name"
    )
    return [
        Report(
            f"The process {name} has owned {strays} items of work since {rfc3339(since)} and does not run them.",
            "It releases them itself within a minute; if this stays, restart it and report a fault.",
        )
        for name, strays, since in rows
    ]


async def count(connection: Connection) -> int:
    """Return the number of living processes."""
    number: int = await connection.fetchval("select count(*) from pilotis.nodes where lease_until > now()")
    return number


async def version_report(connection: Connection) -> list[Report]:
    """Return a report for the operator if processes of several versions have run beside each other for a day."""
    rows = await connection.fetch(
        """
        select version, min(started_at) as since, array_agg(name order by name) as names
        from pilotis.nodes where lease_until > now() group by version order by min(started_at)
        """
    )
    if len(rows) < 2 or datetime.now(UTC) - rows[1]["since"] < _UPGRADE:
        return []
    listed = "; ".join(f"{version} on {', '.join(names)}" for version, _, names in rows)
    return [Report(f"Processes of several versions have run for more than a day: {listed}.", "Upgrade the others.")]


_UPGRADE = timedelta(days=1)


async def clock_report(connection: Connection) -> list[Report]:
    """Return reports for the operator about living processes whose clock differed from the database's at their start.

    The id of a process has the time of its own clock (RFC 9562, section 5.7), and was made before the process joined.
    """
    rows = await connection.fetch(
        "select name, node_id, started_at from pilotis.nodes where lease_until > now() order by name"
    )
    reports = []
    for name, node_id, started_at in rows:
        ahead = (node_id.int >> 80) / 1000 - started_at.timestamp()
        if ahead > MAX_AHEAD_SECONDS or -ahead > MAX_BEHIND_SECONDS:
            way = "ahead of" if ahead > 0 else "behind"
            sentence = f"The clock of {name} was {abs(ahead):.0f} s {way} the database's when it started."
            fix = "Synchronise the clock of its machine, as by NTP, and restart it."
            reports.append(Report(sentence, fix))
    return reports


MAX_AHEAD_SECONDS = 2.0
MAX_BEHIND_SECONDS = 30.0
"""A process that is made takes some time until it joins, which counts as being behind."""


async def expire_nodes(connection: Connection) -> None:
    """End the lease of every process, so that the next process takes over at once. All of them must have ended."""
    await connection.execute("update pilotis.nodes set lease_until = '-infinity'")
