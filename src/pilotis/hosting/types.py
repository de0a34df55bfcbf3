"""The types of web hosting."""

from __future__ import annotations

import enum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec

from pilotis.apps.types import BranchName
from pilotis.http.api.json_schemas import FilePart
from pilotis.http.api.schemas import Paging
from pilotis.kit.errors import Detail

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
Slug = Annotated[
    str, msgspec.Meta(min_length=3, max_length=40, pattern=r"^[a-z0-9](-?[a-z0-9])*$", examples=["cafe-guide"])
]
Retain = Annotated[int, msgspec.Meta(ge=1, le=200)]
QaPassword = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Message = Annotated[str, msgspec.Meta(max_length=500)]
ContentType = Annotated[str, msgspec.Meta(max_length=255)]

MAX_PAGES = 100


class PromoteMode(enum.Enum):
    """The channel of a deployment without a target: `auto` is production, `manual` QA."""

    AUTO = "auto"
    MANUAL = "manual"


class NotFoundMode(enum.Enum):
    """The answer for an unknown path.

    `spa`: navigations get index.html; `404`: the nearest 404.html; `auto`: `404` if the site has a 404.html, otherwise
    `spa`.
    """

    AUTO = "auto"
    SPA = "spa"
    NOT_FOUND = "404"


class Target(enum.Enum):
    """A channel that a deployment can be sent to by name."""

    QA = "qa"


class Channel(enum.Enum):
    """The deployment of a manifest."""

    PRODUCTION = "production"
    QA = "qa"
    LATEST = "latest"


class DeploymentStatus(enum.Enum):
    """`processing` becomes `ready` or `failed`; a `ready` one that retention removes is `expired`."""

    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"
    EXPIRED = "expired"


class NewWebStorage(msgspec.Struct, forbid_unknown_fields=True):
    """A web storage to create; without `slug` one is generated from the name."""

    name: Name
    description: Description = ""
    slug: Slug | None = None
    promote_mode: PromoteMode = PromoteMode.AUTO
    not_found_mode: NotFoundMode = NotFoundMode.AUTO
    clean_urls: bool = True
    retain: Retain = 20


class WebStorageChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of a web storage; absent fields stay as they are. `qa_password` null removes the password."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    slug: Slug | msgspec.UnsetType = msgspec.UNSET
    promote_mode: PromoteMode | msgspec.UnsetType = msgspec.UNSET
    not_found_mode: NotFoundMode | msgspec.UnsetType = msgspec.UNSET
    clean_urls: bool | msgspec.UnsetType = msgspec.UNSET
    retain: Retain | msgspec.UnsetType = msgspec.UNSET
    qa_password: QaPassword | msgspec.UnsetType | None = msgspec.UNSET


class WebStorage(msgspec.Struct, frozen=True, kw_only=True):
    """A web storage. `file_count` and `total_size` are those of the production deployment."""

    id: UUID
    app_id: UUID
    name: str
    description: str
    slug: str
    promote_mode: PromoteMode
    not_found_mode: NotFoundMode
    clean_urls: bool
    retain: int
    has_qa_password: bool
    url: str
    qa_url: str
    production_deployment_id: UUID | None
    qa_deployment_id: UUID | None
    file_count: int
    total_size: int
    created_at: str
    updated_at: str


class WebStorageList(msgspec.Struct, frozen=True, kw_only=True):
    """Web storages by creation time, with their total number and the applied limit."""

    storages: list[WebStorage]
    total_count: int
    limit: int
    offset: int


class DeployWarning(msgspec.Struct, frozen=True):
    """A file or rule of a deployment that was left out or ignored."""

    code: str
    path: str
    message: str


class Problem(msgspec.Struct, frozen=True):
    """Why a deployment failed."""

    code: str
    message: str
    details: list[Detail] = []


class Changes(msgspec.Struct, frozen=True):
    """The number of files that differ from the base deployment."""

    added: int
    changed: int
    removed: int


class Creator(msgspec.Struct, frozen=True):
    """The creator of a deployment: the kind of the credential, and its id or that of its user."""

    kind: str
    id: str | None


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A release of a web storage. `version` and `url` are null until it is ready.

    `uploaded_size` is the size of the contents, in bytes, that the deployment it is based on does not have. `branch` is
    there for a preview of a branch alone.
    """

    id: UUID
    storage_id: UUID
    version: int | None
    status: DeploymentStatus
    source: str
    target: str
    base_deployment_id: UUID | None
    file_count: int
    total_size: int
    uploaded_size: int
    changes: Changes
    manifest_hash: str | None
    message: str | None
    url: str | None
    is_production: bool
    is_qa: bool
    warnings: list[DeployWarning]
    error: Problem | None
    created_by: Creator
    created_at: str
    ready_at: str | None
    branch: str | msgspec.UnsetType = msgspec.UNSET


class DeploymentList(msgspec.Struct, frozen=True, kw_only=True):
    """Deployments, newest first, with the two pointers of the storage."""

    deployments: list[Deployment]
    total_count: int
    limit: int
    offset: int
    production_deployment_id: UUID | None
    qa_deployment_id: UUID | None


class DeploymentQuery(Paging, forbid_unknown_fields=True):
    """The deployments to list: those of one `status`, or all."""

    status: DeploymentStatus | None = None


class DeployQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The channel of a deployment; without `target`, the storage's `promote_mode` decides.

    `branch` names the branch of the app whose key the files have: it goes to QA, and is never promoted.
    """

    target: Target | None = None
    branch: BranchName | None = None


class DeployForm(msgspec.Struct):
    """A deploy as a form: a zip archive, and a description of the deployment."""

    file: FilePart
    message: Message | msgspec.UnsetType = msgspec.UNSET


class DeployResult(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment, with the resulting pointers. `unchanged`: the newest one has the same files, so it is returned."""

    deployment: Deployment
    production_deployment_id: UUID | None
    qa_deployment_id: UUID | None
    unchanged: bool = False


class ManifestQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The manifest to read: of a deployment, of a channel, or by default of the next deployment's base."""

    channel: Channel | None = None
    deployment_id: UUID | None = None


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a deployment; `hash` is the SHA-256 of its bytes in lower-case hexadecimal."""

    path: str
    hash: str
    size: int
    content_type: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a deployment sorted by path; empty without any deployment."""

    storage_id: UUID
    deployment_id: UUID | None
    version: int | None
    algorithm: str = "sha256"
    manifest_hash: str | None
    file_count: int
    total_size: int
    files: list[ManifestFile]


class Upsert(msgspec.Struct, forbid_unknown_fields=True):
    """A file to add or replace. Without `hash` and `size` its bytes must be a part of the request."""

    path: str
    hash: Sha256 | None = None
    size: Size | None = None
    content_type: ContentType | None = None


class IncrementalDeploy(msgspec.Struct, forbid_unknown_fields=True):
    """The changes from the base deployment to the new one. `base_deployment_id` guards against lost updates."""

    base_deployment_id: UUID | None = None
    upserts: list[Upsert] = []
    deletes: list[str] = []
    target: Target | None = None
    message: Message | None = None


class IncrementalForm(msgspec.Struct):
    """An incremental deploy as a form: the request as JSON, and files whose path is the filename of their part."""

    manifest: IncrementalDeploy | msgspec.UnsetType = msgspec.UNSET
    file: list[FilePart] | msgspec.UnsetType = msgspec.UNSET


class MissingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A content that the server does not have, and how to send it."""

    path: str
    hash: str
    size: int
    upload_url: str
    method: str
    headers: dict[str, str]
    expires_at: str


class IncrementalResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new deployment; or null and what to upload before repeating the request."""

    deployment: Deployment | None
    missing: list[MissingFile] = []
    missing_count: int = 0
    unchanged: bool = False
    production_deployment_id: UUID | None = None
    qa_deployment_id: UUID | None = None


class WantedUpload(msgspec.Struct, forbid_unknown_fields=True):
    """A content to upload."""

    hash: Sha256
    size: Size
    path: str | None = None
    content_type: ContentType | None = None


class PresignRequest(msgspec.Struct, forbid_unknown_fields=True):
    """One content to upload, or up to 100 as `files`."""

    files: Annotated[list[WantedUpload], msgspec.Meta(max_length=100)] | None = None
    hash: Sha256 | None = None
    size: Size | None = None
    path: str | None = None
    content_type: ContentType | None = None


class Upload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How to send a content; with `exists` the server has it already."""

    hash: str
    size: int
    exists: bool
    upload_url: str | None = None
    method: str | None = None
    headers: dict[str, str] | None = None
    expires_at: str | None = None


class UploadList(msgspec.Struct, frozen=True):
    """How to send each content, in the order of the request."""

    uploads: list[Upload]


class UploadLink(msgspec.Struct):
    """The contents of an upload URL."""

    hash: Sha256
    size: Size
    expires: int
    signature: str


class ReceivedContent(msgspec.Struct, frozen=True):
    """The content that was stored."""

    hash: str
    size: int


class PromoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The deployment to promote to production; by default the newest ready one."""

    deployment_id: UUID | None = None


class Promotion(msgspec.Struct, frozen=True, kw_only=True):
    """The pointers after a promotion. `rollback`: the version is lower than the one it replaces."""

    production_deployment_id: UUID
    previous_deployment_id: UUID | None
    kind: str
    deployment: Deployment


class PageMetaInput(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a page; the record is replaced completely. Null, absent and empty are the same."""

    path: str
    title: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    description: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    image: Annotated[str, msgspec.Meta(max_length=2048)] | None = None
    og_type: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    keywords: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    canonical_url: Annotated[str, msgspec.Meta(max_length=2048)] | None = None
    robots: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    twitter_card: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    site_name: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    locale: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    json_ld: dict[str, Any] | None = None
    include_in_sitemap: bool | None = None
    sitemap_priority: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class PageMeta(msgspec.Struct, frozen=True, kw_only=True):
    """Stored metadata of a page; `path` is its key in the storage."""

    path: str
    title: str | None
    description: str | None
    image: str | None
    og_type: str | None
    keywords: str | None = None
    canonical_url: str | None = None
    robots: str | None = None
    twitter_card: str | None = None
    site_name: str | None = None
    locale: str | None = None
    json_ld: dict[str, Any] | None = None
    include_in_sitemap: bool | None = None
    sitemap_priority: float | None = None
    created_at: str
    updated_at: str


class PageMetaBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Pages to write together: all of them or none."""

    pages: Annotated[list[PageMetaInput], msgspec.Meta(max_length=MAX_PAGES)]


class PageMetaBatchResult(msgspec.Struct, frozen=True):
    """The pages that were written."""

    pages: list[PageMeta]
    total: int
    success: int


class PageMetaList(msgspec.Struct, frozen=True, kw_only=True):
    """Pages' metadata sorted by path."""

    pages: list[PageMeta]
    total_count: int
    limit: int
    offset: int


class PagePath(msgspec.Struct, forbid_unknown_fields=True):
    """The path of a page."""

    path: str


class PageMetaDeleted(msgspec.Struct, frozen=True):
    """The page whose metadata was deleted."""

    message: str
    path: str


class PageMetasDeleted(msgspec.Struct, frozen=True):
    """The number of pages whose metadata was deleted."""

    message: str
    deleted_count: int


class NewDomain(msgspec.Struct, forbid_unknown_fields=True):
    """A host name to add."""

    hostname: Annotated[str, msgspec.Meta(min_length=4, max_length=253)]


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A host name. The site is served on it after the TXT record `txt_name` was found to have `txt_value`."""

    hostname: str
    is_verified: bool
    txt_name: str
    txt_value: str
    created_at: str
    verified_at: str | None


class DomainList(msgspec.Struct, frozen=True, kw_only=True):
    """The host names of a web storage in alphabetical order."""

    domains: list[Domain]
    total_count: int
    limit: int
    offset: int


class DomainDeleted(msgspec.Struct, frozen=True):
    """The domain that was removed."""

    message: str
    name: str


class AskQuery(msgspec.Struct):
    """The host name for which a proxy needs a certificate."""

    domain: str


class AskAnswer(msgspec.Struct, frozen=True):
    """The confirmation that the host name belongs to a site."""

    domain: str


class FileEntry(NamedTuple):
    """A file of a manifest: the SHA-256 of its bytes, its size and its type."""

    sha256: bytes
    size: int
    content_type: str
