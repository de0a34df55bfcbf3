"""Web hosting: sites of static files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec

from pilotis.apps.feature import AppsFeature
from pilotis.apps.types import BranchName
from pilotis.feature import Feature, HostArea
from pilotis.floor import Floor
from pilotis.hosting.endpoints import (
    DomainAskEndpoints,
    PageMetaEndpoints,
    SiteArea,
    SiteUploadEndpoints,
    WebConsoleEndpoints,
    WebDeployEndpoints,
)
from pilotis.hosting.events import EVENT_TYPES
from pilotis.hosting.media import check_content_type
from pilotis.hosting.names import check_slug, slug_of
from pilotis.hosting.paths import check_file_path
from pilotis.hosting.ports import SitePorts, needs_ports, other_name
from pilotis.hosting.service import Hosting, default_sites_url, names_of
from pilotis.hosting.tasks import periodic
from pilotis.kit.archiving import Archived, BlobColumns, Copied, LeftOut, check_password_hash


class HostingFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Web hosting."""

    described = (
        WebDeployEndpoints,
        PageMetaEndpoints,
        WebConsoleEndpoints,
        SiteUploadEndpoints,
        DomainAskEndpoints,
    )
    archived: ClassVar[Archived] = {
        "web_storages": Copied(
            part="files",
            columns="storage_id slug name description promote_mode not_found_mode clean_urls retain qa_password_hash"
            " production_id qa_id last_version created_at updated_at",
            checks={"qa_password_hash": check_password_hash, "slug": check_slug},
            renamed={"slug": slug_of},
        ),
        "web_blobs": Copied(
            part="files",
            columns="sha256 blob_id size created_at last_used_at",
            blobs=BlobColumns("blob_id", "size", "sha256"),
        ),
        "web_deployments": Copied(
            part="files",
            columns="deployment_id storage_id version status source target base_id manifest_hash file_count total_size"
            " uploaded_size added changed removed message warnings created_at ready_at production_until branch",
            replaced={"actor_kind": "operator"},
            checks={"branch": partial(msgspec.convert, type=BranchName)},
            where="t.status = 'ready'",
        ),
        "web_files": Copied(
            part="files",
            columns="deployment_id path sha256 size content_type",
            checks={"path": check_file_path, "content_type": check_content_type},
            where="exists (select from pilotis.web_deployments d where d.app_id = t.app_id"
            " and d.deployment_id = t.deployment_id and d.status = 'ready')",
        ),
        "web_page_metas": Copied(
            part="files", columns="storage_id path title description image og_type extra created_at updated_at"
        ),
        "web_promotions": LeftOut("the history of promotions is of its server"),
        "web_domains": LeftOut("a domain is verified for the server to which it leads"),
        "web_freed_slugs": LeftOut("names of sites are the server's"),
    }

    hosting: Hosting


def feature(floor: Floor, apps: AppsFeature) -> HostingFeature:
    """Return the feature."""
    settings = floor.settings
    is_local = settings.sites_base_url is None and needs_ports(settings.host, floor.base_url, settings.workers)
    hosting = Hosting(
        floor.database,
        floor.blobs,
        floor.control,
        floor.events,
        floor.jobs,
        floor.signing_keys,
        floor.passwords,
        floor.rate_limits,
        apps.apps,
        base_url=floor.base_url,
        sites_base_url=settings.sites_base_url
        or default_sites_url(floor.base_url, None if settings.uses_https else settings.port),
        own_hosts=names_of(floor.base_url, settings.console_origin, settings.files_base_url)
        | frozenset(settings.https_names),
        dns_servers=settings.dns_servers,
        cache_bytes=settings.sites_cache_bytes,
        spool=Path(settings.data_dir),
        ports=SitePorts(other_name(floor.base_url)) if is_local else None,
    )
    return HostingFeature(
        name="hosting",
        endpoints=[
            WebDeployEndpoints(hosting),
            PageMetaEndpoints(hosting.pages),
            WebConsoleEndpoints(hosting),
            SiteUploadEndpoints(hosting.uploads),
            DomainAskEndpoints(hosting.domains),
        ],
        jobs=hosting.jobs,
        periodic=periodic(floor.database, hosting.retention, floor.limits.versions_kept),
        event_types=EVENT_TYPES,
        areas=[HostArea(hosting.is_site, SiteArea(hosting).answer, hosting.serving.cached)],
        start=hosting.sites.start,
        close=hosting.close,
        hosting=hosting,
    )
