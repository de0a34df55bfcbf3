"""Builds the packages of a function in a sandbox that reaches package registries and nothing else.

JavaScript becomes one bundle, by `deno bundle`, whose `npm:` imports are inside; Python's packages are installed by pip
from wheels alone. Install scripts and the code of source packages never run. What comes out of the sandbox is taken for
hostile all the same: it is only ever used in sandboxes of the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from pilotis.functions.runtime import seccomp
from pilotis.functions.runtime.egress import Connect, Egress, EgressPolicy, authorities
from pilotis.functions.runtime.policy import Isolation, Proxy, Runtime, build_command, own_code_build_command
from pilotis.functions.runtime.system import innermost, memory_file, new_folder
from pilotis.http.outgoing_allowance import HostPattern
from pilotis.kit.priority import give_way

BUILD_SECONDS = 120.0
MAX_BUNDLE = 5 * 1024 * 1024
MAX_ARCHIVE = 64 * 1024 * 1024
MAX_LOG = 64 * 1024
_MAX_DOWNLOAD = 300 * 1024 * 1024
_MAX_CONNECTIONS = 1000
_MEMORY_BYTES = 1024 * 1024 * 1024
_MAX_PROCESSES = 256
_CHUNK = 256 * 1024
_LIMIT = 2 * 1024 * 1024
_NICE = 10


class Package(msgspec.Struct):
    """A package that a version was built with."""

    name: str
    version: str


class Built(NamedTuple):
    """The result of a build: a bundle, or a zip archive of Python packages; and its log."""

    packages: list[Package]
    data: bytes
    log: str


class BuildFailedError(Exception):
    """The packages could not be built; `log` is the output of the build."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Registries(NamedTuple):
    """The package registries of npm and PyPI; None is the public one that each tool knows."""

    npm: str | None
    pypi: str | None


class Builder:
    """Builds packages; `connect` is how a build connects out."""

    def __init__(self, connect: Connect, registries: Registries, ca_file: str | None) -> None:
        self._connect = connect
        self._registries = registries
        self._ca_file = ca_file
        self.counts: Counter[str] = Counter()

    async def bundle(self, isolation: Isolation, user: int, files: Mapping[str, bytes], entry: str) -> Built:
        """Return a bundle of an entry file and all that it imports; raises `BuildFailedError`."""
        request = {"files": dict(files), "entry": entry}
        return await self._build(isolation, Runtime.JAVASCRIPT, user, request, MAX_BUNDLE)

    async def install(self, isolation: Isolation, user: int, requirements: bytes) -> Built:
        """Return a zip archive of the packages of a `requirements.txt`; raises `BuildFailedError`."""
        return await self._build(isolation, Runtime.PYTHON, user, {"requirements": requirements}, MAX_ARCHIVE)

    async def _build(
        self, isolation: Isolation, runtime: Runtime, user: int, request: Mapping[str, object], max_bytes: int
    ) -> Built:
        registry = self._registries.npm if runtime is Runtime.JAVASCRIPT else self._registries.pypi
        hosts = None if registry is None else [_host_of(registry)]
        policy = EgressPolicy(hosts, max_bytes=_MAX_DOWNLOAD, max_connections=_MAX_CONNECTIONS)
        egress = Egress(policy, self._connect, self.counts, self._ca_file)
        folder = None if isolation.has_namespaces else await asyncio.to_thread(new_folder, user)
        try:
            if folder is None:
                process = await self._start_confined(isolation, runtime, user)
            else:
                process = await self._start_own_code(runtime, folder, egress)
            return await self._finish(process, folder, egress, {**request, "registry": registry}, max_bytes)
        finally:
            egress.close()
            await egress.closed()
            if folder:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _start_confined(self, isolation: Isolation, runtime: Runtime, user: int) -> asyncio.subprocess.Process:
        files = [
            memory_file(seccomp.program(platform.machine(), may_fork=True)),
            memory_file(authorities(self._ca_file)),
        ]
        try:
            line = build_command(isolation, runtime, seccomp=files[0], user=user, certificates=files[1])
            return await _start(line, {}, files)
        finally:
            for file in files:
                os.close(file)

    async def _start_own_code(self, runtime: Runtime, folder: str, egress: Egress) -> asyncio.subprocess.Process:
        proxy = Proxy(await egress.listen_here(), f"{folder}/certificates.pem")
        await asyncio.to_thread(Path(proxy.certificates).write_bytes, authorities(self._ca_file))
        line, environment = own_code_build_command(runtime, folder, proxy)
        return await _start(line, environment, ())

    async def _finish(
        self,
        process: asyncio.subprocess.Process,
        folder: str | None,
        egress: Egress,
        request: Mapping[str, object],
        max_bytes: int,
    ) -> Built:
        log = bytearray()
        reading = asyncio.ensure_future(_drain(process, log))
        try:
            async with asyncio.timeout(BUILD_SECONDS):
                packages, data = await self._talk(process, folder, egress, request, max_bytes, log)
            return Built(packages, data, _text(log, folder))
        except TimeoutError:
            raise BuildFailedError("The build took too long.", _text(log, folder)) from None
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise BuildFailedError(f"The build could not be run: {error}", _text(log, folder)) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await reading

    async def _talk(
        self,
        process: asyncio.subprocess.Process,
        folder: str | None,
        egress: Egress,
        request: Mapping[str, object],
        max_bytes: int,
        log: bytearray,
    ) -> tuple[list[Package], bytes]:
        assert process.stdin
        assert process.stdout
        if await process.stdout.readline() != b"ready\n":
            await process.wait()
            raise BuildFailedError("The build did not start.", _text(log, folder))
        if folder is None:
            pid = innermost(process.pid)
            _bound(pid)
            give_way(pid, _NICE)
            await egress.listen(pid)
        egress.begin(lambda text: log.extend(f"{text}\n".encode()) if len(log) < MAX_LOG else None)
        process.stdin.write(msgspec.json.encode(request))
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        process.stdin.close()
        head = await process.stdout.readline()
        data = bytearray()
        while chunk := await process.stdout.read(_CHUNK):
            data += chunk
            if len(data) > max_bytes:
                raise BuildFailedError(
                    f"The packages have more than {max_bytes // 1024 // 1024} MB.", _text(log, folder)
                )
        if await process.wait() or not head.endswith(b"\n"):
            raise BuildFailedError(
                "The packages could not be built; the log of the build says why.", _text(log, folder)
            )
        return msgspec.json.decode(head, type=list[Package]), bytes(data)


async def _start(
    line: Sequence[str], environment: Mapping[str, str], files: Sequence[int]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *line,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd="/",
        pass_fds=files,
        start_new_session=True,
        limit=_LIMIT,
    )


def _bound(pid: int) -> None:
    for which, value in ((resource.RLIMIT_DATA, _MEMORY_BYTES), (resource.RLIMIT_NPROC, _MAX_PROCESSES)):
        if sys.platform == "linux":
            with contextlib.suppress(PermissionError):
                resource.prlimit(pid, which, (value, value))


async def _drain(process: asyncio.subprocess.Process, log: bytearray) -> None:
    assert process.stderr
    while chunk := await process.stderr.read(_CHUNK):
        log += chunk[: max(0, MAX_LOG - len(log))]


_DENO_ADD = re.compile(r"try running `deno add ([^`\s]+)`", re.IGNORECASE)


def _host_of(url: str) -> HostPattern:
    parts = urlsplit(url)
    return HostPattern(parts.hostname or "", False, parts.port)


def _text(log: bytearray, folder: str | None) -> str:
    text = bytes(log).decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    # There is no project on which the caller could run Deno.
    text = _DENO_ADD.sub(r"import it as \1, or list it in package.json", text)
    place = f"{folder or '/tmp'}/app/"  # noqa: S108
    return text.replace(f"file://{place}", "").replace(place, "")
