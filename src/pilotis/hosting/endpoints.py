"""The routes of web hosting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from pilotis.blobs.errors import (
    BlobNotFoundError,
    BlobStoreUnavailableError,
    DigestMismatchError,
    SizeMismatchError,
)
from pilotis.hosting.deploys import decode_incremental
from pilotis.hosting.domains import Domains
from pilotis.hosting.errors import (
    BaseDeploymentChangedError,
    DeploymentNotFoundError,
    DeploymentNotReadyError,
    DomainNotFoundError,
    DomainNotVerifiedError,
    DomainTakenError,
    DuplicatePathError,
    InvalidSitePathError,
    InvalidZipError,
    NoFilesError,
    NoReadyDeploymentError,
    PageMetaNotFoundError,
    SiteNotFoundError,
    SlugTakenError,
    UnknownPathError,
    UploadLengthRequiredError,
    UploadLinkInvalidError,
    WebStorageNotFoundError,
)
from pilotis.hosting.pages import Pages
from pilotis.hosting.service import Hosting
from pilotis.hosting.serving import SiteRequest
from pilotis.hosting.types import (
    AskAnswer,
    AskQuery,
    DeployForm,
    Deployment,
    DeploymentList,
    DeploymentQuery,
    DeployQuery,
    DeployResult,
    Domain,
    DomainDeleted,
    DomainList,
    IncrementalDeploy,
    IncrementalForm,
    IncrementalResult,
    Manifest,
    ManifestQuery,
    NewDomain,
    NewWebStorage,
    PageMeta,
    PageMetaBatch,
    PageMetaBatchResult,
    PageMetaDeleted,
    PageMetaInput,
    PageMetaList,
    PageMetasDeleted,
    PagePath,
    PresignRequest,
    PromoteRequest,
    Promotion,
    ReceivedContent,
    UploadLink,
    UploadList,
    WebStorage,
    WebStorageChange,
    WebStorageList,
)
from pilotis.hosting.uploads import Uploads
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.multipart import MalformedMultipartError, Multipart
from pilotis.http.api.principals import Access, Role, RoleRequiredError, console, public
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Paging
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import (
    MalformedJsonError,
    PayloadTooLargeError,
    RateLimitedError,
    StorageFullError,
    UnsupportedMediaTypeError,
    ValidationError,
)

SECRET = Access.SECRET_KEY
READ = public(scope="sites:read")
WRITE = public(scope="sites:write")
VIEWER = console(Role.VIEWER)
EDITOR = console(Role.EDITOR)

_PUBLIC = "/v1/public/storages/webs"
_ONE = f"{_PUBLIC}/:storage_id"
_CONSOLE = "/v1/apps/:app_id/storages/webs"
_CONSOLE_ONE = f"{_CONSOLE}/:storage_id"
_INCREMENTAL_TYPES = "application/json, multipart/form-data"

_BODY = [
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
    StorageFullError,
    BlobStoreUnavailableError,
]
_ZIP = [
    WebStorageNotFoundError,
    InvalidZipError,
    NoFilesError,
    MalformedMultipartError,
    RateLimitedError,
    *_BODY,
]
_INCREMENTAL = [
    WebStorageNotFoundError,
    InvalidSitePathError,
    UnknownPathError,
    NoFilesError,
    BaseDeploymentChangedError,
    SizeMismatchError,
    DigestMismatchError,
    MalformedJsonError,
    MalformedMultipartError,
    *_BODY,
]
_MANIFEST = [WebStorageNotFoundError, DeploymentNotFoundError, DeploymentNotReadyError]
_PRESIGN = [WebStorageNotFoundError, SizeMismatchError, PayloadTooLargeError, ValidationError, StorageFullError]
_PROMOTE = [
    WebStorageNotFoundError,
    DeploymentNotFoundError,
    DeploymentNotReadyError,
    NoReadyDeploymentError,
]


class WebDeployEndpoints(Endpoints, tag="Web storages"):
    """Web storages and their deployments, with a secret key. Reading needs a viewer's key, the rest an editor's."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    @get(_PUBLIC, access=SECRET)
    async def page(self, call: Call, query: Paging) -> WebStorageList:
        """List the app's web storages."""
        return await self._hosting.storages.page(call.app, query)

    @post(
        _PUBLIC,
        access=SECRET,
        status=201,
        creates="storage_id",
        again="created",
        errors=[SlugTakenError, RoleRequiredError],
    )
    async def create(self, call: Call, body: NewWebStorage) -> WebStorage:
        """Create a web storage.

        Without `slug` one is generated from the name and six random characters. Its site is at `url`.
        """
        _require_editor(call)
        return await self._hosting.storages.create(call.app, call.actor, body, UUID(call.new_id()))

    async def created(self, call: Call, storage_id: UUID) -> WebStorage:
        """Return a web storage that was created."""
        return await self._hosting.storages.read(call.app.app_id, storage_id)

    @post(
        f"{_ONE}/deploy",
        access=SECRET,
        body_schema=DeployForm,
        errors=[*_ZIP, RoleRequiredError],
        returns=DeployResult,
    )
    async def deploy(self, call: Call, storage_id: UUID, query: DeployQuery, body: Multipart) -> Reply:
        """Deploy a zip archive of static files, as the part `file`.

        With `promote_mode` `auto` it becomes production at once, with `manual`, or `target=qa`, it becomes QA. 201 and
        the deployment; 200 if its files are those of the newest one; 202 for a large archive, which is processed in the
        background. A part `message` describes the deployment.
        """
        _require_editor(call)
        return await _deploy(self._hosting, call, storage_id, query, body, "zip")

    @get(
        f"{_ONE}/deploy/manifest",
        access=SECRET,
        errors=_MANIFEST,
        returns=Manifest,
        response_headers={"ETag": "The manifest's hash, for `If-None-Match`."},
    )
    async def manifest(self, call: Call, storage_id: UUID, query: ManifestQuery) -> Reply:
        """Read the files of a deployment: by default of the one on which the next deployment would be based."""
        return await _manifest(self._hosting, call, storage_id, query)

    @post(
        f"{_ONE}/deploy/incremental",
        access=SECRET,
        body_media_type=_INCREMENTAL_TYPES,
        body_schema=IncrementalDeploy | IncrementalForm,
        errors=[*_INCREMENTAL, RoleRequiredError],
        returns=IncrementalResult,
    )
    async def deploy_incremental(
        self, call: Call, storage_id: UUID, query: DeployQuery, body: AsyncIterator[bytes]
    ) -> Reply:
        """Deploy what changed since the base deployment.

        If contents are missing on the server, nothing is deployed and the response says how to upload them; then repeat
        the request.
        In a form the part `manifest` is the JSON, and each part `file` the bytes of the path that is its filename.
        """
        _require_editor(call)
        return await _deploy_incremental(self._hosting, call, storage_id, query, body)

    @post(f"{_ONE}/deploy/presign", access=SECRET, errors=[*_PRESIGN, RoleRequiredError])
    async def presign(self, call: Call, storage_id: UUID, body: PresignRequest) -> UploadList:
        """Request URLs for uploading contents, at most 100 at once."""
        _require_editor(call)
        await self._hosting.storages.read(call.app.app_id, storage_id)
        return await self._hosting.uploads.presign(call.app, body)

    @get(f"{_ONE}/deployments", access=SECRET, errors=[WebStorageNotFoundError])
    async def deployments(self, call: Call, storage_id: UUID, query: DeploymentQuery) -> DeploymentList:
        """List deployments, newest first, with the production and the QA pointer."""
        return await self._hosting.deployments.page(call.app, storage_id, query)

    @post(f"{_ONE}/promote", access=SECRET, errors=[*_PROMOTE, RoleRequiredError])
    async def promote(self, call: Call, storage_id: UUID, body: PromoteRequest | None) -> Promotion:
        """Promote a deployment to production: by default the newest ready one. An earlier one is a rollback."""
        _require_editor(call)
        wanted = body.deployment_id if body else None
        return await self._hosting.deployments.promote(call.app.app_id, call.actor, storage_id, wanted)


class PageMetaEndpoints(Endpoints, tag="Page metadata"):
    """Metadata of pages, which is inserted into every HTML answer for them."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    @put(f"{_ONE}/page-metas", access=WRITE, errors=[WebStorageNotFoundError])
    async def put(self, call: Call, storage_id: UUID, body: PageMetaInput) -> PageMeta:
        """Write the metadata of a page. The record is replaced completely and takes effect at once."""
        return await self._pages.put(call.app, call.actor, storage_id, body)

    @post(f"{_ONE}/page-metas/batch", access=WRITE, rows=True, errors=[WebStorageNotFoundError, DuplicatePathError])
    async def batch(self, call: Call, storage_id: UUID, body: PageMetaBatch) -> PageMetaBatchResult:
        """Write the metadata of up to 100 pages: all of them or none."""
        return await self._pages.put_all(call.app, call.actor, storage_id, body.pages)

    @get(f"{_ONE}/page-metas", access=READ, errors=[WebStorageNotFoundError])
    async def page(self, call: Call, storage_id: UUID, query: Paging) -> PageMetaList:
        """List pages with metadata by path."""
        return await self._pages.page(call.app, storage_id, query)

    @get(f"{_ONE}/page-metas/get", access=READ, errors=[WebStorageNotFoundError, PageMetaNotFoundError])
    async def get(self, call: Call, storage_id: UUID, query: PagePath) -> PageMeta:
        """Read the metadata of a page."""
        return await self._pages.read(call.app.app_id, storage_id, query.path)

    @delete(f"{_ONE}/page-metas", access=WRITE, errors=[WebStorageNotFoundError, PageMetaNotFoundError])
    async def remove(self, call: Call, storage_id: UUID, query: PagePath) -> PageMetaDeleted:
        """Delete the metadata of a page."""
        return await self._pages.delete(call.app.app_id, call.actor, storage_id, query.path)

    @delete(f"{_ONE}/page-metas/all", access=WRITE, errors=[WebStorageNotFoundError])
    async def delete_all(self, call: Call, storage_id: UUID) -> PageMetasDeleted:
        """Delete the metadata of all pages."""
        return await self._pages.delete_all(call.app.app_id, call.actor, storage_id)


class WebConsoleEndpoints(Endpoints, tag="Web storages in the console"):
    """Web storages, for console users."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    @get(_CONSOLE, access=VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> WebStorageList:
        """List the app's web storages."""
        return await self._hosting.storages.page(call.app, query)

    @post(_CONSOLE, access=EDITOR, status=201, creates="storage_id", again="read", errors=[SlugTakenError])
    async def create(self, call: Call, app_id: UUID, body: NewWebStorage) -> WebStorage:
        """Create a web storage."""
        return await self._hosting.storages.create(call.app, call.actor, body, UUID(call.new_id()))

    @get(_CONSOLE_ONE, access=VIEWER, errors=[WebStorageNotFoundError])
    async def read(self, call: Call, app_id: UUID, storage_id: UUID) -> WebStorage:
        """Read a web storage."""
        return await self._hosting.storages.read(app_id, storage_id)

    @patch(_CONSOLE_ONE, access=EDITOR, errors=[WebStorageNotFoundError, SlugTakenError])
    async def update(self, call: Call, app_id: UUID, storage_id: UUID, body: WebStorageChange) -> WebStorage:
        """Change the settings of a web storage. A released slug is blocked for other apps for 30 days."""
        return await self._hosting.storages.update(app_id, call.actor, storage_id, body)

    @delete(_CONSOLE_ONE, access=EDITOR, errors=[WebStorageNotFoundError])
    async def remove(self, call: Call, app_id: UUID, storage_id: UUID) -> Deleted:
        """Delete a web storage with its deployments, pages and domains. Its site is taken down at once."""
        await self._hosting.storages.delete(app_id, call.actor, storage_id)
        return Deleted("Web storage deleted.", storage_id)

    @post(
        f"{_CONSOLE_ONE}/deploy",
        access=EDITOR,
        body_schema=DeployForm,
        errors=_ZIP,
        returns=DeployResult,
    )
    async def deploy(self, call: Call, app_id: UUID, storage_id: UUID, query: DeployQuery, body: Multipart) -> Reply:
        """Deploy a zip archive of static files, as the part `file`."""
        return await _deploy(self._hosting, call, storage_id, query, body, "console")

    @get(f"{_CONSOLE_ONE}/deploy/manifest", access=VIEWER, errors=_MANIFEST, returns=Manifest)
    async def manifest(self, call: Call, app_id: UUID, storage_id: UUID, query: ManifestQuery) -> Reply:
        """Read the files of a deployment."""
        return await _manifest(self._hosting, call, storage_id, query)

    @post(
        f"{_CONSOLE_ONE}/deploy/incremental",
        access=EDITOR,
        body_media_type=_INCREMENTAL_TYPES,
        body_schema=IncrementalDeploy | IncrementalForm,
        errors=_INCREMENTAL,
        returns=IncrementalResult,
    )
    async def deploy_incremental(
        self, call: Call, app_id: UUID, storage_id: UUID, query: DeployQuery, body: AsyncIterator[bytes]
    ) -> Reply:
        """Deploy what changed since the base deployment."""
        return await _deploy_incremental(self._hosting, call, storage_id, query, body)

    @post(f"{_CONSOLE_ONE}/deploy/presign", access=EDITOR, errors=_PRESIGN)
    async def presign(self, call: Call, app_id: UUID, storage_id: UUID, body: PresignRequest) -> UploadList:
        """Request URLs for uploading contents, at most 100 at once."""
        await self._hosting.storages.read(app_id, storage_id)
        return await self._hosting.uploads.presign(call.app, body)

    @get(f"{_CONSOLE_ONE}/deployments", access=VIEWER, errors=[WebStorageNotFoundError])
    async def deployments(self, call: Call, app_id: UUID, storage_id: UUID, query: DeploymentQuery) -> DeploymentList:
        """List deployments, newest first, with the production and the QA pointer."""
        return await self._hosting.deployments.page(call.app, storage_id, query)

    @get(
        f"{_CONSOLE_ONE}/deployments/:deployment_id",
        access=VIEWER,
        errors=[WebStorageNotFoundError, DeploymentNotFoundError],
    )
    async def deployment(self, call: Call, app_id: UUID, storage_id: UUID, deployment_id: UUID) -> Deployment:
        """Read a deployment, such as one that is being processed."""
        return await self._hosting.deployments.read(app_id, storage_id, deployment_id)

    @post(f"{_CONSOLE_ONE}/promote", access=EDITOR, errors=_PROMOTE)
    async def promote(self, call: Call, app_id: UUID, storage_id: UUID, body: PromoteRequest | None) -> Promotion:
        """Promote a deployment to production: by default the newest ready one. An earlier one is a rollback."""
        wanted = body.deployment_id if body else None
        return await self._hosting.deployments.promote(app_id, call.actor, storage_id, wanted)

    @get(f"{_CONSOLE_ONE}/domains", access=VIEWER, errors=[WebStorageNotFoundError])
    async def domains(self, call: Call, app_id: UUID, storage_id: UUID, query: Paging) -> DomainList:
        """List the storage's own domains."""
        return await self._hosting.domains.page(call.app, storage_id, query)

    # Adding an existing domain returns it, so a repeated request is harmless.
    @post(
        f"{_CONSOLE_ONE}/domains",
        access=EDITOR,
        status=201,
        creates="hostname",
        again="add_domain",
        errors=[WebStorageNotFoundError],
    )
    async def add_domain(self, call: Call, app_id: UUID, storage_id: UUID, body: NewDomain) -> Domain:
        """Add a domain. Create the TXT record of the response, then verify it."""
        return await self._hosting.domains.add(call.app, call.actor, storage_id, body.hostname)

    @post(
        f"{_CONSOLE_ONE}/domains/:hostname/verify",
        access=EDITOR,
        errors=[DomainNotFoundError, DomainNotVerifiedError, DomainTakenError],
    )
    async def verify_domain(self, call: Call, app_id: UUID, storage_id: UUID, hostname: str) -> Domain:
        """Look up the TXT record of a domain; if it is correct, the site is served on the domain."""
        return await self._hosting.domains.verify(app_id, call.actor, storage_id, hostname)

    @delete(f"{_CONSOLE_ONE}/domains/:hostname", access=EDITOR, errors=[DomainNotFoundError])
    async def remove_domain(self, call: Call, app_id: UUID, storage_id: UUID, hostname: str) -> DomainDeleted:
        """Remove a domain."""
        return await self._hosting.domains.remove(app_id, call.actor, storage_id, hostname)


class SiteUploadEndpoints(Endpoints, tag="File transfer"):
    """Contents of sites, uploaded by URLs that need no headers."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    @put(
        "/v1/uploads/sites/:app_id",
        access=Access.OPEN,
        errors=[
            UploadLinkInvalidError,
            UploadLengthRequiredError,
            SizeMismatchError,
            DigestMismatchError,
            BlobStoreUnavailableError,
            BlobNotFoundError,
            StorageFullError,
            ValidationError,
        ],
    )
    async def receive(self, call: Call, app_id: UUID, query: UploadLink, body: AsyncIterator[bytes]) -> ReceivedContent:
        """Send the bytes of a content to the URL from presign or an incremental deploy."""
        return await self._uploads.receive(app_id, query, call.headers, body)


class DomainAskEndpoints(Endpoints, tag="Web storages in the console"):
    """The request that a proxy sends before it requests a certificate."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    @get("/v1/sites/ask", access=Access.OPEN, errors=[SiteNotFoundError, ValidationError], cors="none")
    async def ask(self, call: Call, query: AskQuery) -> AskAnswer:
        """Ask whether a host name belongs to a site, before a proxy requests a certificate for it on demand."""
        return await self._domains.ask(query.domain)


def _require_editor(call: Call) -> None:
    if not call.principal.may(Role.EDITOR):
        raise RoleRequiredError


async def _deploy(
    hosting: Hosting, call: Call, storage_id: UUID, query: DeployQuery, body: Multipart, source: str
) -> Reply:
    result = await hosting.deploys.deploy_zip(call.app, call.actor, storage_id, body, query=query, source=source)
    status = 202 if result.deployment.version is None else 200 if result.unchanged else 201
    return Reply(json.encode(result), status)


async def _deploy_incremental(
    hosting: Hosting, call: Call, storage_id: UUID, query: DeployQuery, body: AsyncIterator[bytes]
) -> Reply:
    content_type = call.headers.get(b"content-type", b"application/json")
    essence = content_type.partition(b";")[0].strip().lower()
    if essence == b"multipart/form-data":
        request = await hosting.deploys.read_incremental(call.app, storage_id, Multipart(body, content_type))
    elif essence == b"application/json":
        request = decode_incremental(await call.body(call.limits.body_bytes))
    else:
        raise UnsupportedMediaTypeError("Send JSON, or multipart/form-data with a part manifest.")
    result = await hosting.deploys.deploy_incremental(call.app, call.actor, storage_id, request, query)
    return Reply(json.encode(result), 201 if result.deployment and not result.unchanged else 200)


async def _manifest(hosting: Hosting, call: Call, storage_id: UUID, query: ManifestQuery) -> Reply:
    manifest = await hosting.deployments.manifest(call.app.app_id, storage_id, query)
    tag = f'"{manifest.manifest_hash or "none"}"'.encode()
    headers = [(b"etag", tag), (b"cache-control", b"private, no-cache")]
    listed = call.headers.get(b"if-none-match", b"")
    if tag in [one.strip().removeprefix(b"W/") for one in listed.split(b",")]:
        return Reply(b"", 304, headers)
    return Reply(json.encode(manifest), 200, headers)


class SiteArea:
    """The hosts of sites: the site answers every path there."""

    def __init__(self, hosting: Hosting) -> None:
        self._serving = hosting.serving

    async def answer(self, call: Call) -> Reply:
        """Answer a request to a site."""
        scope = call.scope
        request = SiteRequest(
            scope["method"],
            scope["raw_path"],
            scope["query_string"],
            call.headers,
            call.client,
            call.takes_files,
        )
        return await self._serving.answer(request)
