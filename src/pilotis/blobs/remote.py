"""Object stores of the clouds, and those that speak S3, by URL.

A separate module because obstore takes 4 MB, which a server with a local directory does not need.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store, from_url

from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.blobs.keys import check_prefix
from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.presign import Presigner

_ADDRESS = r"https?://[^/?#\s]+[^?#\s]*"
_S3_OPTIONS = {
    "endpoint": _ADDRESS,
    "public_endpoint": _ADDRESS,
    "region": r"[a-z0-9-]+",
    "addressing": r"path|virtual",
}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# A stalled connection is closed after `read_timeout`; `timeout` bounds the whole response, whatever the blob's size.
_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "6h", "allow_http": True}
_RETRY: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}


def open_remote(url: str, access_key: str | None, secret_key: str | None) -> ObjectStore:
    """Return the store of an `s3`, `gs` or `az` URL; raises `InvalidStoreUrlError`."""
    try:
        if url.startswith("s3:"):
            return _s3(_read_s3_url(url), access_key, secret_key)
        return ObjectStore(from_url(url, client_options=_CLIENT, retry_config=_RETRY))
    except InvalidStoreUrlError:
        raise
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidStoreUrlError(f"The object store's URL is invalid: {reason}") from error


class _Bucket(NamedTuple):
    """The parts of an S3 URL."""

    name: str
    prefix: str
    region: str
    endpoint: str
    public_endpoint: str
    in_host: bool

    def url(self, endpoint: str) -> str:
        """Return the bucket's URL; the bucket is part of the host name ("virtual-hosted-style") or of the path."""
        parts = urlsplit(endpoint.rstrip("/"))
        if self.in_host:
            return f"{parts.scheme}://{self.name}.{parts.netloc}{parts.path}"
        return f"{endpoint.rstrip('/')}/{self.name}"


def _s3(bucket: _Bucket, access_key: str | None, secret_key: str | None) -> ObjectStore:
    config: Any = {
        "region": bucket.region,
        "endpoint": bucket.url(bucket.endpoint) if bucket.in_host else bucket.endpoint,
        "virtual_hosted_style_request": bucket.in_host,
    }
    presigner = None
    if access_key and secret_key:
        config |= {"access_key_id": access_key, "secret_access_key": secret_key}
        base = f"{bucket.url(bucket.public_endpoint)}/{bucket.prefix}"
        presigner = Presigner(base, access_key, secret_key, bucket.region)
    prefix = bucket.prefix or None
    backend = S3Store(bucket.name, prefix=prefix, config=config, client_options=_CLIENT, retry_config=_RETRY)
    return ObjectStore(backend, presigner)


def _read_s3_url(url: str) -> _Bucket:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    for name, value in options.items():
        if name not in _S3_OPTIONS:
            raise InvalidStoreUrlError(f"An S3 URL has no option {name}; it has {', '.join(_S3_OPTIONS)}.")
        if not re.fullmatch(_S3_OPTIONS[name], value):
            raise InvalidStoreUrlError(f"{value!r} is not valid for {name} in an S3 URL.")
    if not _BUCKET.fullmatch(parts.netloc):
        raise InvalidStoreUrlError(f"{parts.netloc!r} is not the name of an S3 bucket.")
    region = options.get("region", "us-east-1")
    endpoint = options.get("endpoint", f"https://s3.{region}.amazonaws.com")
    addressing = options.get("addressing", "path" if "endpoint" in options else "virtual")
    prefix = check_prefix(parts.path.strip("/"))
    public = options.get("public_endpoint", endpoint)
    return _Bucket(parts.netloc, prefix, region, endpoint, public, addressing == "virtual")
