"""Jobs: enqueued in the transaction of the change that needs them, run at least once, completed exactly once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs import store
from pilotis.jobs.kinds import SERVER, DiscardError, Hold, JobKind, LeaseHolder, LeaseLostError
from pilotis.jobs.source import NodeSource
from pilotis.jobs.store import JobRecord
from pilotis.kit import spans
from pilotis.kit.errors import PilotisError, QueryTimeoutError, StorageFullError, UnavailableError
from pilotis.kit.ids import uuid7

P = TypeVar("P")

UNKNOWN_KIND_SECONDS = 60.0
"""How long this process leaves jobs of unknown kinds to other processes, for example during an upgrade."""

_MAX_ERROR = 500
_CARRIED = "$traceparent"
_AWAY_SECONDS = 0.5
_MAX_AWAY_SECONDS = 5.0
_log = structlog.get_logger("pilotis.jobs")


class ClaimedJob(Generic[P]):
    """A job that the process with the id `owner` holds; see `kinds.Job`. The payload is JSON until the job is run."""

    def __init__(self, database: Database, node: LeaseHolder, owner: UUID, row: JobRecord) -> None:
        self._database = database
        self._node = node
        self.owner = owner
        self.app_id = row.app_id
        self.id = row.job_id
        self.kind = row.kind
        self.key = row.key
        self.subject = row.subject
        self.attempt = row.attempts
        self.depth = row.depth
        self.fence = row.fence
        self.payload: P = row.payload
        self.is_finished = False

    @property
    def hold(self) -> Hold:
        """Return the id of the job, and the fence of the claim."""
        return self.id, self.fence

    @asynccontextmanager
    async def transaction(self, *, statement_seconds: float | None = None) -> AsyncGenerator[Connection]:
        """Open a transaction that commits only if this process still holds the job; raises `LeaseLostError`.

        `statement_seconds` replaces the time limit of statements.
        """
        self.require_lease()
        async with self._database.transaction(BACKGROUND, statement_seconds=statement_seconds) as connection:
            if not await store.lock_held(connection, self.owner, self.app_id, self.id, self.fence):
                raise LeaseLostError
            yield connection

    async def finish(self, connection: Connection) -> None:
        """End the job in the transaction that `transaction` opened."""
        await store.finish(connection, self.owner, [(self.app_id, self.id, self.fence)])
        self.is_finished = True

    def require_lease(self) -> None:
        """Raise `LeaseLostError` unless the lease is certain."""
        if self._node.id != self.owner:
            raise LeaseLostError
        self._node.require_lease()


class Jobs:
    """Enqueues jobs. `kinds` are those that this process's features declare."""

    def __init__(self, database: Database, max_waiting: Callable[[UUID], int] | int = 10_000) -> None:
        self._database = database
        self._max_waiting = max_waiting
        self.kinds: dict[str, JobKind[Any]] = {}
        self._wake: Callable[[str], None] = _no_op
        self._node: LeaseHolder | None = None

    def register(self, kind: JobKind[Any]) -> None:
        """Register a job kind; raises `ValueError` if its name is taken."""
        if kind.name in self.kinds:
            raise ValueError(f"Two job kinds have the name {kind.name}.")
        self.kinds[kind.name] = kind

    def attach(self, node: LeaseHolder) -> None:
        """Set the node of this process."""
        self._node = node

    def node_id(self) -> UUID:
        """Return the id of the node that holds this process's work; it changes when the process is taken over.

        It is the nil UUID, which holds nothing, in a process without background work, such as a command.
        """
        return self._node.id if self._node else SERVER

    def on_enqueued(self, wake: Callable[[str], None]) -> None:
        """Call `wake` with the queue's name whenever this process enqueues a job."""
        self._wake = wake

    def wake(self, queue: str) -> None:
        """Claim work that another statement has put into a queue."""
        self._wake(queue)

    async def enqueue(
        self,
        connection: Connection,
        kind: JobKind[P],
        app_id: UUID | None,
        payload: P,
        *,
        key: str | None = None,
        subject: str | None = None,
        run_at: datetime | None = None,
        again: bool = True,
        depth: int = 0,
    ) -> UUID:
        """Enqueue a job in the caller's transaction, and return its id.

        With a `key`, an app has at most one unfinished job of the kind. If that job is waiting, it takes the earlier
        `run_at` and the newer payload; if it is running, it runs once more, unless `again` is false. The call blocks
        while another transaction with the same key is uncommitted. `subject` is the id of the object that the job is
        about; lists show it.
        """
        text = _encoded(payload)
        job_id = await store.enqueue(
            connection, app_id or SERVER, uuid7(), kind.queue, kind.name, key, subject, text, depth, run_at, again
        )
        self._wake(kind.queue)
        return job_id

    async def enqueue_all(
        self,
        connection: Connection,
        kind: JobKind[P],
        jobs: Sequence[tuple[UUID | None, P, str | None]],
        *,
        run_at: datetime | None = None,
        depth: int = 0,
    ) -> list[UUID]:
        """Enqueue many jobs without keys in one statement, each given by app, payload and subject.

        Runs in the caller's transaction; returns the ids in the order of the jobs.
        """
        made = [(app_id or SERVER, uuid7(), subject, _encoded(payload)) for app_id, payload, subject in jobs]
        if made:
            await store.enqueue_all(connection, kind.queue, kind.name, made, depth, run_at)
            self._wake(kind.queue)
        return [job_id for _, job_id, _, _ in made]

    async def request(self, name: str, connection: Connection | None = None) -> None:
        """Run the periodic task of a name now, or once more after the current run.

        With a `connection` this is part of its transaction. A process that does not know the task, such as a command,
        leaves it to its next period.
        """
        kind = self.kinds.get(name)
        if kind is None:
            return
        if connection is not None:
            await self.enqueue(connection, kind, SERVER, {}, key=name)
            return
        async with self._database.transaction(BACKGROUND) as own:
            await self.enqueue(own, kind, SERVER, {}, key=name)

    async def is_full(self, connection: Connection, app_id: UUID, queue: str) -> bool:
        """Whether the app has the maximum number of waiting jobs in the queue."""
        limit = self._max_waiting if isinstance(self._max_waiting, int) else self._max_waiting(app_id)
        return await store.waiting(connection, app_id, queue, limit) >= limit


class JobSource(NodeSource):
    """The jobs of one queue, as a source for the worker."""

    def __init__(self, queue: str, database: Database, kinds: Mapping[str, JobKind[Any]], lease_seconds: float) -> None:
        super().__init__()
        self.queue = queue
        self.probe = f"select min(run_at) from pilotis.jobs where queue = '{queue}' and state = 'waiting'"
        self.owned = f"select job_id, fence from pilotis.jobs where owner = $1 and queue = '{queue}'"
        self._database = database
        self._kinds = kinds
        self._lease_seconds = lease_seconds
        self._ended: list[tuple[ClaimedJob[Any], asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None
        self.finished: Callable[[str, str, float], None] = _count_nothing

    async def claim(self, node_id: UUID, free: int, full: Sequence[UUID]) -> Sequence[ClaimedJob[Any]]:
        """Claim due jobs, fairly across apps."""
        assert self._node is not None
        rows = await store.claim(self._database, node_id, self.queue, free, full, self._after, self._lease_seconds)
        return [ClaimedJob(self._database, self._node, node_id, row) for row in self._claimed(rows)]

    async def run(self, job: ClaimedJob[Any]) -> None:
        """Run a job and store its result. Returns one of an unknown kind; one with an invalid payload becomes dead."""
        kind = self._kinds.get(job.kind)
        if kind is None:
            await self._write_with_retries(job, lambda: self._postpone(job))
            return
        described: dict[str, spans.Attribute] = {"pilotis.job.kind": kind.name, "pilotis.job.attempt": job.attempt}
        carried = _carried_by(job) if spans.is_on() else None
        with spans.span(f"job {kind.name}", described, kind="consumer", request_id=carried, is_root=True) as span:
            await self._run(job, kind, span)

    async def _run(self, job: ClaimedJob[Any], kind: JobKind[Any], span: spans.Span) -> None:
        started = time.perf_counter()
        try:
            job.payload = msgspec.json.decode(job.payload, type=kind.payload)
        except msgspec.MsgspecError as error:
            await self._failed(job, kind, error, 0.0, is_final=True)
            return
        try:
            async with asyncio.timeout(kind.seconds):
                await kind.run(job)
        except (asyncio.CancelledError, LeaseLostError):
            raise
        except Exception as error:
            span.fail(error.code if isinstance(error, PilotisError) else type(error).__name__)
            await self._failed(job, kind, error, time.perf_counter() - started)
            return
        if job.is_finished or await self._write_with_retries(job, lambda: self._finish(job)):
            self.finished(job.kind, "completed", time.perf_counter() - started)

    async def release(self, connection: Connection, owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
        """Return the jobs of the queue that a process holds: see `Source.release`."""
        await store.release(connection, owner, self.queue, lost=lost, keep=keep)

    async def _postpone(self, job: ClaimedJob[Any]) -> bool:
        """Leave a job of an unknown kind to other processes for a while."""
        await store.postpone(self._database, job.owner, job.app_id, job.id, job.fence, UNKNOWN_KIND_SECONDS)
        return True

    async def _failed(
        self, job: ClaimedJob[Any], kind: JobKind[Any], error: Exception, seconds: float, *, is_final: bool = False
    ) -> None:
        is_final = is_final or isinstance(error, DiscardError) or job.attempt > len(kind.gaps)
        gap = None if is_final else kind.gaps[job.attempt - 1]
        result = "dead" if gap is None else "failed"
        log = _log.error if gap is None else _log.warning
        log("job failed", kind=kind.name, job_id=str(job.id), attempt=job.attempt, result=result, exc_info=error)
        # Randomised, so that jobs that failed together are not retried together.
        wait = None if gap is None else gap * random.uniform(0.8, 1.2)  # noqa: S311
        place = (job.owner, job.app_id, job.id, job.fence)
        if await self._write_with_retries(job, lambda: store.fail(self._database, *place, _error(error), wait)):
            self.finished(job.kind, result, seconds)

    async def _write_with_retries(self, job: ClaimedJob[Any], write: Callable[[], Awaitable[bool]]) -> bool:
        """Write a result, retrying while the database cannot take it; raises `LeaseLostError` if the lease is lost."""
        pause = _AWAY_SECONDS
        while True:
            try:
                return await write()
            except (UnavailableError, QueryTimeoutError, StorageFullError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_AWAY_SECONDS)
                job.require_lease()

    async def _finish(self, job: ClaimedJob[Any]) -> bool:
        """End a job, in one statement with concurrent ones; return False if the process no longer holds it."""
        written = asyncio.get_running_loop().create_future()
        self._ended.append((job, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_ended())
        is_mine: bool = await written
        return is_mine

    async def _write_ended(self) -> None:
        try:
            while self._ended:
                batch, self._ended = self._ended[:500], self._ended[500:]
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: Sequence[tuple[ClaimedJob[Any], asyncio.Future[bool]]]) -> None:
        owners: dict[UUID, list[tuple[UUID, UUID, int]]] = {}
        for job, _ in batch:
            owners.setdefault(job.owner, []).append((job.app_id, job.id, job.fence))
        try:
            ended = set[UUID]()
            for owner, jobs in owners.items():
                async with self._database.connection(BACKGROUND) as connection:
                    ended |= await store.finish(connection, owner, jobs)
        except BaseException as error:
            for _, written in batch:
                if not written.done():
                    written.set_exception(error)
            return
        for job, written in batch:
            if not written.done():
                written.set_result(job.id in ended)


def _encoded(payload: object) -> str:
    """Return a payload as JSON, with the trace of the work that enqueues it; types of payloads ignore the field."""
    text = msgspec.json.encode(payload).decode()
    carried = spans.carried()
    if carried is None or not text.startswith('{"'):
        return text
    return f'{{"{_CARRIED}":"{carried}",{text[1:]}'


class _Carrying(msgspec.Struct):
    traceparent: str | None = msgspec.field(default=None, name=_CARRIED)


def _carried_by(job: ClaimedJob[Any]) -> str | None:
    try:
        return msgspec.json.decode(job.payload, type=_Carrying).traceparent
    except msgspec.MsgspecError:
        return None


def _error(error: Exception) -> str:
    """Return the stored text of an exception: code and message of our own errors, type name and text of others.

    NUL and lone surrogates are replaced: an error that PostgreSQL cannot store would never end its job.
    """
    if isinstance(error, PilotisError):
        code, message = error.code, error.text
    else:
        code = "TIMEOUT" if isinstance(error, TimeoutError) else "ERROR"
        message = f"{type(error).__name__}: {str(error) or 'The job exceeded its time limit.'}"
    message = message.replace("\x00", "")[:_MAX_ERROR].encode(errors="replace").decode()
    return msgspec.json.encode({"code": code, "message": message}).decode()


def _no_op(_: str) -> None:
    """Wake no worker: none runs in this process, for example in a command."""


def _count_nothing(*_: object) -> None:
    """Count nothing."""
