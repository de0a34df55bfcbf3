"""The files of a function: valid paths, the entry file, and the stored archive. Pure."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilotis.functions.errors import EntrypointNotFoundError, InvalidArchiveError, SourceTooLargeError
from pilotis.functions.runtime.policy import Runtime
from pilotis.hosting.errors import InvalidZipError, NoFilesError
from pilotis.hosting.paths import check_file_path
from pilotis.hosting.zips import Archive, ZipLimits
from pilotis.kit.errors import PayloadTooLargeError, invalid

MAX_FILES = 200
_ENTRIES = {
    Runtime.JAVASCRIPT: ("index.ts", "index.js", "index.mjs", "index.cjs"),
    Runtime.PYTHON: ("main.py",),
}
_ENDINGS = {
    Runtime.JAVASCRIPT: (".ts", ".tsx", ".js", ".jsx", ".mjs", ".mts", ".cjs"),
    Runtime.PYTHON: (".py",),
}
# Equal files give equal archives.
_MAX_PACKED_FILES, _MAX_PACKED_BYTES = 2_000, 256 << 20
_TIME = (1980, 1, 1, 0, 0, 0)
_COMMONJS = re.compile(r"^\s*(?:module\s*\.\s*exports|exports\s*\.\s*\w+)\s*=", re.MULTILINE)
_MODULE = re.compile(r"^\s*(?:import|export)\b", re.MULTILINE)


class Source(NamedTuple):
    """Files by path, and the entry file."""

    files: Mapping[str, bytes]
    entrypoint: str

    @property
    def size(self) -> int:
        """The total size of the files in bytes."""
        return sum(map(len, self.files.values()))

    @property
    def sha256(self) -> str:
        """A hash that identifies the source."""
        digest = hashlib.sha256(self.entrypoint.encode())
        for path, data in sorted(self.files.items()):
            digest.update(f"\0{path}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    @property
    def is_commonjs(self) -> bool:
        """Whether the entry file is a CommonJS module, which has `module.exports`."""
        if self.entrypoint.endswith(".cjs"):
            return True
        text = self.files[self.entrypoint].decode("utf-8", "replace")
        return self.entrypoint.endswith(".js") and bool(_COMMONJS.search(text)) and not _MODULE.search(text)


def of_files(runtime: Runtime, files: Mapping[str, str], entrypoint: str | None, max_bytes: int) -> Source:
    """Return a source from texts by path; raises an error for invalid paths and sizes."""
    if not files:
        raise invalid("files", "files: must contain at least one file.", "REQUIRED")
    checked: dict[str, bytes] = {}
    for path, text in files.items():
        try:
            name = check_file_path(path)
        except ValueError as error:
            raise invalid("files", f"files: {path[:100]}: {error}") from None
        checked[name] = text.encode("utf-8", "surrogatepass")
    return _source(runtime, checked, entrypoint, max_bytes)


def of_zip(runtime: Runtime, data: bytes, entrypoint: str | None, max_bytes: int) -> Source:
    """Return the source in a zip archive; raises an error if it is damaged, a zip bomb, or has unsafe paths."""
    try:
        archive = Archive(io.BytesIO(data), ZipLimits(MAX_FILES, max_bytes, max_bytes))
        files = {entry.path: archive.read(entry) for entry in archive.entries}
    except InvalidZipError as error:
        raise InvalidArchiveError(error.text, details=error.details) from None
    except NoFilesError:
        raise InvalidArchiveError("The archive has no files.") from None
    except PayloadTooLargeError as error:
        raise SourceTooLargeError(error.text) from None
    return _source(runtime, files, entrypoint, max_bytes)


def _missing_entry(runtime: Runtime, files: Mapping[str, bytes], entrypoint: str | None) -> str:
    """Return a sentence that says what is missing, and which runtime the files seem to be for."""
    name, expected = runtime.value, _either(_ENTRIES[runtime])
    if entrypoint and not entrypoint.endswith(_ENDINGS[runtime]):
        return f"This function's runtime is {name}; {entrypoint[:100]} cannot be its entry file."
    if entrypoint:
        return f"The files do not include the entry file {entrypoint[:100]}."
    others = [name for other, names in _ENTRIES.items() if other is not runtime for name in names if name in files]
    seen = f" {others[0]} is one for another runtime." if others else ""
    return f"This function's runtime is {name}, and the files do not include its entry file: {expected}.{seen}"


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _source(runtime: Runtime, files: Mapping[str, bytes], entrypoint: str | None, max_bytes: int) -> Source:
    if len(files) > MAX_FILES:
        raise SourceTooLargeError(f"A function may have at most {MAX_FILES} files.")
    if sum(map(len, files.values())) > max_bytes:
        raise SourceTooLargeError(f"The files of a function may have at most {max_bytes} bytes in total.")
    folders = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
    if twice := sorted(files.keys() & folders):
        raise invalid("files", f"files: {twice[0]} is both a file and a folder.")
    names = (entrypoint,) if entrypoint else _ENTRIES[runtime]
    found = next((name for name in names if name in files), None)
    if found is None or not found.endswith(_ENDINGS[runtime]):
        raise EntrypointNotFoundError(_missing_entry(runtime, files, entrypoint))
    return Source(files, found)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return files as a zip archive; equal files give equal archives."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            info = zipfile.ZipInfo(path, _TIME)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return target.getvalue()


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive that `pack` created."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def check_packed(text: str) -> None:
    """Raise ValueError for bytes, written as PostgreSQL does, that are not what `pack` creates within any limit."""
    try:
        with zipfile.ZipFile(io.BytesIO(bytes.fromhex(text.removeprefix("\\x")))) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError):
        raise ValueError("the source of a function is no archive") from None
    if len(entries) > _MAX_PACKED_FILES or sum(entry.file_size for entry in entries) > _MAX_PACKED_BYTES:
        raise ValueError("the source of a function is too large")
    if any(part in {"", ".", ".."} for entry in entries for part in entry.filename.split("/")):
        raise ValueError("the source of a function has paths that lead elsewhere")
