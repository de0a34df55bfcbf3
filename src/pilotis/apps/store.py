"""The statements on apps and the PostgreSQL schemas that hold their rows."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database

GRACE_DAYS = 7

_APP_COLUMNS = """
    a.app_id, a.name, a.version, a.schema_locked, a.allow_id_password_login, a.allow_guest_login,
    a.enabled_oauth_providers, a.limits
"""
# Not now(), which stands still while a restore waits for a purge.
_IN_GRACE = f"deleted_at > clock_timestamp() - interval '{GRACE_DAYS} days'"
_GRACE_OVER = f"deleted_at <= clock_timestamp() - interval '{GRACE_DAYS} days'"


async def live_app(database: Database, app_id: UUID) -> Record | None:
    """Return an app that is not deleted."""
    return await database.fetchrow(
        f"select {_APP_COLUMNS} from pilotis.apps a where a.app_id = $1 and a.deleted_at is null",
        app_id,
    )


async def app_of_public_key(database: Database, app_id: UUID, key: str) -> Record | None:
    """Return the live app and the key's `allowed_origins`, if the key is the app's and not revoked."""
    return await database.fetchrow(
        f"""
        select {_APP_COLUMNS}, k.allowed_origins
        from pilotis.public_keys k join pilotis.apps a using (app_id)
        where k.app_id = $1 and k.key = $2 and k.revoked_at is null and a.deleted_at is null
        """,
        app_id,
        key,
    )


async def lock_live_app(connection: Connection, app_id: UUID) -> Record | None:
    """Return an app that is not deleted, locked until the transaction ends against changes and deletion."""
    return await connection.fetchrow(
        "select * from pilotis.apps where app_id = $1 and deleted_at is null for no key update", app_id
    )


async def apps_of_user(database: Database, user_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the apps that a user has a role on, and their number; deleted ones are their owners' to see."""
    query = f"""
        select a.*, r.role from pilotis.app_users r join pilotis.apps a using (app_id)
        where r.user_id = $1 and (a.deleted_at is null or r.role = 'owner' and a.{_IN_GRACE})
    """
    return await fetch_page(database, query, (user_id,), order_by="app_id", limit=limit, offset=offset)


async def read_app(database: Database, app_id: UUID) -> Record | None:
    """Return all of an app that is not deleted."""
    return await database.fetchrow("select * from pilotis.apps where app_id = $1 and deleted_at is null", app_id)


async def insert_app(connection: Connection, app_id: UUID, name: str) -> None:
    """Insert an app."""
    await connection.execute("insert into pilotis.apps (app_id, name) values ($1, $2)", app_id, name)


async def update_app(connection: Connection, app_id: UUID, name: str | None, schema_locked: bool | None) -> Record:
    """Change what is given of an app and return it."""
    return await _updated(
        connection,
        "name = coalesce($2, name), schema_locked = coalesce($3, schema_locked)",
        app_id,
        name,
        schema_locked,
    )


async def update_auth_settings(
    connection: Connection, app_id: UUID, id_password: bool, guest: bool, providers: list[str]
) -> Record:
    """Put auth settings in place of an app's and return the app."""
    return await _updated(
        connection,
        "allow_id_password_login = $2, allow_guest_login = $3, enabled_oauth_providers = $4",
        app_id,
        id_password,
        guest,
        providers,
    )


async def update_limits(connection: Connection, app_id: UUID, given: str, removed: list[str]) -> Record:
    """Merge limits, given as a JSON object, into the app's own, remove some, and return the app."""
    return await _updated(connection, "limits = (limits || $2::jsonb) - $3::text[]", app_id, given, removed)


async def _updated(connection: Connection, assignments: str, app_id: UUID, *values: object) -> Record:
    row = await connection.fetchrow(
        f"""
        update pilotis.apps set {assignments}, version = version + 1, updated_at = now()
        where app_id = $1 returning *
        """,
        app_id,
        *values,
    )
    assert row is not None
    return row


async def mark_deleted(connection: Connection, app_id: UUID) -> None:
    """Begin an app's days of grace. Its rows are out of reach of every statement from the commit on."""
    await _updated(connection, "deleted_at = now()", app_id)
    await connection.execute(f"alter schema {live_schema(app_id)} rename to {_deleted_schema(app_id)}")


async def lock_deleted_app(connection: Connection, app_id: UUID, user_id: UUID) -> Record | None:
    """Return an app that is deleted or live, with the user's role on it, locked until the transaction ends."""
    return await connection.fetchrow(
        f"""
        select r.role, a.deleted_at is not null as is_deleted, coalesce(a.{_IN_GRACE}, false) as is_in_grace
        from pilotis.apps a join pilotis.app_users r using (app_id)
        where a.app_id = $1 and r.user_id = $2 for no key update of a
        """,
        app_id,
        user_id,
    )


async def mark_restored(connection: Connection, app_id: UUID) -> Record:
    """Take an app's deletion back and return the app."""
    await connection.execute(f"alter schema {_deleted_schema(app_id)} rename to {live_schema(app_id)}")
    return await _updated(connection, "deleted_at = null", app_id)


async def apps_to_purge(connection: Connection) -> list[UUID]:
    """Return the apps whose days of grace are over."""
    rows = await connection.fetch(f"select app_id from pilotis.apps where {_GRACE_OVER} order by deleted_at")
    return [row["app_id"] for row in rows]


async def lock_app_to_purge(connection: Connection, app_id: UUID) -> bool:
    """Lock an app whose grace is over until the transaction ends; False if another node has it, or had it."""
    locked = await connection.fetchval(
        f"select true from pilotis.apps where app_id = $1 and {_GRACE_OVER} for update skip locked", app_id
    )
    return bool(locked)


async def drop_some_tables(connection: Connection, app_id: UUID, most: int) -> int:
    """Drop some of a deleted app's tables and return how many: each takes locks, which a transaction has few of."""
    rows = await connection.fetch(
        "select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables"
        " where schemaname = $1 limit $2",
        _deleted_schema(app_id),
        most,
    )
    if rows:
        await connection.execute(f"drop table {', '.join(row['name'] for row in rows)} cascade")
    return len(rows)


async def delete_app(connection: Connection, app_id: UUID) -> None:
    """Delete a deleted app for good, with all that names it."""
    await connection.execute(f"drop schema if exists {_deleted_schema(app_id)} cascade")
    await connection.execute("delete from pilotis.sessions where app_id = $1", app_id)
    await connection.execute("delete from pilotis.audit_log where app_id = $1", app_id)
    await connection.execute("delete from pilotis.apps where app_id = $1", app_id)


async def create_schema(connection: Connection, app_id: UUID) -> None:
    """Create the PostgreSQL schema that holds an app's rows, with the tally its row counts are kept in.

    Each writing connection has its own slot in the tally, so that no writer waits for another; see
    `pilotis.rows.counts`.
    """
    schema = live_schema(app_id)
    await connection.execute(
        f"""
        create schema {schema};
        create table {schema}.__row_counts (
            table_id uuid not null,
            slot integer not null,
            rows bigint not null,
            primary key (table_id, slot)
        ) with (fillfactor = 50);
        """
    )


def live_schema(app_id: UUID) -> str:
    """Return the name of a live app's PostgreSQL schema; hexadecimal digits only, so it needs no quoting."""
    return f"app_{app_id.hex}"


def _deleted_schema(app_id: UUID) -> str:
    return f"deleted_{app_id.hex}"
