"""The statements on `pilotis.members`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.events.statements import emission
from pilotis.kit.account_settings import Remains
from pilotis.members.arrivals.types import MadeRow
from pilotis.members.events import MemberData
from pilotis.members.records import (
    AccountState,
    DueDeletion,
    Entrant,
    Facts,
    MailedAccount,
    MergedData,
    OldGuest,
    OwnAccount,
    OwnRecord,
    SessionMember,
)
from pilotis.members.types import RETURN, NewRecord
from pilotis.security.sessions.service import session_insert, unused_successor
from pilotis.security.sessions.types import BegunSession

# A member as events describe it, and the columns for that.
_ITEM = columns(MemberData)
_MEMBER_DATA = """
    json_build_object(
        'member_id', m.member_id, 'nickname', m.nickname, 'is_guest', m.is_guest, 'is_active', m.is_active
    )
"""
_EVENT_DATA = f"json_build_object('member', {_MEMBER_DATA})"


def _changed_data(field: str) -> str:
    return f"json_build_object('member', {_MEMBER_DATA}, 'changed', json_build_array('{field}'))"


_ENTRANT = columns(Entrant)

# The member with the login_id $9, if its app $8 is not deleted: an account of `RateLimits.attempt_sign_in`.
BY_LOGIN_ID = f"""
    select {_ENTRANT} from pilotis.members
    where app_id = $8 and login_id = $9
        and exists (select from pilotis.apps a where a.app_id = $8 and a.deleted_at is null)
"""


# The same where the login_id has an @: then it may be a verified address, or a login_id that is one, whose folded form
# is $10.
BY_ADDRESS = f"""
    select {_ENTRANT} from pilotis.members
    where app_id = $8 and (login_id = $9 or login_id = $10 or email_folded = $10)
        and exists (select from pilotis.apps a where a.app_id = $8 and a.deleted_at is null)
    order by login_id = $9 desc nulls last, email_folded = $10 desc nulls last limit 1
"""
# A member that deletes its account has a time to come back, in which it is not active otherwise.
_MAY_ENTER = "is_active or deletes_at is not null as may_enter"
_MAILED = f"{columns(MailedAccount, without=['may_enter'])}, {_MAY_ENTER}"


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
) -> BegunSession | None:
    """Insert a member, its first session and the event, as JSON text, if a target listens for it: one round trip.

    Returns the session; None if the app has been deleted.
    `session` has the arguments of `session_insert`.
    """
    row = await database.fetchrow(
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
    return None if row is None else BegunSession(*row)


async def insert(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
    is_guest: bool,
    roles: Sequence[str] = (),
    claims: str = "{}",
) -> MemberData | None:
    """Insert a member and return it; None if the app has been deleted meanwhile. `claims` is a JSON object."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.members (app_id, member_id, login_id, password_hash, nickname, is_guest, roles, claims)
        select a.app_id, $2, $3, $4, $5, $6, $7::text[], $8::jsonb
        from pilotis.apps a where a.app_id = $1 and a.deleted_at is null
        returning {_ITEM}
        """,
        app_id,
        member_id,
        login_id,
        password_hash,
        nickname,
        is_guest,
        roles,
        claims,
    )
    return None if row is None else MemberData(**row)


async def insert_imported(
    connection: Connection,
    app_id: UUID,
    new: NewRecord,
    email_folded: str | None,
    custom_data: str,
    roles: Sequence[str],
    claims: str,
) -> MemberData | None:
    """Insert a member of another product and return it; None if the app has been deleted meanwhile.

    `custom_data` and `claims` are JSON objects.
    """
    row = await connection.fetchrow(
        f"""
        insert into pilotis.members (
            app_id, member_id, login_id, email, email_folded, password_hash, nickname, is_guest, custom_data, roles,
            claims, language, is_active, created_at
        )
        select a.app_id, $2, $3, $4, $5, $6, $7, false, $8::jsonb, $9::text[], $10::jsonb, $11, $12,
            coalesce($13, now())
        from pilotis.apps a where a.app_id = $1 and a.deleted_at is null
        returning {_ITEM}
        """,
        app_id,
        new.member_id,
        new.login_id,
        new.email,
        email_folded,
        new.password_hash,
        new.nickname,
        custom_data,
        roles,
        claims,
        new.language,
        new.is_active,
        new.created_at,
    )
    return None if row is None else MemberData(**row)


async def promote(
    connection: Connection,
    app_id: UUID,
    member_id: str,
    login_id: str | None,
    password_hash: str | None,
    nickname: str | None,
) -> MemberData | None:
    """Promote a guest to an ordinary member and return it; None if it is no longer a guest.

    One who signs in with another provider has neither a login_id nor a password.
    """
    row = await connection.fetchrow(
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
    return None if row is None else MemberData(**row)


async def made_rows(connection: Connection, app_id: UUID, member_id: str) -> list[MadeRow]:
    """Return the rows that were made with a guest."""
    found: str | None = await connection.fetchval(
        "select made_rows::text from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id
    )
    return [] if found is None else msgspec.json.decode(found, type=list[MadeRow])


async def set_made_rows(connection: Connection, app_id: UUID, member_id: str, made: Sequence[MadeRow]) -> None:
    """Record the rows that were made with a guest."""
    await connection.execute(
        "update pilotis.members set made_rows = $3::jsonb where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        msgspec.json.encode(made).decode(),
    )


async def lock_entrant(connection: Connection, app_id: UUID, member_id: str) -> Entrant | None:
    """Return a member that signs in, which nobody changes or deletes until the transaction ends."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members set last_active_at = now() where app_id = $1 and member_id = $2
        returning {_ENTRANT}
        """,
        app_id,
        member_id,
    )
    return None if row is None else Entrant(**row)


async def of_sessions(database: Database, app_id: UUID, session_ids: Sequence[UUID]) -> list[SessionMember]:
    """Return the members of an app's active sessions."""
    rows = await database.fetch(
        f"""
        select m.is_active or (m.deletes_at is not null and '{RETURN}' = any(s.awaits)),
            m.is_guest, m.roles, m.claims, m.teams, s.session_id, s.subject,
            m.last_active_at < now() - interval '1 hour' as active_again, s.level, s.awaits,
            {unused_successor} as unused_successor, s.impersonator is not null as impersonated
        from (select unnest($2::uuid[]) as session_id) asked
        join pilotis.sessions s on s.app_id = $1 and s.session_id = asked.session_id
        join pilotis.members m on m.app_id = s.app_id and m.member_id = s.subject
        where s.revoked_at is null and s.expires_at > now()
        """,
        app_id,
        session_ids,
        tenant=app_id,
    )
    # By position: each request of a member passes here.
    return [SessionMember(*row) for row in rows]


async def may_enter(database: Database, app_id: UUID, member_id: str) -> bool | None:
    """Return whether a member is active or may come back, or None if there is none."""
    found: bool | None = await database.fetchval(
        f"select {_MAY_ENTER} from pilotis.members where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        tenant=app_id,
    )
    return found


async def facts(database: Database, app_id: UUID, member_id: str) -> Facts | None:
    """Return what rules ask of a member, and whether it is active."""
    row = await database.fetchrow(
        "select is_active, is_guest, roles, claims, teams from pilotis.members where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        tenant=app_id,
    )
    return None if row is None else Facts(**row)


async def refresh_teams(connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> None:
    """Write down again which teams members are in, after a change of these in the caller's transaction."""
    # By a statement of its own, so that the next one sees what others have committed before.
    await connection.execute(
        """
        select from pilotis.members where app_id = $1 and member_id = any($2::text[])
        order by member_id for no key update
        """,
        app_id,
        member_ids,
    )
    await connection.execute(
        """
        update pilotis.members m set teams = coalesce((
            select array_agg(t.team_id || ':' || array_to_string(t.roles, ',') order by t.team_id)
            from pilotis.team_members t where t.app_id = m.app_id and t.member_id = m.member_id
        ), '{}')
        where m.app_id = $1 and m.member_id = any($2::text[])
        """,
        app_id,
        member_ids,
    )


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


async def own_record(database: Database, app_id: UUID, member_id: str) -> OwnRecord | None:
    """Return a member's own record."""
    row = await database.fetchrow(
        """
        select member_id, nickname, is_active, custom_data from pilotis.members
        where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        tenant=app_id,
    )
    return None if row is None else OwnRecord(**row)


async def account(database: Database, app_id: UUID, member_id: str) -> OwnAccount | None:
    """Return all that a member may know of its own account."""
    row = await database.fetchrow(
        """
        select member_id, nickname, is_active, custom_data, login_id, is_guest, roles, claims, created_at, email,
            language, (
                select p.email from pilotis.account_proofs p
                where p.app_id = m.app_id and p.member_id = m.member_id and p.purpose = 'verify_email'
                    and p.expires_at > now()
                order by p.created_at desc limit 1
            ) as pending_email, password_hash is not null as has_password, deletes_at
        from pilotis.members m where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        tenant=app_id,
    )
    return None if row is None else OwnAccount(**row)


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
        update pilotis.members set password_hash = $4, password_by_mail = false, updated_at = now()
        where app_id = $1 and member_id = $2 and password_hash = coalesce($3, password_hash)
        """,
        app_id,
        member_id,
        old_hash,
        new_hash,
    )
    return tag == "UPDATE 1"


async def lock_account(connection: Connection, app_id: UUID, member_id: str) -> AccountState | None:
    """Return what a proof depends on, and lock the member until the transaction ends."""
    row = await connection.fetchrow(
        f"""
        select {columns(AccountState, without=["may_enter"])}, {_MAY_ENTER}
        from pilotis.members where app_id = $1 and member_id = $2 for no key update
        """,
        app_id,
        member_id,
    )
    return None if row is None else AccountState(**row)


async def by_email(connection: Connection, app_id: UUID, email_folded: str) -> MailedAccount | None:
    """Return the member with a verified address."""
    row = await connection.fetchrow(
        f"select {_MAILED} from pilotis.members where app_id = $1 and email_folded = $2", app_id, email_folded
    )
    return None if row is None else MailedAccount(**row)


async def by_login_id(connection: Connection, app_id: UUID, login_id: str) -> MailedAccount | None:
    """Return the member with a login_id, if it has a verified address."""
    row = await connection.fetchrow(
        f"select {_MAILED} from pilotis.members where app_id = $1 and login_id = $2 and email is not null",
        app_id,
        login_id,
    )
    return None if row is None else MailedAccount(**row)


async def by_unproven_login_id(connection: Connection, app_id: UUID, login_id: str) -> str | None:
    """Return the member with a login_id, if it has no verified address."""
    found: str | None = await connection.fetchval(
        "select member_id from pilotis.members where app_id = $1 and login_id = $2 and email is null", app_id, login_id
    )
    return found


async def hand_over(
    connection: Connection, app_id: UUID, member_id: str, email: str, email_folded: str, password_hash: str | None
) -> MemberData | None:
    """Set a member's verified address and its password, or none; it has no second factors any more."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members
        set email = $3, email_folded = $4, password_hash = $5, password_by_mail = true,
            login_id = case when login_id = email_folded then $4 else login_id end, factors = '{{}}', updated_at = now()
        where app_id = $1 and member_id = $2 returning {_ITEM}
        """,
        app_id,
        member_id,
        email,
        email_folded,
        password_hash,
    )
    return None if row is None else MemberData(**row)


async def remove_email(connection: Connection, app_id: UUID, member_id: str) -> MemberData | None:
    """Remove a member's verified address, and return the member."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members set email = null, email_folded = null, updated_at = now()
        where app_id = $1 and member_id = $2 returning {_ITEM}
        """,
        app_id,
        member_id,
    )
    return None if row is None else MemberData(**row)


async def has_email(database: Database, app_id: UUID, email_folded: str) -> bool:
    """Return whether an address is a member's."""
    found = await database.fetchval(
        "select true from pilotis.members where app_id = $1 and email_folded = $2", app_id, email_folded, tenant=app_id
    )
    return bool(found)


async def set_email(
    connection: Connection, app_id: UUID, member_id: str, email: str, email_folded: str
) -> MemberData | None:
    """Give a member its verified address, and return the member. A login_id that was its address before follows."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members
        set email = $3, email_folded = $4, updated_at = now(),
            login_id = case when login_id = email_folded then $4 else login_id end
        where app_id = $1 and member_id = $2 returning {_ITEM}
        """,
        app_id,
        member_id,
        email,
        email_folded,
    )
    return None if row is None else MemberData(**row)


async def set_factors(connection: Connection, app_id: UUID, member_id: str, factors: Sequence[str]) -> None:
    """Record which kinds of second factors a member has."""
    await connection.execute(
        "update pilotis.members set factors = $3, updated_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        factors,
    )


async def set_language(connection: Connection, app_id: UUID, member_id: str, language: str) -> None:
    """Set the language of a member's mails."""
    await connection.execute(
        "update pilotis.members set language = $3 where app_id = $1 and member_id = $2", app_id, member_id, language
    )


async def set_password(
    connection: Connection, app_id: UUID, member_id: str, password_hash: str, *, by_mail: bool = False
) -> MemberData | None:
    """Set a member's password, also one that had none, and return the member; `by_mail` says that a mail proved it."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members set password_hash = $3, password_by_mail = $4, updated_at = now()
        where app_id = $1 and member_id = $2
        returning {_ITEM}
        """,
        app_id,
        member_id,
        password_hash,
        by_mail,
    )
    return None if row is None else MemberData(**row)


async def session_began(connection: Connection, app_id: UUID, session_id: UUID) -> datetime | None:
    """Return when the subject of a session has last proved who it is; None if it never has, as in the console's."""
    began: datetime | None = await connection.fetchval(
        """
        select case when amr <> 'console' then coalesce(auth_time, created_at) end
        from pilotis.sessions where app_id = $1 and session_id = $2 and revoked_at is null
        """,
        app_id,
        session_id,
    )
    return began


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
        ), emitted as ({emission("$1", "$4", "cross join changed m", _changed_data("nickname"))} returning event_id)
        select exists (select from emitted)
        """,
        app_id,
        member_id,
        nickname,
        event,
        tenant=app_id,
    )
    return bool(emitted)


async def delete(connection: Connection, app_id: UUID, member_id: str) -> MemberData | None:
    """Delete a member and return its last state, or None if there is none."""
    row = await connection.fetchrow(
        f"delete from pilotis.members where app_id = $1 and member_id = $2 returning {_ITEM}", app_id, member_id
    )
    return None if row is None else MemberData(**row)


async def schedule_deletion(
    connection: Connection, app_id: UUID, member_id: str, days: int, remains: Remains
) -> tuple[datetime, MemberData | None] | None:
    """Deactivate a member until it is deleted in so many days, and return when that is, and its last state.

    A deletion that was scheduled before stays as it is, and no state is returned. None for a member that is deleted.
    """
    row = await connection.fetchrow(
        f"""
        update pilotis.members
        set is_active = false, updated_at = now(), deletes_at = now() + make_interval(days => $3), deletion_remains = $4
        where app_id = $1 and member_id = $2 and deletes_at is null
        returning deletes_at, {_ITEM}
        """,
        app_id,
        member_id,
        days,
        remains,
    )
    if row is not None:
        deletes_at, *item = row
        return deletes_at, MemberData(*item)
    before: datetime | None = await connection.fetchval(
        "select deletes_at from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id
    )
    return None if before is None else (before, None)


async def cancel_deletion(connection: Connection, app_id: UUID, member_id: str) -> MemberData | None:
    """Activate a member that comes back, and return it; None if its deletion is not scheduled."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members set is_active = true, updated_at = now(), deletes_at = null, deletion_remains = null
        where app_id = $1 and member_id = $2 and deletes_at is not null
        returning {_ITEM}
        """,
        app_id,
        member_id,
    )
    return None if row is None else MemberData(**row)


# A node of the version before activates members without a word about their deletion.
_IS_DUE = "deletes_at <= now() and not is_active"


async def due_deletions(connection: Connection, limit: int) -> list[DueDeletion]:
    """Return members of apps that are not deleted whose time to come back is over, longest first."""
    rows = await connection.fetch(
        f"""
        select {columns(DueDeletion)} from pilotis.members m
        where {_IS_DUE} and exists (select from pilotis.apps a where a.app_id = m.app_id and a.deleted_at is null)
        order by deletes_at, app_id, member_id limit $1
        """,
        limit,
    )
    return [DueDeletion(**row) for row in rows]


async def lock_due(connection: Connection, app_id: UUID, member_id: str) -> bool:
    """Return whether a member is still due for deletion, and lock it until the transaction ends."""
    found = await connection.fetchval(
        f"select true from pilotis.members where app_id = $1 and member_id = $2 and {_IS_DUE} for update",
        app_id,
        member_id,
    )
    return bool(found)


async def merge_custom_data(
    database: Database, app_id: UUID, member_id: str, change: str, max_bytes: int, event: str
) -> MergedData | None:
    """Merge JSON into custom_data, and return the result; None if it would be larger than allowed."""
    row = await database.fetchrow(
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
        ), emitted as ({emission("$1", "$5", "cross join changed m", _changed_data("custom_data"))} returning event_id)
        select custom_data, exists (select from emitted) as emitted from changed
        """,
        app_id,
        member_id,
        change,
        max_bytes,
        event,
        tenant=app_id,
    )
    return None if row is None else MergedData(**row)


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


async def set_facts(
    connection: Connection, app_id: UUID, member_id: str, roles: Sequence[str] | None, claims: str | None
) -> None:
    """Replace a member's roles and claims, which is a JSON object; None keeps them."""
    await connection.execute(
        """
        update pilotis.members
        set roles = coalesce($3::text[], roles), claims = coalesce($4::jsonb, claims), updated_at = now()
        where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        roles,
        claims,
    )


async def add_roles(connection: Connection, app_id: UUID, member_id: str, roles: Sequence[str]) -> MemberData | None:
    """Give a member roles beside those that it has, and return it; None if it has all of them."""
    row = await connection.fetchrow(
        f"""
        update pilotis.members
        set roles = roles || array(select role from unnest($3::text[]) role where role <> all(roles)),
            updated_at = now()
        where app_id = $1 and member_id = $2 and not roles @> $3::text[]
        returning {_ITEM}
        """,
        app_id,
        member_id,
        roles,
    )
    return None if row is None else MemberData(**row)


async def set_active(connection: Connection, app_id: UUID, member_id: str, is_active: bool) -> None:
    """Activate or deactivate a member; one that is activated is not deleted any more."""
    await connection.execute(
        """
        update pilotis.members set is_active = $3, updated_at = now(),
            deletes_at = case when not $3 then deletes_at end,
            deletion_remains = case when not $3 then deletion_remains end
        where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
        is_active,
    )


async def set_banned_until(connection: Connection, app_id: UUID, member_id: str, until: datetime | None) -> None:
    """Ban a member until a time, or lift its ban."""
    await connection.execute(
        "update pilotis.members set banned_until = $3, updated_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        until,
    )


async def set_ban_reason(connection: Connection, app_id: UUID, member_id: str, reason: str | None) -> None:
    """Set or remove why a member is banned."""
    await connection.execute(
        "update pilotis.members set ban_reason = $3, updated_at = now() where app_id = $1 and member_id = $2",
        app_id,
        member_id,
        reason,
    )


# Guests who are too old, with the app as $1 and the days as $2.
_OLD_GUESTS = """
    m.app_id = $1 and m.is_guest and m.last_active_at < now() - make_interval(days => $2) and m.custom_data = '{}'
    and not exists (
        select from pilotis.sessions s where s.app_id = m.app_id and s.subject = m.member_id
            and s.revoked_at is null and s.expires_at > now()
    )
"""


async def apps_with_old_guests(connection: Connection, days: int) -> list[tuple[UUID, int]]:
    """Return the apps with guests that were not active for `days`, or for the app's own number, with that number."""
    rows = await connection.fetch(
        """
        select app_id, a.days
        from (
            select app_id, least($1, (limits ->> 'guest_days')::integer) as days from pilotis.apps
            where deleted_at is null
        ) a
        where exists (
            select from pilotis.members m
            where m.app_id = a.app_id and m.is_guest and m.last_active_at < now() - make_interval(days => a.days)
        )
        order by app_id
        """,
        days,
    )
    return [(app_id, own_days) for app_id, own_days in rows]


async def old_guests(
    connection: Connection, app_id: UUID, days: int, after: OldGuest | None, limit: int
) -> list[OldGuest]:
    """Return guests without a session and without `custom_data` that were not active for `days`, oldest first."""
    rows = await connection.fetch(
        f"""
        select m.member_id, m.last_active_at from pilotis.members m
        where {_OLD_GUESTS} and ($3::timestamptz is null or (m.last_active_at, m.member_id) > ($3, $4::text))
        order by m.last_active_at, m.member_id limit $5
        """,
        app_id,
        days,
        after and after.last_active_at,
        after and after.member_id,
        limit,
    )
    return [OldGuest(**row) for row in rows]


async def file_creators(connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> set[str]:
    """Return those of some members that have created files."""
    rows = await connection.fetch(
        "select distinct creator from pilotis.files where app_id = $1 and creator = any($2)", app_id, member_ids
    )
    return {creator for (creator,) in rows}


async def table_ids(connection: Connection, app_id: UUID) -> list[UUID]:
    """Return the tables of an app, those in the trash as well."""
    rows = await connection.fetch("select table_id from pilotis.tables where app_id = $1 order by table_id", app_id)
    return [table_id for (table_id,) in rows]


async def row_creators(connection: Connection, app_id: UUID, table_id: UUID, member_ids: Sequence[str]) -> set[str]:
    """Return those of some members that have created rows of a table."""
    rows = await connection.fetch(
        f"select distinct __creator from app_{app_id.hex}.t_{table_id.hex} where __creator = any($1)", member_ids
    )
    return {creator for (creator,) in rows}


async def delete_old_guests(
    connection: Connection, app_id: UUID, days: int, member_ids: Sequence[str]
) -> list[MemberData]:
    """Delete those of some members that are still guests without a session, and return their last state."""
    rows = await connection.fetch(
        f"delete from pilotis.members m where {_OLD_GUESTS} and m.member_id = any($3) returning {_ITEM}",
        app_id,
        days,
        member_ids,
    )
    return [MemberData(**row) for row in rows]
