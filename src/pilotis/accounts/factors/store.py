"""The statements on second factors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns


class Totp(msgspec.Struct, frozen=True):
    """A member's authenticator app; it counts once it is confirmed."""

    secret: bytes
    confirmed_at: datetime | None


async def put_totp(connection: Connection, app_id: UUID, member_id: str, secret: bytes) -> bool:
    """Store the secret of an authenticator app that is to be confirmed; False if the member has a confirmed one."""
    tag = await connection.execute(
        """
        insert into pilotis.account_totp as t (app_id, member_id, secret) values ($1, $2, $3)
        on conflict (app_id, member_id) do update set secret = excluded.secret, created_at = now()
        where t.confirmed_at is null
        """,
        app_id,
        member_id,
        secret,
    )
    return tag == "INSERT 0 1"


async def totp(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> Totp | None:
    """Return a member's authenticator app."""
    row = await connection.fetchrow(
        f"select {columns(Totp)} from pilotis.account_totp where app_id = $1 and member_id = $2", app_id, member_id
    )
    return None if row is None else Totp(**row)


async def use_step(connection: Connection, app_id: UUID, member_id: str, secret: bytes, step: int) -> bool:
    """Use the code of a time step, and confirm the app; False if that or a later code was used, or the app replaced.

    `secret` is as stored. Of concurrent callers one gets True.
    """
    tag = await connection.execute(
        """
        update pilotis.account_totp set last_step = $4, confirmed_at = coalesce(confirmed_at, now())
        where app_id = $1 and member_id = $2 and secret = $3 and last_step < $4
        """,
        app_id,
        member_id,
        secret,
        step,
    )
    return tag == "UPDATE 1"


async def delete_totp(connection: Connection, app_id: UUID, member_id: str) -> bool:
    """Delete a member's authenticator app; False if it has no confirmed one."""
    tag = await connection.execute(
        "delete from pilotis.account_totp where app_id = $1 and member_id = $2 and confirmed_at is not null",
        app_id,
        member_id,
    )
    return tag == "DELETE 1"


async def delete_all(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Delete all second factors of a member."""
    await connection.execute("delete from pilotis.account_totp where app_id = $1 and member_id = $2", app_id, member_id)
    await delete_recovery_codes(connection, app_id, member_id)


async def put_recovery_codes(connection: Connection, app_id: UUID, member_id: str, codes: Sequence[bytes]) -> None:
    """Replace a member's recovery codes."""
    await delete_recovery_codes(connection, app_id, member_id)
    await connection.execute(
        """
        insert into pilotis.account_recovery_codes (app_id, member_id, number, code)
        select $1, $2, number, code from unnest($3::bytea[]) with ordinality as given (code, number)
        """,
        app_id,
        member_id,
        codes,
    )


async def delete_recovery_codes(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Delete a member's recovery codes."""
    await connection.execute(
        "delete from pilotis.account_recovery_codes where app_id = $1 and member_id = $2", app_id, member_id
    )


async def recovery_codes_left(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> int:
    """Return how many recovery codes a member has left."""
    left: int = await connection.fetchval(
        "select count(*) from pilotis.account_recovery_codes where app_id = $1 and member_id = $2", app_id, member_id
    )
    return left


async def recovery_codes(connection: Connection, app_id: UUID, member_id: str) -> list[tuple[int, bytes]]:
    """Return a member's recovery codes with their numbers."""
    rows = await connection.fetch(
        "select number, code from pilotis.account_recovery_codes where app_id = $1 and member_id = $2",
        app_id,
        member_id,
    )
    return [(number, code) for number, code in rows]


async def use_recovery_code(connection: Connection, app_id: UUID, member_id: str, number: int, code: bytes) -> bool:
    """Use a recovery code, given as it is stored; of concurrent callers one gets True."""
    tag = await connection.execute(
        """
        delete from pilotis.account_recovery_codes
        where app_id = $1 and member_id = $2 and number = $3 and code = $4
        """,
        app_id,
        member_id,
        number,
        code,
    )
    return tag == "DELETE 1"
