"""Which object store a URL names.

| URL | Store |
|---|---|
| none, or a path, or `file:///path` | a directory |
| `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…&addressing=path` | S3 and what speaks it |
| `gs://bucket/prefix`, `az://account/container/prefix` | Google Cloud Storage, Azure; credentials of this machine |
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store, from_url

from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.blobs.keys import check_prefix
from pilotis.blobs.local import LocalStore
from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.presign import Presigner
from pilotis.blobs.protocol import BlobStore

_S3_OPTIONS = {"endpoint", "public_endpoint", "region", "addressing"}
# A stalled connection is given up after `read_timeout`; `timeout` bounds a whole answer, however large the blob.
_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "6h", "allow_http": True}
_RETRY: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}


def open_store(
    url: str | None, data_dir: Path, *, access_key: str | None = None, secret_key: str | None = None
) -> BlobStore:
    """Return the store; nothing is sent to it yet. Raises `InvalidStoreUrlError`, and `OSError` for a directory.

    Without the two keys an S3 store finds credentials as AWS' tools do, and clients cannot upload to it directly.
    """
    if url is None:
        return LocalStore(data_dir / "blobs")
    parts = urlsplit(url)
    if parts.scheme in {"", "file"}:
        return LocalStore(Path(unquote(parts.path)) if parts.scheme else Path(url))
    try:
        if parts.scheme == "s3":
            return _s3(url, access_key, secret_key)
        if parts.scheme in {"gs", "az"}:
            return ObjectStore(from_url(url, client_options=_CLIENT, retry_config=_RETRY))
    except (BaseError, ValueError) as error:
        raise InvalidStoreUrlError(f"The object store's URL is not right: {error}") from error
    raise InvalidStoreUrlError(f"{parts.scheme!r} is no kind of object store: use a directory, s3, gs or az.")


def _s3(url: str, access_key: str | None, secret_key: str | None) -> ObjectStore:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    if unknown := set(options) - _S3_OPTIONS:
        raise InvalidStoreUrlError(f"An S3 URL has no option {', '.join(sorted(unknown))}.")
    bucket, prefix = parts.netloc, check_prefix(parts.path.strip("/"))
    region = options.get("region", "us-east-1")
    endpoint = options.get("endpoint")
    in_host = options.get("addressing", "path" if endpoint else "virtual") == "virtual"
    origin = endpoint or f"https://s3.{region}.amazonaws.com"
    config: Any = {
        "region": region,
        "endpoint": bucket_url(origin, bucket) if in_host else origin,
        "virtual_hosted_style_request": in_host,
    }
    if access_key and secret_key:
        config |= {"access_key_id": access_key, "secret_access_key": secret_key}
    backend = S3Store(bucket, prefix=prefix or None, config=config, client_options=_CLIENT, retry_config=_RETRY)
    if not (access_key and secret_key):
        return ObjectStore(backend)
    public = options.get("public_endpoint", origin)
    base = bucket_url(public, bucket) if in_host else f"{public.rstrip('/')}/{bucket}"
    return ObjectStore(backend, Presigner(f"{base}/{prefix}", access_key, secret_key, region))


def bucket_url(endpoint: str, bucket: str) -> str:
    """Return the URL under which a bucket has a host name of its own."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path.rstrip('/')}"
