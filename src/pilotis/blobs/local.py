"""Blobs as files in one directory: `objects/{key}`, and `tmp/` for incoming files.

`contents/` has a link to each file named after its content, so that equal blobs of one folder share their bytes.

Any number of processes of one machine can share a directory; a network file system must support `flock`.
"""
# ruff: noqa: ARG002 - the protocol's methods have arguments that a directory does not need.

from __future__ import annotations

import asyncio
import builtins
import heapq
import itertools
import os
import shutil
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from pilotis.blobs import writing
from pilotis.blobs.check import check_round_trip
from pilotis.blobs.contents import Contents
from pilotis.blobs.draft_file import DraftFile
from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError, InvalidKeyError, SizeMismatchError
from pilotis.blobs.keys import check_key, check_prefix
from pilotis.blobs.protocol import BlobInfo, Draft, UploadTicket
from pilotis.blobs.streams import BATCH_BYTES, Digest, Pieces, batches
from pilotis.kit.disk import FULL, DiskReserve
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import StorageFullError
from pilotis.kit.threads import finished

_THREADS = 8
_READ_BYTES = 256 << 10
_LIST_BATCH = 500
_NAMES_PER_SCAN = 20_000
_LEAST_FREE = 0.05
_DURABLE_BYTES = 16 << 20
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalStore:
    """A `BlobStore` in a local directory. Opening it deletes what a crash left unfinished."""

    def __init__(
        self, directory: Path, *, reserve_bytes: int = 0, reserve_percent: float = 100, reserve_least: int = 0
    ) -> None:
        """Create the directory with mode 0700 if it does not exist; raises `OSError`.

        The smaller of the two reserves, but no less than `reserve_least` bytes, stays free in its file system: writes
        that would use it are rejected.
        """
        self._directory = directory.resolve()
        self._objects = self._directory / "objects"
        self._temporary = self._directory / "tmp"
        self._reserve = DiskReserve(self._directory, reserve_bytes, reserve_percent, reserve_least)
        for folder in (self._objects, self._temporary):
            writing.make_folder(folder)
        self._contents = Contents(self._directory / "contents", self._objects, self._temporary)
        writing.sweep(self._temporary)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="blobs")
        # These tasks never wait for other tasks; otherwise all threads could wait for each other.
        self._helpers = ThreadPoolExecutor(_THREADS, thread_name_prefix="blobs-helper")

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.put`. Holds two batches of 1 MiB: one is written while the next arrives."""
        took_effect()
        target = self._path(key)
        self._reserve.require(size)
        writer = await self._new_file()
        try:
            await self._write(writer, batches(chunks, size))
            file = await self._run(writer.finish, sha256)
            attributes = writing.Attributes(writer.digest.hex, content_type)
            status = await self._run(self._contents.place, file, writer.path, target, attributes)
        finally:
            await asyncio.shield(self._run(writer.close))
        return _info(key, status, attributes)

    async def append(
        self, key: str, draft: Draft, chunks: AsyncIterator[bytes], *, size: int, whole: bool = False
    ) -> AsyncGenerator[Draft]:
        """See `BlobStore.append`: one file, appended to in place and flushed every 16 MiB."""
        file = await self._run(DraftFile, self._path(key), draft.size)
        try:
            pieces = Pieces(chunks, BATCH_BYTES)
            written = durable = draft.size
            async for piece in pieces:
                await self._run(self._write_to, file, piece)
                written += len(piece)
                if written - durable >= _DURABLE_BYTES and not whole:
                    await self._run(file.sync)
                    durable = written
                    yield Draft(written)
            if pieces.error is not None and whole:
                await self._run(file.truncate, draft.size)
            elif written > durable:
                await self._run(file.sync)
                yield Draft(written)
            if pieces.error is not None:
                raise pieces.error
        finally:
            await asyncio.shield(self._run(file.close))

    async def finish(
        self, key: str, draft: Draft, target: str, *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.finish`: the file is read once for its digest, and renamed unless equal bytes exist."""
        if draft.size != size:
            raise SizeMismatchError
        place = self._path(target)
        try:
            file = await self._run(DraftFile, self._path(key), size)
        except BlobNotFoundError:
            # Renamed by a process that died before it could report it.
            file = await self._run(DraftFile, place, size)
        try:
            digest = Digest()
            while await self._run(file.hash_next, digest):
                pass
            digest.verify(sha256)
            attributes = writing.Attributes(digest.hex, content_type)
            status = await self._run(self._contents.place, file.descriptor, file.path, place, attributes)
        finally:
            await asyncio.shield(self._run(file.close))
        return _info(target, status, attributes)

    async def has_draft(self, key: str, draft: Draft, *, size: int) -> bool:
        """See `BlobStore.has_draft`."""
        info = await self.stat(key)
        return info is not None and info.size >= draft.size and not draft.runs

    async def discard(self, key: str) -> None:
        """See `BlobStore.discard`."""
        await self.delete([key])

    async def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """See `BlobStore.open`: chunks of 256 KiB."""
        opening = self._threads.submit(_open_and_read, self._path(key), start, end)
        try:
            file, chunk = await finished(opening, undo=lambda opened: os.close(opened[0]))
        except OSError as error:
            raise _translated(error) from error
        try:
            while chunk:
                yield chunk
                start += len(chunk)
                chunk = await self._run(_read, file, start, end)
        finally:
            os.close(file)

    async def stat(self, key: str) -> BlobInfo | None:
        """See `BlobStore.stat`."""
        return await self._run(_stat, self._path(key), key)

    async def copy(self, source: str, target: str) -> BlobInfo:
        """See `BlobStore.copy`: a hard link where the file system has them, as files are never changed in place."""
        took_effect()
        info = await self._run(self._link, source, target)
        return info or await self._copy_bytes(source, target)

    async def delete(self, keys: Sequence[str]) -> None:
        """See `BlobStore.delete`."""
        took_effect()
        await self._run(self._remove_all, [self._path(key) for key in keys])

    async def ping(self) -> None:
        """See `BlobStore.ping`."""
        if not await self._run(self._objects.is_dir):
            raise BlobStoreUnavailableError

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[BlobInfo]:
        """See `BlobStore.list`. A folder of n blobs is scanned n / 20,000 times, so that memory stays bounded."""
        folder = check_prefix(prefix)
        found = _walk(self._objects / folder, f"{folder}/" if folder else "", after or "")
        while batch := await self._run(_take, found):
            for info in batch:
                yield info

    def presign_put(
        self, key: str, *, size: int, content_type: str, sha256: bytes | None, expires_seconds: int
    ) -> UploadTicket | None:
        """Return None: the server receives uploads itself."""
        check_key(key)
        return None

    def presign_get(
        self, key: str, *, expires_seconds: int, disposition: str | None = None, content_type: str | None = None
    ) -> str | None:
        """Return None: the server sends the bytes itself."""
        check_key(key)
        return None

    def open_file(self, key: str) -> int | None:
        """See `BlobStore.open_file`."""
        try:
            # Building a `Path` would take longer than opening the file.
            file = os.open(f"{self._objects}/{check_key(key)}", os.O_RDONLY | os.O_CLOEXEC)
        except _ABSENT:
            return None
        except OSError as error:
            raise _translated(error) from error
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        return None

    async def check(self, origin: str = "https://example.com") -> builtins.list[str]:
        """See `BlobStore.check`: writes and reads a blob, and checks the free space."""
        problems = await check_round_trip(self)
        usage = await self._run(shutil.disk_usage, self._directory)
        if usage.free < usage.total * _LEAST_FREE:
            problems.append(f"Only {usage.free >> 20} MB are free in the file system of the directory for files.")
        return problems

    async def end_unfinished(self, before: datetime, *, apply: bool) -> int:
        """Return 0: opening the store deletes what a killed process left."""
        return 0

    async def hints(self) -> builtins.list[str]:
        """See `BlobStore.hints`: there are none."""
        return []

    def require_space(self, size: int) -> None:
        """See `BlobStore.require_space`: the reserve of the file system stays free."""
        self._reserve.require(size)

    async def close(self) -> None:
        """See `BlobStore.close`."""
        self._threads.shutdown(wait=False)
        self._helpers.shutdown(wait=False)

    def _path(self, key: str) -> Path:
        return self._objects / check_key(key)

    async def _run(self, function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return await finished(self._threads.submit(function, *arguments, **named))
        except OSError as error:
            raise _translated(error) from error

    async def _new_file(self) -> writing.FileWriter:
        """Create a temporary file, which is deleted again if the caller is cancelled meanwhile."""
        creating = self._threads.submit(writing.FileWriter, self._temporary, self._helpers)
        try:
            return await finished(creating)
        except asyncio.CancelledError:
            if not creating.cancelled() and creating.exception() is None:
                await asyncio.shield(self._run(creating.result().close))
            raise
        except OSError as error:
            raise _translated(error) from error

    async def _write(self, writer: writing.FileWriter, incoming: AsyncGenerator[bytes]) -> None:
        writing_one: asyncio.Task[None] | None = None
        try:
            async for batch in incoming:
                if writing_one is not None:
                    await writing_one
                writing_one = asyncio.ensure_future(self._run(self._write_to, writer, batch))
        finally:
            if writing_one is not None:
                await writing_one

    def _write_to(self, file: writing.FileWriter | DraftFile, data: bytes | memoryview) -> None:
        # Checked each time: other processes write as well, and no space is reserved for a blob in advance.
        self._reserve.require(len(data))
        file.write(data)

    def _remove_all(self, paths: Sequence[Path]) -> None:
        for path in paths:
            with suppress(*_ABSENT):
                self._contents.remove(path)

    def _link(self, source: str, target: str) -> BlobInfo | None:
        """Return None if the file system or the file supports no further link."""
        if _stat(self._path(source), source) is None:
            raise BlobNotFoundError
        if not writing.link(self._path(source), self._path(target), self._temporary):
            return None
        return _stat(self._path(target), target)

    async def _copy_bytes(self, source: str, target: str) -> BlobInfo:
        info = await self.stat(source)
        if info is None:
            raise BlobNotFoundError
        return await self.put(
            target, self.open(source), size=info.size, content_type=info.content_type or "application/octet-stream"
        )


def _translated(error: OSError) -> Exception:
    if error.errno in FULL:
        return StorageFullError()
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
        return InvalidKeyError("No key may be the folder of another.")
    return BlobStoreUnavailableError()


def _info(key: str, status: os.stat_result, attributes: writing.Attributes) -> BlobInfo:
    etag = attributes.sha256 or f"{status.st_mtime_ns:x}-{status.st_size:x}"
    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
    return BlobInfo(key, status.st_size, etag, attributes.sha256, attributes.content_type, modified_at)


def _stat(path: Path, key: str) -> BlobInfo | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except _ABSENT:
        return None
    try:
        status = os.fstat(file)
        return _info(key, status, writing.read_attributes(file)) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(file)


def _open_and_read(path: Path, start: int, end: int | None) -> tuple[int, bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except _ABSENT:
        raise BlobNotFoundError from None
    try:
        return file, _read(file, start, end)
    except OSError as error:
        os.close(file)
        if isinstance(error, IsADirectoryError):
            raise BlobNotFoundError from None
        raise


def _read(file: int, start: int, end: int | None) -> bytes:
    wanted = _READ_BYTES if end is None else max(0, min(_READ_BYTES, end - start))
    return os.pread(file, wanted, start)


def _take(found: Iterator[BlobInfo]) -> list[BlobInfo]:
    return list(itertools.islice(found, _LIST_BATCH))


def _walk(folder: Path, prefix: str, after: str) -> Iterator[BlobInfo]:
    """Yield what is below the folder in key order; a folder's keys start with its name and `/`."""
    for name in _names(folder):
        key = prefix + name
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from _walk(folder / name, key, after)
        elif key > after and (status := _status(folder / name)):
            yield _info(key, status, writing.Attributes())


def _names(folder: Path) -> Iterator[str]:
    """Yield a folder's names in order, folders with a trailing `/`; continues in pages."""
    last = ""
    while page := _names_after(folder, last):
        yield from page
        last = page[-1]


def _names_after(folder: Path, last: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = (entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries)
            return heapq.nsmallest(_NAMES_PER_SCAN, (name for name in names if name > last))
    except _ABSENT:
        return []


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except _ABSENT:
        return None
