"""The statements on `pilotis.members`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database, TenantDatabase
from pilotis.events.statements import emission
from pilotis.security.sessions.service import session_insert

# A member as events describe it (see `pilotis.members.events`), and the columns for that.
_ITEM = "member_id, nickname, is_guest, is_active"
_EVENT_DATA = """
    json_build_object('member', json_build_object(
        'member_id', m.member_id, 'nickname', m.nickname, 'is_guest', m.is_guest, 'is_active', m.is_active
    ))
"""

# The member with the login_id $9, if its app $8 is not deleted: an account of `RateLimits.attempt_sign_in`.
BY_LOGIN_ID = """
    select member_id, nickname, password_hash, is_active from pilotis.members
    where app_id = $8 and login_id = $9
        and exists (select from pilotis.apps a where a.app_id = $8 and a.deleted_at is null)
"""


_SIGN_UP = f"""
    with m as (
        insert into pilotis.members (app_id, member_id, login_id, password_hash, nickname, is_guest)
        select a.app_id, $2, $3, $4, $5, $6
        from pilotis.apps a where a.app_id = $1::uuid and a.deleted_at is null
        returning {_ITEM}
    ), emitted as ({emission("$1::uuid", "$7", "cross join m", _EVENT_DATA)} returning event_id),
    session as ({session_insert("m", "m.member_id", 8)})
    select session.*, exists (select from emitted) as emitted from session
"""


async def sign_up(
    database: Database,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
    is_guest: bool,
    event: str,
    session: Sequence[object],
) -> Record | None:
    """Insert a member, its first session and the event, as JSON text, if a target listens for it: one round trip.

    Returns the session's row, whose `emitted` says whether there is an event; None if the app has been deleted.
    `session` has the arguments of `session_insert`.
    """
    return await database.fetchrow(
        _SIGN_UP,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
        is_guest,
        event,
        *session,
        tenant=app_id,
    )


async def insert(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
    is_guest: bool,
) -> Record | None:
    """Insert a member and return it; None if the app has been deleted meanwhile."""
    return await connection.fetchrow(
        f"""
        insert into pilotis.members (app_id, member_id, login_id, password_hash, nickname, is_guest)
        select a.app_id, $2, $3, $4, $5, $6
        from pilotis.apps a where a.app_id = $1 and a.deleted_at is null
        returning {_ITEM}
        """,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
        is_guest,
    )


async def promote(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
) -> Record | None:
    """Promote a guest to an ordinary member and return it; None if it is no longer a guest.

    One who signs in with another provider has neither a login_id nor a password.
    """
    return await connection.fetchrow(
        f"""
        update pilotis.members
        set login_id = $3, password_hash = $4, nickname = coalesce($5, nickname), is_guest = false, updated_at = now()
        where app_id = $1 and member_id = $2 and is_guest
        returning {_ITEM}
        """,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
    )


async def lock(connection: Connection, app_id: UUID, member_id: str) -> Record | None:
    """Return a member that signs in, which nobody deactivates or deletes until the transaction ends."""
    return await connection.fetchrow(
        f"""
        update pilotis.members set last_active_at = now() where app_id = $1 and member_id = $2
        returning {_ITEM}
        """,
        app_id,
        member_id,
    )


async def of_sessions(database: Database, app_id: UUID, session_ids: Sequence[UUID]) -> list[Record]:
    """Return the members of an app's active sessions."""
    return await database.fetch(
        """
        select s.session_id, s.subject, m.is_active, m.is_guest, m.roles, m.claims,
            m.last_active_at < now() - interval '1 hour' as active_again
        from (select unnest($2::uuid[]) as session_id) asked
        join pilotis.sessions s on s.app_id = $1 and s.session_id = asked.session_id
        join pilotis.members m on m.app_id = s.app_id and m.member_id = s.subject
        where s.revoked_at is null and s.expires_at > now()
        """,
        app_id,
        session_ids,
        tenant=app_id,
    )


async def is_active(database: Database, app_id: UUID, member_id: str) -> bool | None:
    """Return whether a member is active, or None if there is none."""
    active: bool | None = await database.fetchval(
        "select is_active from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id, tenant=app_id
    )
    return active


async def touch(database: Database, app_id: UUID, member_ids: Sequence[str]) -> None:
    """Record that members are active now."""
    await database.execute(
        """
        update pilotis.members set last_active_at = now() where (app_id, member_id) in (
            select app_id, member_id from pilotis.members where app_id = $1 and member_id = any($2::text[])
            order by member_id for no key update
        )
        """,
        app_id,
        member_ids,
        tenant=app_id,
    )


async def own_record(database: Database, app_id: UUID, member_id: str) -> Record | None:
    """Return a member's own record."""
    return await database.fetchrow(
        """
        select member_id, nickname, is_active, custom_data from pilotis.members
        where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        tenant=app_id,
    )


async def password_hash(database: Database, app_id: UUID, member_id: str) -> str | None:
    """Return a member's password hash; None if the member has no password or does not exist."""
    found: str | None = await database.fetchval(
        "select password_hash from pilotis.members where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        tenant=app_id,
    )
    return found


async def lock_password(connection: Connection, app_id: UUID, member_id: str) -> str | None:
    """Return a member's password hash as `password_hash` does, and lock the member until the transaction ends."""
    found: str | None = await connection.fetchval(
        "select password_hash from pilotis.members where app_id = $1 and member_id = $2 for update", app_id, member_id
    )
    return found


async def replace_password(
    connection: Connection, app_id: UUID, member_id: str, old_hash: str | None, new_hash: str
) -> bool:
    """Replace a member's password hash; False if it is no longer the old one. None as the old one matches any.

    A member without a password gets none.
    """
    tag = await connection.execute(
        """
        update pilotis.members set password_hash = $4, updated_at = now()
        where app_id = $1 and member_id = $2 and password_hash = coalesce($3, password_hash)
        """,
        app_id,
        member_id,
        old_hash,
        new_hash,
    )
    return tag == "UPDATE 1"


async def set_nickname(
    connection: Connection | TenantDatabase, app_id: UUID, member_id: str, nickname: str | None
) -> None:
    """Set or remove a member's nickname."""
    await connection.execute(
        "update pilotis.members set nickname = $3, updated_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        nickname,
    )


async def change_nickname(database: Database, app_id: UUID, member_id: str, nickname: str | None, event: str) -> bool:
    """Set or remove a member's nickname; return whether the event was written."""
    emitted: bool | None = await database.fetchval(
        f"""
        with changed as (
            update pilotis.members set nickname = $3, updated_at = now() where app_id = $1 and member_id = $2
            returning {_ITEM}
        ), emitted as ({emission("$1", "$4", "cross join changed m", _EVENT_DATA)} returning event_id)
        select exists (select from emitted)
        """,
        app_id,
        member_id,
        nickname,
        event,
        tenant=app_id,
    )
    return bool(emitted)


async def delete(connection: Connection, app_id: UUID, member_id: str) -> Record | None:
    """Delete a member and return its last state, or None if there is none."""
    return await connection.fetchrow(
        f"delete from pilotis.members where app_id = $1 and member_id = $2 returning {_ITEM}", app_id, member_id
    )


async def merge_custom_data(
    database: Database, app_id: UUID, member_id: str, change: str, max_bytes: int, event: str
) -> Record | None:
    """Merge JSON into custom_data; return the result, and whether the event was written (`emitted`).

    None if it would be larger than allowed.
    """
    return await database.fetchrow(
        f"""
        with merged as materialized (
            select pilotis.merge_patch(custom_data, $3::jsonb) as value
            from pilotis.members where app_id = $1 and member_id = $2
            for no key update
        ), changed as (
            update pilotis.members
            set custom_data = merged.value, updated_at = now()
            from merged
            where app_id = $1 and member_id = $2 and octet_length(merged.value::text) <= $4
            returning {_ITEM}, custom_data
        ), emitted as ({emission("$1", "$5", "cross join changed m", _EVENT_DATA)} returning event_id)
        select custom_data, exists (select from emitted) as emitted from changed
        """,
        app_id,
        member_id,
        change,
        max_bytes,
        event,
        tenant=app_id,
    )


async def replace_custom_data(connection: Connection, app_id: UUID, member_id: str, data: str) -> None:
    """Replace a member's custom_data by a JSON object."""
    await connection.execute(
        """
        update pilotis.members set custom_data = $3::jsonb, updated_at = now() where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        data,
    )


async def set_active(connection: Connection, app_id: UUID, member_id: str, is_active: bool) -> None:
    """Activate or deactivate a member."""
    await connection.execute(
        "update pilotis.members set is_active = $3, updated_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        is_active,
    )
