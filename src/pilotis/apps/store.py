"""SQL statements for apps and the PostgreSQL schemas that contain their rows."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps.types import BranchOf, CopiedSettings
from pilotis.db import sharding
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.db.waiters import CONSOLE, UNAUTHENTICATED


class LiveApp(msgspec.Struct, frozen=True):
    """An app that is not deleted; `limits` and `account_settings` are its own, JSON objects.

    `plan_limits` are those of its plan, and `exceeded` is the quota of it that was used up: JSON objects.
    """

    app_id: UUID
    name: str
    version: int
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: list[str]
    limits: str
    account_settings: str
    plan_limits: str
    exceeded: str | None


class AppOfKey(LiveApp, frozen=True):
    """The app of a public key, and the origins from which the key may be used; none means any."""

    allowed_origins: list[str]


class StoredApp(LiveApp, frozen=True):
    """An app with its times."""

    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    parent_app_id: UUID | None
    branch: str | None
    expires_at: datetime | None


class AppOfUser(StoredApp, frozen=True):
    """An app with a console user's role on it."""

    role: str


class AppWithKeys(msgspec.Struct, frozen=True):
    """An app, deleted or not, with its unrevoked public keys."""

    app_id: UUID
    name: str
    created_at: datetime
    deleted_at: datetime | None
    public_keys: list[str]


class RestorableApp(msgspec.Struct, frozen=True):
    """A console user's role on an app, whether it is deleted, whether it can still be restored, and is a branch."""

    role: str
    is_deleted: bool
    is_in_grace: bool
    is_branch: bool


_APP_COLUMNS = columns(LiveApp, "a")
_STORED = columns(StoredApp)


def _in_grace(days: str) -> str:
    """Return the condition of a deleted app that can still be restored; `days` is the number of the parameter."""
    # Not now(), which is the start of the transaction: a restore may have waited for a purge.
    return f"a.deleted_at > clock_timestamp() - make_interval(days => {days}::integer)"


async def live_app(database: Database, app_id: UUID) -> LiveApp | None:
    """Return an app that is not deleted."""
    row = await database.fetchrow(
        f"select {_APP_COLUMNS} from pilotis.apps a where a.app_id = $1 and a.deleted_at is null",
        app_id,
        tenant=UNAUTHENTICATED,
    )
    return None if row is None else LiveApp(**row)


async def app_of_public_key(database: Database, app_id: UUID, key: str) -> AppOfKey | None:
    """Return the existing app of a key, if the key belongs to the app and is not revoked."""
    row = await database.fetchrow(
        f"""
        select {_APP_COLUMNS}, k.allowed_origins
        from pilotis.public_keys k join pilotis.apps a using (app_id)
        where k.app_id = $1 and k.key = $2 and k.revoked_at is null and a.deleted_at is null
        """,
        app_id,
        key,
        tenant=UNAUTHENTICATED,
    )
    return None if row is None else AppOfKey(**row)


async def lock_live_app(connection: Connection, app_id: UUID) -> bool:
    """Lock an app against changes and deletion until the transaction ends; False if it is deleted."""
    found = await connection.fetchval(
        "select true from pilotis.apps where app_id = $1 and deleted_at is null for no key update", app_id
    )
    return bool(found)


async def apps_of_user(
    database: Database, user_id: UUID, limit: int, offset: int, grace_days: int
) -> tuple[list[AppOfUser], int]:
    """Return a page of the apps on which a user has a role, and the total count; only owners see deleted ones."""
    query = f"""
        select {columns(StoredApp, "a")}, r.role
        from pilotis.app_users r join pilotis.apps a using (app_id)
        where r.user_id = $1 and (a.deleted_at is null or r.role = 'owner' and {_in_grace("$2")})
    """
    return await fetch_page(
        database, CONSOLE, query, (user_id, grace_days), order_by="app_id", limit=limit, offset=offset, record=AppOfUser
    )


async def all_apps(database: Database) -> list[AppWithKeys]:
    """Return every app, including deleted ones."""
    rows = await database.fetch(
        """
        select a.app_id, a.name, a.created_at, a.deleted_at, array(
            select k.key from pilotis.public_keys k
            where k.app_id = a.app_id and k.revoked_at is null order by k.key_id
        ) as public_keys
        from pilotis.apps a order by a.app_id
        """,
        tenant=CONSOLE,
    )
    return [AppWithKeys(**row) for row in rows]


async def read_app(connection: Connection | TenantDatabase, app_id: UUID) -> StoredApp | None:
    """Return an app that is not deleted, with its times."""
    row = await connection.fetchrow(
        f"select {_STORED} from pilotis.apps where app_id = $1 and deleted_at is null", app_id
    )
    return None if row is None else StoredApp(**row)


async def insert_app(connection: Connection, app_id: UUID, name: str) -> None:
    """Insert an app."""
    await connection.execute("insert into pilotis.apps (app_id, name) values ($1, $2)", app_id, name)


async def update_app(connection: Connection, app_id: UUID, name: str | None, schema_locked: bool | None) -> StoredApp:
    """Update the given fields of an app and return it."""
    return await _updated(
        connection,
        "name = coalesce($2, name), schema_locked = coalesce($3, schema_locked)",
        app_id,
        name,
        schema_locked,
    )


async def update_auth_settings(connection: Connection, app_id: UUID, id_password: bool, guest: bool) -> StoredApp:
    """Replace an app's auth settings and return the app."""
    return await _updated(
        connection, "allow_id_password_login = $2, allow_guest_login = $3", app_id, id_password, guest
    )


async def update_account_settings(
    connection: Connection, app_id: UUID, settings: str, id_password: bool | None
) -> StoredApp:
    """Replace an app's account settings, a JSON object, and perhaps whether passwords are accepted; return the app."""
    return await _updated(
        connection,
        "account_settings = $2::jsonb, allow_id_password_login = coalesce($3, allow_id_password_login)",
        app_id,
        settings,
        id_password,
    )


async def put_challenge_secret(connection: Connection, app_id: UUID, secret: bytes) -> None:
    """Replace the encrypted secret of the vendor of an app's challenges."""
    await connection.execute(
        """
        insert into pilotis.challenge_secrets (app_id, secret) values ($1, $2)
        on conflict (app_id) do update set secret = excluded.secret
        """,
        app_id,
        secret,
    )


async def delete_challenge_secret(connection: Connection, app_id: UUID) -> None:
    """Delete the secret of the vendor of an app's challenges."""
    await connection.execute("delete from pilotis.challenge_secrets where app_id = $1", app_id)


async def challenge_secret(connection: Connection | TenantDatabase, app_id: UUID) -> bytes | None:
    """Return the encrypted secret of the vendor of an app's challenges."""
    found: bytes | None = await connection.fetchval(
        "select secret from pilotis.challenge_secrets where app_id = $1", app_id
    )
    return found


async def update_oauth_providers(connection: Connection, app_id: UUID, names: list[str]) -> None:
    """Replace the list of enabled providers of social login."""
    await _updated(connection, "enabled_oauth_providers = $2", app_id, names)


async def update_limits(connection: Connection, app_id: UUID, given: str, removed: list[str]) -> StoredApp:
    """Merge limits, given as a JSON object, into the app's own, remove some, and return the app."""
    return await _updated(connection, "limits = (limits || $2::jsonb) - $3::text[]", app_id, given, removed)


async def set_copied_settings(connection: Connection, app_id: UUID, settings: CopiedSettings) -> StoredApp:
    """Give a new app the settings of the one that it is a copy of, and return it."""
    return await _updated(
        connection,
        """schema_locked = $2, allow_id_password_login = $3, allow_guest_login = $4, limits = $5::jsonb,
        account_settings = $6::jsonb""",
        app_id,
        settings.schema_locked,
        settings.allow_id_password_login,
        settings.allow_guest_login,
        settings.limits,
        settings.account_settings,
    )


async def set_branch(connection: Connection, branch: BranchOf) -> None:
    """Make a new app the branch of another."""
    await connection.execute(
        """
        update pilotis.apps b set parent_app_id = p.app_id, branch = $3, expires_at = $4, plan = null,
            plan_limits = p.plan_limits, exceeded = p.exceeded
        from pilotis.apps p where b.app_id = $1 and p.app_id = $2
        """,
        branch.app_id,
        branch.parent_id,
        branch.name,
        branch.expires_at,
    )


async def has_branch(connection: Connection | TenantDatabase, app_id: UUID, name: str) -> bool:
    """Tell whether an app has a branch of this name."""
    found: bool = await connection.fetchval(
        "select exists (select from pilotis.apps where parent_app_id = $1 and branch = $2 and deleted_at is null)",
        app_id,
        name,
    )
    return found


async def copy_plan(connection: Connection, app_id: UUID, branch_id: UUID) -> None:
    """Give a branch the limits of its parent's plan, and what its parent has exceeded."""
    await connection.execute(
        """
        update pilotis.apps b set plan_limits = p.plan_limits, exceeded = p.exceeded
        from pilotis.apps p where b.app_id = $2 and p.app_id = $1
        """,
        app_id,
        branch_id,
    )


async def assign_plan(connection: Connection, app_id: UUID, name: str) -> None:
    """Give a new app a plan, if there is one of this name."""
    await connection.execute(
        """
        update pilotis.apps a set plan = p.name, plan_limits = p.limits from pilotis.plans p
        where a.app_id = $1 and p.name = $2
        """,
        app_id,
        name,
    )


async def set_plan(connection: Connection, app_id: UUID, name: str | None, limits: str) -> list[UUID]:
    """Set the plan of an app, and its limits for the app and its branches; return all of them."""
    rows = await connection.fetch(
        """
        update pilotis.apps set plan = case when app_id = $1 then $2 end, plan_limits = $3::jsonb, updated_at = now()
        where app_id = $1 or parent_app_id = $1 returning app_id
        """,
        app_id,
        name,
        limits,
    )
    return [found for (found,) in rows]


async def apps_of_plan(connection: Connection, name: str) -> list[UUID]:
    """Return the apps that have a plan."""
    rows = await connection.fetch("select app_id from pilotis.apps where plan = $1 order by app_id", name)
    return [found for (found,) in rows]


async def set_plan_limits(connection: Connection, name: str, limits: str) -> dict[UUID, bool]:
    """Set the limits of a plan for its apps and their branches; return whether each of them has the plan itself."""
    rows = await connection.fetch(
        """
        update pilotis.apps set plan_limits = $2::jsonb, updated_at = now()
        where plan = $1 or parent_app_id in (select app_id from pilotis.apps where plan = $1)
        returning app_id, parent_app_id is null
        """,
        name,
        limits,
    )
    return dict(map(tuple, rows))


async def set_exceeded(connection: Connection, app_id: UUID, exceeded: str | None) -> list[UUID]:
    """Set which quota an app has used up, for the app and its branches; return all of them."""
    rows = await connection.fetch(
        "update pilotis.apps set exceeded = $2::jsonb where app_id = $1 or parent_app_id = $1 returning app_id",
        app_id,
        exceeded,
    )
    return [found for (found,) in rows]


async def owners_of(connection: Connection, app_id: UUID) -> tuple[str, list[str]]:
    """Return an app's name, and the addresses of its active owners."""
    rows = await connection.fetch(
        """
        select a.name, u.email from pilotis.apps a
        join pilotis.app_users r on r.app_id = a.app_id and r.role = 'owner'
        join pilotis.users u on u.user_id = r.user_id and u.is_active
        where a.app_id = $1 order by u.email
        """,
        app_id,
    )
    return (rows[0]["name"] if rows else "", [row["email"] for row in rows])


async def branches_of(connection: Connection, app_id: UUID) -> list[StoredApp]:
    """Return the branches of an app that are not deleted."""
    rows = await connection.fetch(
        f"select {_STORED} from pilotis.apps where parent_app_id = $1 and deleted_at is null order by app_id", app_id
    )
    return [StoredApp(**row) for row in rows]


async def ended_branches(connection: Connection) -> list[UUID]:
    """Return the branches that have expired, or whose parent is deleted; those that are deleted are left out."""
    rows = await connection.fetch(
        """
        select a.app_id from pilotis.apps a left join pilotis.apps p on p.app_id = a.parent_app_id
        where a.parent_app_id is not null and a.deleted_at is null
            and (a.expires_at < now() or p.app_id is null or p.deleted_at is not null)
        order by a.app_id
        """
    )
    return [app_id for (app_id,) in rows]


async def _updated(connection: Connection, assignments: str, app_id: UUID, *values: object) -> StoredApp:
    row = await connection.fetchrow(
        f"""
        update pilotis.apps set {assignments}, version = version + 1, updated_at = now()
        where app_id = $1 returning {_STORED}
        """,
        app_id,
        *values,
    )
    assert row is not None
    return StoredApp(**row)


async def mark_deleted(connection: Connection, app_id: UUID) -> None:
    """Mark an app as deleted. After the commit no statement can reach its rows."""
    await _updated(connection, "deleted_at = now()", app_id)
    await connection.execute(f"alter schema {live_schema(app_id)} rename to {_deleted_schema(app_id)}")


async def lock_deleted_app(
    connection: Connection, app_id: UUID, user_id: UUID, grace_days: int
) -> RestorableApp | None:
    """Return a deleted or existing app with the user's role on it, locked until the transaction ends."""
    row = await connection.fetchrow(
        f"""
        select r.role, a.deleted_at is not null as is_deleted, coalesce({_in_grace("$3")}, false) as is_in_grace,
            a.parent_app_id is not null as is_branch
        from pilotis.apps a join pilotis.app_users r using (app_id)
        where a.app_id = $1 and r.user_id = $2 for no key update of a
        """,
        app_id,
        user_id,
        grace_days,
    )
    return None if row is None else RestorableApp(**row)


async def mark_restored(connection: Connection, app_id: UUID) -> StoredApp:
    """Restore a deleted app and return it."""
    await connection.execute(f"alter schema {_deleted_schema(app_id)} rename to {live_schema(app_id)}")
    return await _updated(connection, "deleted_at = null", app_id)


async def apps_to_purge(connection: Connection, grace_days: int) -> list[UUID]:
    """Return the apps whose grace period is over."""
    rows = await connection.fetch(
        f"select app_id from pilotis.apps a where not {_in_grace('$1')} order by deleted_at", grace_days
    )
    return [app_id for (app_id,) in rows]


async def lock_app_to_purge(connection: Connection, app_id: UUID, grace_days: int) -> bool:
    """Lock an app to purge until the transaction ends; False if another node is purging or has purged it."""
    locked = await connection.fetchval(
        f"select true from pilotis.apps a where app_id = $1 and not {_in_grace('$2')} for update skip locked",
        app_id,
        grace_days,
    )
    return bool(locked)


async def drop_some_tables(connection: Connection, app_id: UUID, limit: int) -> int:
    """Drop some of a deleted app's tables and return how many; each takes locks, whose number is limited."""
    rows = await connection.fetch(
        "select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables"
        " where schemaname = $1 limit $2",
        _deleted_schema(app_id),
        limit,
    )
    if rows:
        await connection.execute(f"drop table {', '.join(name for (name,) in rows)} cascade")
    return len(rows)


async def delete_app(connection: Connection, app_id: UUID) -> None:
    """Delete a deleted app permanently, with everything that refers to it."""
    await connection.execute(f"drop schema if exists {_deleted_schema(app_id)} cascade")
    await connection.execute("delete from pilotis.sessions where app_id = $1", app_id)
    await connection.execute("delete from pilotis.audit_log where app_id = $1", app_id)
    await connection.execute("delete from pilotis.apps where app_id = $1", app_id)


async def create_schema(connection: Connection, app_id: UUID) -> None:
    """Create the PostgreSQL schema for an app's rows, with the table that stores its row counts.

    Each writing connection has its own slot in the row counts, so that no writer waits for another; see
    `pilotis.data.rows.counts`.
    """
    schema = live_schema(app_id)
    await sharding.distribute_new_schemas(connection, True)
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
    """Return the name of an existing app's PostgreSQL schema; hexadecimal digits only, so it needs no quoting."""
    return f"app_{app_id.hex}"


def _deleted_schema(app_id: UUID) -> str:
    return f"deleted_{app_id.hex}"
