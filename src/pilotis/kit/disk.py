"""Making what was written survive a power cut."""

import ctypes
import os
import sys
from pathlib import Path


def sync_filesystem(path: Path) -> None:
    """Write everything below `path` to the disk: one syncfs(2) in place of an fsync(2) for each file."""
    if sys.platform != "linux":
        os.sync()
        return
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if library.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "syncfs failed", str(path))
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make a rename within the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
