"""Pages' metadata: written with the public key alone, so every value is untrusted and must be checked and escaped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from asyncpg import Connection

from pilotis.db.blocks import after_commit
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.topics import Topic, publish
from pilotis.hosting import page_store, storage_store
from pilotis.hosting.errors import DuplicatePathError, PageMetaNotFoundError, WebStorageNotFoundError
from pilotis.hosting.paths import page_path
from pilotis.hosting.storage_store import StorageRecord
from pilotis.hosting.types import (
    PageMeta,
    PageMetaBatchResult,
    PageMetaDeleted,
    PageMetaInput,
    PageMetaList,
    PageMetasDeleted,
)
from pilotis.hosting.views import page_meta_view
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit import json
from pilotis.kit.errors import invalid
from pilotis.security.audit.service import record

MAX_JSON_LD = 16_000
_EXTRA = (
    "keywords",
    "canonical_url",
    "robots",
    "twitter_card",
    "site_name",
    "locale",
    "json_ld",
    "include_in_sitemap",
    "sitemap_priority",
)


class Pages:
    """The metadata of the pages of an app's sites. `changed` is called with a storage changed by this process."""

    def __init__(self, database: Database, changed: Callable[[UUID], None]) -> None:
        self._database = database
        self._changed = changed

    async def put(self, app: AppInfo, actor: Actor, storage_id: UUID, page: PageMetaInput) -> PageMeta:
        """Write the metadata of a page, replacing the old."""
        return (await self._put(app, actor, storage_id, [page], "page_meta.put"))[0]

    async def put_all(
        self, app: AppInfo, actor: Actor, storage_id: UUID, pages: Sequence[PageMetaInput]
    ) -> PageMetaBatchResult:
        """Write the metadata of several pages: all or none."""
        written = await self._put(app, actor, storage_id, pages, "page_meta.batch")
        return PageMetaBatchResult(written, len(pages), len(written))

    async def page(self, app: AppInfo, storage_id: UUID, paging: Paging) -> PageMetaList:
        """Return a page of a storage's pages, sorted by path."""
        await self._clean_urls(self._database.of(app.app_id), app.app_id, storage_id)
        limit = app.limits.page_size(paging.limit)
        rows, total = await page_store.page_metas(self._database, app.app_id, storage_id, limit, paging.offset)
        return PageMetaList(
            pages=[page_meta_view(row) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def read(self, app_id: UUID, storage_id: UUID, path: str) -> PageMeta:
        """Return the metadata of a page; raises `PageMetaNotFoundError`."""
        key = _key(path, "path", clean_urls=await self._clean_urls(self._database.of(app_id), app_id, storage_id))
        row = await page_store.page_meta(self._database, app_id, storage_id, key)
        if row is None:
            raise PageMetaNotFoundError
        return page_meta_view(row)

    async def delete(self, app_id: UUID, actor: Actor, storage_id: UUID, path: str) -> PageMetaDeleted:
        """Delete the metadata of a page; raises `PageMetaNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            storage = await self._locked(connection, app_id, storage_id)
            key = _key(path, "path", clean_urls=storage.clean_urls)
            if not await page_store.delete_page_meta(connection, app_id, storage_id, key):
                raise PageMetaNotFoundError
            await record(connection, app_id, actor, "page_meta.delete", storage_id, path=key)
            await self._announce(connection, app_id, storage_id)
        return PageMetaDeleted("Metadata deleted.", key)

    async def delete_all(self, app_id: UUID, actor: Actor, storage_id: UUID) -> PageMetasDeleted:
        """Delete the metadata of all pages of a storage."""
        async with self._database.transaction(app_id) as connection:
            await self._locked(connection, app_id, storage_id)
            count = await page_store.delete_page_metas(connection, app_id, storage_id)
            await record(connection, app_id, actor, "page_meta.delete_all", storage_id, count=count)
            await self._announce(connection, app_id, storage_id)
        return PageMetasDeleted("Metadata deleted.", count)

    async def _put(
        self, app: AppInfo, actor: Actor, storage_id: UUID, pages: Sequence[PageMetaInput], action: str
    ) -> list[PageMeta]:
        app_id = app.app_id
        async with self._database.transaction(app_id) as connection:
            storage = await self._locked(connection, app_id, storage_id)
            if not pages:
                return []
            rows = _rows(pages, clean_urls=storage.clean_urls)
            written = await page_store.put_page_metas(connection, app_id, storage_id, rows)
            if await page_store.count_page_metas(connection, app_id, storage_id) > app.limits.page_metas:
                limit = app.limits.page_metas
                raise invalid("path", f"A web storage has metadata of at most {limit} pages.", "TOO_MANY_PAGES")
            await record(connection, app_id, actor, action, storage_id, paths=[row[0] for row in rows][:10])
            await self._announce(connection, app_id, storage_id)
        by_path = {row.path: page_meta_view(row) for row in written}
        return [by_path[row[0]] for row in rows]

    async def _announce(self, connection: Connection, app_id: UUID, storage_id: UUID) -> None:
        await storage_store.count_change(connection, app_id, storage_id)
        await publish(connection, Topic.SITE, storage_id)
        after_commit(connection, functools.partial(self._changed, storage_id))

    async def _locked(self, connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord:
        """Return the storage, locked before its pages, as every change of a site does."""
        storage = await storage_store.lock_storage(connection, app_id, storage_id)
        if storage is None:
            raise WebStorageNotFoundError
        return storage

    async def _clean_urls(self, connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> bool:
        storage = await storage_store.storage(connection, app_id, storage_id)
        if storage is None:
            raise WebStorageNotFoundError
        return storage.clean_urls


def _rows(pages: Sequence[PageMetaInput], *, clean_urls: bool) -> list[tuple[Any, ...]]:
    rows, seen = [], set()
    for at, page in enumerate(pages):
        place = f"pages[{at}]." if len(pages) > 1 else ""
        path = _key(page.path, f"{place}path", clean_urls=clean_urls)
        if path in seen:
            raise DuplicatePathError(f"{path} is the path of two of the pages.")
        seen.add(path)
        _check(page, place)
        extra = {name: value for name in _EXTRA if (value := getattr(page, name)) is not None and value != ""}
        main = (page.title, page.description, page.image, page.og_type)
        rows.append((path, *(value or None for value in main), json.encode(extra).decode()))
    return rows


def _check(page: PageMetaInput, place: str) -> None:
    for name in ("image", "canonical_url"):
        value = getattr(page, name)
        if value and not _is_address(value):
            raise invalid(f"{place}{name}", f"{place}{name}: an http or https URL, or a path that begins with /.")
    if page.json_ld is not None and len(json.encode(page.json_ld)) > MAX_JSON_LD:
        raise invalid(f"{place}json_ld", f"{place}json_ld: at most {MAX_JSON_LD} bytes of JSON are expected.")
    for field in PageMetaInput.__struct_fields__:
        value = getattr(page, field)
        if isinstance(value, str) and any(ord(c) < 0x20 and c not in "\t\n\r" for c in value):
            raise invalid(f"{place}{field}", f"{place}{field}: control characters are not allowed.")


def _is_address(text: str) -> bool:
    if any(ord(c) <= 0x20 or ord(c) == 0x7F or c == "\\" for c in text):
        return False
    if text.startswith("/"):
        return not text.startswith("//")
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def _key(path: str, field: str, *, clean_urls: bool) -> str:
    if not path:
        raise invalid(field, f"{field}: the path of a page is expected, such as /posts/42.", "REQUIRED")
    try:
        return page_path(path, clean_urls=clean_urls)
    except ValueError as error:
        raise invalid(field, f"{field}: {error}", "INVALID_PATH") from None
