"""The statements on second factors of console users."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns


class Totp(msgspec.Struct, frozen=True):
    """A console user's authenticator app; it counts once it is confirmed."""

    secret: bytes
    confirmed_at: datetime | None


class StoredCode(msgspec.Struct, frozen=True):
    """A recovery code, and the name under which it is encrypted."""

    name: str
    code: bytes


async def put_totp(connection: Connection, user_id: UUID, secret: bytes) -> bool:
    """Store the secret of an authenticator app that is to be confirmed; False if the user has a confirmed one."""
    tag = await connection.execute(
        """
        insert into pilotis.user_totp as t (user_id, name, secret) values ($1, $2, $3)
        on conflict (user_id) do update set secret = excluded.secret, created_at = now() where t.confirmed_at is null
        """,
        user_id,
        str(user_id),
        secret,
    )
    return tag == "INSERT 0 1"


async def totp(connection: Connection | TenantDatabase, user_id: UUID) -> Totp | None:
    """Return a console user's authenticator app."""
    row = await connection.fetchrow(f"select {columns(Totp)} from pilotis.user_totp where user_id = $1", user_id)
    return None if row is None else Totp(**row)


async def use_step(connection: Connection, user_id: UUID, secret: bytes, step: int) -> bool:
    """Use the code of a time step, and confirm the app; False if that or a later code was used, or the app replaced.

    `secret` is as stored. Of concurrent callers one gets True.
    """
    tag = await connection.execute(
        """
        update pilotis.user_totp set last_step = $3, confirmed_at = coalesce(confirmed_at, now())
        where user_id = $1 and secret = $2 and last_step < $3
        """,
        user_id,
        secret,
        step,
    )
    return tag == "UPDATE 1"


async def delete_all(connection: Connection, user_id: UUID) -> bool:
    """Delete all second factors of a console user; False if it has none that is confirmed."""
    await connection.execute("delete from pilotis.user_recovery_codes where user_id = $1", user_id)
    found = await connection.fetchval(
        "delete from pilotis.user_totp where user_id = $1 returning confirmed_at is not null", user_id
    )
    return bool(found)


async def put_recovery_codes(connection: Connection, user_id: UUID, codes: Sequence[tuple[str, bytes]]) -> None:
    """Replace a console user's recovery codes, each given with its name."""
    await connection.execute("delete from pilotis.user_recovery_codes where user_id = $1", user_id)
    await connection.execute(
        """
        insert into pilotis.user_recovery_codes (user_id, number, name, code)
        select $1, number, name, code from unnest($2::text[], $3::bytea[]) with ordinality as given (name, code, number)
        """,
        user_id,
        [name for name, _ in codes],
        [code for _, code in codes],
    )


async def recovery_codes(connection: Connection | TenantDatabase, user_id: UUID) -> list[StoredCode]:
    """Return a console user's recovery codes."""
    rows = await connection.fetch(
        f"select {columns(StoredCode)} from pilotis.user_recovery_codes where user_id = $1", user_id
    )
    return [StoredCode(**row) for row in rows]


async def use_recovery_code(connection: Connection, name: str, code: bytes) -> bool:
    """Use a recovery code, given as it is stored; of concurrent callers one gets True."""
    tag = await connection.execute("delete from pilotis.user_recovery_codes where name = $1 and code = $2", name, code)
    return tag == "DELETE 1"
