"""Copying PostgreSQL as a stream into the store, whole or what changed since another backup.

`pg_basebackup` writes a tar, whose last file is the manifest: the names, sizes and checksums of all files, and from
which segment of the log on they are. It is stored a second time beside the tar, because the next incremental backup
hands it to PostgreSQL, which finds in its summaries of the log which blocks changed since.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from asyncpg import InterfaceError, PostgresError

from pilotis.backup import streams
from pilotis.backup.errors import BackupError, BackupRefusedError, DamagedError
from pilotis.backup.place import Place, connected
from pilotis.db.embedded import find_binaries
from pilotis.kit.priority import SpareTime, give_way, thread_gives_way
from pilotis.kit.scratch import scratch

_READ_BYTES = 1 << 18
NICE = 19
"""The priority of what a backup computes: requests come first where processors are few."""
_BLOCK = tarfile.BLOCKSIZE
_MANIFEST = "backup_manifest"
_GZIP = 16 + zlib.MAX_WBITS
_SENDERS = "select pid from pg_stat_activity where backend_type = 'walsender' and application_name = 'pg_basebackup'"
_LOOK_SECONDS = 0.05
_NOT_INCREMENTAL = re.compile(r"summar|manifest|incremental", re.IGNORECASE)


class NotIncrementalError(BackupError):
    """PostgreSQL cannot tell what changed since the other backup; a full one is needed."""


def program(place: Place, name: str) -> Path:
    """Return a program of PostgreSQL; raises `BackupRefusedError` if it is not installed."""
    binaries = Path(place.settings.postgres_binaries) if place.settings.postgres_binaries else None
    path = find_binaries(binaries) / name
    if not path.exists():
        raise BackupRefusedError(f"{path} is missing; install PostgreSQL's client programs.")
    return path


async def copy(place: Place, address: dict[str, Any], folder: str, based_on: str | None) -> int:
    """Store a base backup and its manifest below a folder, and return its bytes in the store.

    `based_on` is the folder of the backup since which it has the changes, None for a full one. Raises
    `NotIncrementalError` if PostgreSQL does not know them, and `BackupError`.
    """
    with tempfile.TemporaryFile(dir=place.data_dir) as manifest:
        if based_on is None:
            written = await _copy(place, address, f"{folder}/base", None, manifest)
        else:
            async with _fetched_manifest(place, based_on) as old:
                written = await _copy(place, address, f"{folder}/base", old, manifest)
        manifest.seek(0)
        name = f"{folder}/manifest"
        async with aclosing(_zipped(manifest)) as chunks:
            return written + await streams.write(place.store, place.key.of(name), name, chunks)


@asynccontextmanager
async def _fetched_manifest(place: Place, folder: str) -> AsyncIterator[Path]:
    name = f"{folder}/manifest"
    async with scratch(place.data_dir) as where:
        path = where / _MANIFEST
        try:
            with await asyncio.to_thread(path.open, "xb") as file:
                async with aclosing(unzipped(streams.read(place.store, place.key.of(name), name))) as chunks:
                    async for chunk in chunks:
                        await asyncio.to_thread(file.write, chunk)
        except DamagedError as error:
            raise NotIncrementalError(str(error)) from None
        yield path


async def _copy(place: Place, address: dict[str, Any], folder: str, old: Path | None, manifest: IO[bytes]) -> int:
    command = [str(program(place, "pg_basebackup")), "--format=tar", "--pgdata=-", "--wal-method=none"]
    command += ["--checkpoint=fast", "--no-password", "--label=pilotis"]
    command += ["-h", str(address["host"]), "-p", str(address["port"]), "-U", str(address["user"])]
    if old is not None:
        command.append(f"--incremental={old}")
    if rate := place.settings.backup.bytes_per_second:
        command.append(f"--max-rate={max(32, rate // 1024)}")
    with ThreadPoolExecutor(1, "backup", partial(thread_gives_way, NICE)) as thread, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it only starts it
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env={"LC_ALL": "C"},
            start_new_session=True,
        )
        give_way(process.pid, NICE)
        yielding = asyncio.create_task(_let_server_yield(address))
        try:
            async with aclosing(_output(process, thread, ManifestFinder(manifest))) as chunks:
                return await streams.write(place.store, place.key.of(folder), folder, chunks)
        except _FailedError:
            said.seek(0)
            reason = _last_error(said.read().decode(errors="replace"))
            if old is not None and _NOT_INCREMENTAL.search(reason):
                raise NotIncrementalError(reason) from None
            raise BackupError(f"PostgreSQL could not be copied: {reason}") from None
        finally:
            yielding.cancel()
            process.kill()
            process.wait()


class _FailedError(Exception):
    """The program that copies has failed."""


async def _output(
    process: subprocess.Popen[bytes], thread: ThreadPoolExecutor, finder: ManifestFinder
) -> AsyncGenerator[bytes]:
    """Yield what the process writes, compressed as gzip; raises `_FailedError` unless it ends well.

    A thread reads and compresses: the event loop would be woken for each 64 KiB of the pipe.
    """
    assert process.stdout is not None
    output, gzip = process.stdout, zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    spare = SpareTime()

    def next_chunk() -> bytes:
        found: list[bytes] = []
        size = 0
        while size < streams.PART_BYTES:
            data = output.read(_READ_BYTES)
            if not data:
                process.wait()
                return b"".join([*found, gzip.flush()])
            finder.feed(data)
            began = time.monotonic()
            found.append(gzip.compress(data))
            size += len(found[-1])
            time.sleep(spare.pause_after(time.monotonic() - began))
        return b"".join(found)

    try:
        while process.returncode is None:
            chunk = await asyncio.wrap_future(thread.submit(next_chunk))
            if process.returncode:
                # Without its last part nobody takes the stream for a whole one.
                raise _FailedError
            yield chunk
    finally:
        # First the end of the pipe for a thread that still reads: closing waits for it, and everything else for that.
        process.kill()
        output.close()


class ManifestFinder:
    """Writes the manifest in a tar to a file, while the tar's bytes pass by."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._header = bytearray()
        self._wanted = 0
        self._unwanted = 0

    def feed(self, data: bytes) -> None:
        """Look at the next bytes of the tar."""
        view = memoryview(data)
        while view:
            if self._wanted:
                self._target.write(view[: self._wanted])
                passed = min(self._wanted, len(view))
                self._wanted -= passed
            elif self._unwanted:
                passed = min(self._unwanted, len(view))
                self._unwanted -= passed
            else:
                passed = min(_BLOCK - len(self._header), len(view))
                self._header += view[:passed]
                if len(self._header) == _BLOCK:
                    self._begin(bytes(self._header))
                    self._header.clear()
            view = view[passed:]

    def _begin(self, header: bytes) -> None:
        if not any(header):
            return
        found = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        size = found.size if found.isreg() else 0
        if found.name == _MANIFEST:
            self._wanted = size
            size = -size % _BLOCK
        else:
            size += -size % _BLOCK
        self._unwanted = size


async def _zipped(file: IO[bytes]) -> AsyncGenerator[bytes]:
    gzip = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    while data := await asyncio.to_thread(file.read, _READ_BYTES):
        yield await asyncio.to_thread(gzip.compress, data)
    yield gzip.flush()


async def unzipped(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the bytes of a compressed stream; raises `DamagedError` unless it is whole."""
    gzip = zlib.decompressobj(_GZIP)
    async with aclosing(parts):
        async for part in parts:
            data = part
            while data:
                yield await asyncio.to_thread(gzip.decompress, data, 4 << 20)
                data = gzip.unconsumed_tail
    if not gzip.eof:
        raise DamagedError("A backup in the store is cut off.")


async def _let_server_yield(address: dict[str, Any]) -> None:
    """Give the process of PostgreSQL that sends the copy the same low priority, where that is allowed."""
    with suppress(BackupError, OSError, PostgresError, InterfaceError):
        connection = await connected(address)
        try:
            while not (pids := await connection.fetch(_SENDERS)):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await connection.close()
        for (pid,) in pids:
            while not give_way(pid, NICE):  # noqa: ASYNC110 - nothing tells when it may try again
                await asyncio.sleep(_LOOK_SECONDS)


def _last_error(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if "error" in line.lower()]
    return (lines or said.strip().splitlines() or ["it said nothing"])[-1]
