"""The sandbox pool of a process: it starts sandboxes, runs calls in them, and ends them.

`assignment` decides which call gets which sandbox.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from functools import partial
from uuid import UUID

import structlog

from pilotis.functions.runtime.assignment import JITTER, Assignment
from pilotis.functions.runtime.call import Invocation, LoadError, Outcome, Program, StartError, log_line
from pilotis.functions.runtime.egress import Egress, EgressPolicy, OwnAddress
from pilotis.functions.runtime.frames import FrameError
from pilotis.functions.runtime.isolation import Found, choice, probe
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.sandbox import Sandbox
from pilotis.functions.runtime.system import remove_left_folders
from pilotis.functions.runtime.types import (
    ConnectFor,
    PoolSettings,
    Ran,
    RuntimeUnavailableError,
    Wanted,
    needs_namespaces,
)
from pilotis.functions.runtime.users import Users

CHECK_SECONDS = 0.05
CONCURRENT_STARTS = 2
DEFAULT_MEMORY_MB = 128
_LOOK_SECONDS = 5.0

_log = structlog.get_logger("pilotis.functions")


class Pool:
    """Runs calls in sandboxes. Starts nothing before the first call or `begin`."""

    def __init__(
        self, settings: PoolSettings, connect: ConnectFor | None = None, own_address: OwnAddress | None = None
    ) -> None:
        """`connect` opens the connections of functions with egress; without it they have no network.

        Calls with a token connect to `own_address`.
        """
        self._settings = settings
        self._connect = connect
        self.own_address = own_address
        self.connections: Counter[str] = Counter()
        self._found: dict[Runtime, Found] = {}
        self._probing = asyncio.Lock()
        self._assignment = Assignment(settings, self._end)
        self._attended = 0
        self._starts = asyncio.Semaphore(CONCURRENT_STARTS)
        self._users = Users(settings.uid_base)
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Future[None]] = set()
        self.kills: Counter[str] = Counter()

    async def found(self, runtime: Runtime) -> Found:
        """Return the isolation of a runtime on this machine; the first call runs the canary."""
        if runtime not in self._found:
            async with self._probing:
                if runtime not in self._found:
                    user = self._users.acquire()
                    wanted = choice(self._settings.isolation)
                    found = await probe(runtime, user, wanted, is_local=self._settings.is_local)
                    self._found[runtime] = found
                    self._users.release(user)
                    if found.isolation and not found.isolation.has_namespaces:
                        await asyncio.to_thread(remove_left_folders)
                    is_weak = found.isolation is None or not found.isolation.is_confined
                    log = _log.warning if is_weak else _log.info
                    isolation = found.isolation and found.isolation.value
                    log("functions", runtime=runtime.value, isolation=isolation, reason=found.reason)
        return self._found[runtime]

    def known(self, runtime: Runtime) -> Found | None:
        """Return the result of `found`, or None if it has not been called."""
        return self._found.get(runtime)

    def begin(self, runtime: Runtime) -> None:
        """Prestart sandboxes of the runtime if it is available."""
        self._refill(runtime)

    async def check(self, wanted: Wanted, deadline: float) -> None:
        """Load a program in a temporary sandbox; raises `LoadError`, or the errors of `run`."""
        isolation = await self._isolation(wanted)
        sandbox = (await self._assignment.acquire(wanted, deadline)).sandbox
        self._attended += 1
        try:
            program = await wanted.load()
            sandbox = self._fitting(sandbox, program)
            if sandbox is None:
                sandbox = await self._cold(wanted, isolation, program, deadline)
            self._watch()
            await sandbox.load(program, deadline)
        except TimeoutError:
            raise LoadError("Loading the function took too long.", "LOAD_FAILED", "") from None
        except (StartError, FrameError, OSError) as error:
            raise LoadError(str(error), "LOAD_FAILED", "") from None
        finally:
            self._attended -= 1
            self._assignment.release(sandbox, wanted, keep=False)
            self._refill(wanted.runtime)

    async def _isolation(self, wanted: Wanted) -> Isolation:
        found = self._found.get(wanted.runtime) or await self.found(wanted.runtime)
        if found.isolation is None:
            raise RuntimeUnavailableError(found.reason)
        if wanted.egress and not found.has_network:
            raise needs_namespaces("Functions with egress", found)
        return found.isolation

    async def run(self, wanted: Wanted, invocation: Invocation) -> Ran:
        """Run a call to its end. Raises the errors of calls that could not start, or `QueueTimeoutError`."""
        isolation = await self._isolation(wanted)
        begun = time.perf_counter()
        sandbox, start = await self._assignment.acquire(wanted, invocation.deadline)
        queued = time.perf_counter()
        loaded = queued
        done = False
        self._attended += 1
        try:
            if start != "warm":
                program = await wanted.load()
                sandbox = self._fitting(sandbox, program)
                if sandbox is None:
                    sandbox = await self._cold(wanted, isolation, program, invocation.deadline)
                self._watch()
                await sandbox.load(program, invocation.deadline)
                loaded = time.perf_counter()
                self._refill(wanted.runtime)
            assert sandbox is not None
            self._watch()
            outcome = await sandbox.invoke(invocation)
            done = True
            self._assignment.measured(wanted.key, outcome, time.perf_counter() - loaded)
        except (LoadError, StartError, FrameError, OSError) as error:
            outcome, loaded = _not_loaded(error), time.perf_counter()
        except asyncio.CancelledError:
            self.kills["cancelled"] += 1
            raise
        finally:
            self._attended -= 1
            self._assignment.release(sandbox, wanted, keep=done)
        if outcome.error_code and sandbox and sandbox.is_dead:
            self.kills[outcome.error_code.lower()] += 1
        return Ran(outcome=outcome, start=start, queue_ms=(queued - begun) * 1000, load_ms=(loaded - queued) * 1000)

    @property
    def unattended(self) -> int:
        """Return how many sandboxes, and permissions to start one, are granted to calls that do not use them."""
        return self._assignment.granted - self._attended

    def outdate(self, function_id: UUID, version: str, revision: int) -> None:
        """End the sandboxes of other versions and revisions of a function; busy ones end after their call."""
        self._assignment.outdate(function_id, version, revision)

    def counts(self) -> dict[str, int]:
        """Return how many sandboxes are `busy`, `idle` and `ready`."""
        found = self._assignment
        return {"busy": len(found.busy), "idle": len(found.idle), "ready": sum(map(len, found.ready.values()))}

    def by_runtime(self) -> dict[tuple[str, ...], int]:
        """Return the numbers of `counts`, by runtime and state."""
        found = self._assignment
        states = {"busy": found.busy, "idle": found.idle}
        numbers: Counter[tuple[str, ...]] = Counter(
            (one.runtime.value, state) for state, of_state in states.items() for one in of_state
        )
        numbers.update((one.runtime.value, "ready") for ready in found.ready.values() for one in ready)
        return numbers

    def idle(self) -> list[Sandbox]:
        """Return the sandboxes that wait for the next call of their function."""
        return list(self._assignment.idle)

    async def drain(self, seconds: float) -> None:
        """Start no more sandboxes, and give running calls this many seconds to finish."""
        await self._assignment.drain(seconds)

    async def close(self) -> None:
        """Kill every sandbox."""
        self._assignment.close()
        for task in (*self._tasks, self._keeper, self._watcher):
            if task:
                task.cancel()
        sandboxes = list(self._assignment.all())
        for sandbox in sandboxes:
            sandbox.end("error", "SANDBOX_ENDED", "The server is stopping.")
        await asyncio.gather(*(sandbox.ended() for sandbox in sandboxes), *self._ending)
        self._assignment.clear()
        self._users.close()

    # Lifecycle of a sandbox.

    def _fitting(self, sandbox: Sandbox | None, program: Program) -> Sandbox | None:
        """Return a ready sandbox; None where it has ended, or the program needs its packages from the start."""
        if sandbox is None or (program.packages is None and not sandbox.is_lost):
            return sandbox
        self._assignment.exchange(sandbox)
        return None

    async def _cold(self, wanted: Wanted, isolation: Isolation, program: Program, deadline: float) -> Sandbox:
        if program.packages and not self._found[wanted.runtime].has_network:
            raise needs_namespaces("Functions with packages", self._found[wanted.runtime])
        async with asyncio.timeout_at(deadline):
            egress = self._egress(wanted.egress, wanted.app_id)
            sandbox = await self._started(wanted.runtime, wanted.memory_mb, isolation, egress, program.packages)
        self._assignment.started(sandbox, wanted)
        return sandbox

    def _egress(self, policy: EgressPolicy | None, app_id: UUID) -> Egress | None:
        if policy is None or self._connect is None:
            return None
        connect = partial(self._connect, tenant=app_id)
        return Egress(policy, connect, self.connections, self._settings.ca_file, self.own_address)

    async def _started(
        self,
        runtime: Runtime,
        memory_mb: int,
        isolation: Isolation,
        egress: Egress | None = None,
        packages: str | None = None,
    ) -> Sandbox:
        async with self._starts:
            sandbox = Sandbox(isolation, runtime, memory_mb, self._users.acquire())
            try:
                await sandbox.start(packages, egress)
            except BaseException:
                self._end(sandbox)
                raise
        return sandbox

    def _end(self, sandbox: Sandbox) -> None:
        sandbox.kill()
        ending = asyncio.ensure_future(sandbox.ended())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._users.release(sandbox.user)

    @contextmanager
    def user(self) -> Generator[int]:
        """Yield a numeric user that no sandbox has, for a build."""
        with self._users.one() as user:
            yield user

    # Background work.

    def _refill(self, runtime: Runtime) -> None:
        self._keep()
        found = self._assignment
        missing = self._settings.ready(runtime) - len(found.ready[runtime])
        if missing > 0 and not found.is_stopping and found.total < self._settings.sandboxes:
            self._run(self._add_ready(runtime))

    async def _add_ready(self, runtime: Runtime) -> None:
        isolation = (await self.found(runtime)).isolation
        if isolation is None or self._settings.ready(runtime) <= len(self._assignment.ready[runtime]):
            return
        self._assignment.starting += 1
        try:
            sandbox = await self._started(runtime, DEFAULT_MEMORY_MB, isolation)
        except StartError as error:
            _log.warning("sandbox not started", runtime=runtime.value, error=str(error))
            return
        finally:
            self._assignment.starting -= 1
        if self._assignment.add_ready(sandbox):
            self._refill(runtime)
        else:
            self._end(sandbox)

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._end_unused())

    async def _end_unused(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._settings.idle_seconds))
            now = asyncio.get_running_loop().time()
            found = self._assignment
            for sandbox in list(found.idle):
                limit = self._settings.idle_seconds * random.uniform(1 - JITTER, 1)  # noqa: S311
                if sandbox.is_busy_alone():
                    self.kills["idle"] += 1
                    found.drop(sandbox)
                elif sandbox.is_dead or now - sandbox.idle_since > limit or found.is_old(sandbox):
                    found.drop(sandbox)
            for ready in found.ready.values():
                for sandbox in [one for one in ready if one.is_dead]:
                    ready.remove(sandbox)
                    self._end(sandbox)

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._check_busy())

    async def _check_busy(self) -> None:
        busy = self._assignment.busy
        while busy:
            await asyncio.sleep(CHECK_SECONDS)
            for sandbox in list(busy):
                sandbox.check()


def _not_loaded(error: Exception) -> Outcome:
    """Return the outcome of a call whose sandbox did not start or could not load the function."""
    if isinstance(error, LoadError):
        outcome = Outcome(status="error", error=str(error), error_code=error.code)
        outcome.logs = [log_line("error", error.stack or str(error))]
        return outcome
    if isinstance(error, TimeoutError):
        return Outcome(status="timeout", error="The function took too long.", error_code="FUNCTION_TIMEOUT")
    return Outcome(status="error", error=str(error)[:2000], error_code="SANDBOX_ENDED")
