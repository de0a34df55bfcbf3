"""Single-use values, such as those in links: only their hash is stored, and one statement consumes them.

The text is a prefix and the base64url of the app's id with 32 random bytes, so it identifies the app. Values that
belong to no app contain the nil UUID.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.kit import json
from pilotis.kit.crypto import base64url, from_base64url, secret_hash

_RANDOM_BYTES = 32
_ACCEPTED_BYTES = (24, _RANDOM_BYTES)  # Values of earlier versions stay valid.
_APP_BYTES = 16
_BATCH_SIZE = 5_000


class Minted(NamedTuple):
    """A new value: the text for its user, and the hash to store."""

    text: str
    hash: bytes


def mint(prefix: str, app_id: UUID) -> Minted:
    """Return a new value of 256 random bits."""
    text = prefix + base64url(app_id.bytes + secrets.token_bytes(_RANDOM_BYTES))
    return Minted(text, secret_hash(text))


def app_of(prefix: str, text: str) -> UUID | None:
    """Return the app that a value names, or None if it is malformed. The value may not exist."""
    data = from_base64url(text.removeprefix(prefix)) if text.startswith(prefix) and text.isascii() else None
    return UUID(bytes=data[:_APP_BYTES]) if data and len(data) - _APP_BYTES in _ACCEPTED_BYTES else None


async def put(
    connection: Connection,
    app_id: UUID,
    value: Minted,
    purpose: str,
    data: dict[str, Any],
    lifetime: timedelta | None,
    *,
    subject: str | None = None,
) -> datetime:
    """Store a value with its data, and return when it expires; without a lifetime it never does.

    With a `subject`, it replaces an unused value of the same purpose and subject.
    """
    expires_at = await connection.fetchval(
        """
        insert into pilotis.single_use (app_id, hash, purpose, subject, data, expires_at)
        values ($1, $2, $3, $4, $5, coalesce(now() + $6::interval, 'infinity'))
        on conflict (app_id, purpose, subject) where subject is not null and used_at is null do update set
            hash = excluded.hash, data = excluded.data, created_at = now(), expires_at = excluded.expires_at
        returning expires_at
        """,
        app_id,
        value.hash,
        purpose,
        subject,
        json.encode(data).decode(),
        lifetime,
    )
    return cast("datetime", expires_at)


async def spend(connection: Connection, app_id: UUID, value_hash: bytes, purpose: str, lifetime: timedelta) -> bool:
    """Record in the caller's transaction that a value of somebody else was used; False if it was used before.

    Of concurrent callers one gets True once its transaction is committed; the others wait for it.
    """
    tag = await connection.execute(
        """
        insert into pilotis.single_use (app_id, hash, purpose, data, expires_at, used_at)
        values ($1, $2, $3, '{}', now() + $4::interval, now()) on conflict (app_id, hash) do nothing
        """,
        app_id,
        value_hash,
        purpose,
        lifetime,
    )
    return tag == "INSERT 0 1"


async def is_usable(database: Database, app_id: UUID, purpose: str, text: str) -> bool:
    """Return whether a value is valid now, without using it."""
    found = await database.fetchval(
        """
        select true from pilotis.single_use
        where app_id = $1 and hash = $2 and purpose = $3 and used_at is null and expires_at > now()
        """,
        app_id,
        secret_hash(text),
        purpose,
        tenant=app_id,
    )
    return bool(found)


async def consume(connection: Connection, app_id: UUID, purpose: str, text: str) -> dict[str, Any] | None:
    """Consume a value in the caller's transaction and return its data; None if it is invalid or already used.

    Of concurrent callers one gets the data; the others wait for its transaction.
    """
    data = await connection.fetchval(
        """
        update pilotis.single_use set used_at = now()
        where app_id = $1 and hash = $2 and purpose = $3 and used_at is null and expires_at > now()
        returning data
        """,
        app_id,
        secret_hash(text),
        purpose,
    )
    return None if data is None else msgspec.json.decode(data, type=dict[str, Any])


async def prolong(database: Database, app_id: UUID, purpose: str, text: str, lifetime: timedelta) -> None:
    """Let an unused value be valid for a time from its creation, if it is valid now."""
    await database.execute(
        """
        update pilotis.single_use set expires_at = greatest(expires_at, created_at + $4::interval)
        where app_id = $1 and hash = $2 and purpose = $3 and used_at is null and expires_at > now()
        """,
        app_id,
        secret_hash(text),
        purpose,
        lifetime,
        tenant=app_id,
    )


async def used_data(database: Database, app_id: UUID, purpose: str, text: str) -> dict[str, Any] | None:
    """Return the data of a value that was used; None if it is unknown or still unused."""
    data = await database.fetchval(
        """
        select data from pilotis.single_use
        where app_id = $1 and hash = $2 and purpose = $3 and used_at is not null
        """,
        app_id,
        secret_hash(text),
        purpose,
        tenant=app_id,
    )
    return None if data is None else msgspec.json.decode(data, type=dict[str, Any])


async def revoke(connection: Connection, app_id: UUID, purpose: str, subject: str) -> None:
    """Revoke the value of a purpose and subject, if it exists."""
    await connection.execute(
        "delete from pilotis.single_use where app_id = $1 and purpose = $2 and subject = $3 and used_at is null",
        app_id,
        purpose,
        subject,
    )


async def delete_expired(connection: Connection) -> None:
    """Delete values, including used ones, that expired more than a day ago."""
    deleted: Any = _BATCH_SIZE
    while deleted == _BATCH_SIZE:
        deleted = await connection.fetchval(
            """
            with gone as (
                delete from pilotis.single_use where (app_id, hash) in (
                    select app_id, hash from pilotis.single_use where expires_at < now() - interval '1 day' limit $1
                ) returning 1
            ) select count(*) from gone
            """,
            _BATCH_SIZE,
        )
