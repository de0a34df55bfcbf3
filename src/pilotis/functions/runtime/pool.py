"""The sandbox pool of a process: prestarted and warm sandboxes, fairness between apps, eviction, draining.

A call takes an idle sandbox of its key; else a prestarted one, which is then bound to the key; else a new one, which,
if the pool is full, replaces the least recently used idle one; else it waits. Waiting calls are served round robin over
the apps.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import socket
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

import msgspec
import structlog

from pilotis.functions.runtime.egress import Egress, EgressPolicy, OwnAddress
from pilotis.functions.runtime.frames import FrameError
from pilotis.functions.runtime.isolation import Found, choice, probe
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.sandbox import (
    Invocation,
    LoadError,
    Outcome,
    Program,
    Sandbox,
    StartError,
    log_line,
    remove_left_folders,
)
from pilotis.kit.errors import PilotisError, UnavailableError
from pilotis.kit.granting import granted

ADMITTED_SECONDS = 5.0
"""The maximum wait of a call for a sandbox after its app's quota permits it."""
CHECK_SECONDS = 0.05
CONCURRENT_STARTS = 2
MAX_CALLS = 1000
MAX_AGE = 900.0
DEFAULT_MEMORY_MB = 128
_LOOK_SECONDS = 5.0
_JITTER = 0.1
# A new duration moves the usual one by a fifth: it follows a change within about ten calls.
_WEIGHT = 0.2
_MAX_USUAL = 4096
_BLOCKS = 512
_BLOCK_USERS = 512

_log = structlog.get_logger("pilotis.functions")

Start = Literal["warm", "ready", "cold"]
Key = tuple[UUID, UUID, str, int]
"""The key to which a sandbox is bound: app, function, version, and the revision of its settings."""


class RuntimeUnavailableError(UnavailableError):
    """503: this server cannot run functions of this runtime safely; the message says why."""

    code = "RUNTIME_UNAVAILABLE"
    message = "This server cannot run functions."


class FunctionBusyError(PilotisError):
    """429: the maximum number of calls of the app's functions is already waiting."""

    status = 429
    code = "FUNCTION_BUSY"
    message = "Too many calls of the app's functions are waiting. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


class FunctionsOverloadedError(UnavailableError):
    """503: no sandbox became free within 5 seconds, or the process is stopping."""

    code = "FUNCTIONS_OVERLOADED"
    message = "All sandboxes are in use. Try again shortly."


class QueueTimeoutError(Exception):
    """The call's time limit passed before it started."""


class PoolSettings(NamedTuple):
    """The maximum number of sandboxes, the number of prestarted ones, and the lifetime of an idle one.

    `ca_file` contains certificate authorities that functions with egress trust in addition to the machine's.
    """

    sandboxes: int
    ready_javascript: int
    ready_python: int
    idle_seconds: float
    uid_base: int
    ca_file: str | None = None
    isolation: str = "auto"
    """A key of `isolation.CHOICES`."""
    is_local: bool = False
    """Whether only this machine reaches the server."""

    def ready(self, runtime: Runtime) -> int:
        """Return the number of prestarted sandboxes of a runtime."""
        return self.ready_javascript if runtime is Runtime.JAVASCRIPT else self.ready_python


class Wanted(NamedTuple):
    """What a call needs: the key and what starts a sandbox for it.

    At most `at_once` calls of the app run concurrently.
    """

    key: Key
    runtime: Runtime
    memory_mb: int
    at_once: int
    waiting: int
    may_wait: bool
    per_version: int
    load: Callable[[], Awaitable[Program]]
    egress: EgressPolicy | None = None
    """What it may connect to; None is nothing at all."""

    @property
    def app_id(self) -> UUID:
        """The app that is called."""
        return self.key[0]


class Ran(msgspec.Struct, kw_only=True):
    """The outcome of a call, and how it got its sandbox; times are in milliseconds."""

    outcome: Outcome
    start: Start
    queue_ms: float
    load_ms: float


class ConnectFor(Protocol):
    """Connects to a host and a port for an app, if that is permitted; raises `OutgoingError`."""

    def __call__(self, host: str, port: int, *, tenant: UUID) -> Awaitable[socket.socket]:
        """Return the connection."""


class UserBlock:
    """The numeric users of this process's sandboxes: a block that no other process of the machine has.

    Two processes whose sandboxes shared a user would share its limits, and without namespaces nothing would keep these
    sandboxes apart. The name of an abstract socket reserves a block, and the kernel releases it when the process ends.
    """

    def __init__(self, uid_base: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.users = range(uid_base, uid_base + _BLOCK_USERS)
        if platform.system() != "Linux":  # Others have neither such sockets nor sandboxes with users of their own.
            return
        for at in range(_BLOCKS):
            number = (os.getpid() + at) % _BLOCKS
            try:
                self._socket.bind(f"\0pilotis-sandboxes-{uid_base}-{number}")
            except OSError:
                continue
            first = uid_base + number * _BLOCK_USERS
            self.users = range(first, first + _BLOCK_USERS)
            return
        self._socket.close()
        raise RuntimeUnavailableError("Other processes of this machine have all numeric users of sandboxes.")

    def release(self) -> None:
        """Let another process have the block."""
        self._socket.close()


class _Waiter:
    """A call that waits for its grant, until `deadline` by the event loop's clock."""

    __slots__ = ("admitted", "deadline", "future", "wanted")

    def __init__(self, wanted: Wanted, future: asyncio.Future[_Grant], deadline: float) -> None:
        self.wanted, self.future, self.deadline = wanted, future, deadline
        self.admitted: asyncio.TimerHandle | None = None


class _Grant(NamedTuple):
    """A sandbox or, if it is None, permission to start one."""

    sandbox: Sandbox | None
    start: Start


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
        self._idle: OrderedDict[Sandbox, Key] = OrderedDict()
        self._by_key: dict[Key, list[Sandbox]] = {}
        self._ready: dict[Runtime, list[Sandbox]] = {runtime: [] for runtime in Runtime}
        self._busy: dict[Sandbox, Key] = {}
        self._held: Counter[UUID] = Counter()
        self._versions: Counter[Key] = Counter()
        self._starting = 0
        self._running: Counter[UUID] = Counter()
        self._attended = 0
        self._usual: OrderedDict[Key, float] = OrderedDict()
        self._queues: OrderedDict[UUID, deque[_Waiter]] = OrderedDict()
        self._starts = asyncio.Semaphore(CONCURRENT_STARTS)
        self._users: set[int] = set()
        self._block: UserBlock | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._current: dict[UUID, tuple[str, int]] = {}
        self._stopping = False
        self._ending: set[asyncio.Future[None]] = set()
        self._ended: asyncio.Event | None = None
        self.kills: Counter[str] = Counter()

    async def found(self, runtime: Runtime) -> Found:
        """Return the isolation of a runtime on this machine; the first call runs the canary."""
        if runtime not in self._found:
            async with self._probing:
                if runtime not in self._found:
                    user = self._acquire_user()
                    wanted = choice(self._settings.isolation)
                    found = await probe(runtime, user, wanted, is_local=self._settings.is_local)
                    self._found[runtime] = found
                    self._users.discard(user)
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
        sandbox = (self._grant_at_once(wanted) or await self._wait(wanted, deadline)).sandbox
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
            self._release(sandbox, wanted, keep=False)
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
        grant = self._grant_at_once(wanted) or await self._wait(wanted, invocation.deadline)
        queued = time.perf_counter()
        sandbox, start = grant
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
            self._measured(wanted.key, outcome, time.perf_counter() - loaded)
        except (LoadError, StartError, FrameError, OSError) as error:
            outcome, loaded = _not_loaded(error), time.perf_counter()
        except asyncio.CancelledError:
            self.kills["cancelled"] += 1
            raise
        finally:
            self._attended -= 1
            self._release(sandbox, wanted, keep=done)
        if outcome.error_code and sandbox and sandbox.is_dead:
            self.kills[outcome.error_code.lower()] += 1
        return Ran(outcome=outcome, start=start, queue_ms=(queued - begun) * 1000, load_ms=(loaded - queued) * 1000)

    @property
    def unattended(self) -> int:
        """Return how many sandboxes, and permissions to start one, are granted to calls that do not use them."""
        return sum(self._running.values()) - self._attended

    def _measured(self, key: Key, outcome: Outcome, seconds: float) -> None:
        """Remember how long calls of a key usually take; those that timed out say nothing about it."""
        if outcome.status == "timeout":
            return
        usual = self._usual.pop(key, seconds)
        self._usual[key] = usual + _WEIGHT * (seconds - usual)
        if len(self._usual) > _MAX_USUAL:
            self._usual.popitem(last=False)

    def outdate(self, function_id: UUID, version: str, revision: int) -> None:
        """End the sandboxes of other versions and revisions of a function; busy ones end after their call."""
        for sandbox, key in list(self._idle.items()):
            if key[1] == function_id and key[2:] != (version, revision) and not key[2].startswith("draft"):
                self._drop(sandbox, key)
        self._current[function_id] = (version, revision)

    def counts(self) -> dict[str, int]:
        """Return how many sandboxes are `busy`, `idle` and `ready`."""
        ready = sum(map(len, self._ready.values()))
        return {"busy": len(self._busy), "idle": len(self._idle), "ready": ready}

    def by_runtime(self) -> dict[tuple[str, ...], int]:
        """Return the numbers of `counts`, by runtime and state."""
        states = {"busy": self._busy, "idle": self._idle}
        numbers: Counter[tuple[str, ...]] = Counter(
            (one.runtime.value, state) for state, found in states.items() for one in found
        )
        numbers.update((one.runtime.value, "ready") for ready in self._ready.values() for one in ready)
        return numbers

    async def drain(self, seconds: float) -> None:
        """Start no more sandboxes, and give running calls this many seconds to finish."""
        self._stopping = True
        if self._busy:
            self._ended = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)

    async def close(self) -> None:
        """Kill every sandbox."""
        self._stopping = True
        for task in (*self._tasks, self._keeper, self._watcher):
            if task:
                task.cancel()
        for queue in self._queues.values():
            for waiter in queue:
                if not waiter.future.done():
                    waiter.future.set_exception(FunctionsOverloadedError())
        sandboxes = [*self._idle, *self._busy, *(one for ready in self._ready.values() for one in ready)]
        for sandbox in sandboxes:
            sandbox.end("error", "SANDBOX_ENDED", "The server is stopping.")
        await asyncio.gather(*(sandbox.ended() for sandbox in sandboxes), *self._ending)
        self._idle.clear()
        self._by_key.clear()
        self._ready = {runtime: [] for runtime in Runtime}
        if self._block is not None:
            self._block.release()
            self._block = None

    # Assignment of sandboxes.

    def _grant_at_once(self, wanted: Wanted) -> _Grant | None:
        app_id = wanted.app_id
        queue = self._queues.get(app_id)
        if queue or self._running[app_id] >= wanted.at_once:
            if not wanted.may_wait or len(queue or ()) >= wanted.waiting:
                raise FunctionBusyError
            return None
        grant = self._grant(wanted)
        if grant is None and self._stopping:
            raise FunctionsOverloadedError
        if grant is None and len(queue or ()) >= wanted.waiting:
            raise FunctionBusyError
        return grant

    async def _wait(self, wanted: Wanted, deadline: float) -> _Grant:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(wanted, loop.create_future(), deadline)
        self._queues.setdefault(wanted.app_id, deque()).append(waiter)
        self._dispatch()
        try:
            return await granted(waiter.future, deadline, QueueTimeoutError, partial(self._return, wanted))
        finally:
            if waiter.admitted:
                waiter.admitted.cancel()
            queue = self._queues.get(wanted.app_id)
            if queue is not None:
                with suppress(ValueError):
                    queue.remove(waiter)
                if not queue:
                    self._queues.pop(wanted.app_id, None)

    def _return(self, wanted: Wanted, grant: _Grant) -> None:
        """Take back what a call was granted and did not use."""
        self._release(grant.sandbox, wanted, keep=grant.start == "warm")

    def _dispatch(self) -> None:
        """Assign free capacity to waiting calls, round robin over the apps."""
        given = True
        while given:
            given = False
            for app_id in list(self._queues):
                queue = self._queues[app_id]
                waiter = self._next(queue)
                if waiter is None or self._running[app_id] >= waiter.wanted.at_once:
                    continue
                grant = self._grant(waiter.wanted)
                if grant is None:
                    self._limit_wait(queue)
                    continue
                queue.remove(waiter)
                waiter.future.set_result(grant)
                self._queues.move_to_end(app_id)
                given = True

    def _next(self, queue: deque[_Waiter]) -> _Waiter | None:
        """Return the call to serve next: the first that can still end in time, or else the one with the most time.

        Under overload the first of the queue have waited almost until their deadline. To serve them would spend a
        sandbox on calls that end as time-outs, which in turn end the sandbox.
        """
        now = asyncio.get_running_loop().time()
        best: _Waiter | None = None
        for waiter in queue:
            if waiter.future.done() or waiter.deadline <= now:
                continue
            if now + self._usual.get(waiter.wanted.key, 0.0) < waiter.deadline:
                return waiter
            if best is None or waiter.deadline > best.deadline:
                best = waiter
        return best

    def _limit_wait(self, queue: deque[_Waiter]) -> None:
        """Start the time limit of calls that wait only for a sandbox, not for their app's quota."""
        free = queue[0].wanted.at_once - self._running[queue[0].wanted.app_id]
        for waiter in list(queue)[:free]:
            if waiter.admitted is None:
                loop = asyncio.get_running_loop()
                waiter.admitted = loop.call_later(ADMITTED_SECONDS, self._give_up, waiter)

    def _give_up(self, waiter: _Waiter) -> None:
        if not waiter.future.done():
            waiter.future.set_exception(FunctionsOverloadedError())

    def _grant(self, wanted: Wanted) -> _Grant | None:
        """Take a sandbox, or capacity for one, for a call that its app's quota permits."""
        key, app_id = wanted.key, wanted.app_id
        while idle := self._by_key.get(key):
            sandbox = idle.pop()
            del self._idle[sandbox]
            if not sandbox.is_dead and not self._is_old(sandbox):
                return self._begin(wanted, _Grant(sandbox, "warm"))
            self._forget(sandbox, key)
        half = max(1, self._settings.sandboxes // 2)
        if self._stopping or self._versions[key] >= wanted.per_version:
            return None
        if self._held[app_id] >= half and not self._evict(app_id):
            return None
        # A way out is part of a sandbox from its start.
        ready = [] if wanted.egress else self._ready[wanted.runtime]
        while ready:
            sandbox = ready.pop()
            if not sandbox.is_dead and sandbox.memory_mb == wanted.memory_mb:
                return self._begin(wanted, _Grant(sandbox, "ready"))
            self._end(sandbox)
        if self._total >= self._settings.sandboxes and not self._evict(None):
            return None
        return self._begin(wanted, _Grant(None, "cold"))

    def _begin(self, wanted: Wanted, grant: _Grant) -> _Grant:
        self._running[wanted.app_id] += 1
        if grant.start != "warm":
            self._held[wanted.app_id] += 1
            self._versions[wanted.key] += 1
        if grant.sandbox is None:
            self._starting += 1
        else:
            self._busy[grant.sandbox] = wanted.key
        return grant

    @property
    def _total(self) -> int:
        return len(self._busy) + len(self._idle) + self._starting + sum(map(len, self._ready.values()))

    def _evict(self, app_id: UUID | None) -> bool:
        """End the idle sandbox, of an app or of any, that was used least recently, or else a prestarted one."""
        for sandbox, key in self._idle.items():
            if app_id is None or key[0] == app_id:
                self._drop(sandbox, key)
                return True
        if app_id is None:
            for ready in self._ready.values():
                if ready:
                    self._end(ready.pop())
                    return True
        return False

    # Lifecycle of a sandbox.

    def _fitting(self, sandbox: Sandbox | None, program: Program) -> Sandbox | None:
        """Return a ready sandbox, or None where the program needs one that has its packages from the start."""
        if sandbox is None or program.packages is None:
            return sandbox
        del self._busy[sandbox]
        self._starting += 1
        self._end(sandbox)
        return None

    async def _cold(self, wanted: Wanted, isolation: Isolation, program: Program, deadline: float) -> Sandbox:
        if program.packages and not self._found[wanted.runtime].has_network:
            raise needs_namespaces("Functions with packages", self._found[wanted.runtime])
        async with asyncio.timeout_at(deadline):
            egress = self._egress(wanted.egress, wanted.app_id)
            sandbox = await self._started(wanted.runtime, wanted.memory_mb, isolation, egress, program.packages)
        self._busy[sandbox] = wanted.key
        self._starting -= 1
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
            sandbox = Sandbox(isolation, runtime, memory_mb, self._acquire_user())
            try:
                await sandbox.start(packages, egress)
            except BaseException:
                self._end(sandbox)
                raise
        return sandbox

    def _release(self, sandbox: Sandbox | None, wanted: Wanted, *, keep: bool) -> None:
        self._running[wanted.app_id] -= 1
        if not self._running[wanted.app_id]:
            del self._running[wanted.app_id]
        if sandbox is None or sandbox not in self._busy:
            self._starting -= 1
            self._count_out(wanted.key)
            if sandbox:
                self._end(sandbox)
        else:
            del self._busy[sandbox]
            if self._ended and not self._busy:
                self._ended.set()
            current = self._current.get(wanted.key[1], wanted.key[2:])
            is_current = current == wanted.key[2:] or wanted.key[2].startswith("draft")
            if keep and is_current and not sandbox.is_dead and not self._stopping and not self._is_old(sandbox):
                self._idle[sandbox] = wanted.key
                self._by_key.setdefault(wanted.key, []).append(sandbox)
            else:
                self._forget(sandbox, wanted.key)
        if self._queues:
            self._dispatch()

    def _is_old(self, sandbox: Sandbox) -> bool:
        factor = 1 - _JITTER * (hash(sandbox) % 97) / 97
        age = asyncio.get_running_loop().time() - sandbox.started_at
        return sandbox.calls >= MAX_CALLS * factor or age >= MAX_AGE * factor

    def _drop(self, sandbox: Sandbox, key: Key) -> None:
        """End an idle sandbox."""
        del self._idle[sandbox]
        self._by_key[key].remove(sandbox)
        if not self._by_key[key]:
            del self._by_key[key]
        self._forget(sandbox, key)

    def _forget(self, sandbox: Sandbox, key: Key) -> None:
        self._count_out(key)
        self._end(sandbox)

    def _count_out(self, key: Key) -> None:
        self._held[key[0]] -= 1
        self._versions[key] -= 1
        if not self._held[key[0]]:
            del self._held[key[0]]
        if not self._versions[key]:
            del self._versions[key]

    def _end(self, sandbox: Sandbox) -> None:
        sandbox.kill()
        ending = asyncio.ensure_future(sandbox.ended())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._users.discard(sandbox.user)

    def _acquire_user(self) -> int:
        """Return a numeric user for a sandbox that no other sandbox of this process has."""
        if self._block is None:
            self._block = UserBlock(self._settings.uid_base)
        user = next((user for user in self._block.users if user not in self._users), None)
        if user is None:
            raise FunctionsOverloadedError
        self._users.add(user)
        return user

    @contextmanager
    def user(self) -> Generator[int]:
        """Yield a numeric user that no sandbox has, for a build."""
        user = self._acquire_user()
        try:
            yield user
        finally:
            self._users.discard(user)

    # Background work.

    def _refill(self, runtime: Runtime) -> None:
        self._keep()
        missing = self._settings.ready(runtime) - len(self._ready[runtime])
        if missing > 0 and not self._stopping and self._total < self._settings.sandboxes:
            self._run(self._add_ready(runtime))

    async def _add_ready(self, runtime: Runtime) -> None:
        isolation = (await self.found(runtime)).isolation
        if isolation is None or self._settings.ready(runtime) <= len(self._ready[runtime]):
            return
        self._starting += 1
        try:
            sandbox = await self._started(runtime, DEFAULT_MEMORY_MB, isolation)
        except StartError as error:
            _log.warning("sandbox not started", runtime=runtime.value, error=str(error))
            return
        finally:
            self._starting -= 1
        if self._stopping or len(self._ready[runtime]) >= self._settings.ready(runtime):
            self._end(sandbox)
            return
        self._ready[runtime].append(sandbox)
        if self._queues:
            self._dispatch()
        self._refill(runtime)

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
            for sandbox, key in list(self._idle.items()):
                limit = self._settings.idle_seconds * random.uniform(1 - _JITTER, 1)  # noqa: S311
                if sandbox.is_busy_alone():
                    self.kills["idle"] += 1
                    self._drop(sandbox, key)
                elif sandbox.is_dead or now - sandbox.idle_since > limit or self._is_old(sandbox):
                    self._drop(sandbox, key)
            for ready in self._ready.values():
                for sandbox in [one for one in ready if one.is_dead]:
                    ready.remove(sandbox)
                    self._end(sandbox)

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._check_busy())

    async def _check_busy(self) -> None:
        while self._busy:
            await asyncio.sleep(CHECK_SECONDS)
            for sandbox in list(self._busy):
                sandbox.check()


def needs_namespaces(what: str, found: Found) -> RuntimeUnavailableError:
    """Return the error of what this machine's isolation does not offer."""
    level = found.isolation.value if found.isolation else "none"
    return RuntimeUnavailableError(
        f"{what} need bubblewrap; this server isolates by {level}. {found.reason or ''}".strip()
    )


def _not_loaded(error: Exception) -> Outcome:
    """Return the outcome of a call whose sandbox did not start or could not load the function."""
    if isinstance(error, LoadError):
        outcome = Outcome(status="error", error=str(error), error_code=error.code)
        outcome.logs = [log_line("error", error.stack or str(error))]
        return outcome
    if isinstance(error, TimeoutError):
        return Outcome(status="timeout", error="The function took too long.", error_code="FUNCTION_TIMEOUT")
    return Outcome(status="error", error=str(error)[:2000], error_code="SANDBOX_ENDED")


def default_sandboxes() -> int:
    """Return the default number of sandboxes: half of the memory divided by 320 MB, at most 32."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(2, min(32, memory // 2 // (320 * 1024 * 1024)))
