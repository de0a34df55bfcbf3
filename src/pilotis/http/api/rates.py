"""Rate limits: the class in which a request counts, and its cost."""

from __future__ import annotations

from typing import Any, Protocol

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.principals import AppInfo, AppUser, Client, Role
from pilotis.http.api.request import Call
from pilotis.kit.errors import BadRequestError, Standing
from pilotis.limits import Limits


class TooManyOperationsError(BadRequestError):
    """400 `TOO_MANY_OPERATIONS`: the request contains more rows or operations than the rate limit allows per minute."""

    code = "TOO_MANY_OPERATIONS"
    message = "The request contains more operations than the rate limit allows per minute. Send fewer at a time."


class Limiter(Protocol):
    """Counts requests by class and client; the limit of a class is the app's, or the server's if there is no app."""

    async def count(
        self, client: Client, app: AppInfo | None, rate: str, cost: int = 1, *, group: str | None = None
    ) -> Standing:
        """Count `cost` requests of the class `rate`; raises `RateLimitedError` past its limit.

        Each address has its own count; all members of a `group` share one, whatever their address.
        """


class Rates:
    """Counts requests as their endpoint declares, and records the standing on the call's client."""

    def __init__(self, limiter: Limiter, limits: Limits) -> None:
        """`limits` apply if a request is not about an app, such as the console's sign-up."""
        self._limiter = limiter
        self._limits = limits

    def applies(self, call: Call, endpoint: Endpoint) -> str | None:
        """Return the class that the call counts in: its endpoint's, or the app's own for data; else None."""
        app = call.principal.app
        limits = app.limits if app else self._limits
        if endpoint.rate is not None and limit_of(limits, endpoint.rate):
            return endpoint.rate
        if app is None or not limits.data_per_minute:
            return None
        return None if endpoint.access.is_console or isinstance(call.principal, AppUser) else "data"

    async def count(self, call: Call, rate: str, cost: int = 1) -> None:
        """Count the call in a class that `applies`."""
        app, group = call.principal.app, None
        if rate == "schema" and app is not None:
            # Schema changes count per app, but with separate counts, so that holders of the public key cannot block the
            # app's owners.
            group = "owner" if call.principal.may(Role.EDITOR) else "client"
        await self._limiter.count(call.client, app, rate, cost, group=group)

    async def count_body(self, call: Call, endpoint: Endpoint, rate: str, body: Any) -> None:
        """Count the operations of a body beyond the one request that `count` has counted.

        Raises `TooManyOperationsError` if there are more than a minute allows: waiting would not help.
        """
        cost = endpoint.cost(body) if endpoint.cost else 1
        if cost <= 1:
            return
        limit = limit_of(call.limits, rate)
        if cost > limit:
            raise TooManyOperationsError(
                f"This app may make {limit} requests a minute, and each row or operation counts as one:"
                f" send at most {limit} in one request, not {cost}."
            )
        await self.count(call, rate, cost - 1)


def limit_of(limits: Limits, rate: str) -> int:
    """Return how many requests of a class are allowed per minute; 0 = unlimited."""
    limit: int = getattr(limits, f"{rate}_per_minute")
    return limit
