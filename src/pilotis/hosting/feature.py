"""Web hosting: sites of static files."""

from __future__ import annotations

from pathlib import Path

from pilotis.apps.feature import AppsFeature
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
from pilotis.hosting.ports import SitePorts, needs_ports, other_name
from pilotis.hosting.service import Hosting, default_sites_url, names_of
from pilotis.hosting.tasks import periodic


class HostingFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Web hosting."""

    described = (
        WebDeployEndpoints,
        PageMetaEndpoints,
        WebConsoleEndpoints,
        SiteUploadEndpoints,
        DomainAskEndpoints,
    )

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
        sites_base_url=settings.sites_base_url or default_sites_url(floor.base_url, settings.port),
        own_hosts=names_of(floor.base_url, settings.console_origin, settings.files_base_url),
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
