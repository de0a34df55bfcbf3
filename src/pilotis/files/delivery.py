"""Sends files to whoever follows their links: browsers, caches, players that seek.

Files are untrusted content. Whatever their type says, a browser neither guesses another one nor runs anything in
them, and shows only what it can show safely; the rest it saves.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import AsyncGenerator, Callable
from typing import Protocol
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from asyncpg import Record

from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError
from pilotis.blobs.protocol import BlobStore
from pilotis.db.merging import Merger
from pilotis.db.pool import Database
from pilotis.files import conditions, media, paths, store
from pilotis.files.access import creator_limit
from pilotis.files.errors import (
    FileNotFoundInStorageError,
    FileSignatureInvalidError,
    InvalidPathError,
    StorageMemberRequiredError,
)
from pilotis.files.keys import blob_key
from pilotis.files.signatures import UrlSigner, expiry
from pilotis.files.types import LinkQuery, StorageAccess
from pilotis.files.variants import Content, Variants
from pilotis.http.call import Call
from pilotis.http.endpoint import FilePart, Reply, Stream
from pilotis.http.principals import AppInfo, Authenticator, Role

_SMALL = 64 * 1024
_REDIRECT_SECONDS = 300
_IMMUTABLE = "public, max-age=31536000, immutable"
_REVALIDATED = "public, max-age=0, must-revalidate"
_PRIVATE = "private, max-age=0, must-revalidate"
_GUARDS = [
    (b"x-content-type-options", b"nosniff"),
    (
        b"content-security-policy",
        b"default-src 'none'; media-src 'self'; style-src 'unsafe-inline'; sandbox",
    ),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"accept-ranges", b"bytes"),
]
_log = structlog.get_logger("pilotis.files")


class AppFinder(Protocol):
    """Finds the app that a storage belongs to."""

    async def by_id(self, app_id: UUID) -> AppInfo:
        """Return a live app."""


class Delivery:
    """Answers links to files.

    `files_base_url` is the address of files' own host, if they have one: links under another name are sent there.
    `redirects` sends readers on to the object store where it can be read directly.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        signer: UrlSigner,
        authenticator: Authenticator,
        apps: AppFinder,
        variants: Variants,
        *,
        files_base_url: str | None,
        redirects: bool,
    ) -> None:
        self._by_id: Merger[tuple[UUID, UUID | str], Record | None] = Merger(
            functools.partial(store.linked_files, database, "file_id")
        )
        self._by_path: Merger[tuple[UUID, UUID | str], Record | None] = Merger(
            functools.partial(store.linked_files, database, "path")
        )
        self._still_public: Merger[tuple[UUID, UUID, int], bool] = Merger(
            functools.partial(store.still_public, database)
        )
        self._blobs = blobs
        self._variants = variants
        self._signer = signer
        self._authenticator = authenticator
        self._apps = apps
        self._base_url = files_base_url
        self._host = urlsplit(files_base_url).netloc.lower() if files_base_url else None
        self._redirects = redirects

    async def by_id(self, call: Call, storage_id: UUID, file_id: UUID, name: str, query: LinkQuery) -> Reply:
        """Send a file that is named by its id; the content never changes unless it was uploaded to a path."""
        if elsewhere := self._elsewhere(call):
            return elsewhere
        row = await self._by_id.submit((storage_id, file_id))
        # Nearly every link names the file in its stored form, which takes longer to find out than to compare.
        if row is None or (name != row["name"] and row["name"] != _normal(paths.checked_name, name)):
            raise FileNotFoundInStorageError
        return await self._send(call, row, query, is_immutable=not row["is_fixed"])

    async def by_path(self, call: Call, storage_id: UUID, path: str, query: LinkQuery) -> Reply:
        """Send the file that is at a path now."""
        if elsewhere := self._elsewhere(call):
            return elsewhere
        row = await self._by_path.submit((storage_id, _normal(paths.checked_path, path)))
        if row is None:
            raise FileNotFoundInStorageError
        return await self._send(call, row, query, is_immutable=query.v == str(row["version"]))

    def _elsewhere(self, call: Call) -> Reply | None:
        if self._host is None or (call.header(b"host") or "").lower() == self._host:
            return None
        raw = call.scope["raw_path"] + (b"?" + call.scope["query_string"] if call.scope["query_string"] else b"")
        assert self._base_url is not None
        return Reply(b"", 308, [(b"location", self._base_url.encode() + raw)])

    async def _send(self, call: Call, row: Content, query: LinkQuery, *, is_immutable: bool) -> Reply:
        is_public = StorageAccess(row["read_access"]) is StorageAccess.PUBLIC
        if not is_public:
            await self._require_reader(call, row, query)
        if query.is_variant:
            row = await self._variants.of(row, query, call.header(b"accept") or "")
        data = row.get("data")
        key = blob_key(row["app_id"], row["blob_id"])
        shown = media.disposition(row["mime_type"], row["name"])
        redirects = self._redirects and data is None and call.scope["method"] == "GET"
        if redirects and (url := self._presigned(key, row, shown)):
            return Reply(b"", 302, [(b"location", url.encode()), (b"cache-control", b"no-store")])
        etag = f'"{row["sha256"].hex() if row["sha256"] else row["blob_id"].hex}"'
        answer = conditions.evaluate(
            call.scope["method"], call.headers, etag=etag, modified_at=row["updated_at"], size=row["size"]
        )
        caching = (_IMMUTABLE if is_immutable else _REVALIDATED) if is_public else _PRIVATE
        headers = [
            (b"etag", etag.encode()),
            (b"last-modified", conditions.http_date(row["updated_at"]).encode()),
            (b"cache-control", caching.encode()),
            (b"cache-tag", f"file-{row['file_id']}".encode()),
            (b"content-disposition", shown.encode()),
            *_GUARDS,
        ]
        if query.format == "auto":
            headers.append((b"vary", b"accept"))
        if answer.status == 304:
            return Reply(b"", 304, headers)
        if answer.status == 206:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (answer.start, answer.end - 1, row["size"])))
        if data is not None and call.scope["method"] != "HEAD":
            body: bytes | Stream | FilePart = data[answer.start : answer.end]
        else:
            body = await self._body(call, key, answer.start, answer.end)
        holds = None
        # Whether a variant is still the right one depends on more than its file.
        if is_public and not query.is_variant:
            known = (row["storage_id"], row["file_id"], row["version"])
            holds = functools.partial(self._still_public.submit, known)
        return Reply(body, answer.status, headers, row["mime_type"].encode("latin-1"), holds)

    async def _require_reader(self, call: Call, row: Content, query: LinkQuery) -> None:
        if query.signature:
            self._check_signature(row, query)
            return
        token = call.bearer()
        if token is None:
            raise StorageMemberRequiredError
        principal = await self._authenticator.bearer(await self._apps.by_id(row["app_id"]), token)
        limit = creator_limit(principal, StorageAccess(row["read_access"]), Role.VIEWER)
        if limit is not None and row["creator"] != limit:
            raise FileNotFoundInStorageError

    def _check_signature(self, row: Content, query: LinkQuery) -> None:
        expires = expiry(query.expires)
        if expires is None:
            raise FileSignatureInvalidError
        accepted = self._signer.accepts_read(query.signature, row["storage_id"], row["file_id"], expires)
        if expires <= time.time() or not accepted:
            raise FileSignatureInvalidError

    def _presigned(self, key: str, row: Content, disposition: str) -> str | None:
        return self._blobs.presign_get(
            key, expires_seconds=_REDIRECT_SECONDS, disposition=disposition, content_type=row["mime_type"]
        )

    async def _body(self, call: Call, key: str, start: int, end: int) -> bytes | Stream | FilePart:
        size = end - start
        if call.scope["method"] == "HEAD" or not size:
            return Stream(size, _nothing())
        try:
            if size <= _SMALL:
                return await self._whole(key, start, end)
            if call.takes_files and (file := self._blobs.open_file(key)) is not None:
                return FilePart(file, start, size)
            chunks = self._blobs.open(key, start, end)
            return Stream(size, _chained(await anext(chunks), chunks))
        except BlobNotFoundError:
            _log.error("bytes are missing", key=key)
            raise

    async def _whole(self, key: str, start: int, end: int) -> bytes:
        if (file := self._blobs.open_file(key)) is not None:
            data = _read(file, start, end - start)
        else:
            data = b"".join([chunk async for chunk in self._blobs.open(key, start, end)])
        if len(data) != end - start:
            raise BlobStoreUnavailableError
        return data


def _normal(check: Callable[[str], str], text: str) -> str:
    """Return a name or path in its stored form; one that cannot be stored is not found."""
    try:
        return check(text)
    except InvalidPathError:
        raise FileNotFoundInStorageError from None


def _read(file: int, start: int, size: int) -> bytes:
    # A few pages that are mostly in memory: handing them to a thread takes longer than reading them.
    try:
        return os.pread(file, size, start)
    finally:
        os.close(file)


async def _chained(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk


async def _nothing() -> AsyncGenerator[bytes]:
    none: tuple[bytes, ...] = ()
    for chunk in none:
        yield chunk
