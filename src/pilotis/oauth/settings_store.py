"""SQL statements for provider settings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.db.waiters import UNAUTHENTICATED
from pilotis.oauth.records import NamedProvider, StoredSettings

_SETTINGS = columns(StoredSettings)
_READ = f"select {_SETTINGS} from pilotis.oauth_settings where app_id = $1"


async def settings(database: Database, app_id: UUID) -> StoredSettings | None:
    """Return an app's settings, or None if they were never changed."""
    row = await database.fetchrow(_READ, app_id, tenant=app_id)
    return None if row is None else StoredSettings(**row)


async def provider(database: Database, app_id: UUID) -> NamedProvider | None:
    """Return the name and the scopes of an existing app that is a provider."""
    row = await database.fetchrow(
        """
        select a.name, array(select o.name from pilotis.oauth_scopes o where o.app_id = $1 order by o.name) as scopes
        from pilotis.apps a join pilotis.oauth_settings s on s.app_id = a.app_id and s.is_provider
        where a.app_id = $1 and a.deleted_at is null
        """,
        app_id,
        tenant=UNAUTHENTICATED,
    )
    return None if row is None else NamedProvider(**row)


async def lock_settings(connection: Connection, app_id: UUID) -> StoredSettings:
    """Return an app's settings, inserted if absent, locked against changes until the transaction ends."""
    await connection.execute(
        "insert into pilotis.oauth_settings (app_id) values ($1) on conflict (app_id) do nothing", app_id
    )
    row = await connection.fetchrow(f"{_READ} for update", app_id)
    assert row is not None
    return StoredSettings(**row)


async def update_settings(connection: Connection, app_id: UUID, fields: dict[str, Any]) -> StoredSettings:
    """Replace an app's settings and return them."""
    row = await connection.fetchrow(
        f"""
        update pilotis.oauth_settings set
            is_provider = $2, access_token_seconds = $3, refresh_idle_days = $4, refresh_absolute_days = $5,
            consent_url = $6, login_redirect_uris = $7, first_party_client_id = $8, public_key = $9,
            dpop_nonce = $10, link_by_verified_email = $11, resources = $12,
            dynamic_clients = $13, dynamic_scopes = $14, updated_at = now()
        where app_id = $1
        returning {_SETTINGS}
        """,
        app_id,
        fields["is_provider"],
        fields["access_token_seconds"],
        fields["refresh_idle_days"],
        fields["refresh_absolute_days"],
        fields["consent_url"],
        fields["login_redirect_uris"],
        fields["first_party_client_id"],
        fields["public_key"],
        fields["dpop_nonce"],
        fields["link_by_verified_email"],
        fields["resources"],
        fields["dynamic_clients"],
        fields["dynamic_scopes"],
    )
    assert row is not None
    return StoredSettings(**row)


async def claim_resources(connection: Connection, app_id: UUID, resources: list[str]) -> bool:
    """Let these resources, in their normal form, be the app's, and no others; False if another app has one of them."""
    await connection.execute(
        "delete from pilotis.oauth_resources where app_id = $1 and resource <> all($2)", app_id, resources
    )
    await connection.execute(
        """
        insert into pilotis.oauth_resources (resource, app_id) select unnest($2::text[]), $1
        on conflict (resource) do nothing
        """,
        app_id,
        resources,
    )
    own = await connection.fetchval(
        "select count(*) from pilotis.oauth_resources where app_id = $1 and resource = any($2)", app_id, resources
    )
    return bool(own == len(resources))


async def is_key_in_force(connection: Connection, app_id: UUID, key: str | None) -> bool:
    """Return whether a public key belongs to the app and is not revoked."""
    found = await connection.fetchval(
        "select true from pilotis.public_keys where app_id = $1 and key = $2 and revoked_at is null", app_id, key
    )
    return bool(found)
