"""SQL statements for authorization requests, consents, and browsers in which members are signed in."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database


async def browser_session(database: Database, app_id: UUID, cookie_hash: bytes) -> Record | None:
    """Return the session of a cookie if it has not ended and its member is active and not a guest."""
    return await database.fetchrow(
        """
        select s.session_id, s.created_at, s.amr, m.member_id, m.nickname, now() as asked_at
        from pilotis.oauth_browsers b
        join pilotis.sessions s on s.app_id = b.app_id and s.session_id = b.session_id
        join pilotis.members m on m.app_id = s.app_id and m.member_id = s.subject
        where b.app_id = $1 and b.hash = $2 and b.expires_at > now() and s.revoked_at is null
            and s.expires_at > now() and m.is_active and not m.is_guest
        """,
        app_id,
        cookie_hash,
        tenant=app_id,
    )


async def session(connection: Connection, app_id: UUID, session_id: UUID) -> Record | None:
    """Return when a session was created, and the current time; None if it has ended."""
    return await connection.fetchrow(
        """
        select created_at, amr, now() as asked_at from pilotis.sessions
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now()
        """,
        app_id,
        session_id,
    )


async def nickname(database: Database, app_id: UUID, member_id: str) -> str | None:
    """Return a member's nickname."""
    found: str | None = await database.fetchval(
        "select nickname from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id, tenant=app_id
    )
    return found


async def insert_browser(
    connection: Connection, app_id: UUID, cookie_hash: bytes, session_id: UUID, lifetime: timedelta
) -> None:
    """Store a browser by its cookie's hash."""
    await connection.execute(
        """
        insert into pilotis.oauth_browsers (app_id, hash, session_id, expires_at)
        values ($1, $2, $3, now() + $4::interval)
        """,
        app_id,
        cookie_hash,
        session_id,
        lifetime,
    )


async def insert_request(
    database: Database,
    app_id: UUID,
    request_hash: bytes,
    client_id: str,
    request: str,
    lifetime: timedelta,
    *,
    is_pushed: bool = False,
    pushed_hash: bytes | None = None,
    browser_hash: bytes | None = None,
) -> None:
    """Insert an authorization request, as JSON; `pushed_hash` identifies the pushed request that it opens."""
    await database.execute(
        """
        insert into pilotis.oauth_requests
            (app_id, hash, client_id, request, expires_at, is_pushed, pushed_hash, browser_hash)
        values ($1, $2, $3, $4, now() + $5::interval, $6, $7, $8)
        """,
        app_id,
        request_hash,
        client_id,
        request,
        lifetime,
        is_pushed,
        pushed_hash,
        browser_hash,
        tenant=app_id,
    )


async def open_pushed(
    database: Database, app_id: UUID, request_hash: bytes, client_id: str, lifetime: timedelta
) -> str | None:
    """Return a client's pushed request, JSON, and allow opening it again within `lifetime` after it was pushed."""
    found: str | None = await database.fetchval(
        """
        update pilotis.oauth_requests set expires_at = created_at + $4::interval
        where app_id = $1 and hash = $2 and client_id = $3 and is_pushed and state = 'pending' and expires_at > now()
        returning request
        """,
        app_id,
        request_hash,
        client_id,
        lifetime,
        tenant=app_id,
    )
    return found


async def request(database: Database, app_id: UUID, request_hash: bytes) -> Record | None:
    """Return a request that awaits a decision, or that was decided recently."""
    return await database.fetchrow(f"{_REQUEST}", app_id, request_hash, tenant=app_id)


async def lock_request(connection: Connection, app_id: UUID, request_hash: bytes) -> Record | None:
    """Return a request, locked against other decisions until the transaction ends."""
    return await connection.fetchrow(f"{_REQUEST} for update", app_id, request_hash)


_REQUEST = """
    select *, expires_at <= now() as is_expired from pilotis.oauth_requests
    where app_id = $1 and hash = $2 and not is_pushed
"""


async def bind_request(connection: Connection, app_id: UUID, request_hash: bytes, member_id: str) -> None:
    """Assign a request to the member that loaded it."""
    await connection.execute(
        "update pilotis.oauth_requests set member_id = $3 where app_id = $1 and hash = $2",
        app_id,
        request_hash,
        member_id,
    )


async def decide_request(
    connection: Connection, app_id: UUID, request_hash: bytes, pushed_hash: bytes | None, state: str
) -> bool:
    """Record a decision; False if the pushed request that it opened has already been decided."""
    if pushed_hash is not None:
        tag = await connection.execute(
            """
            update pilotis.oauth_requests set state = $3
            where app_id = $1 and hash = $2 and state = 'pending'
            """,
            app_id,
            pushed_hash,
            state,
        )
        if tag != "UPDATE 1":
            return False
    await connection.execute(
        "update pilotis.oauth_requests set state = $3 where app_id = $1 and hash = $2", app_id, request_hash, state
    )
    return True


async def use_pushed(connection: Connection, app_id: UUID, pushed_hash: bytes) -> bool:
    """Mark a pushed request as used without asking the member; False if it has already been decided."""
    tag = await connection.execute(
        """
        update pilotis.oauth_requests set state = 'approved' where app_id = $1 and hash = $2 and state = 'pending'
        """,
        app_id,
        pushed_hash,
    )
    return tag == "UPDATE 1"


async def consent(database: Database, app_id: UUID, member_id: str, client_id: str) -> Record | None:
    """Return a member's consent to a client; `is_stale` is true if its use has not been recorded for a minute."""
    return await database.fetchrow(
        """
        select consent_id, scopes, coalesce(last_used_at < now() - interval '1 minute', true) as is_stale
        from pilotis.oauth_consents
        where app_id = $1 and member_id = $2 and client_id = $3
        """,
        app_id,
        member_id,
        client_id,
        tenant=app_id,
    )


async def add_consent(
    connection: Connection, app_id: UUID, consent_id: UUID, member_id: str, client_id: str, scopes: list[str]
) -> Record:
    """Add scopes to a member's consent to a client, and return its id and scopes, and whether they `grew`."""
    row = await connection.fetchrow(
        """
        with before as (
            select scopes from pilotis.oauth_consents where app_id = $1 and member_id = $3 and client_id = $4
        )
        insert into pilotis.oauth_consents as c (app_id, consent_id, member_id, client_id, scopes, last_used_at)
        values ($1, $2, $3, $4, $5, now())
        on conflict (app_id, member_id, client_id) do update set
            scopes = array(select distinct unnest(c.scopes || excluded.scopes) order by 1), granted_at = now(),
            last_used_at = now()
        returning consent_id, scopes, not coalesce(scopes <@ (select scopes from before), false) as grew
        """,
        app_id,
        consent_id,
        member_id,
        client_id,
        scopes,
    )
    assert row is not None
    return row


async def touch_consent(connection: Connection, app_id: UUID, consent_id: UUID) -> None:
    """Record that a consent was used."""
    await connection.execute(
        "update pilotis.oauth_consents set last_used_at = now() where app_id = $1 and consent_id = $2",
        app_id,
        consent_id,
    )


async def connections(
    database: Database, app_id: UUID, member_id: str, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return a page of a member's consents with their clients, newest first, and the total count."""
    query = """
        select n.consent_id, n.scopes, n.granted_at, n.last_used_at, c.client_id, c.name, c.description, c.logo_url,
            c.client_uri, c.policy_uri, c.tos_uri
        from pilotis.oauth_consents n
        join pilotis.oauth_clients c on c.app_id = n.app_id and c.client_id = n.client_id
        where n.app_id = $1 and n.member_id = $2
    """
    order_by = "granted_at desc, consent_id"
    return await fetch_page(database, app_id, query, (app_id, member_id), order_by=order_by, limit=limit, offset=offset)


async def delete_consent(connection: Connection, app_id: UUID, member_id: str, consent_id: UUID) -> Record | None:
    """Delete a member's consent and return its client and scopes; None if it does not exist."""
    return await connection.fetchrow(
        """
        delete from pilotis.oauth_consents where app_id = $1 and member_id = $2 and consent_id = $3
        returning client_id, scopes
        """,
        app_id,
        member_id,
        consent_id,
    )


async def covers(
    database: Database, app_id: UUID, client_id: str, event_type: str, member_id: str | None, consumer_app_id: UUID
) -> bool:
    """Return whether a client may receive a domain event by a webhook of the given app.

    That app is the provider itself, or the consumer to which the client is linked. The client must be active and have
    the scope that the event requires. If the event is about a member, the member must be active and have granted that
    scope. A first-party client needs no consent.
    """
    found = await database.fetchval(
        """
        select true from pilotis.event_types t
        join pilotis.oauth_clients c on c.app_id = t.app_id and c.client_id = $2 and c.is_active
            and (t.required_scope is null or t.required_scope = any(c.scopes))
            and $5 in (c.app_id, c.consumer_app_id)
        where t.app_id = $1 and t.event_type = $3 and ($4::text is null or c.first_party or exists (
            select from pilotis.oauth_consents n
            join pilotis.members m on m.app_id = n.app_id and m.member_id = n.member_id and m.is_active
            where n.app_id = $1 and n.client_id = $2 and n.member_id = $4
                and (t.required_scope is null or t.required_scope = any(n.scopes))
        ))
        """,
        app_id,
        client_id,
        event_type,
        member_id,
        consumer_app_id,
        tenant=app_id,
    )
    return bool(found)


async def delete_expired(connection: Connection) -> None:
    """Delete requests one hour after they expire, and expired browsers."""
    await connection.execute("delete from pilotis.oauth_requests where expires_at < now() - interval '1 hour'")
    await connection.execute("delete from pilotis.oauth_browsers where expires_at < now()")
