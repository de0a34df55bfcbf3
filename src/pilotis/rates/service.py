"""Rate limits counted in the database, so that every node counts on the same tally.

One statement counts an attempt before it is made, so attempts that arrive together cannot slip past the limit.
"""

from __future__ import annotations

import math
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoint
from pilotis.http.failures import header_pairs
from pilotis.kit.errors import RateLimitedError
from pilotis.limits import Limits

WINDOW_SECONDS = 60
LONGEST_WAIT_SECONDS = 15 * 60

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


class Standing(NamedTuple):
    """How a caller stands: the limit, what is left of it, and the whole seconds until it is reset."""

    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """Return the `RateLimit-*` headers."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset),
        }


class RateLimits:
    """Counts attempts by key within a minute."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    async def attempt(self, call: Call, key: str, limit: int, *, cost: int = 1) -> None:
        """Count an attempt, and put on the call's answer, good or bad, how the caller stands.

        Raises `RateLimitedError` past the limit.
        """
        _tell(call, await self._counted(_COUNT, key, cost, limit, False), limit)

    async def attempt_sign_in(self, call: Call, key: str, limit: int, account: str, *arguments: Any) -> Record:
        """Count an attempt as `attempt` does, and read the account it is for in the same round trip.

        Each minute in which the limit is passed doubles the wait that follows, up to 15 minutes.
        `account` is a query for at most one row, its arguments numbered from `$7`; without a row its columns are null.
        """
        query = f"with counted as ({_COUNT}) select * from counted left join ({account}) account on true"
        row = await self._counted(query, key, 1, limit, True, *arguments)
        _tell(call, row, limit)
        return row

    async def _counted(self, query: str, key: str, cost: int, limit: int, back_off: bool, *arguments: Any) -> Record:
        window, longest = float(WINDOW_SECONDS), float(LONGEST_WAIT_SECONDS)
        row = await self._database.fetchrow(query, key, cost, limit, window, longest, back_off, *arguments)
        assert row is not None
        return row

    async def forgive(self, key: str) -> None:
        """Forget the attempts of a key, after one that succeeded."""
        await self._database.execute("delete from pilotis.rate_limits where key = $1", key)

    async def delete_expired(self) -> None:
        """Delete what no longer limits anybody."""
        await self._database.execute(
            "delete from pilotis.rate_limits where resets_at < now() - make_interval(secs => $1)",
            float(LONGEST_WAIT_SECONDS),
        )

    async def check(self, call: Call, endpoint: Endpoint) -> None:
        """Count a request of the endpoint's rate class, or of the app's own limit on its data routes.

        Where no app is named, as on the console's sign-up, the server's own limits hold.
        """
        await self._count(call, endpoint, 1)

    async def check_body(self, call: Call, endpoint: Endpoint, body: Any) -> None:
        """Count the operations of a body beyond the one request that `check` has counted."""
        if endpoint.cost is not None and (more := endpoint.cost(body) - 1) > 0:
            await self._count(call, endpoint, more)

    async def _count(self, call: Call, endpoint: Endpoint, cost: int) -> None:
        if counted := self._class(call, endpoint):
            rate, limit = counted
            await self.attempt(call, rate_key(rate, call), limit, cost=cost)

    def _class(self, call: Call, endpoint: Endpoint) -> tuple[str, int] | None:
        """Return the rate class that the call counts in, and its limit; None where it counts in none."""
        app = call.principal.app
        limits = app.limits if app else self._limits
        if endpoint.rate is not None and (limit := int(getattr(limits, f"{endpoint.rate}_per_minute"))):
            return endpoint.rate, limit
        if app is not None and limits.data_per_minute and not endpoint.access.is_console:
            return "data", limits.data_per_minute
        return None


def _tell(call: Call, row: Record, limit: int) -> None:
    # Of several counts in one call, the last one is told.
    others = [header for header in call.answer_headers if not header[0].startswith(b"ratelimit-")]
    call.answer_headers = others
    standing = Standing(limit, max(0, limit - row["hits"]), max(1, math.ceil(row["seconds"])))
    if row["hits"] > limit:
        raise RateLimitedError(headers={**standing.headers(), "Retry-After": str(standing.reset)})
    call.answer_headers.extend(header_pairs(standing.headers()))


def rate_key(rate: str, call: Call, subject: str = "") -> str:
    """Return the key to count by: what is limited, for whose app, from where, and for which `subject` if for one."""
    tenant = call.principal.app.app_id if call.principal.app else "console"
    return f"{rate}:{tenant}:{one_client(call.address)}:{subject}"


def one_client(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of 64 bits.

    Whoever has one IPv6 address has the whole network to pick others from (RFC 6177, section 2).
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(ip, IPv6Address):
        return address
    return str(ip.ipv4_mapped or IPv6Network((int(ip), 64), strict=False))
