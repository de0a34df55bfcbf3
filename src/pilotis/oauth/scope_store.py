"""SQL statements for the scopes that apps offer."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.oauth.records import ScopeTexts, StoredScope

_SCOPE = columns(StoredScope)


async def scopes(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredScope], int]:
    """Return a page of the app's scopes, and the total count."""
    query = f"select {_SCOPE} from pilotis.oauth_scopes where app_id = $1"
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="name", limit=limit, offset=offset, record=StoredScope
    )


async def put_scope(
    connection: Connection,
    app_id: UUID,
    name: str,
    title: str,
    description: str,
    is_default: bool,
    is_required: bool,
    translations: str,
    claims: str,
) -> StoredScope:
    """Insert or replace a scope and return it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.oauth_scopes (
            app_id, name, title, description, is_default, is_required, translations, claims
        ) values ($1, $2, $3, $4, $5, $6, $7, $8)
        on conflict (app_id, name) do update set
            title = excluded.title, description = excluded.description, is_default = excluded.is_default,
            is_required = excluded.is_required, translations = excluded.translations, claims = excluded.claims,
            updated_at = now()
        returning {_SCOPE}
        """,
        app_id,
        name,
        title,
        description,
        is_default,
        is_required,
        translations,
        claims,
    )
    assert row is not None
    return StoredScope(**row)


async def delete_scope(connection: Connection, app_id: UUID, name: str) -> bool:
    """Delete a scope; False if it does not exist. Waits for transactions that are adding it to a client."""
    tag = await connection.execute("delete from pilotis.oauth_scopes where app_id = $1 and name = $2", app_id, name)
    return tag == "DELETE 1"


async def existing_scopes(connection: Connection, app_id: UUID, names: Sequence[str]) -> set[str]:
    """Return which of the scopes exist in the app, and lock them until the transaction ends."""
    rows = await connection.fetch(
        "select name from pilotis.oauth_scopes where app_id = $1 and name = any($2) for share", app_id, names
    )
    return {name for (name,) in rows}


async def scope_texts(database: Database, app_id: UUID) -> list[ScopeTexts]:
    """Return the app's scopes with the texts that members read."""
    rows = await database.fetch(
        """
        select name, title, description, is_default, is_required, translations, claims
        from pilotis.oauth_scopes where app_id = $1 order by name
        """,
        app_id,
        tenant=app_id,
    )
    return [ScopeTexts(**row) for row in rows]
