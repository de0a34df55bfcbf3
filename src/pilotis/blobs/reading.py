"""Reads blobs for responses."""

from __future__ import annotations

import os

from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.protocol import BlobStore


async def read_small(blobs: BlobStore, key: str, start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a blob, a few pages at most, as a local file is read without a thread.

    Raises `BlobNotFoundError`, and `BlobStoreUnavailableError` if bytes are missing.
    """
    if (file := blobs.open_file(key)) is not None:
        # The pages are mostly in the page cache: a thread would take longer than reading them.
        try:
            data = os.pread(file, end - start, start)
        finally:
            os.close(file)
    else:
        data = b"".join([chunk async for chunk in blobs.open(key, start, end)])
    if len(data) != end - start:
        raise BlobStoreUnavailableError
    return data
