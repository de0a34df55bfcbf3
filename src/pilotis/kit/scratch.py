"""Folders for work that nobody keeps. A lock says whether one is in use, however its process ended."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

_PREFIX = "scratch-"


@asynccontextmanager
async def scratch(data_dir: Path) -> AsyncGenerator[Path]:
    """Yield a new folder in the data directory, with the mode 0700, which is deleted after the block."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=data_dir))
    try:
        with _locked(folder):
            yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def remove_remains(data_dir: Path) -> None:
    """Delete the folders that killed processes have left."""
    for folder in data_dir.glob(f"{_PREFIX}*"):
        with _locked(folder) as is_free:
            if is_free:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Generator[bool]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
