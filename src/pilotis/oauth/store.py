"""SQL statements for signing keys."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from asyncpg import Connection

from pilotis.kit import json

ADVANCE = "10 minutes"
"""How long a new key is published before it signs; longer than any client caches the key set."""
STAYS_PUBLISHED = "24 hours"
STAYS_KNOWN = "30 days"

KeyState = Literal["signing", "next", "published", "known"]

_LOCK = 0x4F417574  # "OAut"


class StoredKey(msgspec.Struct, frozen=True):
    """A signing key: `public_key` is a JWK in JSON, `private_key` is encrypted, None once it no longer signs."""

    kid: str
    public_key: str
    private_key: bytes | None
    created_at: datetime
    signs_from: datetime
    published_until: datetime | None
    state: KeyState


async def lock_keys(connection: Connection) -> None:
    """Lock the keys against changes by other transactions until this one ends."""
    await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)


async def keys(connection: Connection) -> list[StoredKey]:
    """Return the known keys, newest first, each with its current `state`."""
    rows = await connection.fetch(
        """
        with known as (
            select *, published_until is null or published_until > now() as is_published,
                signs_from <= now() and (published_until is null or published_until > now()) as may_sign
            from pilotis.oauth_keys where known_until is null or known_until > now()
        )
        select kid, public_key, private_key, created_at, signs_from, published_until, case
            when may_sign and kid = (select kid from known where may_sign order by signs_from desc limit 1)
                then 'signing'
            when signs_from > now() and is_published then 'next'
            when is_published then 'published'
            else 'known'
        end as state
        from known order by signs_from desc
        """
    )
    return [StoredKey(**row) for row in rows]


async def insert_key(
    connection: Connection, kid: str, public_key: dict[str, str], private_key: bytes, *, at_once: bool
) -> None:
    """Insert a key that signs at once, or after clients have had time to fetch it."""
    await connection.execute(
        f"""
        insert into pilotis.oauth_keys (kid, public_key, private_key, signs_from)
        values ($1, $2, $3, now() + case when $4 then interval '0' else interval '{ADVANCE}' end)
        """,
        kid,
        json.encode(public_key).decode(),
        private_key,
        at_once,
    )


async def retire_others(connection: Connection, kid: str) -> None:
    """Let the predecessors of a new key verify for a while after it starts to sign."""
    await connection.execute(
        f"""
        update pilotis.oauth_keys old set
            published_until = coalesce(old.published_until, new.signs_from + interval '{STAYS_PUBLISHED}'),
            known_until = coalesce(old.known_until, new.signs_from + interval '{STAYS_KNOWN}')
        from pilotis.oauth_keys new where new.kid = $1 and old.kid <> $1
        """,
        kid,
    )


async def forget_others(connection: Connection, kid: str) -> None:
    """Invalidate all other keys at once."""
    await connection.execute("delete from pilotis.oauth_keys where kid <> $1", kid)


async def delete_expired(connection: Connection) -> None:
    """Erase private keys that no longer sign, and delete keys that are no longer needed."""
    await connection.execute("update pilotis.oauth_keys set private_key = null where published_until < now()")
    await connection.execute("delete from pilotis.oauth_keys where known_until < now()")
