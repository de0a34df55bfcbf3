"""SQL statements for certificates, accounts at authorities, challenges and orders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns

FIRST_WAIT, LONGEST_WAIT, WAIT_FACTOR = 60, 24 * 3600, 3
"""Seconds before the next attempt: after the first failure, at most, and how many times longer after each further one.

Three times, so that a name fails five times in the first hour: as often as Let's Encrypt permits."""

_LOCK = 0x48545450  # "HTTP"
_FREE_AT = """
    select started_at + interval '1 hour' from pilotis.https_orders
    where started_at > now() - interval '1 hour' and ($2::text is null or split_part(name, '.', 1) || '.' || $2 = name)
    order by started_at desc offset $1 limit 1
"""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a name's certificate; the first four are null until there was one."""

    name: str
    chain: str | None
    not_before: datetime | None
    not_after: datetime | None
    renew_at: datetime | None
    failures: int
    error: str | None
    next_try_at: datetime | None


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate with its encrypted key."""

    name: str
    chain: str
    private_key: bytes
    issued_at: datetime
    not_after: datetime


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account at an authority: its encrypted key, and its URL."""

    private_key: bytes
    url: str


async def certificate(connection: Connection | TenantDatabase, name: str) -> Certificate | None:
    """Return what is known of a name's certificate."""
    row = await connection.fetchrow(
        f"select {columns(Certificate)} from pilotis.https_certificates where name = $1", name
    )
    return None if row is None else Certificate(**row)


async def certificates(connection: Connection | TenantDatabase) -> list[Certificate]:
    """Return what is known of all names, by name."""
    rows = await connection.fetch(f"select {columns(Certificate)} from pilotis.https_certificates order by name")
    return [Certificate(**row) for row in rows]


async def issued(connection: Connection | TenantDatabase) -> dict[str, datetime]:
    """Return when the newest certificate of each name was stored."""
    rows = await connection.fetch("select name, issued_at from pilotis.https_certificates where chain is not null")
    return dict(map(tuple, rows))


async def served(connection: Connection | TenantDatabase, names: Sequence[str]) -> list[Served]:
    """Return the certificates of names that have one, with their keys."""
    rows = await connection.fetch(
        f"select {columns(Served)} from pilotis.https_certificates where name = any($1) and chain is not null", names
    )
    return [Served(**row) for row in rows]


async def store_certificate(
    connection: Connection,
    name: str,
    chain: str,
    private_key: bytes,
    not_before: datetime,
    not_after: datetime,
    renew_at: datetime,
) -> None:
    """Store a new certificate of a name; earlier failures are forgotten."""
    await connection.execute(
        """
        insert into pilotis.https_certificates
            (name, chain, private_key, not_before, not_after, renew_at, issued_at, ask_at)
        values ($1, $2, $3, $4, $5, $6, clock_timestamp(), now())
        on conflict (name) do update set
            chain = excluded.chain, private_key = excluded.private_key, not_before = excluded.not_before,
            not_after = excluded.not_after, renew_at = excluded.renew_at, issued_at = excluded.issued_at,
            ask_at = excluded.ask_at, failures = 0, error = null, next_try_at = null
        """,
        name,
        chain,
        private_key,
        not_before,
        not_after,
        renew_at,
    )


async def store_failure(connection: Connection, name: str, error: str) -> datetime:
    """Store why a name got no certificate, and return when to try again."""
    next_try: datetime = await connection.fetchval(
        """
        insert into pilotis.https_certificates as c (name, failures, error, next_try_at)
        values ($1, 1, $2, now() + make_interval(secs => $3))
        on conflict (name) do update set
            failures = c.failures + 1, error = $2,
            next_try_at = now() + make_interval(secs => least($4, $3 * power($5, least(c.failures, 20))))
        returning next_try_at
        """,
        name,
        error,
        FIRST_WAIT,
        LONGEST_WAIT,
        WAIT_FACTOR,
    )
    return next_try


async def due(connection: Connection | TenantDatabase, own: Sequence[str]) -> list[str]:
    """Return the names whose certificate is to be got or renewed now: of those in `own` also one never asked for."""
    rows = await connection.fetch(
        """
        select name from pilotis.https_certificates
        where (chain is null or renew_at <= now()) and (next_try_at is null or next_try_at <= now())
        union
        select name from unnest($1::text[]) as wanted (name)
        where not exists (select from pilotis.https_certificates c where c.name = wanted.name)
        """,
        own,
    )
    return [name for (name,) in rows]


async def to_ask_for(connection: Connection | TenantDatabase, limit: int) -> list[Certificate]:
    """Return certificates whose time of renewal the authority has not said for long."""
    rows = await connection.fetch(
        f"""
        select {columns(Certificate)} from pilotis.https_certificates
        where chain is not null and ask_at <= now() and renew_at > now() and not_after > now()
        order by ask_at limit $1
        """,
        limit,
    )
    return [Certificate(**row) for row in rows]


async def store_renewal(
    connection: Connection | TenantDatabase, name: str, renew_at: datetime, ask_at: datetime
) -> None:
    """Store when a certificate is to be renewed, and when to ask for that time again."""
    await connection.execute(
        "update pilotis.https_certificates set renew_at = $2, ask_at = $3 where name = $1", name, renew_at, ask_at
    )


async def delete_certificates(connection: Connection | TenantDatabase, names: Sequence[str]) -> None:
    """Delete the certificates of names that are served no more, once they have expired or if there was none."""
    await connection.execute(
        """
        delete from pilotis.https_certificates
        where name = any($1) and (chain is null or not_after < now())
        """,
        names,
    )


async def account(connection: Connection | TenantDatabase, directory: str) -> Account | None:
    """Return the account at an authority."""
    row = await connection.fetchrow(
        f"select {columns(Account)} from pilotis.https_accounts where directory = $1", directory
    )
    return None if row is None else Account(**row)


async def insert_account(connection: Connection, directory: str, private_key: bytes, url: str) -> None:
    """Store an account at an authority, unless there is one."""
    await connection.execute(
        """
        insert into pilotis.https_accounts (directory, private_key, url) values ($1, $2, $3)
        on conflict (directory) do nothing
        """,
        directory,
        private_key,
        url,
    )


async def delete_account(connection: Connection | TenantDatabase, directory: str, url: str) -> None:
    """Delete an account that the authority does not know."""
    await connection.execute("delete from pilotis.https_accounts where directory = $1 and url = $2", directory, url)


async def insert_challenge(connection: Connection | TenantDatabase, token: str, name: str, answer: str) -> None:
    """Store the answer to a challenge."""
    await connection.execute(
        """
        insert into pilotis.https_challenges (token, name, answer) values ($1, $2, $3)
        on conflict (token) do update set name = excluded.name, answer = excluded.answer, created_at = now()
        """,
        token,
        name,
        answer,
    )


async def answer(connection: Connection | TenantDatabase, token: str, name: str) -> str | None:
    """Return the answer to a challenge for a name, in the hour after it was stored."""
    found: str | None = await connection.fetchval(
        """
        select answer from pilotis.https_challenges
        where token = $1 and name = $2 and created_at > now() - interval '1 hour'
        """,
        token,
        name,
    )
    return found


async def delete_challenge(connection: Connection | TenantDatabase, token: str) -> None:
    """Delete a challenge that has been answered."""
    await connection.execute("delete from pilotis.https_challenges where token = $1", token)


async def delete_old(connection: Connection) -> None:
    """Delete what orders that were cut off have left, and orders that count no more."""
    await connection.execute("delete from pilotis.https_challenges where created_at < now() - interval '1 hour'")
    await connection.execute("delete from pilotis.https_orders where started_at < now() - interval '1 hour'")


async def begin_order(
    connection: Connection, order_id: UUID, name: str, limit: int, *, is_site: bool = False
) -> datetime | None:
    """Count an order, if fewer than `limit` were begun in the last hour; else return when the next one may begin.

    Of those for names that are beside this one in a domain, as names of sites are (`is_site`), at most half as many.
    """
    await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
    free_at: datetime | None = await connection.fetchval(_FREE_AT, limit - 1, None)
    if is_site:
        beside = await connection.fetchval(_FREE_AT, max(limit // 2, 1) - 1, name.partition(".")[2])
        free_at = max(filter(None, (free_at, beside)), default=None)
    if free_at is None:
        await connection.execute("insert into pilotis.https_orders (order_id, name) values ($1, $2)", order_id, name)
    return free_at
