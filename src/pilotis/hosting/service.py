"""The services of web hosting, assembled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pilotis.blobs.protocol import BlobStore
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.hosting.compression import Compression
from pilotis.hosting.contents import Contents
from pilotis.hosting.deployments import DeploymentJob, Deployments, FollowUps, StorageJob
from pilotis.hosting.deploys import Deploys
from pilotis.hosting.domains import Dns, Domains
from pilotis.hosting.names import Addresses
from pilotis.hosting.pages import Pages
from pilotis.hosting.ports import SitePorts
from pilotis.hosting.retention import Retention
from pilotis.hosting.serving import Serving, SiteApps
from pilotis.hosting.sites import Sites
from pilotis.hosting.storages import WebStorages
from pilotis.hosting.uploads import Uploads
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.crypto import MasterKeyring
from pilotis.kit.passwords import Passwords
from pilotis.security.rate_limits import RateLimits


class Hosting:
    """The services of web hosting. `own_hosts` are the server's own names, which are never a site's."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        control: Control,
        events: Events,
        jobs: Jobs,
        keyring: MasterKeyring,
        passwords: Passwords,
        rate_limits: RateLimits,
        apps: SiteApps,
        *,
        base_url: str,
        sites_base_url: str,
        own_hosts: frozenset[str],
        dns_servers: Sequence[str],
        cache_bytes: int,
        spool: Path,
        ports: SitePorts | None = None,
    ) -> None:
        addresses = Addresses(sites_base_url, ports)
        self.ports = ports
        self._own_hosts = own_hosts
        self.contents = Contents(database, blobs)
        self.sites = Sites(database, self.contents, control, addresses, cache_bytes // 2)
        changed = self.sites.changed
        compression = Compression(database, self.contents)
        follow_ups = FollowUps(
            JobKind(
                name="hosting.compress",
                queue="builds",
                payload=DeploymentJob,
                run=compression.run,
                seconds=3600,
            ),
            JobKind(name="hosting.retain", queue="light", payload=StorageJob, run=self._retain),
        )
        self.deployments = Deployments(database, self.contents, events, jobs, follow_ups, addresses, changed)
        self.uploads = Uploads(database, blobs, self.contents, keyring, base_url)
        self.deploys = Deploys(
            database,
            blobs,
            self.contents,
            self.uploads,
            self.deployments,
            events,
            jobs,
            addresses,
            apps,
            spool,
        )
        self.storages = WebStorages(database, passwords, addresses, changed)
        self.pages = Pages(database, changed)
        self.domains = Domains(database, Dns(dns_servers), own_hosts, addresses.suffix)
        self.retention = Retention(self.deployments)
        self.serving = Serving(
            database,
            self.sites,
            self.contents,
            blobs,
            passwords,
            rate_limits,
            apps,
            cache_bytes - cache_bytes // 2,
            base_url.rstrip("/"),
        )
        self.jobs = (*follow_ups, self.deploys.unpack)

    def is_site(self, host: str) -> bool:
        """Whether requests to a host are for a site."""
        return host not in self._own_hosts and self.sites.is_site(host)

    def is_domain(self, host: str) -> bool:
        """Whether a host is a verified domain of a site."""
        return host not in self._own_hosts and self.sites.is_domain(host)

    def is_site_name(self, host: str) -> bool:
        """Whether a host could be a site's production or QA below the sites' domain, from its form."""
        return host not in self._own_hosts and self.sites.named(host) is not None

    async def served_names(self, hosts: Sequence[str]) -> list[str]:
        """Return those of hosts below the sites' domain at which a deployment is in production or QA."""
        return await self.sites.served_names([host for host in hosts if host not in self._own_hosts])

    async def close(self) -> None:
        """Stop threads and running tasks."""
        if self.ports:
            await self.ports.close()
        await self.sites.close()
        self.contents.close()

    async def _retain(self, job: Job[StorageJob]) -> None:
        await self.retention.run(job)


def default_sites_url(base_url: str, port: int | None) -> str:
    """Return the default address below which sites are served: names below `localhost` are this machine.

    `port` is that of a server behind a proxy, None for one that answers by HTTPS itself.
    """
    if port is None:
        return "https://localhost"
    _, _, given = base_url.rpartition(":")
    return f"http://localhost:{given if given.isdigit() else port}"


def names_of(*urls: str | None) -> frozenset[str]:
    """Return the host names of addresses."""
    return frozenset(name.lower() for url in urls if url and (name := urlsplit(url).hostname))
