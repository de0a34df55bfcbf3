"""The statements on `pilotis.members`."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database

# The member with the login_id $8, if its app $7 is not deleted: an account of `RateLimits.attempt_sign_in`.
BY_LOGIN_ID = """
    select member_id, nickname, password_hash, is_active from pilotis.members
    where app_id = $7 and login_id = $8
        and exists (select from pilotis.apps a where a.app_id = $7 and a.deleted_at is null)
"""


async def insert(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
) -> bool:
    """Insert a member; without a login_id it is a guest. False if the app has been deleted meanwhile."""
    tag = await connection.execute(
        """
        insert into pilotis.members (app_id, member_id, login_id, password_hash, nickname, is_guest)
        select a.app_id, $2, $3::text, $4, $5, $3::text is null
        from pilotis.apps a where a.app_id = $1 and a.deleted_at is null
        """,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
    )
    return tag == "INSERT 0 1"


async def promote(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str,
    password_hash: str,
    nickname: str | None,
) -> Record | None:
    """Make a guest an ordinary member and return its `nickname`; None if it is no guest any more."""
    return await connection.fetchrow(
        """
        update pilotis.members
        set login_id = $3, password_hash = $4, nickname = coalesce($5, nickname), is_guest = false, updated_at = now()
        where app_id = $1 and member_id = $2 and is_guest
        returning nickname
        """,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
    )


async def of_session(database: Database, app_id: UUID, session_id: UUID, member_id: str) -> Record | None:
    """Return the member of a living session."""
    return await database.fetchrow(
        """
        select m.is_active, m.is_guest, m.last_active_at < now() - interval '1 hour' as active_again
        from pilotis.sessions s join pilotis.members m on m.app_id = s.app_id and m.member_id = s.subject
        where s.app_id = $1 and s.session_id = $2 and s.subject = $3
            and s.revoked_at is null and s.expires_at > now()
        """,
        app_id,
        session_id,
        member_id,
    )


async def is_active(database: Database, app_id: UUID, member_id: str) -> bool | None:
    """Tell whether a member is active; None if there is none."""
    active: bool | None = await database.fetchval(
        "select is_active from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id
    )
    return active


async def touch(database: Database, app_id: UUID, member_id: str) -> None:
    """Note that a member is active now."""
    await database.execute(
        "update pilotis.members set last_active_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
    )


async def own_record(database: Database, app_id: UUID, member_id: str) -> Record | None:
    """Return what a member sees of itself."""
    return await database.fetchrow(
        """
        select member_id, nickname, is_active, custom_data from pilotis.members
        where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
    )


async def merge_custom_data(
    database: Database, app_id: UUID, member_id: str, change: str, most_bytes: int
) -> str | None:
    """Merge JSON into custom_data and return the result; None if it would be larger than allowed."""
    merged: str | None = await database.fetchval(
        """
        update pilotis.members
        set custom_data = pilotis.merge_patch(custom_data, $3::jsonb), updated_at = now()
        where app_id = $1 and member_id = $2
            and octet_length(pilotis.merge_patch(custom_data, $3::jsonb)::text) <= $4
        returning custom_data
        """,
        app_id,
        member_id,
        change,
        most_bytes,
    )
    return merged
