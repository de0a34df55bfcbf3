"""Object stores of the clouds, and those that speak S3, by URL.

A separate module because obstore takes 4 MB, which a server with a local directory does not need.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store, from_url

from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.blobs.keys import check_prefix
from pilotis.blobs.objects import ObjectStore, Probe
from pilotis.blobs.presign import Presigner
from pilotis.blobs.unfinished import MultipartUploads

_ADDRESS = r"https?://[^/?#\s]+[^?#\s]*"
_S3_OPTIONS = {
    "endpoint": _ADDRESS,
    "public_endpoint": _ADDRESS,
    "region": r"[a-z0-9-]+",
    "addressing": r"path|virtual",
    "credentials": r"instance",
}
# What the AWS tools read in the environment. Without any of them they ask the cloud's metadata address.
_FROM_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# A stalled connection is closed after `read_timeout`; `timeout` bounds the whole response, whatever the blob's size.
_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "6h", "allow_http": True}
# Copying gigabytes, and joining their parts, the store answers at its end.
_PATIENT_CLIENT: Any = _CLIENT | {"read_timeout": "15m"}
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
    asks_instance: bool

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
    presigner = probe = multipart = None
    _require_credentials(bucket, access_key, secret_key)
    if access_key and secret_key:
        config |= {"access_key_id": access_key, "secret_access_key": secret_key}
        presigner, probe = (
            Presigner(f"{bucket.url(endpoint)}/{bucket.prefix}", access_key, secret_key, bucket.region)
            for endpoint in (bucket.public_endpoint, bucket.endpoint)
        )
        whole = Presigner(bucket.url(bucket.endpoint), access_key, secret_key, bucket.region)
        multipart = MultipartUploads(whole, bucket.prefix)
    prefix = bucket.prefix or None
    backend, patient = (
        S3Store(bucket.name, prefix=prefix, config=config, client_options=options, retry_config=_RETRY)
        for options in (_CLIENT, _PATIENT_CLIENT)
    )
    place = f"/{bucket.name}/{bucket.prefix}".rstrip("/")
    return ObjectStore(
        backend, presigner, patient=patient, probe=Probe(place, probe) if probe else None, multipart=multipart
    )


def _require_credentials(bucket: _Bucket, access_key: str | None, secret_key: str | None) -> None:
    if bool(access_key) != bool(secret_key):
        absent = "s3_secret_key" if access_key else "s3_access_key"
        raise InvalidStoreUrlError(f"The setting {absent} is missing: an S3 store needs both keys.")
    if access_key or bucket.asks_instance or any(os.environ.get(name) for name in _FROM_ENVIRONMENT):
        return
    raise InvalidStoreUrlError(
        "The S3 store has no credentials: set s3_access_key and s3_secret_key, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY in the environment, or write credentials=instance into its URL to ask the cloud's "
        "metadata address."
    )


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
    return _Bucket(parts.netloc, prefix, region, endpoint, public, addressing == "virtual", "credentials" in options)
