"""SQL statements for providers of social login, and on members' identities with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class EnabledProvider(msgspec.Struct, frozen=True):
    """A provider of an app, without its secret; `options` is a JSON object."""

    provider: str
    options: str


class StoredProvider(EnabledProvider, frozen=True):
    """A provider of an app; its secret is encrypted."""

    client_id: str
    client_secret: bytes | None
    scopes: list[str]
    client_ids: list[str]
    is_enabled: bool
    created_at: datetime
    updated_at: datetime


class Identity(msgspec.Struct, frozen=True):
    """A member's account at a vendor."""

    provider: str
    subject: str
    email: str | None
    email_verified: bool
    created_at: datetime
    last_used_at: datetime


_PROVIDER = columns(StoredProvider)
_ONE = f"select {_PROVIDER} from pilotis.social_providers where app_id = $1 and provider = $2"


async def providers(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredProvider], int]:
    """Return a page of the app's providers, and their number."""
    query = f"select {_PROVIDER} from pilotis.social_providers where app_id = $1"
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="provider", limit=limit, offset=offset, record=StoredProvider
    )


async def enabled(database: Database, app_id: UUID) -> list[EnabledProvider]:
    """Return the app's enabled providers, without their secrets."""
    rows = await database.fetch(
        "select provider, options from pilotis.social_providers where app_id = $1 and is_enabled order by provider",
        app_id,
        tenant=app_id,
    )
    return [EnabledProvider(**row) for row in rows]


async def enabled_provider(database: Database, app_id: UUID, provider: str) -> StoredProvider | None:
    """Return one of the app's enabled providers."""
    row = await database.fetchrow(f"{_ONE} and is_enabled", app_id, provider, tenant=app_id)
    return None if row is None else StoredProvider(**row)


async def provider(connection: Connection, app_id: UUID, name: str) -> StoredProvider | None:
    """Return one of the app's providers, enabled or not."""
    row = await connection.fetchrow(_ONE, app_id, name)
    return None if row is None else StoredProvider(**row)


async def count_providers(connection: Connection, app_id: UUID) -> int:
    """Return how many providers the app has, enabled or not."""
    number: int = await connection.fetchval("select count(*) from pilotis.social_providers where app_id = $1", app_id)
    return number


async def put_provider(connection: Connection, app_id: UUID, name: str, fields: dict[str, Any]) -> StoredProvider:
    """Insert or replace a provider and return it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.social_providers
            (app_id, provider, client_id, client_secret, scopes, is_enabled, options, client_ids)
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        on conflict (app_id, provider) do update set
            client_id = excluded.client_id, client_secret = excluded.client_secret, scopes = excluded.scopes,
            is_enabled = excluded.is_enabled, options = excluded.options, client_ids = excluded.client_ids,
            updated_at = now()
        returning {_PROVIDER}
        """,
        app_id,
        name,
        fields["client_id"],
        fields["client_secret"],
        fields["scopes"],
        fields["is_enabled"],
        fields["options"],
        fields["client_ids"],
    )
    assert row is not None
    return StoredProvider(**row)


async def delete_provider(connection: Connection, app_id: UUID, name: str) -> bool:
    """Delete a provider; False if there is none."""
    tag = await connection.execute(
        "delete from pilotis.social_providers where app_id = $1 and provider = $2", app_id, name
    )
    return tag == "DELETE 1"


async def enabled_names(connection: Connection, app_id: UUID) -> list[str]:
    """Return the names of the app's enabled providers."""
    rows = await connection.fetch(
        "select provider from pilotis.social_providers where app_id = $1 and is_enabled order by provider", app_id
    )
    return [name for (name,) in rows]


async def linked_member(
    connection: Connection | TenantDatabase, app_id: UUID, provider: str, subject: str
) -> str | None:
    """Return the member to which an account at a vendor is linked, if any."""
    found: str | None = await connection.fetchval(
        "select member_id from pilotis.member_identities where app_id = $1 and provider = $2 and subject = $3",
        app_id,
        provider,
        subject,
    )
    return found


async def use_identity(
    connection: Connection, app_id: UUID, provider: str, subject: str, email: str | None, verified: bool
) -> str | None:
    """Record that an account at a vendor has signed in, and return its member, if any.

    The member is locked before: whoever deletes one locks it first, too.
    """
    found: str | None = await connection.fetchval(
        """
        update pilotis.member_identities set last_used_at = now(), email = $4, email_verified = $5
        where app_id = $1 and provider = $2 and subject = $3
        returning member_id
        """,
        app_id,
        provider,
        subject,
        email,
        verified,
    )
    return found


async def insert_identity(
    connection: Connection,
    app_id: UUID,
    provider: str,
    subject: str,
    member_id: str,
    email: str | None,
    verified: bool,
    picture: str | None,
) -> bool:
    """Link an account at a vendor to a member; False if it has been linked concurrently."""
    tag = await connection.execute(
        """
        insert into pilotis.member_identities (app_id, provider, subject, member_id, email, email_verified, picture)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (app_id, provider, subject) do nothing
        """,
        app_id,
        provider,
        subject,
        member_id,
        email,
        verified,
        picture,
    )
    return tag == "INSERT 0 1"


async def member_with_email(connection: Connection, app_id: UUID, email: str) -> str | None:
    """Return the member whose address another vendor has verified, if there is exactly one."""
    rows = await connection.fetch(
        """
        select distinct member_id from pilotis.member_identities
        where app_id = $1 and email = $2 and email_verified limit 2
        """,
        app_id,
        email,
    )
    found: list[str] = [member_id for (member_id,) in rows]
    return found[0] if len(found) == 1 else None


async def links_by_email(connection: Connection, app_id: UUID) -> bool:
    """Return whether the app links accounts by addresses that vendors have verified."""
    found = await connection.fetchval(
        "select link_by_verified_email from pilotis.oauth_settings where app_id = $1", app_id
    )
    return bool(found)


async def is_member(database: Database, app_id: UUID, member_id: str) -> bool:
    """Return whether the app has the member."""
    found = await database.fetchval(
        "select true from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id, tenant=app_id
    )
    return bool(found)


async def identities(database: Database, app_id: UUID, member_id: str) -> list[Identity]:
    """Return a member's accounts at vendors, the one used last first."""
    rows = await database.fetch(
        """
        select provider, subject, email, email_verified, created_at, last_used_at
        from pilotis.member_identities where app_id = $1 and member_id = $2
        order by last_used_at desc, provider, subject
        """,
        app_id,
        member_id,
        tenant=app_id,
    )
    return [Identity(**row) for row in rows]


async def has_identity(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> bool:
    """Return whether a member has an account at a vendor."""
    found = await connection.fetchval(
        "select true from pilotis.member_identities where app_id = $1 and member_id = $2 limit 1", app_id, member_id
    )
    return bool(found)


async def delete_identities(connection: Connection, app_id: UUID, member_id: str, provider: str) -> bool:
    """Unlink a member's accounts at a vendor; False if there are none."""
    tag = await connection.execute(
        "delete from pilotis.member_identities where app_id = $1 and member_id = $2 and provider = $3",
        app_id,
        member_id,
        provider,
    )
    return tag != "DELETE 0"


async def delete_all_identities(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Unlink all of a member's accounts at vendors."""
    await connection.execute(
        "delete from pilotis.member_identities where app_id = $1 and member_id = $2", app_id, member_id
    )
