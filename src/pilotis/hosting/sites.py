"""A node's cache of sites: the site of a host, its release, its pages' metadata.

A `View` is what one host serves. A request uses one view from its beginning to its end, so its response is from one
deployment. The transaction of every change of a site notifies all nodes; a node that receives no
notification checks after `VALID_SECONDS` whether the site has changed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from uuid import UUID

import msgspec

from pilotis.blobs.errors import BlobNotFoundError
from pilotis.db.batching import SingleFlight
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.hosting import page_store, site_store
from pilotis.hosting.contents import Contents
from pilotis.hosting.names import Addresses, SiteName, parse_label
from pilotis.hosting.paths import HEADERS_FILE, REDIRECTS_FILE
from pilotis.hosting.ports import MAX_PORTS
from pilotis.hosting.resolution import ERROR_PAGE, Layout
from pilotis.hosting.rules import MAX_RULES_BYTES, NO_REDIRECTS, HeaderRule, parse_headers, parse_redirects
from pilotis.hosting.site_store import ServedFile, Site
from pilotis.hosting.types import PageMeta
from pilotis.hosting.views import page_meta_view

VALID_SECONDS = 5.0
_MAX_HOSTS = 10_000
_MAX_UNKNOWN = 10_000
_MAX_HOST = 253
_MAX_PAGES = 1_000
_ENTRY_BYTES = 600
_UNKNOWN_SECONDS = 2.0


class Release(msgspec.Struct, frozen=True, eq=False):
    """The files and rules of a deployment; `deployed` is the date at which it became ready, as in RFC 3339."""

    deployment_id: UUID
    deployed: str
    layout: Layout
    files: Mapping[str, ServedFile]

    @property
    def size(self) -> int:
        """The approximate memory use, in bytes."""
        return _ENTRY_BYTES * (len(self.files) + 1)


class View(msgspec.Struct, eq=False):
    """What a host serves until `valid_until`, by the monotonic clock; a change of the site ends it.

    `is_preview`: QA or a version, which search engines must not index. `origin` is the address of production.
    """

    site: Site
    release: Release | None
    is_preview: bool
    origin: str
    valid_until: float
    pages: dict[str, PageMeta | None] = {}
    account_script: bytes | None = None
    verified: set[bytes] = set()

    @property
    def has_password(self) -> bool:
        """Whether every request to the host needs a password."""
        return self.is_preview and self.site.qa_password_hash is not None

    @property
    def is_valid(self) -> bool:
        """Whether the view may still be used."""
        return self.valid_until > monotonic()


class Sites:
    """Finds the view of a host; `max_bytes` bounds the memory of releases."""

    def __init__(
        self, database: Database, contents: Contents, control: Control, addresses: Addresses, max_bytes: int
    ) -> None:
        self._database = database
        self._contents = contents
        self._control = control
        self._addresses = addresses
        self._max_bytes = max_bytes
        self._views: OrderedDict[str, View] = OrderedDict()
        self._unknown: dict[str, float] = {}
        self._releases: OrderedDict[UUID, Release] = OrderedDict()
        self._release_bytes = 0
        self._loading: SingleFlight[View | None] = SingleFlight()
        self._changes = 0
        self._domains: frozenset[str] = frozenset()
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_again = False

    async def start(self) -> None:
        """Subscribe to changes, and load the domains."""
        self._control.subscribe(Topic.SITE, self._on_change, self._reset)
        self._domains = frozenset(await site_store.verified_hostnames(self._database))
        if self._addresses.ports:
            # So that an address that somebody keeps leads to the site again after a restart.
            for slug in await site_store.newest_slugs(self._database, MAX_PORTS // 5):
                self._addresses.production(slug)
                self._addresses.qa(slug)

    async def close(self) -> None:
        """Cancel running tasks."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])

    def is_site(self, host: str) -> bool:
        """Whether a host is below the sites' domain, or is a site's own domain."""
        return host.endswith(self._addresses.suffix) or host in self._domains

    def is_domain(self, host: str) -> bool:
        """Whether a host is a site's own domain."""
        return host in self._domains

    def named(self, host: str) -> SiteName | None:
        """Return which site's production or QA a host below the sites' domain names, if it names any."""
        if not host.endswith(self._addresses.suffix):
            return None
        name = parse_label(host.removesuffix(self._addresses.suffix))
        return name if name is not None and name.version is None else None

    async def served_names(self, hosts: Sequence[str]) -> list[str]:
        """Return those of hosts below the sites' domain at which a deployment is in production or QA."""
        names = {host: name for host in hosts if (name := self.named(host)) is not None}
        found = await site_store.deployed_slugs(self._database, [name.slug for name in names.values()])
        return [host for host, name in names.items() if (name.slug, name.is_qa) in found]

    def cached(self, host: str) -> View | None:
        """Return the view of a host if it is cached and valid."""
        view = self._views.get(host)
        return view if view is not None and view.is_valid else None

    async def view(self, host: str) -> View | None:
        """Return what a host serves; None if there is no site, or no such deployment."""
        if view := self.cached(host):
            return view
        if len(host) > _MAX_HOST:
            return None
        if self._unknown.get(host, 0) > monotonic():
            return None
        return await self._loading.run(host, lambda: self._load(host))

    def changed(self, storage_id: UUID) -> None:
        """Invalidate the cached data of a site."""
        self._changes += 1
        self._unknown.clear()
        self._drop_hosts([host for host, view in self._views.items() if view.site.storage_id == storage_id])

    def domains_changed(self) -> None:
        """Reload the domains."""
        self._refresh_again = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def page_meta(self, view: View, key: str) -> PageMeta | None:
        """Return the metadata of a page of a view."""
        if not view.site.has_metas:
            return None
        if key in view.pages:
            return view.pages[key]
        row = await page_store.page_meta(self._database, view.site.app_id, view.site.storage_id, key)
        meta = page_meta_view(row) if row else None
        if len(view.pages) < _MAX_PAGES:
            view.pages[key] = meta
        return meta

    async def preserved(self, view: View, path: str) -> ServedFile | None:
        """Return the file that a path recently had in production."""
        return await site_store.preserved_file(self._database, view.site.app_id, view.site.storage_id, path)

    def _on_change(self, key: str) -> None:
        storage_id, _, deployment_id = key.partition("/")
        if key == "domains":
            self.domains_changed()
            return
        if deployment_id:
            self._drop_release(UUID(deployment_id))
        self.changed(UUID(storage_id))

    def _reset(self) -> None:
        self._changes += 1
        self._drop_hosts(list(self._views))
        self._unknown.clear()
        self._releases.clear()
        self._release_bytes = 0
        self.domains_changed()

    async def _refresh(self) -> None:
        while self._refresh_again:
            self._refresh_again = False
            try:
                self._domains = frozenset(await site_store.verified_hostnames(self._database))
                self._drop_hosts(list(self._views))
                self._unknown.clear()
            except Exception:
                self._refresh_again = True
                await asyncio.sleep(1)

    async def _load(self, host: str) -> View | None:
        changes = self._changes
        known = self._views.get(host)
        if known is not None:
            revision = await site_store.revision(self._database, known.site.app_id, known.site.storage_id)
            if revision == known.site.revision and self._views.get(host) is known:
                known.valid_until = monotonic() + VALID_SECONDS
                return known
        view = await self._create_view(host, monotonic() + VALID_SECONDS)
        if changes != self._changes:
            # Only the requests that wait for the result may use it.
            if view is not None:
                view.valid_until = 0.0
            return view
        self._drop_hosts([host])
        if view is None:
            if len(self._unknown) >= _MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown[host] = monotonic() + _UNKNOWN_SECONDS
            return None
        self._views[host] = view
        if len(self._views) > _MAX_HOSTS:
            self._drop_hosts([next(iter(self._views))])
        return view

    def _drop_hosts(self, hosts: Iterable[str]) -> None:
        """Drop the views of hosts, and invalidate them, because responses are cached with them."""
        for host in hosts:
            view = self._views.pop(host, None)
            if view is not None:
                view.valid_until = 0.0

    async def _create_view(self, host: str, valid_until: float) -> View | None:
        name = None
        if host.endswith(self._addresses.suffix):
            name = parse_label(host.removesuffix(self._addresses.suffix))
            site = await site_store.site_by_slug(self._database, name.slug) if name else None
        else:
            site = await site_store.site_by_hostname(self._database, host)
        if site is None:
            return None
        deployment_id = site.production_id
        if name is not None and name.is_qa:
            deployment_id = site.qa_id
        elif name is not None and name.version is not None:
            deployment_id = await site_store.ready_version(self._database, site.app_id, site.storage_id, name.version)
            if deployment_id is None:
                return None
        release = await self._release(site.app_id, deployment_id) if deployment_id else None
        is_preview = name is not None and (name.is_qa or name.version is not None)
        origin = self._addresses.production(site.slug) if name else self._addresses.of_domain(host)
        return View(site, release, is_preview, origin, valid_until)

    async def _release(self, app_id: UUID, deployment_id: UUID) -> Release | None:
        if release := self._releases.get(deployment_id):
            self._releases.move_to_end(deployment_id)
            return release
        changes = self._changes
        files = await site_store.served_files(self._database, app_id, deployment_id)
        if not files:
            return None
        redirects = NO_REDIRECTS
        headers: list[HeaderRule] = []
        if (text := await self._rules_text(app_id, files.get(REDIRECTS_FILE))) is not None:
            redirects, _ = parse_redirects(text)
        if (text := await self._rules_text(app_id, files.get(HEADERS_FILE))) is not None:
            headers, _ = parse_headers(text)
        has_error_page = any(path == ERROR_PAGE or path.endswith(f"/{ERROR_PAGE}") for path in files)
        deployed = await site_store.ready_date(self._database, app_id, deployment_id)
        release = Release(deployment_id, deployed, Layout(files, redirects, headers, has_error_page), files)
        if changes == self._changes:
            self._drop_release(deployment_id)
            self._releases[deployment_id] = release
            self._release_bytes += release.size
            while self._release_bytes > self._max_bytes and len(self._releases) > 1:
                self._drop_release(next(iter(self._releases)))
        return release

    def _drop_release(self, deployment_id: UUID) -> None:
        """Drop a release, and the views that use it."""
        release = self._releases.pop(deployment_id, None)
        if release is None:
            return
        self._release_bytes -= release.size
        self._drop_hosts([host for host, view in self._views.items() if view.release is release])

    async def _rules_text(self, app_id: UUID, file: ServedFile | None) -> str | None:
        if file is None or file.size > MAX_RULES_BYTES:
            return None
        try:
            return (await self._contents.read(app_id, file.blob_id)).decode("utf-8", "replace")
        except BlobNotFoundError:
            return None
