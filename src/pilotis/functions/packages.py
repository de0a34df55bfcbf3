"""Which packages a function's files ask for. Pure, but for the folder in which a node unpacks Python packages."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pilotis.functions.errors import SourceInvalidError
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.sources import Source
from pilotis.kit.offload import in_thread

MAX_UNPACKED = 100 * 1024 * 1024
MAX_FILES = 20_000
UNUSED_SECONDS = 24 * 3600
REQUIREMENTS = "requirements.txt"
MANIFEST = "package.json"
_SECTIONS = ("dependencies", "optionalDependencies", "peerDependencies")
_NPM_IMPORT = re.compile(rb"""["']npm:""")
_NPM_VERSION = re.compile(r"(npm:(@[\w.-]+/)?[\w.-]+@)?[\w.*<>=~^|\- +]*")
# PEP 508 without the URL form, then pip's hashes.
_SPECIFIER = r"(===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[A-Za-z0-9._,\s-]*\])?"
    rf"\s*({_SPECIFIER}(\s*,\s*{_SPECIFIER})*)?\s*(;[^#@:-]*)?(\s+--hash=[a-z0-9]+:[a-f0-9]+)*"
)


def digest_of(runtime: Runtime, source: Source, runtime_version: str) -> str | None:
    """Return what identifies the build of a source; None where it needs none.

    Raises `SourceInvalidError` for packages that do not come from a registry.
    """
    if runtime is Runtime.PYTHON:
        text = source.files.get(REQUIREMENTS, b"")
        return _digest(runtime_version, text) if requirements(text) else None
    wanted = _dependencies(source.files)
    if not wanted and not any(_NPM_IMPORT.search(data) for data in source.files.values()):
        return None
    return _digest(runtime_version, source.sha256.encode())


def requirements(data: bytes) -> list[str]:
    """Return the requirements in a `requirements.txt`; raises `SourceInvalidError` for URLs, files and options."""
    text = data.decode("utf-8", "replace").replace("\\\n", " ").replace("\\\r\n", " ")
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
    for line in filter(None, lines):
        if not _REQUIREMENT.fullmatch(line):
            raise SourceInvalidError(
                f"{REQUIREMENTS}: {line[:100]} is not the name of a package with versions. "
                "URLs, files and options other than --hash are not accepted."
            )
    return [line for line in lines if line]


def _dependencies(files: Mapping[str, bytes]) -> dict[str, str]:
    if MANIFEST not in files:
        return {}
    try:
        manifest = json.loads(files[MANIFEST])
        found = {name: value for part in _SECTIONS for name, value in manifest.get(part, {}).items()}
    except (ValueError, AttributeError):
        raise SourceInvalidError(f"{MANIFEST} is not a JSON object with dependencies.") from None
    for name, value in found.items():
        if not isinstance(value, str) or not _NPM_VERSION.fullmatch(value):
            raise SourceInvalidError(
                f"{MANIFEST}: {name[:100]} is not a version: URLs, files and repositories are not accepted."
            )
    return found


def bundled(source: Source, bundle: bytes) -> Source:
    """Return the files that a sandbox gets in place of a source that was bundled: the bundle and what is not code."""
    code = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".mts", ".cjs", ".cts")
    others = {path: data for path, data in source.files.items() if not path.endswith((*code, ".json", ".lock"))}
    data_files = {path: data for path, data in source.files.items() if path.endswith(".json") and "/" in path}
    entry = f"{source.entrypoint.rpartition('.')[0]}.bundle.mjs"
    return Source({**others, **data_files, entry: bundle}, entry)


class PackageFolders:
    """The folders of Python packages on this node, each unpacked once and read by sandboxes."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def find(self, app_id: str, digest: str) -> str | None:
        """Return the folder of a build, if this node has it."""
        folder = self._folder(app_id, digest)
        try:
            os.utime(folder)
        except OSError:
            return None
        return str(folder)

    async def unpack(self, app_id: str, digest: str, archive: bytes) -> str:
        """Return the folder of a build, made of its archive; raises `SourceInvalidError` for one that is too large."""
        folder = self._folder(app_id, digest)
        await in_thread(_unpack, archive, folder)
        await in_thread(self._prune)
        return str(folder)

    def _folder(self, app_id: str, digest: str) -> Path:
        return self._place.absolute() / _digest(app_id, digest.encode())

    def _prune(self) -> None:
        """Delete folders that no sandbox has begun to use for a day: sandboxes do not live as long."""
        for one in self._place.iterdir():
            if one.stat().st_mtime < time.time() - UNUSED_SECONDS:
                shutil.rmtree(one, ignore_errors=True)


def _unpack(archive: bytes, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        entries = [entry for entry in opened.infolist() if not entry.is_dir()]
        if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_UNPACKED:
            raise SourceInvalidError(
                f"The packages have more than {MAX_UNPACKED // 1024 // 1024} MB or {MAX_FILES} files."
            )
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            for entry in entries:
                # It has no way to a path outside, nor links: zipfile writes plain files below the folder.
                written = Path(opened.extract(entry, made))
                written.chmod(0o644)
            for path, _, _ in os.walk(made):
                Path(path).chmod(0o755)
            made.rename(folder)
        except BaseException as error:
            shutil.rmtree(made, ignore_errors=True)
            # Another worker was faster.
            if not (isinstance(error, OSError) and folder.is_dir()):
                raise


def _digest(salt: str, data: bytes) -> str:
    return hashlib.sha256(salt.encode() + b"\0" + data).hexdigest()
