"""Zip archives of sites: selects the entries that are files of the site, and reads them. Every function blocks.

No file is extracted under its name, which only becomes a key of the manifest, so no entry can escape a folder. Invalid
archives are rejected before a byte is inflated; then the bytes are counted, because a header may be wrong.
"""

from __future__ import annotations

import itertools
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from pilotis.hosting.errors import InvalidZipError, NoFilesError
from pilotis.hosting.paths import check_file_path, is_hidden, is_junk
from pilotis.hosting.types import DeployWarning
from pilotis.kit.errors import Detail, PayloadTooLargeError

MAX_RATIO = 200
"""Maximum compression ratio of an entry larger than `RATIO_BYTES`."""
RATIO_BYTES = 1 << 20
MAX_DETAILS = 50
MAX_WARNINGS = 100
_CHUNK = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s2B4HL2L2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_END_BYTES = 22
# The end record of ZIP64 with its locator.
_END64_BYTES = 56 + 20
# The size of an entry in the central directory: its header, a long name, and times in extra fields.
_MAX_HEADER_BYTES = 1200
_MAX_COMMENT = 65_535


class ZipLimits(NamedTuple):
    """The maximum number of files, bytes of one file, and bytes of all files."""

    files: int
    file_bytes: int
    total_bytes: int


class Entry(NamedTuple):
    """A file of the site, and the archive entry with its bytes."""

    path: str
    info: zipfile.ZipInfo


class Archive:
    """An archive whose entries have been checked; `entries` are the files of the site sorted by path.

    Raises `InvalidZipError` with each invalid entry, `PayloadTooLargeError` for too many or too large files, and
    `NoFilesError`. `file` must be seekable and stay open.
    """

    def __init__(self, file: IO[bytes], limits: ZipLimits) -> None:
        self._limits = limits
        self.warnings: list[DeployWarning] = []
        _check_count(file, limits)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, EOFError, OverflowError, struct.error, NotImplementedError) as error:
            raise InvalidZipError(f"The archive cannot be read: {type(error).__name__}.") from None
        self._file = file
        infos = self._zip.infolist()
        if len(infos) > limits.files * 2:
            raise PayloadTooLargeError(f"The archive has more than {limits.files} files.")
        self.entries = self._checked(infos)

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of an entry; raises `InvalidZipError` if they are damaged or not as many as declared."""
        size = 0
        try:
            with self._zip.open(entry.info) as stream:
                while chunk := stream.read(_CHUNK):
                    size += len(chunk)
                    if size > entry.info.file_size:
                        raise _invalid([_detail(entry.path, "SIZE_MISMATCH", "It is larger than declared.")])
                    yield chunk
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, OSError):
            raise _invalid([_detail(entry.path, "DAMAGED", "Its bytes are damaged.")]) from None
        if size != entry.info.file_size:
            raise _invalid([_detail(entry.path, "SIZE_MISMATCH", "It is smaller than declared.")])

    def read(self, entry: Entry) -> bytes:
        """Return the bytes of an entry; raises as `chunks` does."""
        return b"".join(self.chunks(entry))

    def _checked(self, infos: Sequence[zipfile.ZipInfo]) -> list[Entry]:
        problems: list[Detail] = []
        files = []
        for info in infos:
            if info.orig_filename.endswith(("/", "\\")) or stat.S_ISDIR(info.external_attr >> 16):
                problems += _problem(info, is_folder=True)
                continue
            problems += _problem(info, is_folder=False)
            files.append(info)
        _raise_problems(problems)
        _raise_problems(_overlaps(infos))
        _raise_problems(self._local_problems(files))
        entries = self._wanted([Entry(_path(info), info) for info in files])
        self._check_sizes(entries)
        _raise_problems(_ratios(entries))
        self._check_names(entries)
        if not entries:
            raise NoFilesError
        return sorted(entries, key=lambda entry: entry.path)

    def _local_problems(self, infos: Sequence[zipfile.ZipInfo]) -> list[Detail]:
        """Compare each local header with the central directory: programs differ in which one they use."""
        problems = []
        for info in infos:
            self._file.seek(info.header_offset)
            data = self._file.read(_LOCAL_HEADER.size)
            if len(data) < _LOCAL_HEADER.size or not data.startswith(_LOCAL_SIGNATURE):
                problems.append(_detail(_shown(info), "DAMAGED", "Its local header is missing."))
                continue
            header = _LOCAL_HEADER.unpack(data)
            name = self._file.read(header[10])
            encoding = "utf-8" if header[3] & 0x800 else "cp437"
            declared = info.orig_filename.encode(encoding, "replace")
            if name != declared or header[4] != info.compress_type or (header[3] ^ info.flag_bits) & 1:
                problems.append(
                    _detail(_shown(info), "HEADER_MISMATCH", "Its local header differs from the central directory.")
                )
        return problems

    def _wanted(self, entries: list[Entry]) -> list[Entry]:
        entries = [entry for entry in entries if not is_junk(entry.path)]
        entries = self._without_wrapper(entries)
        kept = []
        for entry in entries:
            if is_hidden(entry.path):
                self._warn("HIDDEN_FILE", entry.path, "The file is left out: its name begins with a dot.")
            else:
                kept.append(entry)
        return kept

    def _without_wrapper(self, entries: list[Entry]) -> list[Entry]:
        """Strip a single folder that contains everything, as when a folder was archived instead of its contents."""
        tops = {entry.path.partition("/")[0] for entry in entries}
        if len(tops) != 1 or any("/" not in entry.path for entry in entries):
            return entries
        top = tops.pop()
        if top == ".well-known":
            return entries
        self._warn("STRIPPED_PREFIX", top, f"All files are in the folder {top}, which is left out of their paths.")
        return [Entry(entry.path.partition("/")[2], entry.info) for entry in entries]

    def _check_sizes(self, entries: Sequence[Entry]) -> None:
        if len(entries) > self._limits.files:
            raise PayloadTooLargeError(f"The archive has more than {self._limits.files} files.")
        for entry in entries:
            if entry.info.file_size > self._limits.file_bytes:
                raise PayloadTooLargeError(
                    f"{entry.path} is too large; the maximum is {self._limits.file_bytes} bytes in an archive."
                )
        if sum(entry.info.file_size for entry in entries) > self._limits.total_bytes:
            raise PayloadTooLargeError(f"The files have more than {self._limits.total_bytes} bytes together.")

    def _check_names(self, entries: Sequence[Entry]) -> None:
        problems, seen = [], set()
        folded: dict[str, str] = {}
        for entry in entries:
            if entry.path in seen:
                problems.append(_detail(entry.path, "DUPLICATE", "The archive has the path twice."))
            seen.add(entry.path)
            other = folded.setdefault(entry.path.casefold(), entry.path)
            if other != entry.path:
                self._warn("CASE_CONFLICT", entry.path, f"It differs from {other} only in upper and lower case.")
        folders = {path[:at] for path in seen for at, c in enumerate(path) if c == "/"}
        problems += [_detail(path, "DUPLICATE", "It is a file and a folder.") for path in sorted(seen & folders)]
        _raise_problems(problems)

    def _warn(self, code: str, path: str, message: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(DeployWarning(code, path, message))


def _check_count(file: IO[bytes], limits: ZipLimits) -> None:
    """Reject an archive with too many entries before creating an object for each; its own count may be wrong."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END_BYTES - _MAX_COMMENT - _END64_BYTES)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END_BYTES:
        raise InvalidZipError("The archive has no central directory.")
    (directory_bytes,) = struct.unpack_from("<L", tail, at + 12)
    if tail[max(0, at - _END64_BYTES) :].startswith(b"PK\x06\x06"):
        at -= _END64_BYTES
        (directory_bytes,) = struct.unpack_from("<Q", tail, at + 40)
    if directory_bytes > limits.files * 2 * _MAX_HEADER_BYTES:
        raise PayloadTooLargeError(f"The archive has more than {limits.files} files.")
    file.seek(max(0, start + at - directory_bytes))
    if file.read(directory_bytes).count(b"PK\x01\x02") > limits.files * 2:
        raise PayloadTooLargeError(f"The archive has more than {limits.files} files.")


def _problem(info: zipfile.ZipInfo, *, is_folder: bool) -> list[Detail]:
    name = _shown(info)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return [_detail(name, "NOT_A_FILE", "Links and devices are not supported.")]
    if info.flag_bits & 1:
        return [_detail(name, "ENCRYPTED", "Encrypted entries are not supported.")]
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return [_detail(name, "COMPRESSION", "Only stored and deflated entries are supported.")]
    try:
        path = info.orig_filename.replace("\\", "/")
        check_file_path(path.rstrip("/") if is_folder else path)
    except ValueError as error:
        return [_detail(name, "INVALID_PATH", str(error))]
    return []


def _path(info: zipfile.ZipInfo) -> str:
    # `filename` is cut at a NUL; `orig_filename` is the name in the archive.
    return unicodedata.normalize("NFC", info.orig_filename.replace("\\", "/"))


def _overlaps(infos: Sequence[zipfile.ZipInfo]) -> list[Detail]:
    """Return the entries that share bytes with the next one, which is a technique of zip bombs."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    problems = []
    for info, following in itertools.pairwise(ordered):
        end = info.header_offset + _LOCAL_HEADER.size + len(info.orig_filename) + info.compress_size
        if following.header_offset < end:
            problems.append(_detail(_shown(info), "OVERLAP", "It shares bytes with another entry."))
    return problems


def _ratios(entries: Sequence[Entry]) -> list[Detail]:
    return [
        _detail(entry.path, "RATIO", f"It is compressed to less than 1/{MAX_RATIO} of its size.")
        for entry in entries
        if entry.info.file_size > RATIO_BYTES and entry.info.file_size > MAX_RATIO * max(1, entry.info.compress_size)
    ]


def _shown(info: zipfile.ZipInfo) -> str:
    """Return an entry's name as it can be shown."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in info.orig_filename[:200])


def _detail(path: str, code: str, message: str) -> Detail:
    return Detail(path, code, message)


def _raise_problems(problems: Sequence[Detail]) -> None:
    if problems:
        raise _invalid(problems)


def _invalid(problems: Sequence[Detail]) -> InvalidZipError:
    first = problems[0]
    more = f" {len(problems) - 1} more entries are invalid." if len(problems) > 1 else ""
    return InvalidZipError(f"{first.field}: {first.message}{more}", details=problems[:MAX_DETAILS])
