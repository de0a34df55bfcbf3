"""Rate limits counted in the database, so that all nodes share the counts.

One statement counts an attempt before it is made, so concurrent attempts cannot exceed the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND, CONSOLE
from pilotis.http.api.principals import AppInfo, Client
from pilotis.http.api.rates import limit_of
from pilotis.kit.addresses import one_client
from pilotis.kit.errors import RateLimitedError, Standing
from pilotis.limits import Limits

WINDOW_SECONDS = 60
HOUR_SECONDS = 3600
_FACTOR_TRIES = 10
_FAILED_PASSWORDS = 100

R = TypeVar("R")

_COUNT = """
    insert into pilotis.rate_limits as r (key, hits, resets_at)
    values ($1, $2, now() + make_interval(secs => $4))
    on conflict (key) do update set
        hits = case when r.resets_at <= now() then $2 else r.hits + $2 end,
        strikes = case
            when r.resets_at <= now() - make_interval(secs => $5) then 0
            when $6 and r.resets_at > now() and r.hits <= $3 and r.hits + $2 > $3 then r.strikes + 1
            else r.strikes
        end,
        resets_at = case
            when r.resets_at <= now() then now() + make_interval(secs => $4)
            when $6 and r.hits <= $3 and r.hits + $2 > $3
                then now() + make_interval(secs => least($4 * 2 ^ least(r.strikes, 20), $5))
            else r.resets_at
        end
    returning hits, extract(epoch from resets_at - now())::float8 as seconds
"""
_FAILED = "select f.hits from pilotis.rate_limits f where f.key = {} and f.resets_at > now()"
_COUNT_ADDRESS = """
    insert into pilotis.rate_limits as r (key, hits, resets_at)
    values ($7, 1, now() + make_interval(secs => $4))
    on conflict (key) do update set
        hits = case when r.resets_at <= now() then 1 else r.hits + 1 end,
        resets_at = case when r.resets_at <= now() then now() + make_interval(secs => $4) else r.resets_at end
    returning hits as address_hits, extract(epoch from resets_at - now())::float8 as address_seconds
"""


class RateLimits:
    """Counts attempts by key within a minute."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    async def count(
        self, client: Client, app: AppInfo | None, rate: str, cost: int = 1, *, group: str | None = None
    ) -> Standing:
        """Count `cost` requests of the class `rate`, by address or by `group`.

        Raises `RateLimitedError` beyond the limit.
        """
        limit = limit_of(app.limits if app else self._limits, rate)
        key = rate_key(rate, client, app) if group is None else f"{rate}:{_tenant(app)}:{group}"
        counted = await self._counted(app, _COUNT, key, cost, limit, False)
        return _record_standing(client, limit, *counted)

    async def refund(self, client: Client, app: AppInfo | None, rate: str) -> None:
        """Take back a request of the class `rate` that was counted by address, because it was none of those."""
        tenant = app.app_id if app else CONSOLE
        sql = "update pilotis.rate_limits set hits = greatest(hits - 1, 0) where key = $1"
        await self._database.execute(sql, rate_key(rate, client, app), tenant=tenant)
        client.standing = None

    async def count_hourly(self, client: Client, rate: str) -> Standing:
        """Count a request of the class `rate` by address; raises `RateLimitedError` beyond the hour's limit."""
        limit: int = getattr(self._limits, f"{rate}_per_hour")
        key = rate_key(rate, client, None)
        counted = await self._counted(None, _COUNT, key, 1, limit, False, window=HOUR_SECONDS)
        return _record_standing(client, limit, *counted)

    async def attempt_password(self, client: Client, app: AppInfo | None, key: str) -> Standing:
        """Count an attempt with an account's current password, with a doubling wait; raises `RateLimitedError`."""
        limit = (app.limits if app else self._limits).signin_per_minute
        counted = await self._counted(app, _COUNT, key, 1, limit, True)
        return _record_standing(client, limit, *counted)

    async def attempt_factor(self, client: Client, app: AppInfo | None, key: str) -> Standing:
        """Count an attempt with a second factor, over all sign-ins of its owner; raises `RateLimitedError`.

        There are a million codes, of which three are valid: ten tries an hour, with waits that double up to a day.
        """
        day = float(24 * HOUR_SECONDS)
        counted = await self._counted(app, _COUNT, key, 1, _FACTOR_TRIES, True, window=HOUR_SECONDS, longest=day)
        return _record_standing(client, _FACTOR_TRIES, *counted)

    async def attempt_sign_in(
        self,
        client: Client,
        app: AppInfo | None,
        subject: str,
        record: Callable[..., R],
        account: str,
        *arguments: Any,
    ) -> tuple[R | None, bool]:
        """Count an attempt to sign in as `subject`, and read its account in the same round trip.

        The attempt is counted for one account under `sign_in_key`, and for the client's address with any account. Each
        minute in which the account's limit is exceeded doubles the wait that follows, up to `signin_max_wait_seconds`.
        `account` is a query for at most one row, its arguments numbered from `$8`; its columns, of which the first is
        never null, are the fields of a `record`; None without a row. Also returns whether the account had so many wrong
        passwords within the hour, from all addresses together, that somebody guesses. Raises `RateLimitedError`.
        """
        limits = app.limits if app else self._limits
        failures = f"${8 + len(arguments)}"
        query = (
            f"with address as ({_COUNT_ADDRESS}), counted as ({_COUNT}) "
            f"select ({_FAILED.format(failures)}) as failures, address.*, counted.*, account.* "
            f"from address cross join counted left join ({account}) account on true"
        )
        keys = sign_in_key(client, app, subject), rate_key("signin-address", client, app)
        own = failures_key(app, subject)
        row = await self._counted(app, query, keys[0], 1, limits.signin_per_minute, True, keys[1], *arguments, own)
        failures, address_hits, address_seconds, hits, seconds, *found = row
        _record_standing(client, limits.signin_address_per_minute, address_hits, address_seconds)
        _record_standing(client, limits.signin_per_minute, hits, seconds)
        return None if found[0] is None else record(*found), (failures or 0) >= _FAILED_PASSWORDS

    async def count_failure(self, app: AppInfo | None, subject: str) -> None:
        """Count a wrong password for an account, from wherever it comes."""
        await self._counted(app, _COUNT, failures_key(app, subject), 1, _FAILED_PASSWORDS, False, window=HOUR_SECONDS)

    async def _counted(
        self,
        app: AppInfo | None,
        query: str,
        key: str,
        cost: int,
        limit: int,
        back_off: bool,
        *arguments: Any,
        window: int = WINDOW_SECONDS,
        longest: float | None = None,
    ) -> Record:
        longest = longest or float(self._limits.signin_max_wait_seconds)
        tenant = app.app_id if app else CONSOLE
        row = await self._database.fetchrow(
            query, key, cost, limit, float(window), longest, back_off, *arguments, tenant=tenant
        )
        assert row is not None
        return row

    async def permits(self, connection: Connection, key: str, limit: int, seconds: int) -> bool:
        """Count one use of a key in the caller's transaction; False beyond `limit` uses in `seconds`."""
        row = await connection.fetchrow(
            _COUNT, key, 1, limit, float(seconds), float(self._limits.signin_max_wait_seconds), False
        )
        assert row is not None
        hits: int = row["hits"]
        return hits <= limit

    async def forgive(self, app: AppInfo | None, key: str) -> None:
        """Delete the attempts of a key after a successful one."""
        tenant = app.app_id if app else CONSOLE
        await self._database.execute("delete from pilotis.rate_limits where key = $1", key, tenant=tenant)

    async def delete_expired(self) -> None:
        """Delete counts that no longer limit any client."""
        await self._database.execute(
            "delete from pilotis.rate_limits where resets_at < now() - make_interval(secs => $1)",
            float(self._limits.signin_max_wait_seconds),
            tenant=BACKGROUND,
        )


def sign_in_key(client: Client, app: AppInfo | None, subject: str) -> str:
    """Return the key that counts attempts to sign in as `subject` from the client's address."""
    return f"{rate_key('signin', client, app)}{subject}"


def failures_key(app: AppInfo | None, subject: str) -> str:
    """Return the key that counts wrong passwords of an account from all addresses."""
    return f"signin-failures:{_tenant(app)}:{subject}"


def rate_key(rate: str, client: Client, app: AppInfo | None) -> str:
    """Return the key to count by: the limit, the app, and the client."""
    return f"{rate}:{_tenant(app)}:{one_client(client.address)}:"


def _tenant(app: AppInfo | None) -> str:
    return str(app.app_id) if app else "console"


def _record_standing(client: Client, limit: int, hits: int, seconds: float) -> Standing:
    """Store the client's standing for the response headers and return it.

    Raises `RateLimitedError` beyond the limit.
    """
    standing = Standing(limit, max(0, limit - hits), max(1, math.ceil(seconds)))
    client.standing = None if hits > limit else standing
    if hits > limit:
        raise RateLimitedError(standing)
    return standing
