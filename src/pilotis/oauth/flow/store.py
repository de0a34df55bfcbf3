"""SQL statements for authorization requests, consents, and browsers in which members are signed in."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.oauth.flow.records import (
    AddedConsent,
    BrowserSession,
    ConsentOfClient,
    DeletedConsent,
    SignIn,
    StoredConsent,
    WaitingRequest,
)


async def browser_session(database: Database, app_id: UUID, cookie_hash: bytes) -> BrowserSession | None:
    """Return the session of a cookie if it has not ended and its member is active and not a guest."""
    row = await database.fetchrow(
        """
        select s.session_id, coalesce(s.auth_time, s.created_at) as created_at, s.amr, s.level, m.member_id,
            m.nickname, now() as asked_at
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
    return None if row is None else BrowserSession(**row)


async def session(connection: Connection, app_id: UUID, session_id: UUID) -> SignIn | None:
    """Return when a session was created, and the current time; None if it has ended."""
    row = await connection.fetchrow(
        """
        select coalesce(auth_time, created_at) as created_at, amr, level, now() as asked_at from pilotis.sessions
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now()
        """,
        app_id,
        session_id,
    )
    return None if row is None else SignIn(**row)


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


async def request(database: Database, app_id: UUID, request_hash: bytes) -> WaitingRequest | None:
    """Return a request that awaits a decision, or that was decided recently."""
    row = await database.fetchrow(_REQUEST, app_id, request_hash, tenant=app_id)
    return None if row is None else WaitingRequest(**row)


async def lock_request(connection: Connection, app_id: UUID, request_hash: bytes) -> WaitingRequest | None:
    """Return a request, locked against other decisions until the transaction ends."""
    row = await connection.fetchrow(f"{_REQUEST} for update", app_id, request_hash)
    return None if row is None else WaitingRequest(**row)


_REQUEST = """
    select client_id, request, member_id, browser_hash, pushed_hash, state, created_at, expires_at,
        expires_at <= now() as is_expired
    from pilotis.oauth_requests
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


async def consent(database: Database, app_id: UUID, member_id: str, client_id: str) -> StoredConsent | None:
    """Return a member's consent to a client."""
    row = await database.fetchrow(
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
    return None if row is None else StoredConsent(**row)


async def add_consent(
    connection: Connection, app_id: UUID, consent_id: UUID, member_id: str, client_id: str, scopes: list[str]
) -> AddedConsent:
    """Add scopes to a member's consent to a client."""
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
    return AddedConsent(**row)


async def touch_consent(connection: Connection, app_id: UUID, consent_id: UUID) -> None:
    """Record that a consent was used."""
    await connection.execute(
        "update pilotis.oauth_consents set last_used_at = now() where app_id = $1 and consent_id = $2",
        app_id,
        consent_id,
    )


async def connections(
    database: Database, app_id: UUID, member_id: str, limit: int, offset: int
) -> tuple[list[ConsentOfClient], int]:
    """Return a page of a member's consents with their clients, newest first, and the total count."""
    query = """
        select n.consent_id, n.scopes, n.granted_at, n.last_used_at, c.client_id, c.name, c.description, c.logo_url,
            c.client_uri, c.policy_uri, c.tos_uri
        from pilotis.oauth_consents n
        join pilotis.oauth_clients c on c.app_id = n.app_id and c.client_id = n.client_id
        where n.app_id = $1 and n.member_id = $2
    """
    arguments, order_by = (app_id, member_id), "granted_at desc, consent_id"
    return await fetch_page(
        database, app_id, query, arguments, order_by=order_by, limit=limit, offset=offset, record=ConsentOfClient
    )


async def lock_consents(connection: Connection, app_id: UUID, member_id: str) -> list[UUID]:
    """Return the ids of a member's consents, locked until the transaction ends."""
    rows = await connection.fetch(
        """
        select consent_id from pilotis.oauth_consents where app_id = $1 and member_id = $2
        order by consent_id for update
        """,
        app_id,
        member_id,
    )
    return [consent_id for (consent_id,) in rows]


async def delete_consent(
    connection: Connection, app_id: UUID, member_id: str, consent_id: UUID
) -> DeletedConsent | None:
    """Delete a member's consent and return its client and scopes; None if it does not exist."""
    row = await connection.fetchrow(
        """
        delete from pilotis.oauth_consents where app_id = $1 and member_id = $2 and consent_id = $3
        returning client_id, scopes
        """,
        app_id,
        member_id,
        consent_id,
    )
    return None if row is None else DeletedConsent(**row)


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
