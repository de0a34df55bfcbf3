"""A site's own domains: verified by a TXT record, and confirmed to proxies before they request a certificate."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import asyncpg

from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.hosting import domain_store, site_store, storage_store
from pilotis.hosting.errors import (
    DomainNotFoundError,
    DomainNotVerifiedError,
    DomainTakenError,
    SiteNotFoundError,
    WebStorageNotFoundError,
)
from pilotis.hosting.names import parse_label
from pilotis.hosting.types import AskAnswer, Domain, DomainDeleted, DomainList
from pilotis.hosting.views import domain_view, txt_name, txt_value
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit.errors import UnavailableError, invalid
from pilotis.kit.hostnames import hostname_of
from pilotis.security.audit.service import record

_DNS_SECONDS = 5.0


class Resolver(Protocol):
    """Queries name servers."""

    async def txt(self, name: str) -> Sequence[str]:
        """Return the TXT records of a name; empty if there are none. Raises `UnavailableError`."""


class Dns:
    """A `Resolver` that queries these name servers, `address` or `address:port`, or the system's."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._servers = servers

    async def txt(self, name: str) -> Sequence[str]:
        """See `Resolver.txt`."""
        # Imported for the first query, because it takes 5 MB.
        from dns import asyncresolver, exception, nameserver, resolver

        asking = asyncresolver.Resolver(configure=not self._servers)
        if self._servers:
            asking.nameservers = [nameserver.Do53Nameserver(*_address(server)) for server in self._servers]
        try:
            answer = await asking.resolve(name, "TXT", lifetime=_DNS_SECONDS)
        except (resolver.NXDOMAIN, resolver.NoAnswer):
            return []
        except exception.DNSException:
            raise UnavailableError("The name servers do not answer. Try again shortly.") from None
        return [b"".join(record.strings).decode("utf-8", "replace") for record in answer]


class Domains:
    """The domains of an app's sites; excludes `own_hosts`, and names that end with `suffix`, the sites' own domain."""

    def __init__(self, database: Database, resolver: Resolver, own_hosts: frozenset[str], suffix: str) -> None:
        self._database = database
        self._resolver = resolver
        self._own_hosts = own_hosts
        self._suffix = suffix

    async def page(self, app: AppInfo, storage_id: UUID, paging: Paging) -> DomainList:
        """Return a page of a storage's domains."""
        await self._require_storage(app.app_id, storage_id)
        limit = app.limits.page_size(paging.limit)
        rows, total = await domain_store.domains(self._database, app.app_id, storage_id, limit, paging.offset)
        return DomainList(
            domains=[domain_view(row) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def add(self, app: AppInfo, actor: Actor, storage_id: UUID, name: str) -> Domain:
        """Add a domain that must still be verified; an existing one is returned unchanged."""
        hostname = self._checked(name)
        async with self._database.transaction(app.app_id) as connection:
            if await storage_store.lock_storage(connection, app.app_id, storage_id) is None:
                raise WebStorageNotFoundError
            token = secrets.token_urlsafe(24)
            row = await domain_store.insert_domain(connection, app.app_id, storage_id, hostname, token)
            if await domain_store.count_domains(connection, app.app_id, storage_id) > app.limits.site_domains:
                raise invalid(
                    "hostname", f"A web storage has at most {app.limits.site_domains} domains.", "TOO_MANY_DOMAINS"
                )
            await record(connection, app.app_id, actor, "web_domain.add", storage_id, hostname=hostname)
        return domain_view(row)

    async def verify(self, app_id: UUID, actor: Actor, storage_id: UUID, name: str) -> Domain:
        """Look up the TXT record; raises `DomainNotVerifiedError`, `DomainTakenError`, `UnavailableError`."""
        hostname = self._checked(name)
        row = await domain_store.domain(self._database.of(app_id), app_id, storage_id, hostname)
        if row is None:
            raise DomainNotFoundError
        if row.verified_at is None:
            expected = txt_value(row.token)
            if expected not in await self._resolver.txt(txt_name(hostname)):
                raise DomainNotVerifiedError(
                    f"The TXT record {txt_name(hostname)} with the value {expected} was not found."
                )
            try:
                async with self._database.transaction(app_id) as connection:
                    row = await domain_store.verify_domain(connection, app_id, storage_id, hostname)
                    await record(connection, app_id, actor, "web_domain.verify", storage_id, hostname=hostname)
                    await publish(connection, Topic.SITE, "domains")
            except asyncpg.UniqueViolationError:
                raise DomainTakenError from None
        if row is None:
            raise DomainNotFoundError
        return domain_view(row)

    async def remove(self, app_id: UUID, actor: Actor, storage_id: UUID, name: str) -> DomainDeleted:
        """Remove a domain; raises `DomainNotFoundError`."""
        hostname = self._checked(name)
        async with self._database.transaction(app_id) as connection:
            if not await domain_store.delete_domain(connection, app_id, storage_id, hostname):
                raise DomainNotFoundError
            await record(connection, app_id, actor, "web_domain.remove", storage_id, hostname=hostname)
            await publish(connection, Topic.SITE, "domains")
        return DomainDeleted("Domain removed.", hostname)

    async def ask(self, name: str) -> AskAnswer:
        """Return the host name if it belongs to a site, so that a certificate may be requested for it."""
        try:
            hostname = hostname_of(name)
        except ValueError:
            raise SiteNotFoundError from None
        label = hostname.removesuffix(self._suffix) if hostname.endswith(self._suffix) else ""
        site = parse_label(label)
        if not await site_store.is_site_name(self._database, hostname, site.slug if site else ""):
            raise SiteNotFoundError
        return AskAnswer(hostname)

    async def is_allowed(self, name: str) -> bool:
        """Whether a host name belongs to a site."""
        try:
            await self.ask(name)
        except SiteNotFoundError:
            return False
        return True

    def _checked(self, name: str) -> str:
        try:
            hostname = hostname_of(name)
        except ValueError as error:
            raise invalid("hostname", f"hostname: {error}") from None
        if hostname in self._own_hosts or f".{hostname}".endswith(self._suffix) or hostname.endswith(".localhost"):
            raise invalid("hostname", "hostname: this name is the server's own.")
        return hostname

    async def _require_storage(self, app_id: UUID, storage_id: UUID) -> None:
        if await storage_store.storage(self._database.of(app_id), app_id, storage_id) is None:
            raise WebStorageNotFoundError


def _address(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if colon and port.isdigit() and ":" not in host.strip("[]"):
        return host.strip("[]"), int(port)
    return server.strip("[]"), 53
