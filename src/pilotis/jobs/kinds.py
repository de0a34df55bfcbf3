"""The types with which features declare background work, and what the code that runs it receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.kit.errors import PilotisError

P = TypeVar("P")
H = TypeVar("H")

SERVER = UUID(int=0)
"""The app id of the server's own work."""

GAPS = (1.0, 10.0, 60.0, 600.0, 3600.0)
"""Seconds between the attempts of a job, unless its kind says otherwise."""


class DiscardError(Exception):
    """Raised by a job that can never succeed: it becomes dead without another attempt."""


class LeaseLostError(PilotisError):
    """The process no longer holds the work: another process has taken it over, or may have."""

    status = 503
    code = "LEASE_LOST"
    message = "Another node has taken this work over."


class LeaseUncertainError(LeaseLostError):
    """The process has not renewed its lease recently enough to be sure that it still holds the work."""


class Job(Protocol[P]):
    """A job that this process holds; passed to the `run` of its kind."""

    app_id: UUID
    id: UUID
    payload: P
    attempt: int
    depth: int
    key: str | None
    subject: str | None
    fence: int

    def transaction(self, *, statement_seconds: float | None = None) -> AbstractAsyncContextManager[Connection]:
        """Open a transaction that commits only if this process still holds the job; raises `LeaseLostError`.

        `statement_seconds` replaces the time limit of statements.
        """

    async def finish(self, connection: Connection) -> None:
        """End the job inside the transaction that `transaction` opened: its effect and its end commit together."""

    def require_lease(self) -> None:
        """Raise `LeaseLostError` unless the lease is certain; call it before each effect outside the database."""


class JobKind(msgspec.Struct, Generic[P], frozen=True, kw_only=True, eq=False):
    """A kind of job: the type of its payload, the function that runs it, and the retries.

    `gaps` are the delays in seconds before each retry, varied by up to a fifth. After the last retry fails, the job is
    dead. An attempt is cancelled after `seconds`. Dead jobs are kept for `dead_days` days.
    """

    name: str
    queue: str
    payload: type[P]
    run: Callable[[Job[P]], Awaitable[None]]
    gaps: Sequence[float] = GAPS
    seconds: float = 60.0
    dead_days: int = 14


class Periodic(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A task that runs once every `every_seconds`, on one process of the whole cluster.

    It runs as a job of its queue under the key `name`, so two runs never overlap.
    """

    name: str
    every_seconds: float
    run: Callable[[Job[dict[str, Any]]], Awaitable[None]]
    queue: str = "light"
    seconds: float = 600.0


class ScheduleKind(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The effect of a due schedule: `fire` runs in the transaction that advances the schedule."""

    name: str
    fire: Callable[[Connection, DueSchedule, datetime], Awaitable[None]]


class DueSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A due schedule. `target_id` identifies what it starts."""

    app_id: UUID
    schedule_id: UUID
    kind: str
    target_id: str


Hold = tuple[UUID, int]
"""The id of a claimed row, and the fence under which this process holds it."""


class Held(Protocol):
    """A work item that a source has claimed for this process."""

    @property
    def app_id(self) -> UUID:
        """The app of which it is."""

    @property
    def hold(self) -> Hold:
        """Return the id of the row, and the fence of the claim."""


class LeaseHolder(Protocol):
    """The process for which work is claimed: see `node.Node`."""

    id: UUID

    def require_lease(self) -> None:
        """Raise `LeaseUncertainError` unless the lease is certain."""


class Source(Protocol[H]):
    """A table that work is claimed from: jobs, lanes or workflow executions.

    `queue` names the slots it uses. `probe` is a query without parameters that returns when the source's earliest work
    is due; it becomes part of the heartbeat. `owned` is a query that returns the id and the fence of each row whose
    owner is `$1`. A source that `wakes_itself` does so whenever work becomes due, so that the end of other work needs
    no claim.
    """

    queue: str
    probe: str
    owned: str
    wakes_itself: bool

    def attach(self, node: LeaseHolder) -> None:
        """Set the process for which work is claimed."""

    def serve_by(self, wake: Callable[[], None]) -> None:
        """Set the callback that looks for due work; not called where the queue is not served."""

    async def claim(self, node_id: UUID, free: int, full: Sequence[UUID]) -> Sequence[H]:
        """Claim at most `free` due work items for the process, fairly across apps, skipping the apps in `full`."""

    async def run(self, held: H) -> None:
        """Run the work item. An exception is only logged; the source handles failures itself."""

    async def release(self, connection: Connection, owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
        """Return everything that a process holds, except `keep`: `lost` when the process has died."""


class Holding(Protocol):
    """Rows with an `owner` that are not claimed from a queue, such as an upload in progress."""

    async def release(self, connection: Connection, owner: UUID, *, lost: bool) -> None:
        """Return everything that a process holds."""

    async def settle(self) -> None:
        """Return what this process could not return when its work ended; called every second."""
