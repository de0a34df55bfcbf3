"""Which object store a URL names.

| URL | Store |
|---|---|
| none, or a path, or `file:///path` | a directory |
| `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…&addressing=path&credentials=instance` | S3 and compatible |
| `gs://bucket/prefix`, `az://container/prefix` | Google Cloud Storage, Azure |

The last two take credentials from the environment as the clouds' own tools do: `GOOGLE_APPLICATION_CREDENTIALS` or the
machine's account; `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY` or the machine's identity.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.protocol import BlobStore


def open_store(
    url: str | None,
    data_dir: Path,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    reserve_bytes: int = 0,
    reserve_percent: float = 100,
    reserve_least: int = 0,
) -> BlobStore:
    """Return the store without sending anything to it. Raises `InvalidStoreUrlError`, and `OSError` for a directory.

    Without the two keys an S3 store looks for credentials in the environment as the AWS tools do, with
    `credentials=instance` in its URL also at the cloud's metadata address, and clients cannot upload to it directly. A
    directory keeps the smaller of the two reserves free in its file system, but no less than `reserve_least` bytes.
    """
    local = partial(
        LocalStore, reserve_bytes=reserve_bytes, reserve_percent=reserve_percent, reserve_least=reserve_least
    )
    if url is None:
        return local(data_dir / "blobs")
    parts = urlsplit(url)
    if parts.scheme in {"", "file"}:
        return local(Path(unquote(parts.path)) if parts.scheme else Path(url))
    if parts.scheme in {"s3", "gs", "az"}:
        from pilotis.blobs.remote import open_remote

        return open_remote(url, access_key, secret_key)
    raise InvalidStoreUrlError(f"{parts.scheme!r} is not a kind of object store: use a directory, s3, gs or az.")
