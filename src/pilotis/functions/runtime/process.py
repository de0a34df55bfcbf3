"""The process of a sandbox: its start, its limits, what it uses, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pilotis.functions.runtime import seccomp
from pilotis.functions.runtime.call import StartError, storable
from pilotis.functions.runtime.egress import Egress, authorities
from pilotis.functions.runtime.policy import Isolation, Proxy, Runtime, command, own_code_command
from pilotis.functions.runtime.system import (
    as_real_user,
    counts_by_namespace,
    innermost,
    memory_file,
    new_folder,
    status,
    write_all,
)
from pilotis.kit.priority import give_way

NICE = 5
"""The priority of functions: the server and its database go first."""
_PRINTED_BYTES, _PRINT_PAUSE = 1024 * 1024, 0.01
"""After so much output the server waits for so many seconds: discarding it takes processor time."""
OUTPUT_BYTES = 8192
_READ_BYTES = 64 * 1024
_SPARE_BYTES = 64 * 1024 * 1024
_MAX_DESCRIPTORS = 64
"""Each socket and pipe may hold some of the kernel's memory, which no other limit counts."""
_MAX_THREADS = 256


class Process:
    """The process of a sandbox, with the processes between it and the server. Call `start` once, `kill` at any time.

    `folder` is where its files are, if it has no file system of its own.
    """

    def __init__(self, isolation: Isolation, runtime: Runtime, memory_mb: int, user: int) -> None:
        self._isolation, self._runtime, self._memory_mb, self._user = isolation, runtime, memory_mb, user
        self.pid = 0
        self.folder: str | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._printing: _Output | None = None

    async def start(self, channel: socket.socket, packages: str | None, egress: Egress | None) -> None:
        """Start the process with `channel` as its standard input and output; raises `StartError`."""
        output, error = os.pipe()
        files: list[int] = []
        try:
            if not self._isolation.has_namespaces:
                self.folder = new_folder(self._user)
            if self._isolation.is_confined:
                line, environment = self._confined(packages, egress, files)
            else:
                line, environment = await self._own_code(packages, egress)
            # Start it in the loop's own thread, because a sandbox dies with the thread that started it. Give it its own
            # process group, because bubblewrap's child first waits for its parent, and never ends if only that one is
            # killed.
            self._popen = subprocess.Popen(  # noqa: ASYNC220, S603
                line,
                stdin=channel.fileno(),
                stdout=channel.fileno(),
                stderr=error,
                env=environment,
                pass_fds=files,
                cwd="/",
                process_group=0,
            )
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, self._popen.pid, NICE)
        except BaseException as failure:
            os.close(output)
            if isinstance(failure, OSError):
                raise StartError(str(failure)) from None
            raise
        finally:
            os.close(error)
            for file in files:
                os.close(file)
        self._printing = _Output(output)

    @property
    def output(self) -> bytes:
        """The beginning of what the process wrote to its standard error."""
        return self._printing.beginning if self._printing else b""

    def _confined(
        self, packages: str | None, egress: Egress | None, files: list[int]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command of a confined sandbox, and add the files that it inherits."""
        is_alone = not self._isolation.has_namespaces
        has_network = egress is not None
        files.append(memory_file(seccomp.program(platform.machine(), is_alone=is_alone, has_network=has_network)))
        certificates = None
        if egress:
            certificates = memory_file(authorities(egress.ca_file))
            files.append(certificates)
        return command(
            self._isolation,
            self._runtime,
            seccomp=files[0],
            user=self._user,
            memory_mb=self._memory_mb,
            packages=packages,
            certificates=certificates,
            folder=self.folder or "",
        )

    async def _own_code(self, packages: str | None, egress: Egress | None) -> tuple[list[str], dict[str, str]]:
        """Return the command of a sandbox that is not confined."""
        assert self.folder
        proxy = None
        if egress:
            proxy = Proxy(await egress.listen_here(), f"{self.folder}/certificates.pem")
            await asyncio.to_thread(Path(proxy.certificates).write_bytes, authorities(egress.ca_file))
        return own_code_command(self._runtime, self._memory_mb, self.folder, packages, proxy)

    def bind(self) -> None:
        """Find the innermost process, and set its limits and priority, now that it runs; raises `OSError`."""
        assert self._popen
        self.pid = innermost(self._popen.pid) if self._isolation.has_namespaces else self._popen.pid
        self._bound()
        give_way(self.pid, NICE)

    def _bound(self) -> None:
        """Limit the memory of the process now: V8 reserves too much for a limit that is set before it starts.

        Other systems than Linux change the limits of no other process; there V8 has a limit of its own.
        """
        data = status(self.pid, "VmData") or 0
        memory = data * 1024 + self._memory_mb * 1024 * 1024 + _SPARE_BYTES
        bounds = {resource.RLIMIT_NOFILE: _MAX_DESCRIPTORS, resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: memory}
        if self._has_own_user() or (self._isolation is Isolation.NAMESPACE and counts_by_namespace()):
            # Otherwise this would count the threads of all processes of the server's user.
            bounds[resource.RLIMIT_NPROC] = _MAX_THREADS
        if self._runtime is Runtime.PYTHON:
            # RLIMIT_DATA does not count shared memory, which Python can map. V8 reserves more addresses than it uses.
            bounds[resource.RLIMIT_AS] = memory + ((status(self.pid, "VmSize") or data) - data) * 1024
        if sys.platform == "linux":
            with as_real_user(self._user if self._has_own_user() else None):
                for which, value in bounds.items():
                    resource.prlimit(self.pid, which, (value, value))

    def _has_own_user(self) -> bool:
        return os.geteuid() == 0 and self._isolation in {Isolation.OWN_USER, Isolation.LANDLOCK}

    async def write(self, place: str, files: Mapping[str, bytes]) -> str:
        """Write files below the process's folder and return where; raises `FileExistsError`: see `write_all`."""
        folder = f"{self.folder}/{place}/"
        await asyncio.to_thread(write_all, folder, files)
        return folder

    def printed(self) -> str:
        """Return the beginning of the process's standard error."""
        place = f"{self.folder or '/tmp'}/app/"  # noqa: S108
        return storable(self.output.decode("utf-8", "replace").replace(f"file://{place}", "").strip())

    def cpu_seconds(self) -> float:
        """Return the processor time of the process, all threads together (clock_getcpuclockid(3))."""
        try:
            return time.clock_gettime((~self.pid) << 3 | 2)
        except OSError:
            return 0.0

    def peak_memory_mb(self) -> float | None:
        """Return the peak memory of the process."""
        value = status(self.pid, "VmHWM")
        return None if value is None else round(value / 1024, 1)

    def file_count(self) -> int:
        """Return the number of files in the process's own `/tmp`."""
        if not self._isolation.has_namespaces:
            return 0
        try:
            found = os.statvfs(f"/proc/{self.pid}/root/tmp")
        except OSError:
            return 0
        return found.f_files - found.f_ffree

    def kill(self) -> None:
        """Kill the process and those between it and the server. Call it once."""
        if self._popen:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            if self.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self.pid, signal.SIGKILL)
            self._collect(self._popen)

    async def ended(self) -> None:
        """Wait until all processes have ended after `kill`, and remove what they leave."""
        if self._popen:
            await self._ended.wait()
        if self._printing:
            self._printing.close()
        if self.folder:
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

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


class _Output:
    """Reads a process's standard error to its end, so that a full pipe does not block it, and keeps the beginning.

    uvloop's `connect_read_pipe` would, if it is cancelled, close the descriptor, but not the file object that it got,
    whose finalizer then closes whatever has this number by that time.
    """

    def __init__(self, descriptor: int) -> None:
        self.beginning = b""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._bytes = 0
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        self._go_on()

    def close(self) -> None:
        """Stop reading. May be called again."""
        if self._descriptor >= 0:
            if self._pause:
                self._pause.cancel()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self.beginning += data[: OUTPUT_BYTES - len(self.beginning)]
        self._bytes += len(data)
        if self._bytes > _PRINTED_BYTES:
            self._bytes = 0
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(_PRINT_PAUSE, self._go_on)
