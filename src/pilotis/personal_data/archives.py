"""Writes a zip archive while it is sent: what is finished is taken, and nothing is kept. Pure."""

from __future__ import annotations

import zipfile
from typing import IO, cast


class _Sink:
    """A file that only grows, and whose content is taken from it."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._parts += data
        return len(data)

    def flush(self) -> None:
        """Do nothing."""

    def take(self) -> bytes:
        """Return what was appended since the last time."""
        taken = bytes(self._parts)
        self._parts.clear()
        return taken


class Archive:
    """A zip archive (with ZIP64) that is written from its beginning to its end."""

    def __init__(self) -> None:
        self._sink = _Sink()
        # It cannot be sought in, so that sizes follow the content.
        self._zip = zipfile.ZipFile(cast("IO[bytes]", self._sink), "w", zipfile.ZIP_DEFLATED)

    def begin(self, name: str, *, is_compressed: bool = True) -> IO[bytes]:
        """Return a file in the archive, which has to be closed before the next one begins."""
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
        return self._zip.open(info, "w", force_zip64=True)

    def take(self) -> bytes:
        """Return what was written since the last time."""
        return self._sink.take()

    def close(self) -> bytes:
        """End the archive, and return the rest."""
        self._zip.close()
        return self.take()


def safe_name(path: str) -> str:
    """Return a path that stays within the folder into which an archive is unpacked."""
    parts = [part.replace("\\", "_").replace(":", "_") for part in path.split("/")]
    return "/".join("_" if part in {"", ".", ".."} else part for part in parts)
