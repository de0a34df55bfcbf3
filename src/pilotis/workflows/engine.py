"""The engine: claims executions for this process, and runs each until it ends, waits, or another process claims it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import structlog
from asyncpg import Connection

from pilotis.jobs.kinds import Hold, LeaseLostError
from pilotis.jobs.source import NodeSource
from pilotis.kit.errors import UnavailableError
from pilotis.workflows import claim_store
from pilotis.workflows.claim_store import ClaimedExecution
from pilotis.workflows.run import Run, RunServices

QUEUE = "workflows"
_POLL_SECONDS = 3.0
_RETRY_SECONDS = 1.0
_log = structlog.get_logger("pilotis.workflows")


class Engine(NodeSource):
    """The executions of this process: a source for the worker; `services` are what their runs use."""

    queue = QUEUE
    wakes_itself = True
    probe = claim_store.PROBE
    owned = claim_store.OWNED

    def __init__(self, services: RunServices, lease_seconds: float) -> None:
        super().__init__()
        self._services = services
        self._database = services.database
        self._counts = services.counts
        self._lease_seconds = lease_seconds
        self.is_stopping = False
        self._runs: dict[UUID, Run] = {}
        self._polling: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """The number of executions in progress."""
        return len(self._runs)

    def stop(self) -> None:
        """Let running steps end, but start no others."""
        self.is_stopping = True
        for run in self._runs.values():
            run.look()

    def cancel(self, execution_id: str) -> None:
        """Cancel an execution if this process runs it."""
        with suppress(ValueError):
            if run := self._runs.get(UUID(execution_id)):
                run.cancel()

    async def claim(self, node_id: UUID, free: int, full: Sequence[UUID]) -> Sequence[ClaimedExecution]:
        """Claim due executions, fairly across apps."""
        claimed = await claim_store.claim(self._database, node_id, free, full, self._after, self._lease_seconds)
        return self._claimed(claimed)

    async def run(self, held: ClaimedExecution) -> None:
        """Run an execution until it ends or waits."""
        run = self._runs[held.execution_id] = Run(self._services, self, held)
        self._poll()
        try:
            await run.go()
        except (asyncio.CancelledError, LeaseLostError) as error:
            # Whichever process holds it now continues.
            if isinstance(error, LeaseLostError):
                self._counts.lost_leases.add()
            raise
        except Exception as error:
            _log.exception("execution interrupted", execution_id=str(held.execution_id), error=type(error).__name__)
            await self._give_up(held, counts=not isinstance(error, UnavailableError))
        finally:
            if self._runs.get(held.execution_id) is run:
                del self._runs[held.execution_id]
        if run.has_ended and held.has_limit:
            await self.admit(held.app_id, held.workflow_id)

    async def release(self, connection: Connection, owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
        """Return the executions that a process holds: see `Source.release`."""
        await claim_store.release(connection, owner, lost=lost, keep=keep)

    async def admit(self, app_id: UUID, workflow_id: UUID) -> None:
        """Let gated executions of a workflow run, if its concurrency limit permits."""
        async with self._database.transaction(app_id) as connection:
            admitted = await claim_store.admit(connection, app_id, workflow_id)
        if admitted:
            self.wake()

    async def _give_up(self, held: ClaimedExecution, *, counts: bool) -> None:
        """Return an execution; no other process can claim it until the database has answered."""
        place = (held.app_id, held.execution_id, held.owner, held.fence)
        while True:
            with suppress(UnavailableError):
                await claim_store.give_up(self._database, *place, counts=counts)
                return
            await asyncio.sleep(_RETRY_SECONDS)

    def _poll(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_cancellations())

    async def _poll_cancellations(self) -> None:
        """Find cancellations whose notification was lost, as long as something runs."""
        while self._runs:
            await asyncio.sleep(_POLL_SECONDS)
            if not self._runs or self._node is None:
                continue
            with suppress(UnavailableError):
                for execution_id in await claim_store.cancel_requests(self._database, self._node.id):
                    self.cancel(str(execution_id))
