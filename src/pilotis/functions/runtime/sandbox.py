"""A sandbox: a process that runs one version of one function, one call at a time, and is killed in case of doubt."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from pilotis.functions.runtime import frames
from pilotis.functions.runtime.call import (
    CurrentCall,
    Invocation,
    LoadError,
    Outcome,
    Program,
    StartError,
    Status,
    outcome_of,
    storable,
)
from pilotis.functions.runtime.egress import Egress
from pilotis.functions.runtime.frames import Frame, FrameError
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.process import OUTPUT_BYTES, Process
from pilotis.kit.errors import PilotisError

START_SECONDS = 10.0
MAX_API_CALLS = 1000
_FLOOD_FRAMES = 20_000
_FLOOD_BYTES = 16 * 1024 * 1024
"""What a sandbox may send from one call to the next besides results and calls of the API, whose number is limited."""
_MAX_PENDING = 16 * 1024 * 1024
"""The size of the calls of the API that wait; above it the server reads no further ones."""
_MAX_UNREAD = 64 * 1024 * 1024
MAX_FILES = 10_000
"""The maximum number of files in a sandbox's `/tmp`: even an empty one takes a kilobyte of the kernel's memory."""
IDLE_CPU_SECONDS = 0.5
"""The processor time that a sandbox may use between two calls, such as for collecting garbage."""
_MASKED_LENGTH = 8
_OUT_OF_MEMORY = ("out of memory", "OOM", "memory allocation", "MemoryError", "Cannot allocate memory")


class Sandbox(asyncio.Protocol):
    """A sandbox. Call `start` and `load` once, then `invoke` for each call; `kill` at any time."""

    def __init__(self, isolation: Isolation, runtime: Runtime, memory_mb: int, user: int) -> None:
        self.isolation, self.runtime, self.memory_mb, self.user = isolation, runtime, memory_mb, user
        self._process = Process(isolation, runtime, memory_mb, user)
        self.calls = 0
        self.started_at = 0.0
        self.idle_since = 0.0
        self.is_dead = False
        self._reader = frames.Reader()
        self._transport: asyncio.Transport | None = None
        self._expected: asyncio.Future[Frame] | None = None
        self._current: CurrentCall | None = None
        self.reason: tuple[Status, str, str] | None = None
        self._masks: list[tuple[str, str]] = []
        self._egress: Egress | None = None
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
        self._egress = egress
        own, theirs = socket.socketpair()
        ready = self._expect()
        try:
            with theirs:
                await self._process.start(theirs, packages, egress)
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
            self._process.bind()
            if egress and self.isolation.has_namespaces:
                await egress.listen(self.pid)
        except (TimeoutError, FrameError, OSError) as failure:
            self.kill()
            # The output arrives after the end.
            await asyncio.sleep(0.05)
            text = self._process.output.decode("utf-8", "replace").strip() or str(failure) or type(failure).__name__
            raise StartError(text[:500]) from None
        except BaseException:
            self.kill()
            raise

    async def load(self, program: Program, deadline: float) -> None:
        """Bind the sandbox to a program; raises `LoadError`, `TimeoutError`, `FrameError`."""
        hidden = [(value, f"[{name}]") for name, value in program.env.items() if len(value) >= _MASKED_LENGTH]
        self._masks = sorted(hidden, key=lambda mask: -len(mask[0]))
        files, folder = dict(program.files), None
        if self._process.folder:
            # It cannot write its files itself.
            try:
                folder = await self._process.write("app", files)
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
            raise LoadError(self._masked(self._process.printed() or str(failure)), code, "") from None
        if frame.t != "loaded":
            raise FrameError(frame.t)
        if frame.error is not None:
            code = "MEMORY_EXCEEDED" if frame.code == "MEMORY_EXCEEDED" else "LOAD_FAILED"
            text, stack = storable(frame.error[:2000]), storable((frame.stack or "")[:8000])
            raise LoadError(self._masked(text), code, self._masked(stack))

    async def invoke(self, call: Invocation) -> Outcome:
        """Call the function and return the outcome. Afterwards the sandbox is dead unless it can be reused."""
        loop = asyncio.get_running_loop()
        self.calls += 1
        self._other_frames = self._other_bytes = 0
        current = self._current = CurrentCall(self.calls, call, loop.create_future(), self._process.cpu_seconds())
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
            self._cpu_at_end = self._process.cpu_seconds()
            outcome.cpu_ms = max(0.0, (self._cpu_at_end - current.cpu_before) * 1000)
            if call.measure:
                outcome.peak_memory_mb = self._process.peak_memory_mb()
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
        if current and self._process.cpu_seconds() - current.cpu_before > current.call.cpu_seconds:
            self.end("error", "CPU_EXCEEDED", "The function exceeded its limit of processor time.")
        elif self._process.file_count() > MAX_FILES:
            self.end("error", "MEMORY_EXCEEDED", f"The function made more than {MAX_FILES} files.")
        elif self._egress and self._egress.is_flooded:
            self.end("error", "SANDBOX_ENDED", "The function opened too many connections.")

    def is_busy_alone(self) -> bool:
        """Whether an idle sandbox has gone on computing, or making files, after the end of its last call."""
        is_flooding = self._egress is not None and self._egress.is_flooded
        return (
            is_flooding
            or self._process.cpu_seconds() - self._cpu_at_end > IDLE_CPU_SECONDS
            or self._process.file_count() > MAX_FILES
        )

    def end(self, status: Status, code: str, message: str) -> None:
        """End the current call and kill the sandbox."""
        self.reason = (status, code, message)
        if self._current and not self._current.ended.done():
            outcome = Outcome(status=status, error=message, error_code=code)
            outcome.cpu_ms = max(0.0, (self._process.cpu_seconds() - self._current.cpu_before) * 1000)
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
        self._process.kill()

    async def ended(self) -> None:
        """Wait until all processes of a killed sandbox have ended."""
        await self._process.ended()
        if self._egress:
            await self._egress.closed()

    @property
    def is_lost(self) -> bool:
        """Whether it is dead, or its process has ended and what that has printed is waited for."""
        return self.is_dead or (self._transport is not None and self._transport.is_closing())

    @property
    def pid(self) -> int:
        """The id of the process; 0 until it is ready."""
        return self._process.pid

    @property
    def folder(self) -> str | None:
        """The folder with the files of a sandbox without a file system of its own."""
        return self._process.folder

    @property
    def output(self) -> bytes:
        """The beginning of what the process has printed."""
        return self._process.output

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
        printed = self._process.printed()
        is_memory = any(sign in printed for sign in _OUT_OF_MEMORY)
        code = "MEMORY_EXCEEDED" if is_memory else "SANDBOX_ENDED"
        text = "The function exceeded its memory limit." if is_memory else "The function's process ended."
        if self._current and printed:
            self._current.log("error", printed[:OUTPUT_BYTES])
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
                current.ended.set_result(outcome_of(frame))
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

    def _received_other(self, current: CurrentCall | None, frame: Frame) -> None:
        if frame.t == "log":
            if current:
                current.log(frame.level, frame.message)
        elif frame.t == "dropped":
            if current:
                current.drop(frame.call)
        elif frame.t in {"call", "token"}:
            if current and frame.id == current.id:
                answer = _refused(429, "LIMIT_REACHED", f"A call may call the API {MAX_API_CALLS} times.")
                self._send({"t": "reply", "call": frame.call, **answer})
        else:
            raise FrameError(f"An unexpected frame {frame.t}.")

    def _answer(self, current: CurrentCall, frame: Frame, size: int) -> None:
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

    async def _answered(self, current: CurrentCall, frame: Frame) -> dict[str, Any]:
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
        if self._transport.is_closing():
            if self.is_dead:
                raise ConnectionResetError("The sandbox has ended.")
            # `_died` follows, and ends what waits for an answer.
            return
        self._transport.write(frames.encode(message))
        if self._transport.get_write_buffer_size() > _MAX_UNREAD:
            self.end("error", "SANDBOX_ENDED", "The function does not read what it asked for.")

    def _expect(self) -> asyncio.Future[Frame]:
        self._expected = asyncio.get_running_loop().create_future()
        return self._expected


def _refused(status: int, code: str, message: str) -> dict[str, Any]:
    body = msgspec.json.encode({"code": code, "message": message})
    return {"status": status, "headers": {"content-type": "application/json"}, "body": body}
