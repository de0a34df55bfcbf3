"""The statements on passkeys and challenges."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.accounts.passkeys.types import KeptPasskey
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class StoredPasskey(KeptPasskey, frozen=True, kw_only=True):
    """A member's passkey."""

    member_id: str


class Challenge(msgspec.Struct, frozen=True):
    """What a browser was asked to sign, for a member or for anybody."""

    challenge: bytes
    member_id: str | None


_PASSKEY = columns(StoredPasskey)


async def put_challenge(
    connection: Connection | TenantDatabase,
    app_id: UUID,
    ticket_hash: bytes,
    challenge: bytes,
    member_id: str | None,
    lifetime: timedelta,
) -> None:
    """Store a challenge under its ticket."""
    await connection.execute(
        """
        insert into pilotis.account_challenges (app_id, ticket_hash, challenge, member_id, expires_at)
        values ($1, $2, $3, $4, now() + $5::interval)
        """,
        app_id,
        ticket_hash,
        challenge,
        member_id,
        lifetime,
    )


async def use_challenge(database: Database, app_id: UUID, ticket_hash: bytes) -> Challenge | None:
    """Use a challenge up, whatever becomes of the answer; of concurrent callers one gets it."""
    row = await database.fetchrow(
        f"""
        delete from pilotis.account_challenges where app_id = $1 and ticket_hash = $2 and expires_at > now()
        returning {columns(Challenge)}
        """,
        app_id,
        ticket_hash,
        tenant=app_id,
    )
    return None if row is None else Challenge(**row)


async def delete_expired(connection: Connection) -> None:
    """Delete challenges that have expired."""
    await connection.execute("delete from pilotis.account_challenges where expires_at < now()")


async def insert(
    connection: Connection,
    app_id: UUID,
    passkey_id: UUID,
    member_id: str,
    credential_id: bytes,
    credential: bytes,
    name: str,
    sign_count: int,
    is_synced: bool,
) -> StoredPasskey | None:
    """Insert a passkey and return it; None if the app has the credential already."""
    try:
        row = await connection.fetchrow(
            f"""
            insert into pilotis.account_passkeys
                (app_id, passkey_id, member_id, credential_id, credential, name, sign_count, is_synced)
            values ($1, $2, $3, $4, $5, $6, $7, $8) returning {_PASSKEY}
            """,
            app_id,
            passkey_id,
            member_id,
            credential_id,
            credential,
            name,
            sign_count,
            is_synced,
        )
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "account_passkeys_credential":
            return None
        raise
    assert row is not None
    return StoredPasskey(**row)


async def of_member(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> list[StoredPasskey]:
    """Return a member's passkeys, the oldest first."""
    rows = await connection.fetch(
        f"""
        select {_PASSKEY} from pilotis.account_passkeys where app_id = $1 and member_id = $2
        order by passkey_id
        """,
        app_id,
        member_id,
    )
    return [StoredPasskey(**row) for row in rows]


async def by_credential(database: Database, app_id: UUID, credential_id: bytes) -> StoredPasskey | None:
    """Return the passkey with a credential's id."""
    row = await database.fetchrow(
        f"select {_PASSKEY} from pilotis.account_passkeys where app_id = $1 and credential_id = $2",
        app_id,
        credential_id,
        tenant=app_id,
    )
    return None if row is None else StoredPasskey(**row)


async def use(
    connection: Connection, app_id: UUID, passkey_id: UUID, before: int, sign_count: int, is_synced: bool
) -> bool:
    """Record a use of a passkey; False if it was deleted or used meanwhile, when its counter was `before`."""
    tag = await connection.execute(
        """
        update pilotis.account_passkeys set sign_count = $4, is_synced = $5, last_used_at = now()
        where app_id = $1 and passkey_id = $2 and sign_count = $3
        """,
        app_id,
        passkey_id,
        before,
        sign_count,
        is_synced,
    )
    return tag == "UPDATE 1"


async def rename(database: Database, app_id: UUID, member_id: str, passkey_id: UUID, name: str) -> StoredPasskey | None:
    """Rename a member's passkey and return it; None if it has no such one."""
    row = await database.fetchrow(
        f"""
        update pilotis.account_passkeys set name = $4 where app_id = $1 and member_id = $2 and passkey_id = $3
        returning {_PASSKEY}
        """,
        app_id,
        member_id,
        passkey_id,
        name,
        tenant=app_id,
    )
    return None if row is None else StoredPasskey(**row)


async def delete(connection: Connection, app_id: UUID, member_id: str, passkey_id: UUID) -> bool:
    """Delete a member's passkey; False if it has no such one."""
    tag = await connection.execute(
        "delete from pilotis.account_passkeys where app_id = $1 and member_id = $2 and passkey_id = $3",
        app_id,
        member_id,
        passkey_id,
    )
    return tag == "DELETE 1"


async def delete_all(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Delete all passkeys of a member."""
    await connection.execute(
        "delete from pilotis.account_passkeys where app_id = $1 and member_id = $2", app_id, member_id
    )
