"""SQL statements of the serving of sites: which storage a host belongs to, and the files that it serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND, CONSOLE
from pilotis.hosting.deployment_store import PRESERVED_DAYS
from pilotis.hosting.resolution import PathRules


class ServedFile(NamedTuple):
    """A file as it is served: the SHA-256 of its bytes, its type, and the keys and sizes of its forms."""

    sha256: bytes
    size: int
    content_type: str
    blob_id: UUID
    brotli: tuple[UUID, int] | None
    gzip: tuple[UUID, int] | None


class Site(NamedTuple):
    """The properties of a web storage that affect its site."""

    rules: PathRules
    app_id: UUID
    storage_id: UUID
    slug: str
    qa_password_hash: str | None
    revision: int
    has_metas: bool
    production_id: UUID | None
    qa_id: UUID | None


_SITE = """
    s.clean_urls, s.not_found_mode, s.app_id, s.storage_id, s.slug, s.qa_password_hash, s.revision,
        exists (select from pilotis.web_page_metas m
                where m.app_id = s.app_id and m.storage_id = s.storage_id) as has_metas,
        s.production_id, s.qa_id
"""


async def site_by_slug(database: Database, slug: str) -> Site | None:
    """Return the site of a slug, if its app is live."""
    row = await database.fetchrow(
        f"""
        select {_SITE} from pilotis.web_storages s join pilotis.apps a using (app_id)
        where s.slug = $1 and a.deleted_at is null
        """,
        slug,
        tenant=slug,
    )
    return _site(row) if row else None


async def site_by_hostname(database: Database, hostname: str) -> Site | None:
    """Return the site with a verified domain, if its app is live."""
    row = await database.fetchrow(
        f"""
        select {_SITE} from pilotis.web_domains d
        join pilotis.web_storages s using (app_id, storage_id)
        join pilotis.apps a using (app_id)
        where d.hostname = $1 and d.verified_at is not null and a.deleted_at is null
        """,
        hostname,
        tenant=hostname,
    )
    return _site(row) if row else None


async def revision(database: Database, app_id: UUID, storage_id: UUID) -> int | None:
    """Return the number of changes to what a storage serves; None if it, or its app, is deleted."""
    count: int | None = await database.fetchval(
        """
        select s.revision from pilotis.web_storages s join pilotis.apps a using (app_id)
        where s.app_id = $1 and s.storage_id = $2 and a.deleted_at is null
        """,
        app_id,
        storage_id,
        tenant=app_id,
    )
    return count


async def ready_version(database: Database, app_id: UUID, storage_id: UUID, version: int) -> UUID | None:
    """Return the id of a ready deployment by its version."""
    deployment_id: UUID | None = await database.fetchval(
        """
        select deployment_id from pilotis.web_deployments
        where app_id = $1 and storage_id = $2 and version = $3 and status = 'ready'
        """,
        app_id,
        storage_id,
        version,
        tenant=app_id,
    )
    return deployment_id


_SERVED = """
    select f.path, f.sha256, f.size, f.content_type, b.blob_id, b.brotli_id, b.brotli_size, b.gzip_id, b.gzip_size
    from pilotis.web_files f join pilotis.web_blobs b using (app_id, sha256)
"""


async def served_files(database: Database, app_id: UUID, deployment_id: UUID) -> dict[str, ServedFile]:
    """Return the files of a deployment by their paths."""
    rows = await database.fetch(
        f"{_SERVED} where f.app_id = $1 and f.deployment_id = $2", app_id, deployment_id, tenant=app_id
    )
    return {path: _served_file(*values) for path, *values in rows}


async def ready_date(database: Database, app_id: UUID, deployment_id: UUID) -> str:
    """Return the date at which a deployment became ready."""
    date: str = await database.fetchval(
        """
        select to_char(ready_at at time zone 'UTC', 'YYYY-MM-DD') from pilotis.web_deployments
        where app_id = $1 and deployment_id = $2
        """,
        app_id,
        deployment_id,
        tenant=app_id,
    )
    return date


async def preserved_file(database: Database, app_id: UUID, storage_id: UUID, path: str) -> ServedFile | None:
    """Return the file that a path had in the previous production deployment, within the preservation time."""
    row = await database.fetchrow(
        f"""
        {_SERVED} join pilotis.web_deployments d using (app_id, deployment_id)
        where f.app_id = $1 and f.path = $3 and d.storage_id = $2
            and d.production_until > now() - make_interval(days => $4)
        order by d.production_until desc limit 1
        """,
        app_id,
        storage_id,
        path,
        PRESERVED_DAYS,
        tenant=app_id,
    )
    return _served_file(*list(row)[1:]) if row else None


async def verified_hostnames(database: Database) -> list[str]:
    """Return every verified domain."""
    rows = await database.fetch(
        "select hostname from pilotis.web_domains where verified_at is not null", tenant=BACKGROUND
    )
    return [hostname for (hostname,) in rows]


async def newest_slugs(database: Database, limit: int) -> list[str]:
    """Return the slugs of the newest storages."""
    rows = await database.fetch(
        "select slug from pilotis.web_storages order by created_at desc, storage_id limit $1", limit, tenant=BACKGROUND
    )
    return [slug for (slug,) in rows]


async def deployed_slugs(database: Database, slugs: Sequence[str]) -> set[tuple[str, bool]]:
    """Return those of the slugs whose sites have a deployment in production (False) or QA (True)."""
    rows = await database.fetch(
        """
        select s.slug, channel.is_qa from pilotis.web_storages s join pilotis.apps a using (app_id)
        cross join lateral (values (false, s.production_id), (true, s.qa_id)) channel (is_qa, deployment_id)
        where s.slug = any($1) and a.deleted_at is null and channel.deployment_id is not null
        """,
        list(slugs),
        tenant=CONSOLE,
    )
    return {(slug, is_qa) for slug, is_qa in rows}


async def is_site_name(database: Database, hostname: str, slug: str) -> bool:
    """Whether there is a site with a verified domain, or one with a slug."""
    return (
        await database.fetchval(
            """
            select true from pilotis.web_storages s join pilotis.apps a using (app_id)
            where a.deleted_at is null and (
                s.slug = $2
                or exists (
                    select from pilotis.web_domains d
                    where d.app_id = s.app_id and d.storage_id = s.storage_id
                        and d.hostname = $1 and d.verified_at is not null
                )
            )
            limit 1
            """,
            hostname,
            slug,
            tenant=CONSOLE,
        )
        is True
    )


def _site(row: Record) -> Site:
    clean_urls, not_found_mode, *others = row
    return Site(PathRules(clean_urls, not_found_mode), *others)


def _served_file(
    sha256: bytes,
    size: int,
    content_type: str,
    blob_id: UUID,
    brotli_id: UUID | None,
    brotli_size: int,
    gzip_id: UUID | None,
    gzip_size: int,
) -> ServedFile:
    brotli = (brotli_id, brotli_size) if brotli_id else None
    return ServedFile(sha256, size, content_type, blob_id, brotli, (gzip_id, gzip_size) if gzip_id else None)
