"""The file of an archive: parts of a tar (POSIX.1-1988, ustar) in a fixed order. Reads and writes files only.

First `server/<table>.copy.gz` and `rows/<table_id>.copy.gz` with rows as COPY writes them, then `blobs/<sha256>` in the
order of the digests, then `manifest.json` and its signature, `manifest.mac`. A file that names anything else
is no archive, whatever a tar may have besides.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from pilotis.archive.errors import InvalidArchiveError
from pilotis.kit.disk import sync_directory, sync_file

MANIFEST, MAC = "manifest.json", "manifest.mac"
BLOCK = 512
READ_BYTES = 1 << 20
MAX_PARTS = 20_000
"""The maximum number of parts besides blobs, which are the only ones that are held in memory by name."""
MAX_MANIFEST_BYTES = 16 << 20
MAX_LINE_BYTES = 128 << 20
MAX_RATIO = 200
"""How many times its size in the file a part may have: gzip makes texts 3 to 50 times smaller."""
_NAME = re.compile(
    r"server/[a-z_]{1,60}\.copy\.gz|rows/[0-9a-f]{32}\.copy\.gz|blobs/[0-9a-f]{64}|manifest\.(?:json|mac)"
)
_OCTAL_LIMIT = 8**11
_GZIP = 16 + zlib.MAX_WBITS


class Part(NamedTuple):
    """Where a part is in the file, and how long."""

    offset: int
    size: int


class Written(NamedTuple):
    """A part that was written: its size in the file, its SHA-256, and the size of what was compressed."""

    bytes: int
    sha256: str
    plain_bytes: int


class ArchiveWriter:
    """Writes the parts one after the other into a new file, which has its name once it is complete.

    Use it as a context manager: without `finish` nothing remains. `require_room` is called with the number of bytes
    before they are written, and may raise.
    """

    def __init__(self, path: Path, require_room: Callable[[int], object] = lambda _: None) -> None:
        self.path = path
        self._require_room = require_room
        self._part_path = path.with_name(f"{path.name}.part")
        self._part_path.unlink(missing_ok=True)
        self._file = os.fdopen(os.open(self._part_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")
        self._finished = False
        self._begin = 0
        self._name = ""

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self._finished:
            self._part_path.unlink(missing_ok=True)

    def begin(self, name: str) -> None:
        """Begin a part whose size is not known yet."""
        self._name, self._begin = name, self._file.tell()
        self._file.write(bytes(BLOCK))
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append to the part."""
        self._require_room(len(data))
        self._digest.update(data)
        self._size += len(data)
        self._file.write(data)

    def end(self) -> Part:
        """End the part."""
        self._file.write(bytes(-self._size % BLOCK))
        end = self._file.tell()
        self._file.seek(self._begin)
        self._file.write(header(self._name, self._size))
        self._file.seek(end)
        return Part(self._begin + BLOCK, self._size)

    def drop(self) -> None:
        """Forget the part that was begun."""
        self._file.seek(self._begin)
        self._file.truncate()

    @property
    def digest(self) -> str:
        """The SHA-256 of the part so far."""
        return self._digest.hexdigest()

    @property
    def size(self) -> int:
        """The bytes of the part so far."""
        return self._size

    def whole(self, name: str, data: bytes) -> None:
        """Write a part at once."""
        self.begin(name)
        self.write(data)
        self.end()

    def finish(self) -> int:
        """End the file durably under its name, and return its size."""
        self._file.write(bytes(2 * BLOCK))
        size = self._file.tell()
        self._file.flush()
        sync_file(self._file.fileno())
        self._part_path.replace(self.path)
        sync_directory(self.path.parent)
        self._finished = True
        return size


class GzipPart:
    """A compressed part that is being written."""

    def __init__(self, archive: ArchiveWriter, name: str) -> None:
        self._archive = archive
        self._gzip = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        self._plain = 0
        archive.begin(name)

    def write(self, data: bytes) -> None:
        """Append to what the part has."""
        self._plain += len(data)
        self._archive.write(self._gzip.compress(data))

    def end(self) -> Written:
        """End the part."""
        self._archive.write(self._gzip.flush())
        written = Written(self._archive.size, self._archive.digest, self._plain)
        self._archive.end()
        return written


def header(name: str, size: int) -> bytes:
    """Return the header of a part."""
    length = b"%011o\0" % size if size < _OCTAL_LIMIT else b"\x80" + size.to_bytes(11)
    fields = [
        name.encode().ljust(100, b"\0"),
        b"0000600\0" + b"0000000\0" * 2,
        length,
        b"00000000000\0",
        b" " * 8,
        b"0".ljust(101, b"\0"),
        b"ustar\x0000".ljust(247, b"\0"),
    ]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


class ArchiveReader:
    """Finds the parts of a file. Raises `InvalidArchiveError` for whatever is not as `ArchiveWriter` writes it.

    `blobs` are read in their order by `each_blob`: there may be millions, of which none is held in memory.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.parts: dict[str, Part] = {}
        self.blob_count = 0
        self.blob_bytes = 0
        self._first_blob = 0
        last_blob = ""
        for name, part in self._scan():
            if name.startswith("blobs/"):
                if name <= last_blob or MANIFEST in self.parts:
                    raise InvalidArchiveError("The archive is damaged: its blobs are not in their order.")
                last_blob = name
                self._first_blob = self._first_blob or part.offset - BLOCK
                self.blob_count += 1
                self.blob_bytes += part.size
            elif name in self.parts or (self.blob_count and not name.startswith("manifest.")):
                raise InvalidArchiveError(f"The archive is damaged: {name} is there twice, or not where it belongs.")
            elif len(self.parts) >= MAX_PARTS:
                raise InvalidArchiveError(f"The archive has more than {MAX_PARTS} parts.")
            else:
                self.parts[name] = part

    def _scan(self, offset: int = 0) -> Iterator[tuple[str, Part]]:
        while True:
            self._file.seek(offset)
            block = self._file.read(BLOCK)
            if len(block) < BLOCK:
                raise InvalidArchiveError("The archive is cut off: its end is missing.")
            if not any(block):
                return
            name, size = parse_header(block)
            part = Part(offset + BLOCK, size)
            offset = part.offset + size + -size % BLOCK
            if offset > self._size:
                raise InvalidArchiveError("The archive is cut off: a part is longer than the file.")
            yield name, part

    def whole(self, name: str, max_bytes: int) -> bytes:
        """Return a small part; raises an error if it is missing or has more than `max_bytes`."""
        part = self.parts.get(name)
        if part is None:
            raise InvalidArchiveError(f"The file is no archive of an app, or cut off: it has no {name}.")
        if part.size > max_bytes:
            raise InvalidArchiveError(f"{name} has more than {max_bytes} bytes.")
        self._file.seek(part.offset)
        return self._file.read(part.size)

    def unzipped(self, name: str, sha256: str) -> Iterator[bytes]:
        """Yield the bytes of a compressed part in chunks; at its end it is compared with its SHA-256."""
        part = self.parts[name]
        digest, gzip, plain = hashlib.sha256(), zlib.decompressobj(_GZIP), 0
        for chunk in self._chunks(part):
            digest.update(chunk)
            while chunk:
                try:
                    data = gzip.decompress(chunk, READ_BYTES)
                except zlib.error:
                    raise InvalidArchiveError(f"The archive is damaged: {name} is not compressed by gzip.") from None
                plain += len(data)
                if plain > MAX_RATIO * part.size + READ_BYTES:
                    raise InvalidArchiveError(f"{name} would become more than {MAX_RATIO} times as large.")
                if data:
                    yield data
                chunk = gzip.unconsumed_tail
                if gzip.unused_data or (gzip.eof and chunk):
                    raise InvalidArchiveError(f"The archive is damaged: {name} has something after its end.")
        if not gzip.eof or digest.hexdigest() != sha256:
            raise InvalidArchiveError(f"The archive is damaged: the bytes of {name} are not those of its manifest.")

    def each_blob(self) -> Iterator[tuple[str, Part]]:
        """Yield the SHA-256 and the place of each blob."""
        if self.blob_count:
            for name, part in self._scan(self._first_blob):
                if not name.startswith("blobs/"):
                    return
                yield name.removeprefix("blobs/"), part

    def chunks_of(self, part: Part) -> Iterator[bytes]:
        """Yield the bytes of a blob."""
        return self._chunks(part)

    def _chunks(self, part: Part) -> Iterator[bytes]:
        offset, end = part.offset, part.offset + part.size
        while offset < end:
            self._file.seek(offset)
            chunk = self._file.read(min(READ_BYTES, end - offset))
            if not chunk:
                raise InvalidArchiveError("The archive was cut off while it was read.")
            offset += len(chunk)
            yield chunk


def parse_header(block: bytes) -> tuple[str, int]:
    """Return name and size of a part; raises `InvalidArchiveError` for any that an archive cannot have."""
    if block[257:263] != b"ustar\0":
        raise InvalidArchiveError("The file is no archive of an app.")
    name = block[:100].rstrip(b"\0").decode("ascii", "replace")
    if block[156:157] != b"0" or any(block[345:]) or not _NAME.fullmatch(name):
        raise InvalidArchiveError(f"The file is no archive of an app: {name[:60]!r} cannot be a part of one.")
    raw = block[124:136]
    try:
        size = int.from_bytes(raw[1:]) if raw[:1] == b"\x80" else int(raw.rstrip(b"\0 "), 8)
        checksum = int(block[148:156].rstrip(b"\0 "), 8)
    except ValueError:
        raise InvalidArchiveError(f"The archive is damaged at {name}.") from None
    if size < 0 or checksum != sum(block[:148]) + 8 * 32 + sum(block[156:]):
        raise InvalidArchiveError(f"The archive is damaged at {name}.")
    return name, size
