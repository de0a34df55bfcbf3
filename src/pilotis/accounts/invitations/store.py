"""The statements on invitations of members."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.accounts.invitations.types import InvitationState
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.kit.languages import Language
from pilotis.members.invitations.types import Invited


class StoredInvitation(msgspec.Struct, frozen=True):
    """An invitation, and what has become of it."""

    invitation_id: UUID
    email: str
    roles: list[str]
    team_id: UUID | None
    team_roles: list[str]
    language: Language | None
    state: InvitationState
    created_at: datetime
    expires_at: datetime


class InvitationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation to insert."""

    invitation_id: UUID
    token_hash: bytes
    email: str
    email_folded: str
    roles: Sequence[str]
    team_id: UUID | None
    team_roles: Sequence[str]
    language: Language | None
    lifetime: timedelta


_STATE = """
    case when accepted_at is not null then 'accepted' when revoked_at is not null then 'revoked'
        when expires_at <= now() then 'expired' else 'open' end
"""
_SHOWN = f"""
    invitation_id, email, roles, team_id, team_roles, language, {_STATE} as state, created_at, expires_at
"""
_INVITED = columns(Invited)
_UNUSED = "accepted_at is null and revoked_at is null"
_OPEN = f"{_UNUSED} and expires_at > now()"
# For how long the list shows what became of an invitation.
_KEPT = "interval '30 days'"


async def insert(connection: Connection, app_id: UUID, new: InvitationRow) -> StoredInvitation:
    """Insert an invitation in place of one of its address that was neither accepted nor revoked."""
    await connection.execute(
        f"delete from pilotis.member_invitations where app_id = $1 and email_folded = $2 and {_UNUSED}",
        app_id,
        new.email_folded,
    )
    row = await connection.fetchrow(
        f"""
        insert into pilotis.member_invitations
            (app_id, invitation_id, token_hash, email, email_folded, roles, team_id, team_roles, language, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10::interval)
        returning {_SHOWN}
        """,
        app_id,
        new.invitation_id,
        new.token_hash,
        new.email,
        new.email_folded,
        new.roles,
        new.team_id,
        new.team_roles,
        new.language,
        new.lifetime,
    )
    assert row is not None
    return StoredInvitation(**row)


async def count_others(connection: Connection, app_id: UUID, email_folded: str) -> int:
    """Return how many addresses but this one have open invitations to an app."""
    found: int = await connection.fetchval(
        f"select count(*) from pilotis.member_invitations where app_id = $1 and email_folded <> $2 and {_OPEN}",
        app_id,
        email_folded,
    )
    return found


async def page(
    database: Database, app_id: UUID, state: InvitationState | None, limit: int, offset: int
) -> tuple[list[StoredInvitation], int]:
    """Return a page of an app's invitations, newest first, and how many there are."""
    query = f"""
        select {_SHOWN} from pilotis.member_invitations
        where app_id = $1 and ($2::text is null or ({_STATE}) = $2)
    """
    return await fetch_page(
        database,
        app_id,
        query,
        (app_id, state),
        order_by="created_at desc, invitation_id desc",
        limit=limit,
        offset=offset,
        record=StoredInvitation,
    )


async def read(connection: TenantDatabase, app_id: UUID, invitation_id: UUID) -> StoredInvitation | None:
    """Return an invitation."""
    row = await connection.fetchrow(
        f"select {_SHOWN} from pilotis.member_invitations where app_id = $1 and invitation_id = $2",
        app_id,
        invitation_id,
    )
    return None if row is None else StoredInvitation(**row)


async def revoke(connection: Connection, app_id: UUID, invitation_id: UUID) -> str | None:
    """Revoke an invitation that nobody has accepted, and return its address; None if there is none."""
    email: str | None = await connection.fetchval(
        f"""
        update pilotis.member_invitations set revoked_at = now()
        where app_id = $1 and invitation_id = $2 and {_UNUSED} returning email
        """,
        app_id,
        invitation_id,
    )
    return email


async def by_token(
    connection: Connection | TenantDatabase, app_id: UUID, token_hash: bytes, *, lock: bool
) -> Invited | None:
    """Return the open invitation of a token, locked if `lock` is set."""
    return await _open(connection, app_id, "token_hash", token_hash, lock=lock)


async def by_email(connection: Connection, app_id: UUID, email_folded: str, *, lock: bool) -> Invited | None:
    """Return the open invitation of an address, locked if `lock` is set."""
    return await _open(connection, app_id, "email_folded", email_folded, lock=lock)


async def _open(
    connection: Connection | TenantDatabase, app_id: UUID, column: str, value: Any, *, lock: bool
) -> Invited | None:
    # Whoever waits for the lock of another sees the row as that one has left it, and so none that was accepted.
    row = await connection.fetchrow(
        f"""
        select {_INVITED} from pilotis.member_invitations where app_id = $1 and {column} = $2 and {_OPEN}
        {"for no key update" if lock else ""}
        """,
        app_id,
        value,
    )
    return None if row is None else Invited(**row)


async def expiry(connection: TenantDatabase, app_id: UUID, invitation_id: UUID) -> datetime | None:
    """Return when an invitation expires; None if it was deleted meanwhile."""
    found: datetime | None = await connection.fetchval(
        "select expires_at from pilotis.member_invitations where app_id = $1 and invitation_id = $2",
        app_id,
        invitation_id,
    )
    return found


async def accept(connection: Connection, app_id: UUID, invitation_id: UUID) -> None:
    """Record that a locked invitation was accepted."""
    await connection.execute(
        "update pilotis.member_invitations set accepted_at = now() where app_id = $1 and invitation_id = $2",
        app_id,
        invitation_id,
    )


async def delete_old(connection: Connection, limit: int) -> int:
    """Delete at most `limit` invitations that expired more than 30 days ago, and return how many."""
    deleted: int = await connection.fetchval(
        f"""
        with gone as (
            delete from pilotis.member_invitations where (app_id, invitation_id) in (
                select app_id, invitation_id from pilotis.member_invitations
                where expires_at < now() - {_KEPT} limit $1
            ) returning 1
        ) select count(*) from gone
        """,
        limit,
    )
    return deleted
