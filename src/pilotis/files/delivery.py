"""Delivers files by their links to browsers, caches, and media players that seek.

Files are untrusted content. Whatever their type, a browser does not sniff another one, executes nothing in them, and
displays only types that are safe to display; it saves other files.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit
from uuid import UUID

import structlog

from pilotis.blobs.errors import BlobNotFoundError
from pilotis.blobs.protocol import BlobStore
from pilotis.blobs.reading import read_small
from pilotis.db.batching import Batcher
from pilotis.db.pool import Database
from pilotis.files import conditions, media, paths, store
from pilotis.files.access import RULES, creator_limit
from pilotis.files.errors import (
    FileNotFoundInStorageError,
    FileSignatureInvalidError,
    InvalidPathError,
    StorageMemberRequiredError,
)
from pilotis.files.images.variants import Variants
from pilotis.files.keys import blob_key
from pilotis.files.records import LinkedFile
from pilotis.files.ruling import Ruling, is_read_by_all
from pilotis.files.signatures import UrlSigner, expiry
from pilotis.files.types import LinkQuery, StorageAccess
from pilotis.http.api import capabilities
from pilotis.http.api.principals import AppInfo, Authenticator, Principal, PublicClient, Role, with_capabilities
from pilotis.http.api.request import RequestHead
from pilotis.http.replies.reply import FilePart, Reply, Stream
from pilotis.kit.generators import no_chunks, started

_SMALL = 64 * 1024
_REDIRECT_SECONDS = 300
_SHARED_REDIRECT_SECONDS = 60
_IMMUTABLE = "public, max-age=31536000, immutable"
_REVALIDATED = "public, max-age=0, must-revalidate"
_PRIVATE = "private, max-age=0, must-revalidate"
_NOT_STORED = "private, no-store"
"""Whoever follows a shared link."""
_NO_REFERRER = (b"referrer-policy", b"no-referrer")
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
    """Looks up the app of a storage."""

    async def by_id(self, app_id: UUID) -> AppInfo:
        """Return a live app."""


class Delivery:
    """Serves files by their links.

    `files_base_url` is the address of the host for files, if there is one: links under another name are redirected to
    it. With `redirects`, readers are redirected to the object store if it can be read directly and no browser runs
    anything in the file.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        signer: UrlSigner,
        authenticator: Authenticator,
        apps: AppFinder,
        variants: Variants,
        ruling: Ruling,
        *,
        files_base_url: str | None,
        redirects: bool,
    ) -> None:
        self._by_id: Batcher[tuple[UUID, UUID | str], LinkedFile | None] = Batcher(
            functools.partial(store.linked_files, database, "file_id")
        )
        self._by_path: Batcher[tuple[UUID, UUID | str], LinkedFile | None] = Batcher(
            functools.partial(store.linked_files, database, "path")
        )
        self._still_public: Batcher[tuple[UUID, UUID, int], bool] = Batcher(
            functools.partial(store.still_public, database)
        )
        self._blobs = blobs
        self._variants = variants
        self._ruling = ruling
        self._database = database
        self._signer = signer
        self._authenticator = authenticator
        self._apps = apps
        self._base_url = files_base_url
        self._host = urlsplit(files_base_url).netloc.lower() if files_base_url else None
        self._redirects = redirects

    async def by_id(self, request: RequestHead, storage_id: UUID, file_id: UUID, name: str, query: LinkQuery) -> Reply:
        """Send a file by its id; its content never changes unless it was uploaded to a path."""
        if redirect := self._redirect_to_files_host(request):
            return redirect
        row = await self._by_id.submit((storage_id, file_id))
        # Almost every link has the stored form of the name, and comparing is cheaper than normalising.
        if row is None or (name != row.name and row.name != _normal(paths.checked_name, name)):
            raise FileNotFoundInStorageError
        return await self._send(request, row, query, is_immutable=not row.is_fixed)

    async def by_path(self, request: RequestHead, storage_id: UUID, path: str, query: LinkQuery) -> Reply:
        """Send the current file at a path."""
        if redirect := self._redirect_to_files_host(request):
            return redirect
        row = await self._by_path.submit((storage_id, _normal(paths.checked_path, path)))
        if row is None:
            raise FileNotFoundInStorageError
        return await self._send(request, row, query, is_immutable=query.v == str(row.version))

    def _redirect_to_files_host(self, request: RequestHead) -> Reply | None:
        if self._host is None or request.inside or (request.header(b"host") or "").lower() == self._host:
            return None
        assert self._base_url is not None
        return Reply(b"", 308, [(b"location", self._base_url.encode() + request.target)])

    async def _send(self, request: RequestHead, row: LinkedFile, query: LinkQuery, *, is_immutable: bool) -> Reply:
        is_public = row.read_access == StorageAccess.PUBLIC.value
        if request.inside and (request.inside.app is None or request.inside.app.app_id != row.app_id):
            raise FileNotFoundInStorageError
        caching = _IMMUTABLE if is_immutable else _REVALIDATED
        if not is_public:
            caching = await self._require_reader(request, row, query)
        if query.is_variant:
            row = await self._variants.of(row, query, request.header(b"accept") or "")
        data = row.data
        key = blob_key(row.app_id, row.blob_id)
        shown = media.disposition(row.mime_type, row.name)
        redirects = self._redirects and data is None and request.method == "GET" and request.inside is None
        # The object store sends no sandbox.
        redirects = redirects and media.runs_nothing(row.mime_type)
        seconds = _SHARED_REDIRECT_SECONDS if caching == _NOT_STORED else _REDIRECT_SECONDS
        if redirects and (url := self._presigned(key, row, shown, seconds)):
            to_store = [(b"location", url.encode()), (b"cache-control", b"no-store")]
            return Reply(b"", 302, [*to_store, _NO_REFERRER] if caching == _NOT_STORED else to_store)
        etag = f'"{(row.sha256 or hashlib.sha256(row.blob_id.bytes).digest()).hex()}"'
        answer = conditions.evaluate(
            request.method, request.headers, etag=etag, modified_at=row.updated_at, size=row.size
        )
        headers = [
            (b"etag", etag.encode()),
            (b"last-modified", conditions.http_date(row.updated_at).encode()),
            (b"cache-control", caching.encode()),
            (b"cache-tag", f"file-{row.file_id}".encode()),
            (b"content-disposition", shown.encode()),
            *_GUARDS,
        ]
        if caching == _NOT_STORED:
            headers.append(_NO_REFERRER)
        if query.format == "auto":
            headers.append((b"vary", b"accept"))
        if answer.status == 304:
            return Reply(b"", 304, headers)
        if answer.status == 206:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (answer.start, answer.end - 1, row.size)))
        if data is not None and request.method != "HEAD":
            body: bytes | Stream | FilePart = data[answer.start : answer.end]
        else:
            body = await self._body(request, key, answer.start, answer.end)
        still_valid = None
        # The validity of a variant depends on more than its file.
        if is_public and not query.is_variant:
            known = (row.storage_id, row.file_id, row.version)
            still_valid = functools.partial(self._still_public.begin, known)
        return Reply(body, answer.status, headers, row.mime_type.encode("latin-1"), still_valid)

    async def _require_reader(self, request: RequestHead, row: LinkedFile, query: LinkQuery) -> str:
        """Return how the answer may be cached; raises an error unless the caller may read the file."""
        if query.signature:
            self._check_signature(row, query)
            return _PRIVATE
        principal = request.inside
        if principal is None:
            token = request.bearer()
            if token is None and row.read_access != RULES:
                raise StorageMemberRequiredError
            app = await self._apps.by_id(row.app_id)
            principal = PublicClient(app) if token is None else await self._authenticator.bearer(app, token)
            if text := query.capability or request.header(capabilities.HEADER):
                principal = with_capabilities(principal, capabilities.parse(text))
        if row.read_access == RULES:
            return await self._require_ruled_reader(principal, row)
        limit = creator_limit(principal, StorageAccess(row.read_access), Role.VIEWER)
        if limit is not None and row.creator != limit:
            raise FileNotFoundInStorageError
        return _PRIVATE

    async def _require_ruled_reader(self, principal: Principal, row: LinkedFile) -> str:
        """Do what `_require_reader` does for a storage with rules."""
        database = self._database.of(row.app_id)
        storage = await store.storage(database, row.app_id, row.storage_id)
        if storage is None:
            raise FileNotFoundInStorageError
        item = await store.item(database, row.app_id, row.storage_id, row.file_id)
        await self._ruling.require_readable(database, storage, principal, item)
        if principal.capabilities:
            return _NOT_STORED
        return _REVALIDATED if is_read_by_all(storage) else _PRIVATE

    def _check_signature(self, row: LinkedFile, query: LinkQuery) -> None:
        expires = expiry(query.expires)
        if expires is None:
            raise FileSignatureInvalidError
        accepted = self._signer.accepts_read(query.signature, row.storage_id, row.file_id, expires)
        if expires <= time.time() or not accepted:
            raise FileSignatureInvalidError

    def _presigned(self, key: str, row: LinkedFile, disposition: str, seconds: int) -> str | None:
        return self._blobs.presign_get(
            key, expires_seconds=seconds, disposition=disposition, content_type=row.mime_type
        )

    async def _body(self, request: RequestHead, key: str, start: int, end: int) -> bytes | Stream | FilePart:
        size = end - start
        if request.method == "HEAD" or not size:
            return Stream(size, no_chunks())
        try:
            if size <= _SMALL:
                return await read_small(self._blobs, key, start, end)
            if request.takes_files and (file := self._blobs.open_file(key)) is not None:
                return FilePart(file, start, size)
            return Stream(size, await started(self._blobs.open(key, start, end)))
        except BlobNotFoundError:
            _log.error("bytes are missing", key=key)
            raise


def _normal(check: Callable[[str], str], text: str) -> str:
    """Return a name or path in its stored form; an invalid one is not found."""
    try:
        return check(text)
    except InvalidPathError:
        raise FileNotFoundInStorageError from None
