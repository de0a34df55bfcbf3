"""A sandbox: a process that runs one version of one function, one call at a time, and is killed in case of doubt."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from pilotis.functions.runtime import frames, seccomp
from pilotis.functions.runtime.egress import Egress, authorities
from pilotis.functions.runtime.frames import Frame, FrameError
from pilotis.functions.runtime.policy import Isolation, Proxy, Runtime, command, own_code_command
from pilotis.kit import json
from pilotis.kit.errors import PilotisError

START_SECONDS = 10.0
MAX_RESULT = 6 * 1024 * 1024
MAX_DEPTH = 64
MAX_LOG_BYTES = 64 * 1024
MAX_LOG_LINES = 1000
MAX_LINE = 10_000
MAX_API_CALLS = 1000
CONCURRENT_API_CALLS = 8
MAX_DROPPED = 2**31 - 1
"""The largest number of dropped lines that a record can have."""
_FLOOD_FRAMES = 20_000
_FLOOD_BYTES = 16 * 1024 * 1024
"""What a sandbox may send from one call to the next besides results and calls of the API, whose number is limited."""
_MAX_PENDING = 16 * 1024 * 1024
"""The size of the calls of the API that wait; above it the server reads no further ones."""
_MAX_UNREAD = 64 * 1024 * 1024
_PRINTED_BYTES, _PRINT_PAUSE = 1024 * 1024, 0.01
"""After so much output the server waits for so many seconds: discarding it takes processor time."""
FOLDERS = "pilotis-function-"
_OUTPUT_BYTES = 8192
_SPARE_BYTES = 64 * 1024 * 1024
NICE = 5
"""The priority of functions: the server and its database go first."""
_MAX_DESCRIPTORS = 64
"""Each socket and pipe may hold some of the kernel's memory, which no other limit counts."""
_MAX_THREADS = 256
MAX_FILES = 10_000
"""The maximum number of files in a sandbox's `/tmp`: even an empty one takes a kilobyte of the kernel's memory."""
IDLE_CPU_SECONDS = 0.5
"""The processor time that a sandbox may use between two calls, such as for collecting garbage."""
_MASKED_LENGTH = 8
_SET_REAL = {"x86_64": (117, 119), "aarch64": (147, 149)}
"""The numbers of setresuid(2) and setresgid(2)."""
_OUT_OF_MEMORY = ("out of memory", "OOM", "memory allocation", "MemoryError", "Cannot allocate memory")

Status = Literal["success", "error", "timeout"]


class LogLine(msgspec.Struct, array_like=True):
    """A line of the log: seconds since 1970, a level, a text."""

    time: float
    level: str
    message: str


def log_line(level: str, text: str) -> LogLine:
    """Return a line of now, of what a function says."""
    return LogLine(time.time(), level, _storable(text[:MAX_LINE]))


def _storable(text: str) -> str:
    """Return a text of a function without NUL, which cannot be stored in the database."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


class Outcome(msgspec.Struct, kw_only=True):
    """The outcome of a call.

    `result` is JSON text, `duration` the handler's time in milliseconds by the server's clock.
    """

    status: Status
    result: bytes = b"null"
    error: str | None = None
    error_code: str | None = None
    duration: float = 0.0
    cpu_ms: float = 0.0
    peak_memory_mb: float | None = None
    logs: list[LogLine] = []
    log_dropped: int = 0


class Program(NamedTuple):
    """What a sandbox is bound to permanently: the files by path, the entry file, the variables."""

    files: Mapping[str, bytes]
    entry: str
    env: Mapping[str, str]
    commonjs: bool = False
    packages: str | None = None
    """A directory of Python packages, which is part of a sandbox from its start."""


class Invocation(msgspec.Struct, kw_only=True):
    """One call. `deadline` is a time of the loop's clock, `cpu_seconds` the maximum processor time.

    `api` serves calls of the app's API and requests for a token, which are unavailable if `api` is None. `measure`
    requests the peak memory.
    """

    payload: bytes
    context: dict[str, Any]
    deadline: float
    cpu_seconds: float
    api: Callable[[Frame], Awaitable[dict[str, Any]]] | None = None
    measure: bool = False


class StartError(Exception):
    """The sandbox did not start; the text is its output."""


class LoadError(Exception):
    """The function's files could not be loaded; `stack` and `code` give the details."""

    def __init__(self, message: str, code: str, stack: str) -> None:
        super().__init__(message)
        self.code, self.stack = code, stack


class Sandbox(asyncio.Protocol):
    """A sandbox. Call `start` and `load` once, then `invoke` for each call; `kill` at any time."""

    def __init__(self, isolation: Isolation, runtime: Runtime, memory_mb: int, user: int) -> None:
        self.isolation, self.runtime, self.memory_mb, self.user = isolation, runtime, memory_mb, user
        self.pid = 0
        self.calls = 0
        self.started_at = 0.0
        self.idle_since = 0.0
        self.is_dead = False
        self.output = b""
        self._reader = frames.Reader()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._expected: asyncio.Future[Frame] | None = None
        self._current: _Current | None = None
        self._ended = asyncio.Event()
        self._printing: asyncio.ReadTransport | None = None
        self.reason: tuple[Status, str, str] | None = None
        self._masks: list[tuple[str, str]] = []
        self._egress: Egress | None = None
        self._folder: str | None = None
        self._cpu_at_end = 0.0
        self._other_frames = self._other_bytes = 0
        self._pending_bytes = 0
        self._may_send = asyncio.Event()
        self._may_send.set()

    async def start(self, packages: str | None = None, egress: Egress | None = None) -> None:
        """Start the process and wait until its harness is ready; raises `StartError`.

        `packages` is a directory of Python packages, `egress` the way out; without one there is none.
        """
        loop = asyncio.get_running_loop()
        self.started_at = loop.time()
        own, theirs = socket.socketpair()
        output, error = os.pipe()
        files: list[int] = []
        if not self.isolation.has_namespaces:
            self._folder = new_folder(self.user)
        try:
            if self.isolation.is_confined:
                line, environment = self._confined(packages, egress, files)
            else:
                line, environment = await self._own_code(packages, egress)
            # Start it in the loop's own thread, because a sandbox dies with the thread that started it. Give it its own
            # process group, because bubblewrap's child first waits for its parent, and never ends if only that one is
            # killed.
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603
                line,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=error,
                env=environment,
                pass_fds=files,
                cwd="/",
                process_group=0,
            )
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)
        except BaseException as failure:
            own.close()
            os.close(output)
            if isinstance(failure, OSError):
                raise StartError(str(failure)) from None
            raise
        finally:
            theirs.close()
            os.close(error)
            for file in files:
                os.close(file)
        ready = self._expect()
        try:
            self._printing, _ = await loop.connect_read_pipe(lambda: _Output(self), os.fdopen(output, "rb", 0))
            own.setblocking(False)
            self._transport, _ = await loop.create_unix_connection(lambda: self, sock=own)
        except BaseException:
            ready.cancel()
            own.close()
            self.kill()
            raise
        try:
            async with asyncio.timeout(START_SECONDS):
                frame = await ready
            if frame.t != "ready":
                raise FrameError(frame.t)
            self.pid = innermost(self._process.pid) if self.isolation.has_namespaces else self._process.pid
            self._bound()
            give_way(self.pid, NICE)
            if egress and self.isolation.has_namespaces:
                self._egress = egress
                await egress.listen(self.pid)
        except (TimeoutError, FrameError, OSError) as failure:
            self.kill()
            # The output arrives after the end.
            await asyncio.sleep(0.05)
            text = self.output.decode("utf-8", "replace").strip() or str(failure) or type(failure).__name__
            raise StartError(text[:500]) from None
        except BaseException:
            self.kill()
            raise

    def _confined(
        self, packages: str | None, egress: Egress | None, files: list[int]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command of a confined sandbox, and add the files that it inherits."""
        is_alone = not self.isolation.has_namespaces
        has_network = egress is not None
        files.append(memory_file(seccomp.program(platform.machine(), is_alone=is_alone, has_network=has_network)))
        certificates = None
        if egress:
            certificates = memory_file(authorities(egress.ca_file))
            files.append(certificates)
        return command(
            self.isolation,
            self.runtime,
            seccomp=files[0],
            user=self.user,
            memory_mb=self.memory_mb,
            packages=packages,
            certificates=certificates,
            folder=self._folder or "",
        )

    async def _own_code(self, packages: str | None, egress: Egress | None) -> tuple[list[str], dict[str, str]]:
        """Return the command of a sandbox that is not confined."""
        assert self._folder
        proxy = None
        if egress:
            self._egress = egress
            proxy = Proxy(await egress.listen_here(), f"{self._folder}/certificates.pem")
            await asyncio.to_thread(Path(proxy.certificates).write_bytes, authorities(egress.ca_file))
        return own_code_command(self.runtime, self.memory_mb, self._folder, packages, proxy)

    async def load(self, program: Program, deadline: float) -> None:
        """Bind the sandbox to a program; raises `LoadError`, `TimeoutError`, `FrameError`."""
        hidden = [(value, f"[{name}]") for name, value in program.env.items() if len(value) >= _MASKED_LENGTH]
        self._masks = sorted(hidden, key=lambda mask: -len(mask[0]))
        files, folder = dict(program.files), None
        if self._folder:
            # It cannot write its files itself.
            folder = f"{self._folder}/app/"
            try:
                await asyncio.to_thread(_write_all, folder, files)
            except FileExistsError as same:
                name = Path(same.filename).name
                text = f"This machine's file system takes {name} for another file of the function; rename one."
                raise LoadError(text, "LOAD_FAILED", "") from None
            files = {}
        loaded = self._expect()
        self._send(
            {
                "t": "load",
                "files": files,
                "folder": folder,
                "entry": program.entry,
                "env": dict(program.env),
                "commonjs": program.commonjs,
            }
        )
        try:
            async with asyncio.timeout_at(deadline):
                frame = await loaded
        except TimeoutError:
            # Also an `OSError`, but the caller's time limit says nothing about the function.
            raise
        except OSError as failure:
            code = self.reason[1] if self.reason else "LOAD_FAILED"
            code = "LOAD_FAILED" if code == "SANDBOX_ENDED" else code
            raise LoadError(self._masked(self.printed() or str(failure)), code, "") from None
        if frame.t != "loaded":
            raise FrameError(frame.t)
        if frame.error is not None:
            code = "MEMORY_EXCEEDED" if frame.code == "MEMORY_EXCEEDED" else "LOAD_FAILED"
            text, stack = _storable(frame.error[:2000]), _storable((frame.stack or "")[:8000])
            raise LoadError(self._masked(text), code, self._masked(stack))

    async def invoke(self, call: Invocation) -> Outcome:
        """Call the function and return the outcome. Afterwards the sandbox is dead unless it can be reused."""
        loop = asyncio.get_running_loop()
        self.calls += 1
        self._other_frames = self._other_bytes = 0
        current = self._current = _Current(self.calls, call, loop.create_future(), self.cpu_seconds())
        timer = loop.call_at(call.deadline, self.end, "timeout", "FUNCTION_TIMEOUT", "The function took too long.")
        if self._egress:
            self._egress.begin(lambda text: current.log("warn", text))
        started = time.perf_counter()
        try:
            if self.is_dead:
                self._died()
            else:
                self._send(
                    {"t": "invoke", "id": current.id, "payload": msgspec.Raw(call.payload), "context": call.context}
                )
            outcome = await current.ended
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            timer.cancel()
            self._current = None
            current.cancel_calls()
            if self._egress:
                self._egress.end()
        outcome.duration = (time.perf_counter() - started) * 1000
        if not self.is_dead:
            self._cpu_at_end = self.cpu_seconds()
            outcome.cpu_ms = max(0.0, (self._cpu_at_end - current.cpu_before) * 1000)
            if call.measure:
                outcome.peak_memory_mb = self.peak_memory_mb()
        outcome.logs, outcome.log_dropped = [*current.logs, *outcome.logs], current.dropped
        if self._masks:
            outcome.error = outcome.error and self._masked(outcome.error)
            for line in outcome.logs:
                line.message = self._masked(line.message)
        self.idle_since = loop.time()
        return outcome

    def _masked(self, text: str) -> str:
        """Return a text in which the values of variables are replaced by their names."""
        for value, name in self._masks:
            text = text.replace(value, name)
        return text

    def check(self) -> None:
        """End a call that has exceeded its processor time, or its number of files: each takes memory of the kernel.

        It has as many files while it is loaded.
        """
        current = self._current
        if current and self.cpu_seconds() - current.cpu_before > current.call.cpu_seconds:
            self.end("error", "CPU_EXCEEDED", "The function exceeded its limit of processor time.")
        elif self._file_count() > MAX_FILES:
            self.end("error", "MEMORY_EXCEEDED", f"The function made more than {MAX_FILES} files.")
        elif self._egress and self._egress.is_flooded:
            self.end("error", "SANDBOX_ENDED", "The function opened too many connections.")

    def is_busy_alone(self) -> bool:
        """Whether an idle sandbox has gone on computing, or making files, after the end of its last call."""
        is_flooding = self._egress is not None and self._egress.is_flooded
        return is_flooding or self.cpu_seconds() - self._cpu_at_end > IDLE_CPU_SECONDS or self._file_count() > MAX_FILES

    def _file_count(self) -> int:
        """Return the number of files in the sandbox's own `/tmp`."""
        if not self.isolation.has_namespaces:
            return 0
        try:
            found = os.statvfs(f"/proc/{self.pid}/root/tmp")
        except OSError:
            return 0
        return found.f_files - found.f_ffree

    def end(self, status: Status, code: str, message: str) -> None:
        """End the current call and kill the sandbox."""
        self.reason = (status, code, message)
        if self._current and not self._current.ended.done():
            outcome = Outcome(status=status, error=message, error_code=code)
            outcome.cpu_ms = max(0.0, (self.cpu_seconds() - self._current.cpu_before) * 1000)
            self._current.ended.set_result(outcome)
        self.kill()

    def kill(self) -> None:
        """Kill all processes of the sandbox. Idempotent."""
        if self.is_dead:
            return
        self.is_dead = True
        if self._egress:
            self._egress.close()
        if self._transport:
            self._transport.abort()
        if self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self.pid, signal.SIGKILL)
            self._collect(self._process)

    async def ended(self) -> None:
        """Wait until all processes of a killed sandbox have ended."""
        if self._process:
            await self._ended.wait()
        if self._egress:
            await self._egress.closed()
        if self._printing:
            self._printing.close()
            # The loop closes its file.
            await asyncio.sleep(0)
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a killed process without blocking the loop."""
        loop = asyncio.get_running_loop()
        if sys.platform == "linux":
            try:
                descriptor = os.pidfd_open(process.pid)
            except OSError:
                # The process has ended, and nothing else collects it.
                process.wait()
                self._ended.set()
                return

            def ended() -> None:
                loop.remove_reader(descriptor)
                os.close(descriptor)
                process.wait()
                self._ended.set()

            loop.add_reader(descriptor, ended)
        else:
            loop.run_in_executor(None, process.wait).add_done_callback(lambda _: self._ended.set())

    def cpu_seconds(self) -> float:
        """Return the processor time of the process, all threads together (clock_getcpuclockid(3))."""
        try:
            return time.clock_gettime((~self.pid) << 3 | 2)
        except OSError:
            return 0.0

    def peak_memory_mb(self) -> float | None:
        """Return the peak memory of the process."""
        value = _status(self.pid, "VmHWM")
        return None if value is None else round(value / 1024, 1)

    def printed(self) -> str:
        """Return the beginning of the process's standard error."""
        place = f"{self._folder or '/tmp'}/app/"  # noqa: S108
        return _storable(self.output.decode("utf-8", "replace").replace(f"file://{place}", "").strip())

    def data_received(self, data: bytes) -> None:
        """Process bytes from the sandbox."""
        try:
            for frame in self._reader.feed(data):
                self._received(frame, self._reader.size)
                if self.is_dead:
                    return
        except FrameError as error:
            self.end("error", "SANDBOX_ENDED", f"The function corrupted its connection: {error}"[:500])

    def pause_writing(self) -> None:
        """Keep answers back while the sandbox does not read."""
        self._may_send.clear()

    def resume_writing(self) -> None:
        """Send answers again."""
        self._may_send.set()

    def connection_lost(self, _error: Exception | None) -> None:
        """Record the end of the process; its output arrives shortly after."""
        self._may_send.set()
        if not self.is_dead:
            asyncio.get_running_loop().call_later(0.02, self._died)
        elif self._expected and not self._expected.done():
            self._expected.set_exception(OSError("The sandbox has ended."))

    def _died(self) -> None:
        printed = self.printed()
        is_memory = any(sign in printed for sign in _OUT_OF_MEMORY)
        code = "MEMORY_EXCEEDED" if is_memory else "SANDBOX_ENDED"
        text = "The function exceeded its memory limit." if is_memory else "The function's process ended."
        if self._current and printed:
            self._current.log("error", printed[:_OUTPUT_BYTES])
        self.end("error", code, text)
        if self._expected and not self._expected.done():
            self._expected.set_exception(OSError(text))

    def _received(self, frame: Frame, size: int) -> None:
        current = self._current
        if current and frame.id == current.id:
            if frame.t in {"call", "token"} and current.api_calls < MAX_API_CALLS:
                self._answer(current, frame, size)
                return
            if frame.t == "result" and not current.ended.done():
                current.ended.set_result(_outcome(frame))
                if frame.code == "MEMORY_EXCEEDED":
                    self.kill()
                return
        # Whatever else it sends, the server has to read it.
        self._other_frames += 1
        self._other_bytes += size
        if self._other_frames > _FLOOD_FRAMES or self._other_bytes > _FLOOD_BYTES:
            raise FrameError("too many frames")
        if self._expected and not self._expected.done():
            if frame.t not in {"log", "dropped"}:
                self._expected.set_result(frame)
        else:
            self._received_other(current, frame)

    def _received_other(self, current: _Current | None, frame: Frame) -> None:
        if frame.t == "log":
            if current:
                current.log(frame.level, frame.message)
        elif frame.t == "dropped":
            if current:
                current.dropped = min(current.dropped + frame.call, MAX_DROPPED)
        elif frame.t in {"call", "token"}:
            if current and frame.id == current.id:
                answer = _refused(429, "LIMIT_REACHED", f"A call may call the API {MAX_API_CALLS} times.")
                self._send({"t": "reply", "call": frame.call, **answer})
        else:
            raise FrameError(f"An unexpected frame {frame.t}.")

    def _answer(self, current: _Current, frame: Frame, size: int) -> None:
        current.api_calls += 1
        self._pend(size)

        async def run() -> None:
            async with current.slots:
                try:
                    answer = await self._answered(current, frame)
                finally:
                    self._pend(-size)
                if not self.is_dead:
                    self._send({"t": "reply", "call": frame.call, **answer})
                # One that calls and does not read would fill the server's memory. While nothing is read from it, it may
                # be waiting itself to send the rest of a call.
                if self._pending_bytes <= _MAX_PENDING:
                    await self._may_send.wait()

        task = asyncio.get_running_loop().create_task(run())
        current.tasks.add(task)
        task.add_done_callback(current.tasks.discard)

    async def _answered(self, current: _Current, frame: Frame) -> dict[str, Any]:
        if current.call.api is None:
            return _refused(403, "SCOPE_REQUIRED", "The API is not available here.")
        try:
            answer = await current.call.api(frame)
        except PilotisError as error:
            return _refused(error.status, error.code, error.text)
        if frame.t == "token" and self._egress:
            self._egress.permit_own()
        return answer

    def _pend(self, size: int) -> None:
        """Count what waits for an answer, and read no more above a limit."""
        assert self._transport
        was_full = self._pending_bytes > _MAX_PENDING
        self._pending_bytes += size
        is_full = self._pending_bytes > _MAX_PENDING
        if is_full != was_full and not self._transport.is_closing():
            (self._transport.pause_reading if is_full else self._transport.resume_reading)()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._transport
        self._transport.write(frames.encode(message))
        if self._transport.get_write_buffer_size() > _MAX_UNREAD:
            self.end("error", "SANDBOX_ENDED", "The function does not read what it asked for.")

    def _expect(self) -> asyncio.Future[Frame]:
        self._expected = asyncio.get_running_loop().create_future()
        return self._expected

    def _bound(self) -> None:
        """Limit the memory of the process now: V8 reserves too much for a limit that is set before it starts.

        Other systems than Linux change the limits of no other process; there V8 has a limit of its own.
        """
        data = _status(self.pid, "VmData") or 0
        memory = data * 1024 + self.memory_mb * 1024 * 1024 + _SPARE_BYTES
        bounds = {resource.RLIMIT_NOFILE: _MAX_DESCRIPTORS, resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: memory}
        if self._has_own_user() or (self.isolation is Isolation.NAMESPACE and _counts_by_namespace()):
            # Otherwise this would count the threads of all processes of the server's user.
            bounds[resource.RLIMIT_NPROC] = _MAX_THREADS
        if self.runtime is Runtime.PYTHON:
            # RLIMIT_DATA does not count shared memory, which Python can map. V8 reserves more addresses than it uses.
            bounds[resource.RLIMIT_AS] = memory + ((_status(self.pid, "VmSize") or data) - data) * 1024
        if sys.platform == "linux":
            with _as_real_user(self.user if self._has_own_user() else None):
                for which, value in bounds.items():
                    resource.prlimit(self.pid, which, (value, value))

    def _has_own_user(self) -> bool:
        return os.geteuid() == 0 and self.isolation in {Isolation.OWN_USER, Isolation.LANDLOCK}


@contextlib.contextmanager
def _as_real_user(user: int | None) -> Iterator[None]:
    """Give this thread, and no other, the real user and group of a process whose limits it changes (prlimit(2)).

    A root without CAP_SYS_RESOURCE, as in a container, may not change them otherwise. The effective user stays root.
    The functions of the C library would change all threads, so these are the system calls.
    """
    if user is None:
        yield
        return
    set_user, set_group = _SET_REAL[platform.machine()]
    call, same = ctypes.CDLL(None).syscall, -1
    try:
        if call(set_group, user, same, same) or call(set_user, user, same, same):
            raise OSError(f"The real user cannot become {user}.")
        yield
    finally:
        if call(set_user, 0, same, same) or call(set_group, 0, same, same):
            raise SystemExit("The real user cannot become root again.")


class _Current:
    """The current call of a sandbox."""

    def __init__(self, id_: int, call: Invocation, ended: asyncio.Future[Outcome], cpu_before: float) -> None:
        self.id, self.call, self.ended, self.cpu_before = id_, call, ended, cpu_before
        self.logs: list[LogLine] = []
        self.dropped = self.api_calls = self._log_bytes = 0
        self.slots = asyncio.Semaphore(CONCURRENT_API_CALLS)
        self.tasks: set[asyncio.Task[None]] = set()

    def log(self, level: str, message: str) -> None:
        if len(self.logs) >= MAX_LOG_LINES or self._log_bytes + len(message) > MAX_LOG_BYTES:
            self.dropped += 1
            return
        self._log_bytes += len(message)
        level = level if level in {"debug", "info", "warn", "error"} else "info"
        self.logs.append(log_line(level, message))

    def cancel_calls(self) -> None:
        for task in self.tasks:
            task.cancel()


class _Output(asyncio.Protocol):
    """Reads a sandbox's standard error to its end, so that a full pipe does not block it, and keeps the beginning."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._transport: asyncio.ReadTransport | None = None
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop are no subclasses of those of asyncio.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > _PRINTED_BYTES and self._transport:
            self._bytes = 0
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_PRINT_PAUSE, self._go_on)
        room = _OUTPUT_BYTES - len(self._sandbox.output)
        if room > 0:
            self._sandbox.output += data[:room]

    def _go_on(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()


def _outcome(frame: Frame) -> Outcome:
    if not frame.ok:
        if frame.code in {"RESULT_NOT_JSON", "RESULT_TOO_LARGE", "MEMORY_EXCEEDED", "NEVER_SETTLED"}:
            code = frame.code
        else:
            code = "FUNCTION_ERROR"
        outcome = Outcome(status="error", error=_storable(frame.error or "")[:2000], error_code=code)
        if frame.stack:
            outcome.logs = [log_line("error", frame.stack)]
        return outcome
    result = bytes(frame.result)
    if len(result) > MAX_RESULT:
        return Outcome(status="error", error="The result is larger than 6 MB.", error_code="RESULT_TOO_LARGE")
    try:
        json.check_depth(result, MAX_DEPTH)
    except PilotisError:
        text = f"The result is nested more than {MAX_DEPTH} levels deep."
        return Outcome(status="error", error=text, error_code="RESULT_NOT_JSON")
    return Outcome(status="success", result=result)


def _refused(status: int, code: str, message: str) -> dict[str, Any]:
    body = msgspec.json.encode({"code": code, "message": message})
    return {"status": status, "headers": {"content-type": "application/json"}, "body": body}


def new_folder(user: int) -> str:
    """Return a new folder that a sandbox can read and the server alone can write; it is named after this process."""
    # Without links on the way: Deno's permissions are for the path where they lead.
    folder = os.path.realpath(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
    if os.geteuid() == 0:
        os.chown(folder, 0, user)
    Path(folder).chmod(0o750)
    return folder


def remove_left_folders() -> None:
    """Remove the folders of sandboxes whose server has ended without removing them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        number = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if number.isdigit() and not _exists(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _write_all(folder: str, files: Mapping[str, bytes]) -> None:
    """Write files; raises `FileExistsError` where the file system takes two names for the same."""
    for name, data in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)


def memory_file(data: bytes) -> int:
    """Return a descriptor of a file in memory, at its beginning."""
    if sys.platform == "linux":
        file = os.memfd_create("seccomp")
    else:
        file, name = tempfile.mkstemp()
        Path(name).unlink()
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _counts_by_namespace() -> bool:
    """Whether the kernel counts processes by user and user namespace (since Linux 5.14), not by user alone."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (5, 14)


def innermost(pid: int) -> int:
    """Return the innermost process that bwrap started: the one without children."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


def give_way(pid: int, nice: int) -> None:
    """Set the priority of all threads of a process, and of its session where Linux schedules sessions as groups.

    In such a group a priority counts only against the other threads of the session, of which a sandbox has none
    (sched(7), "The autogroup feature"). A server without privileges may set those of ten sessions a second.
    """
    # A sandbox may have threads from before its first process had its priority. Those it makes later inherit it.
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    with contextlib.suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def _status(pid: int, name: str) -> int | None:
    """Return a line of `/proc/<pid>/status`, in KiB."""
    # Each call reads it: bytes without a buffer are found in a third of the time of lines of text.
    with contextlib.suppress(OSError, ValueError, IndexError), Path(f"/proc/{pid}/status").open("rb", 0) as file:
        return int(file.read().partition(f"\n{name}:".encode())[2].split(None, 1)[0])
    return None
