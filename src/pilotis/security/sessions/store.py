"""SQL statements for `pilotis.sessions`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.events.statements import emission
from pilotis.security.sessions.types import BegunSession, Device, Session

_SESSION = columns(Session)
# How a session's subject has proved who it is, in the order of time.
_METHODS = "coalesce(methods, array[case amr when 'pwd' then 'password' when 'fed' then 'social' else amr end])"
_INSERT = f"""
    insert into pilotis.sessions
        (app_id, session_id, subject, refresh_id, refreshed_at, expires_at, amr, address, user_agent,
            methods, level, awaits, auth_time, impersonator)
    values ($1, $2, $3, $4, now(), now() + $5, $6, $7, $8, $9, $10, $11, $12, $13)
    returning {_SESSION}
"""
UNUSED_SUCCESSOR = "case when s.previous_refresh_id is not null and s.successor_used_at is null then s.refresh_id end"
"""The current refresh id of a session `s` if no token of its pair was used; null for others and for a first pair."""
# One statement is one round trip and one commit; three statements would need three. It locks the account and compares
# the password again: changing or resetting it, and deactivating or deleting the account, end all earlier sessions, so
# a new session must not start afterwards.
_SIGN_IN = """
    with account as ({account} for no key update),
    forgiven as (delete from pilotis.rate_limits where key = $6)
    {more}
    insert into pilotis.sessions (app_id, session_id, subject, refresh_id, refreshed_at, expires_at{columns})
    select $1::uuid, $2::uuid, $3::text, $4::uuid, now(), now() + $5::interval{values} from account
    returning {session}{returned}
"""
_SIGN_IN_MEMBER = _SIGN_IN.format(
    session=_SESSION,
    account="""
        select from pilotis.members
        where app_id = $1::uuid and member_id = $3::text and password_hash = $7 and is_active and factors = '{}'
            and (banned_until is null or banned_until <= now())
    """,
    more=f"""
    , active as (
        update pilotis.members set last_active_at = now()
        where app_id = $1::uuid and member_id = $3::text and last_active_at < now() - interval '1 minute'
    ), emitted as ({emission("$1::uuid", "$8", "cross join account")} returning event_id)
    """,
    columns=", user_agent",
    values=", $9::text",
    returned=", exists (select from emitted) as emitted",
)
_SIGN_IN_USER = _SIGN_IN.format(
    session=_SESSION,
    account="""
        select from pilotis.users
        where user_id = ($3::text)::uuid and password_hash = $7 and is_active and factors = '{}'
    """,
    more="",
    columns=", address, user_agent",
    values=", $8::text, $9::text",
    returned="",
)
# The data of the event is that of `pilotis.members.events`.
_SIGN_OUT_MEMBER = f"""
    with ended as (
        update pilotis.sessions set revoked_at = now()
        where app_id = $1::uuid and session_id = $2 and revoked_at is null and expires_at > now()
        returning app_id, subject
    ), member as (
        select m.* from ended join pilotis.members m on m.app_id = ended.app_id and m.member_id = ended.subject
    ), emitted as ({
    emission(
        "$1::uuid",
        "$3",
        "cross join member m",
        '''json_build_object('member', json_build_object(
            'member_id', m.member_id, 'nickname', m.nickname, 'is_guest', m.is_guest, 'is_active', m.is_active
        ))''',
    )
} returning event_id)
    select exists (select from emitted)
"""


def insertion(source: str, subject: str, first: int) -> str:
    """Return an insert of a session for each row of `source`, for statements that also create its subject.

    `subject` is an SQL expression, the app is `$1`, and the arguments from `first` on are the session's id, its
    refresh id, its lifetime, how the subject has signed in, and its user agent. It returns
    the columns of `Session`, in their order.
    """
    session_id, refresh_id, lifetime, amr, agent = (f"${first + number}" for number in range(5))
    return f"""
        insert into pilotis.sessions
            (app_id, session_id, subject, refresh_id, refreshed_at, expires_at, amr, user_agent)
        select $1::uuid, {session_id}::uuid, {subject}, {refresh_id}::uuid, now(), now() + {lifetime}::interval,
            {amr}::text, {agent}::text
        from {source}
        returning {_SESSION}
    """


async def insert(
    connection: Connection,
    app_id: UUID,
    session_id: UUID,
    subject: str,
    refresh_id: UUID,
    lifetime: timedelta,
    amr: str,
    address: str | None = None,
    user_agent: str | None = None,
    methods: Sequence[str] | None = None,
    level: int = 1,
    awaits: Sequence[str] = (),
    proven_at: datetime | None = None,
    impersonator: str | None = None,
) -> Session:
    """Insert a session and return it, with how and when its subject has signed in, or who acts as it."""
    row = await connection.fetchrow(
        _INSERT,
        app_id,
        session_id,
        subject,
        refresh_id,
        lifetime,
        amr,
        address,
        user_agent,
        methods,
        level,
        awaits,
        proven_at,
        impersonator,
    )
    assert row is not None
    return Session(*row)


async def reprove(connection: Connection, app_id: UUID, session_id: UUID, method: str, level: int) -> datetime | None:
    """Record that the subject of an active session has proved again who it is, and return when; None without one.

    The level only rises.
    """
    when: datetime | None = await connection.fetchval(
        f"""
        update pilotis.sessions
        set auth_time = now(), level = greatest(level, $4), methods = array_append(array_remove({_METHODS}, $3), $3)
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now()
        returning auth_time
        """,
        app_id,
        session_id,
        method,
        level,
    )
    return when


async def devices(database: Database, app_id: UUID, subject: str) -> list[Device]:
    """Return a member's active sessions with how each began, the one used last first."""
    rows = await database.fetch(
        f"""
        select session_id, user_agent, {_METHODS} as methods, level, created_at, refreshed_at, expires_at
        from pilotis.sessions
        where app_id = $1 and subject = $2 and revoked_at is null and expires_at > now()
        order by refreshed_at desc, session_id desc
        """,
        app_id,
        subject,
        tenant=app_id,
    )
    return [Device(**row) for row in rows]


async def proof_of(
    connection: Connection, app_id: UUID, session_id: UUID
) -> tuple[list[str], int, list[str], datetime] | None:
    """Return how an active session was proved, with how many factors, what it awaits, and when; None without one."""
    row = await connection.fetchrow(
        f"""
        select {_METHODS} as methods, level, awaits, coalesce(auth_time, created_at) as proven_at
        from pilotis.sessions
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now() and amr <> 'console'
        """,
        app_id,
        session_id,
    )
    return None if row is None else (row["methods"], row["level"], row["awaits"], row["proven_at"])


async def complete(connection: Connection, app_id: UUID, subject: str, proof: str) -> None:
    """Record that the active sessions of a subject no longer await a proof."""
    await connection.execute(
        """
        update pilotis.sessions set awaits = array_remove(awaits, $3)
        where app_id = $1 and subject = $2 and revoked_at is null and awaits @> array[$3]
        """,
        app_id,
        subject,
        proof,
    )


async def sign_in(
    database: Database,
    app_id: UUID,
    session_id: UUID,
    subject: str,
    refresh_id: UUID,
    lifetime: timedelta,
    attempts_key: str,
    password_hash: str,
    *more: str | None,
) -> BegunSession | None:
    """Insert a session and return it; reset the attempts under the key, and record a member's activity.

    For a member, `more` is an event as JSON text, stored if a target listens for it, and its user agent. The activity
    is precise to a minute. For a console user, `more` is its address and user agent.

    Returns None and creates no session if the account is deleted, inactive or banned, if its password has changed, or
    if it has a second factor.
    """
    query = _SIGN_IN_MEMBER if app_id.int else _SIGN_IN_USER
    row = await database.fetchrow(
        query, app_id, session_id, subject, refresh_id, lifetime, attempts_key, password_hash, *more, tenant=app_id
    )
    return None if row is None else BegunSession(*row)


async def rotate(
    database: Database, app_id: UUID, session_id: UUID, refresh_id: UUID, next_id: UUID, max_lifetime: timedelta
) -> Session | None:
    """Replace the given refresh id by the next one; None if it is not the current one of an active session.

    The session keeps its original lifetime, up to `max_lifetime`.
    """
    row = await database.fetchrow(
        f"""
        update pilotis.sessions
        set previous_refresh_id = refresh_id, refresh_id = $4, refreshed_at = now(), successor_used_at = null,
            expires_at = now() + least(expires_at - refreshed_at, $5::interval)
        where app_id = $1 and session_id = $2 and refresh_id = $3 and revoked_at is null and expires_at > now()
        returning {_SESSION}
        """,
        app_id,
        session_id,
        refresh_id,
        next_id,
        max_lifetime,
        tenant=app_id,
    )
    return None if row is None else Session(*row)


async def successor_used(
    database: Database, app_id: UUID, session_ids: Sequence[UUID], refresh_ids: Sequence[UUID]
) -> None:
    """Record for sessions, with their current refresh ids, that a token of their newest pair was used."""
    await database.execute(
        """
        update pilotis.sessions s set successor_used_at = now()
        from unnest($2::uuid[], $3::uuid[]) as used (session_id, refresh_id)
        where s.app_id = $1 and s.session_id = used.session_id and s.refresh_id = used.refresh_id
            and s.successor_used_at is null
        """,
        app_id,
        session_ids,
        refresh_ids,
        tenant=app_id,
    )


async def just_rotated(
    database: Database, app_id: UUID, session_id: UUID, refresh_id: UUID, window: timedelta
) -> Session | None:
    """Return the session whose previous refresh id is the given one, if its successor was not used `window` ago."""
    row = await database.fetchrow(
        f"""
        select {_SESSION} from pilotis.sessions
        where app_id = $1 and session_id = $2 and previous_refresh_id = $3 and revoked_at is null
            and expires_at > now() and (successor_used_at is null or successor_used_at > now() - $4::interval)
        """,
        app_id,
        session_id,
        refresh_id,
        window,
        tenant=app_id,
    )
    return None if row is None else Session(*row)


async def active(database: Database, app_id: UUID, subject: str) -> list[Session]:
    """Return a subject's active sessions, the one used last first."""
    rows = await database.fetch(
        f"""
        select {_SESSION} from pilotis.sessions
        where app_id = $1 and subject = $2 and revoked_at is null and expires_at > now()
        order by refreshed_at desc, session_id desc
        """,
        app_id,
        subject,
        tenant=app_id,
    )
    return [Session(*row) for row in rows]


async def revoke_of(connection: Connection, app_id: UUID, subject: str, session_id: UUID) -> bool:
    """End a session of a subject; False if it has no such active one."""
    tag = await connection.execute(
        """
        update pilotis.sessions set revoked_at = now()
        where app_id = $1 and subject = $2 and session_id = $3 and revoked_at is null and expires_at > now()
        """,
        app_id,
        subject,
        session_id,
    )
    return tag == "UPDATE 1"


async def revoke(database: Database, app_id: UUID, session_id: UUID) -> bool:
    """End a session; False if it is not active."""
    tag = await database.execute(
        """
        update pilotis.sessions set revoked_at = now()
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now()
        """,
        app_id,
        session_id,
        tenant=app_id,
    )
    return tag == "UPDATE 1"


async def sign_out_member(database: Database, app_id: UUID, session_id: UUID, event: str) -> bool:
    """End a member's session; return whether its event, given as JSON text without data, was stored."""
    return await database.fetchval(_SIGN_OUT_MEMBER, app_id, session_id, event, tenant=app_id) is True


async def revoke_all(connection: Connection, app_id: UUID, subject: str, kept: UUID | None = None) -> int:
    """End all active sessions of a subject except one to keep, and return how many."""
    tag = await connection.execute(
        """
        update pilotis.sessions set revoked_at = now()
        where app_id = $1 and subject = $2 and revoked_at is null and expires_at > now()
            and session_id is distinct from $3
        """,
        app_id,
        subject,
        kept,
    )
    return int(tag.rpartition(" ")[2])


async def delete_expired(connection: Connection) -> None:
    """Delete sessions one day after they end; until then a reused token is detected."""
    await connection.execute(
        """
        delete from pilotis.sessions
        where expires_at < now() - interval '1 day' or revoked_at < now() - interval '1 day'
        """
    )


async def end_all(connection: Connection) -> None:
    """End every session, of members and console users: those of a restored server may have been revoked since."""
    await connection.execute("update pilotis.sessions set revoked_at = now() where revoked_at is null")
