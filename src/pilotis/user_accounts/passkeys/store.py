"""The statements on passkeys of console users."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.accounts.passkeys.types import KeptPasskey
from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns


class StoredPasskey(KeptPasskey, frozen=True, kw_only=True):
    """A console user's passkey."""

    user_id: UUID


class Challenge(msgspec.Struct, frozen=True):
    """What a browser was asked to sign, for a console user or for anybody."""

    challenge: bytes
    user_id: UUID | None


_PASSKEY = columns(StoredPasskey)


async def put_challenge(
    connection: Connection | TenantDatabase,
    ticket_hash: bytes,
    challenge: bytes,
    user_id: UUID | None,
    lifetime: timedelta,
) -> None:
    """Store a challenge under its ticket."""
    await connection.execute(
        """
        insert into pilotis.user_challenges (ticket_hash, challenge, user_id, expires_at)
        values ($1, $2, $3, now() + $4::interval)
        """,
        ticket_hash,
        challenge,
        user_id,
        lifetime,
    )


async def use_challenge(connection: TenantDatabase, ticket_hash: bytes) -> Challenge | None:
    """Use a challenge up, whatever becomes of the answer; of concurrent callers one gets it."""
    row = await connection.fetchrow(
        f"""
        delete from pilotis.user_challenges where ticket_hash = $1 and expires_at > now()
        returning {columns(Challenge)}
        """,
        ticket_hash,
    )
    return None if row is None else Challenge(**row)


async def delete_expired(connection: Connection) -> None:
    """Delete challenges that have expired."""
    await connection.execute("delete from pilotis.user_challenges where expires_at < now()")


async def insert(connection: Connection, new: StoredPasskey) -> bool:
    """Insert a passkey; False if somebody has the credential already."""
    try:
        await connection.execute(
            """
            insert into pilotis.user_passkeys
                (passkey_id, user_id, credential_id, credential, name, sign_count, is_synced, created_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8)
            """,
            new.passkey_id,
            new.user_id,
            new.credential_id,
            new.credential,
            new.name,
            new.sign_count,
            new.is_synced,
            new.created_at,
        )
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "user_passkeys_credential":
            return False
        raise
    return True


async def of_user(connection: Connection | TenantDatabase, user_id: UUID) -> list[StoredPasskey]:
    """Return a console user's passkeys, the oldest first."""
    rows = await connection.fetch(
        f"select {_PASSKEY} from pilotis.user_passkeys where user_id = $1 order by passkey_id", user_id
    )
    return [StoredPasskey(**row) for row in rows]


async def by_credential(connection: TenantDatabase, credential_id: bytes) -> StoredPasskey | None:
    """Return the passkey with a credential's id."""
    row = await connection.fetchrow(
        f"select {_PASSKEY} from pilotis.user_passkeys where credential_id = $1", credential_id
    )
    return None if row is None else StoredPasskey(**row)


async def use(connection: Connection, passkey_id: UUID, before: int, sign_count: int, is_synced: bool) -> bool:
    """Record a use of a passkey; False if it was deleted or used meanwhile, when its counter was `before`."""
    tag = await connection.execute(
        """
        update pilotis.user_passkeys set sign_count = $3, is_synced = $4, last_used_at = now()
        where passkey_id = $1 and sign_count = $2
        """,
        passkey_id,
        before,
        sign_count,
        is_synced,
    )
    return tag == "UPDATE 1"


async def delete(connection: Connection, user_id: UUID, passkey_id: UUID) -> bool:
    """Delete a console user's passkey; False if it has no such one."""
    tag = await connection.execute(
        "delete from pilotis.user_passkeys where user_id = $1 and passkey_id = $2", user_id, passkey_id
    )
    return tag == "DELETE 1"


async def delete_all(connection: Connection, user_id: UUID) -> None:
    """Delete all passkeys of a console user."""
    await connection.execute("delete from pilotis.user_passkeys where user_id = $1", user_id)
