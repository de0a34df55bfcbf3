"""Tests an object store, so that operators find problems before users do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError
from pilotis.blobs.presign import Presigner
from pilotis.blobs.protocol import BlobStore, UploadTicket
from pilotis.kit import clock
from pilotis.kit.errors import StorageFullError

_CONTENT = b"pilotis"
_TYPE = "text/plain"
_MAX_SKEW = timedelta(minutes=1)
_SECONDS = 10
_MAX_ANSWER_BYTES = 16 << 20
COPIES_FOR_ANYBODY = (
    "The object store copies any blob for whoever has the URL of an upload (x-amz-copy-source), so clients could read "
    "each other's files: uploads pass through Pilotis instead."
)
IGNORES_DIGESTS = (
    "The object store accepts uploads whose bytes have another SHA-256 than their URL says (x-amz-checksum-sha256): "
    "uploads pass through Pilotis instead."
)


async def check_round_trip(store: BlobStore) -> list[str]:
    """Store, copy, read and delete a blob; return the problems as sentences."""
    source, target = probe_key(), probe_key()
    try:
        await store.put(source, _content(), size=len(_CONTENT), content_type=_TYPE)
        await store.copy(source, target)
        read = b"".join([chunk async for chunk in store.open(target)])
        problems = [] if read == _CONTENT else ["The object store returned bytes that differ from the stored ones."]
        problems += await _clock_problems(store, target)
        await store.delete([source, target])
        left = [key for key in (source, target) if await store.stat(key)]
    except (BlobStoreUnavailableError, StorageFullError) as error:
        return [f"{error.text} The store says: {cause(error)}"]
    return problems + ["The object store did not delete a blob."] * bool(left)


async def check_direct_uploads(store: BlobStore, origin: str) -> list[str]:
    """Upload as a browser would; return the problems as sentences.

    Some S3-compatible servers accept a presigned upload of any size: with those, clients could store more than they
    declared.
    """
    key = probe_key()
    ticket = store.presign_put(key, size=len(_CONTENT), content_type=_TYPE, sha256=None, expires_seconds=60)
    if ticket is None:
        return []
    problems = []
    try:
        status, _ = await asyncio.to_thread(send, ticket.method, ticket.url, ticket.headers, _CONTENT)
        if not 200 <= status < 300:
            problems.append(f"The object store answered a presigned upload with {status}.")
        status, _ = await asyncio.to_thread(send, ticket.method, ticket.url, ticket.headers, _CONTENT + b".")
        if 200 <= status < 300:
            problems.append("The object store accepts presigned uploads that are longer than the signed size.")
        problems += await asyncio.to_thread(_cors_problems, ticket, origin)
        await store.delete([key])
    except OSError as error:
        problems.append(f"The address for direct uploads cannot be reached: {error}.")
    except BlobStoreUnavailableError as error:
        problems.append(f"{error.text} The store says: {cause(error)}")
    return problems


async def copies_for_anybody(store: BlobStore, place: str, signer: Presigner) -> bool:
    """Whether a client with the URL of an upload can have any blob copied to it, by an unsigned `x-amz-copy-source`.

    Such a store, MinIO for example, must not be given to clients: they could read each other's files. `place` is the
    bucket and the prefix, as `/bucket/prefix`. Raises `BlobStoreUnavailableError`.
    """
    secret, target = probe_key(), probe_key()
    other = _CONTENT.upper()
    try:
        await store.put(secret, _content(), size=len(_CONTENT), content_type=_TYPE)
        headers = {"Content-Type": _TYPE}
        bound = headers | {"Content-Length": str(len(other))}
        url = signer.sign("PUT", target, expires_seconds=60, headers=bound)
        hostile = headers | {"x-amz-copy-source": f"{place}/{secret}"}
        await asyncio.to_thread(send, "PUT", url, hostile, other)
        try:
            return b"".join([chunk async for chunk in store.open(target)]) == _CONTENT
        except BlobNotFoundError:
            return False
        finally:
            await store.delete([secret, target])
    except (OSError, StorageFullError) as error:
        raise BlobStoreUnavailableError from error


async def distrust(store: BlobStore, place: str, signer: Presigner) -> str | None:
    """Return why clients must not upload directly to the store, a sentence; None if they may.

    Raises `BlobStoreUnavailableError`.
    """
    if await copies_for_anybody(store, place, signer):
        return COPIES_FOR_ANYBODY
    return IGNORES_DIGESTS if await _ignores_digests(store, signer) else None


async def _ignores_digests(store: BlobStore, signer: Presigner) -> bool:
    key = probe_key()
    other = hashlib.sha256(_CONTENT + b".").digest()
    headers = {"Content-Type": _TYPE, "x-amz-checksum-sha256": base64.b64encode(other).decode()}
    bound = headers | {"Content-Length": str(len(_CONTENT))}
    url = signer.sign("PUT", key, expires_seconds=60, headers=bound)
    try:
        status, _ = await asyncio.to_thread(send, "PUT", url, headers, _CONTENT)
    except OSError as error:
        raise BlobStoreUnavailableError from error
    if not 200 <= status < 300:
        return False
    await store.delete([key])
    return True


def probe_key() -> str:
    """Return a key that nothing else uses, and that the cleanup deletes if it stays."""
    return f"staging/check/{secrets.token_hex(8)}"


def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> tuple[int, Mapping[str, str]]:
    """Send one request; return the response's status and headers by lower-case name. Each step blocks up to 10 s."""
    return ask(method, url, headers, body)[:2]


def ask(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Send one request like `send`, and return up to 16 MiB of the response's body too.

    Raises `OSError` if there is no response, or none by HTTP.
    """
    # Few servers have an object store, and the modules take 0.7 MB.
    import http.client

    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=_SECONDS)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body, dict(headers))
        answer = connection.getresponse()
        content = answer.read(_MAX_ANSWER_BYTES)
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
    except http.client.HTTPException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def _cors_problems(ticket: UploadTicket, origin: str) -> list[str]:
    names = ", ".join(name.lower() for name in ticket.headers)
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": ticket.method,
        "Access-Control-Request-Headers": names,
    }
    status, answered = send("OPTIONS", ticket.url, asked)
    allowed = answered.get("access-control-allow-origin")
    if 200 <= status < 300 and allowed in {"*", origin}:
        return []
    return [
        f"Browsers cannot upload directly: the bucket's CORS rules must allow {ticket.method} from {origin} "
        f"with the headers {names}, x-amz-checksum-sha256."
    ]


def cause(error: Exception) -> str:
    """Return what the store itself said."""
    return str(error.__cause__ or "nothing").partition("\n\nDebug source")[0]


async def _clock_problems(store: BlobStore, key: str) -> list[str]:
    info = await store.stat(key)
    if info is None:
        return ["The object store does not find a blob that was just stored."]
    skew = abs(info.modified_at - clock.now())
    if skew <= _MAX_SKEW:
        return []
    return [f"The clocks of this machine and of the object store differ by {round(skew.total_seconds())} seconds."]


async def _content() -> AsyncIterator[bytes]:
    yield _CONTENT
