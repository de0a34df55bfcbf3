"""Serves requests to sites. Every path on a site's host belongs to the site."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

import brotli
import msgspec

from pilotis.blobs.protocol import BlobStore
from pilotis.blobs.reading import read_small
from pilotis.db.pool import Database
from pilotis.hosting import media, page_store, representations, sitemaps
from pilotis.hosting.contents import Contents, key_of
from pilotis.hosting.deploys import AppFinder
from pilotis.hosting.errors import PreviewPasswordRequiredError, SiteNotFoundError
from pilotis.hosting.heads import find_slots, with_meta
from pilotis.hosting.paths import page_key, request_path, to_url
from pilotis.hosting.representations import BROTLI, GZIP, IDENTITY, Encoding
from pilotis.hosting.resolution import Found, Moved, fall_back, is_navigation, resolve
from pilotis.hosting.rules import apply_headers
from pilotis.hosting.site_store import ServedFile
from pilotis.hosting.sites import Release, Sites, View
from pilotis.hosting.types import PageMeta
from pilotis.http.api.cors import Headers
from pilotis.http.api.hosts import normalised_host
from pilotis.http.api.principals import Client
from pilotis.http.reference.sdk import account_script
from pilotis.http.replies.reply import FilePart, Reply, Stream
from pilotis.http.server.cached_answers import CachedAnswer, cached_answer
from pilotis.kit.account_settings import pages_path
from pilotis.kit.addresses import one_client
from pilotis.kit.errors import MethodNotAllowedError
from pilotis.kit.generators import no_chunks, started
from pilotis.kit.passwords import Passwords
from pilotis.security.rate_limits import RateLimits

MAX_CACHED = 256 << 10
"""Bytes up to which an answer's body is cached in memory."""
MAX_RENDERED = 4 << 20
"""Bytes up to which metadata is inserted into a page."""
MAX_HOST_BYTES = 260
"""A host name has at most 253 characters (RFC 1035, section 2.3.4); a port follows."""
ACCOUNT_SCRIPT = "/sdk/v1/account.js"
"""The script of a page's sign-in, which on a site knows the app."""
WELL_KNOWN = "/.well-known/"
"""Below it programs look for what they know the names of (RFC 8615)."""
CHANGE_PAGE = "/.well-known/change-password"
"""Where password managers look for the page that changes a password (W3C, A Well-Known URL for Changing Passwords)."""
_MAX_HOSTS = 10_000
_OVERHEAD = 600
# With one of these headers the response may differ from that for the path alone.
_SPECIAL = frozenset({b"if-match", b"if-range", b"range"})
_GUARDS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"strict-origin-when-cross-origin"),
]
_VARY = (b"vary", b"accept-encoding")
_NOINDEX = (b"x-robots-tag", b"noindex")


_Key = tuple[str, bytes, representations.Accepted]


class SiteRequest(NamedTuple):
    """A request to a site. `sends_directly`: the server can send cached answers, and parts of open files."""

    method: str
    raw_path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    client: Client
    sends_directly: bool


class _Cached(NamedTuple):
    """The cached responses for a path of a host while the view is valid: the 200, and the 304."""

    view: View
    sha256: bytes
    encoding: Encoding
    whole: CachedAnswer
    unmodified: bytes

    @property
    def size(self) -> int:
        """The approximate memory use, in bytes."""
        return _OVERHEAD + len(self.whole.head) + len(self.unmodified) + len(self.whole.body)


class _Body(NamedTuple):
    """The body of a response: in memory, or a content in one form."""

    sha256: bytes
    encoding: Encoding
    size: int
    data: bytes | None
    file: ServedFile | None


class _Chosen(NamedTuple):
    """The file or text to send. `is_shared`: it is the same for every client that requests the path."""

    path: str
    file: ServedFile
    status: int
    is_shared: bool


class SiteApps(AppFinder, Protocol):
    """Finds the app of a site, and how its pages reach it."""

    async def page_key(self, app_id: UUID, origin: str) -> str | None:
        """Return a public key of the app for pages of an origin, None if no unrevoked one permits it."""


class Serving:
    """Serves requests to sites; `max_bytes` bounds the memory of cached responses."""

    def __init__(
        self,
        database: Database,
        sites: Sites,
        contents: Contents,
        blobs: BlobStore,
        passwords: Passwords,
        rate_limits: RateLimits,
        apps: SiteApps,
        max_bytes: int,
        base_url: str,
    ) -> None:
        """`base_url` is the server's, which has the account pages."""
        self._database = database
        self._apps = apps
        self._base_url = base_url
        self._sites = sites
        self._contents = contents
        self._blobs = blobs
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._max_bytes = max_bytes
        self._answers: OrderedDict[_Key, _Cached] = OrderedDict()
        self.cached_bytes = 0
        self._hosts: dict[bytes, str] = {}

    def cached(self, target: bytes, headers: Mapping[bytes, bytes]) -> CachedAnswer | None:
        """Return the answer to a GET request if it is cached; see `FindCached`."""
        host = self._hosts.get(headers.get(b"host", b""))
        if host is None:
            return None
        takes = representations.accepted(headers.get(b"accept-encoding"))
        key = (host, target.partition(b"?")[0], takes)
        found = self._answers.get(key)
        if found is None or not found.view.is_valid or not _SPECIAL.isdisjoint(headers):
            return None
        self._answers.move_to_end(key)
        known = representations.known_etag(headers.get(b"if-none-match"), found.sha256, found.encoding, takes)
        return found.whole if known is None else CachedAnswer(304, b"%betag: %b\r\n" % (found.unmodified, known), b"")

    async def answer(self, request: SiteRequest) -> Reply:
        """Answer a request to a host of a site."""
        host = self._host(request.headers.get(b"host", b""))
        view = self._sites.cached(host)
        if view is None:
            view = await self._sites.view(host)
        if view is None:
            raise SiteNotFoundError
        if view.has_password:
            await self._require_password(request, view)
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowedError("A site supports GET and HEAD.", headers={"Allow": "GET, HEAD"})
        return await self._answer(request, host, view)

    def _host(self, header: bytes) -> str:
        host = self._hosts.get(header)
        if host is None:
            host = normalised_host(header.decode("latin-1"))
            # Clients choose this text, so only possible names are cached, and only a limited number.
            if len(header) <= MAX_HOST_BYTES:
                if len(self._hosts) >= _MAX_HOSTS:
                    self._hosts.clear()
                self._hosts[header] = host
        return host

    async def _answer(self, request: SiteRequest, host: str, view: View) -> Reply:
        path, query = request_path(request.raw_path), request.query
        if view.release is None or path is None:
            return _plain(404, view)
        if (built_in := await self._built_in(view, view.release, path)) is not None:
            return built_in
        chosen = await self._choose(request, host, view, view.release, path, query)
        if isinstance(chosen, Moved):
            headers = [(b"location", chosen.location), (b"cache-control", media.REVALIDATED.encode()), *_GUARDS]
            return Reply(b"", chosen.status, _finished(view, headers), b"text/plain; charset=utf-8")
        if chosen is None:
            return _plain(404, view)
        return await self._send(request, host, view, path, chosen)

    async def _choose(
        self, request: SiteRequest, host: str, view: View, release: Release, path: str, query: bytes
    ) -> _Chosen | Moved | None:
        outcome = resolve(release.layout, view.site.rules, path, query)
        if isinstance(outcome, Moved):
            return outcome
        if isinstance(outcome, Found):
            return _Chosen(outcome.path, release.files[outcome.path], outcome.status, True)
        if not view.is_preview and media.is_fingerprinted(path[1:]):
            preserved = await self._sites.preserved(view, path[1:])
            if preserved is not None:
                return _Chosen(path[1:], preserved, 200, True)
        if path == CHANGE_PAGE and self._sites.is_domain(host):
            return await self._password_page(view)
        has_meta = await self._meta(view, path) is not None

        def is_page() -> bool:
            # What is not there must not seem to be, or programs that look for it take the page for it.
            if path.startswith(WELL_KNOWN):
                return has_meta
            headers = request.headers
            return has_meta or is_navigation(headers.get(b"sec-fetch-mode"), headers.get(b"accept"), path)

        found = fall_back(release.layout, view.site.rules, path, is_page=is_page)
        if found is None:
            return None
        return _Chosen(found.path, release.files[found.path], found.status, has_meta and found.status == 200)

    async def _password_page(self, view: View) -> Moved | None:
        """Return the way to the page on which members change their passwords; None where they have none."""
        app = await self._apps.by_id(view.site.app_id)
        if not app.allow_id_password_login:
            return None
        return Moved(302, f"{self._base_url}{pages_path(app.app_id)}/account?part=password".encode("ascii"))

    async def _send(self, request: SiteRequest, host: str, view: View, path: str, chosen: _Chosen) -> Reply:
        headers = request.headers
        wanted = headers.get(b"range") if request.method == "GET" and chosen.status == 200 else None
        takes = (
            representations.NOTHING_ACCEPTED
            if wanted is not None
            else representations.accepted(headers.get(b"accept-encoding"))
        )
        key = (host, request.raw_path, takes)
        body = await self._body(view, path, chosen, key)
        tag = representations.etag(body.sha256, body.encoding)
        lines = [
            (b"etag", tag),
            (b"cache-control", media.cache_control(chosen.path).encode()),
            (b"accept-ranges", b"bytes"),
            *_GUARDS,
        ]
        if view.release is not None:
            apply_headers(view.release.layout.headers, path, lines)
        if media.is_compressible(chosen.file.content_type, media.MIN_COMPRESSED):
            lines.append(_VARY)
        if body.encoding:
            lines.append((b"content-encoding", body.encoding.encode()))
        if chosen.status == 404:
            lines = [line for line in lines if line[0] not in {b"cache-control", b"etag"}]
            lines.append((b"cache-control", b"no-store"))
        lines = _finished(view, lines)
        content_type = chosen.file.content_type.encode("latin-1")
        if (given := [line for line in lines if line[0] == b"content-type"]) and given:
            content_type = given[-1][1]
            lines = [line for line in lines if line[0] != b"content-type"]
        is_shared = chosen.status == 200 and chosen.is_shared
        if is_shared and body.data is not None:
            # A rendered page is not rendered again for conditions and ranges.
            self._keep(view, key, body, lines, content_type, body.data)
        if chosen.status == 200:
            known = representations.known_etag(headers.get(b"if-none-match"), body.sha256, body.encoding, takes)
            if known is not None:
                return Reply(b"", 304, [*_unmodified(lines), (b"etag", known)])
        span = representations.span_of(wanted, headers.get(b"if-range"), tag, body.size)
        if span == "invalid":
            lines.append((b"content-range", b"bytes */%d" % body.size))
            return Reply(b"", 416, lines, b"text/plain; charset=utf-8")
        start, end = (span.start, span.end) if span else (0, body.size)
        status = chosen.status
        if span is not None:
            lines.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, body.size)))
            status = 206
        data = await self._bytes(request, view, body, start, end)
        if is_shared and wanted is None and isinstance(data, bytes) and body.data is None:
            self._keep(view, key, body, lines, content_type, data)
        return Reply(data, status, lines, content_type)

    async def _body(self, view: View, path: str, chosen: _Chosen, key: _Key) -> _Body:
        file, takes = chosen.file, key[2]
        if media.is_html(file.content_type) and file.size <= MAX_RENDERED:
            meta = await self._meta(view, path)
            if meta is not None:
                if (cached := self._answers.get(key)) is not None and cached.view is view:
                    return _Body(cached.sha256, cached.encoding, len(cached.whole.body), cached.whole.body, None)
                page = await self._contents.read(view.site.app_id, file.blob_id)
                encoding: Encoding = BROTLI if takes.brotli else GZIP if takes.gzip else IDENTITY
                if file.size < media.MIN_COMPRESSED:
                    encoding = IDENTITY
                sha256, data = await self._contents.in_thread(
                    _rendered, page, meta, view.origin, to_url(path), encoding
                )
                return _Body(sha256, encoding, len(data), data, None)
        if takes.brotli and file.brotli:
            return _Body(file.sha256, BROTLI, file.brotli[1], None, file)
        if takes.gzip and file.gzip:
            return _Body(file.sha256, GZIP, file.gzip[1], None, file)
        return _Body(file.sha256, IDENTITY, file.size, None, file)

    async def _bytes(
        self, request: SiteRequest, view: View, body: _Body, start: int, end: int
    ) -> bytes | Stream | FilePart:
        size = end - start
        if body.data is not None:
            return body.data[start:end]
        if request.method == "HEAD" or not size:
            return Stream(size, no_chunks())
        assert body.file is not None
        forms = {BROTLI: body.file.brotli, GZIP: body.file.gzip}
        form = forms.get(body.encoding)
        key = key_of(view.site.app_id, form[0] if form else body.file.blob_id)
        if size <= MAX_CACHED:
            return await read_small(self._blobs, key, start, end)
        if request.sends_directly and (descriptor := self._blobs.open_file(key)) is not None:
            return FilePart(descriptor, start, size)
        return Stream(size, await started(self._blobs.open(key, start, end)))

    def _keep(self, view: View, key: _Key, body: _Body, headers: Headers, content_type: bytes, data: bytes) -> None:
        """Cache an answer that is the same for all clients that request the path and accept the same encodings."""
        if len(data) > MAX_CACHED or view.has_password:
            return
        given = [(b"content-type", content_type), (b"content-length", b"%d" % len(data)), *headers]
        unmodified = cached_answer(304, _unmodified(headers), b"").head
        answer = _Cached(view, body.sha256, body.encoding, cached_answer(200, given, data), unmodified)
        self._drop(key)
        self._answers[key] = answer
        self.cached_bytes += answer.size + len(key[1])
        while self.cached_bytes > self._max_bytes and self._answers:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: _Key) -> None:
        former = self._answers.pop(key, None)
        if former is not None:
            self.cached_bytes -= former.size + len(key[1])

    async def _meta(self, view: View, path: str) -> PageMeta | None:
        if not view.site.has_metas:
            return None
        try:
            key = page_key(path, clean_urls=view.site.rules.clean_urls)
        except ValueError:
            return None
        return await self._sites.page_meta(view, key)

    async def _built_in(self, view: View, release: Release, path: str) -> Reply | None:
        """Return robots.txt, sitemap.xml or the script of the sign-in if the site has none.

        The robots.txt that excludes previews is always returned.
        """
        if path == "/robots.txt" and view.is_preview:
            return _text(view, sitemaps.PREVIEW_ROBOTS, b"text/plain; charset=utf-8")
        if path[1:] in release.files:
            return None
        if path == ACCOUNT_SCRIPT:
            return _text(view, await self._account_script(view), b"text/javascript; charset=utf-8")
        if path == "/robots.txt":
            return _text(view, sitemaps.robots(view.origin), b"text/plain; charset=utf-8")
        if path == "/sitemap.xml":
            rows = await page_store.sitemap_metas(
                self._database, view.site.app_id, view.site.storage_id, sitemaps.MAX_URLS
            )
            metas = {}
            for key, extra_text, changed in rows:
                extra = msgspec.json.decode(extra_text)
                metas[key] = sitemaps.SitemapPage(
                    changed,
                    extra.get("include_in_sitemap"),
                    extra.get("sitemap_priority"),
                    "noindex" in (extra.get("robots") or "").lower(),
                )
            text = sitemaps.sitemap(
                view.origin, release.files, metas, release.deployed, clean_urls=view.site.rules.clean_urls
            )
            return _text(view, text, b"application/xml")
        return None

    async def _account_script(self, view: View) -> bytes:
        if view.account_script is None:
            key = await self._apps.page_key(view.site.app_id, view.origin)
            view.account_script = account_script(self._base_url, key)
        return view.account_script

    async def _require_password(self, request: SiteRequest, view: View) -> None:
        """Raise `PreviewPasswordRequiredError` unless the request has the password (RFC 7617) for any user name."""
        header = request.headers.get(b"authorization", b"")
        scheme, _, encoded = header.partition(b" ")
        if scheme.lower() != b"basic":
            raise PreviewPasswordRequiredError
        digest = hashlib.sha256(header).digest()
        if digest in view.verified:
            return
        try:
            password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            raise PreviewPasswordRequiredError from None
        key = f"preview:{view.site.storage_id}:{one_client(request.client.address)}"
        await self._rate_limits.attempt_password(request.client, None, key)
        if not await self._passwords.verify(view.site.qa_password_hash, password):
            raise PreviewPasswordRequiredError
        view.verified.add(digest)


def _finished(view: View, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer, including those that no rule of the site can change."""
    if not view.is_preview:
        return headers
    return [*(header for header in headers if header[0] != b"x-robots-tag"), _NOINDEX]


def _plain(status: int, view: View) -> Reply:
    headers = _finished(view, [(b"cache-control", b"no-store"), *_GUARDS])
    return Reply(b"Not found\n", status, headers, b"text/plain; charset=utf-8")


def _text(view: View, data: bytes, content_type: bytes) -> Reply:
    headers = _finished(view, [(b"cache-control", media.REVALIDATED.encode()), *_GUARDS])
    return Reply(data, 200, headers, content_type)


def _rendered(page: bytes, meta: PageMeta, origin: str, path: str, encoding: Encoding) -> tuple[bytes, bytes]:
    """Return a page with metadata in an encoding, and the SHA-256 of the unencoded page."""
    data = with_meta(page, find_slots(page), meta, origin=origin, path=path)
    sha256 = hashlib.sha256(data).digest()
    if encoding == BROTLI:
        return sha256, brotli.compress(data, quality=5)
    if encoding == GZIP:
        return sha256, gzip.compress(data, 6, mtime=0)
    return sha256, data


def _unmodified(headers: Headers) -> Headers:
    """Return the headers of a 304 without its validator (RFC 9110, section 15.4.5)."""
    return [line for line in headers if line[0] not in {b"content-encoding", b"etag"}]
