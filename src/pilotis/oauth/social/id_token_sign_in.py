"""Sign-in by an ID token that a vendor's own button gave to a page or a program of the app.

No browser is redirected, so nothing but the token says who it is: it is for a client of this app, contains the nonce of
this sign-in, is at most ten minutes old, and serves once.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import structlog

from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Client, ImpersonationNotAllowedError, MemberInfo
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.members.arrivals.types import MemberRows
from pilotis.members.gate.service import settled
from pilotis.members.hooks import Passes
from pilotis.members.types import SignedIn
from pilotis.oauth.flow.service import REQUESTS_RATE
from pilotis.oauth.social.client import VendorClient
from pilotis.oauth.social.entrance import Arrival, Entered, Entrance
from pilotis.oauth.social.errors import InvalidIdTokenError, ProviderNotEnabledError, ProviderUnavailableError
from pilotis.oauth.social.id_tokens import CLOCK_SECONDS, signed_part
from pilotis.oauth.social.providers import SocialProviders
from pilotis.oauth.social.types import IdTokenSignIn
from pilotis.oauth.social.vendors import Profile, VendorError, VendorUnreachableError, vendor_of
from pilotis.security import single_use
from pilotis.security.rate_limits import RateLimits

_PURPOSE = "members.id_token"
_MAX_AGE = timedelta(minutes=10)
# Both ends of the window in which a token serves may be off by the difference of the clocks.
_REMEMBERED = _MAX_AGE + timedelta(seconds=2 * CLOCK_SECONDS)

_log = structlog.get_logger("pilotis.oauth")


class IdTokens:
    """Signs members in by vendors' ID tokens."""

    def __init__(
        self,
        database: Database,
        rate_limits: RateLimits,
        providers: SocialProviders,
        vendors: VendorClient,
        entrance: Entrance,
    ) -> None:
        self._database = database
        self._rate_limits = rate_limits
        self._providers = providers
        self._vendors = vendors
        self._entrance = entrance

    async def sign_in(
        self, client: Client, app: AppInfo, given: IdTokenSignIn, member: MemberInfo | None, agent: str | None
    ) -> tuple[SignedIn, bool]:
        """Sign in whose token it is, and return whether that made the member.

        A `member` that is signed in links the account, and a guest becomes a member. Raises `ProviderNotEnabledError`,
        `ProviderUnavailableError`, `InvalidIdTokenError`, and what `Entrance.enter` does: then the token serves again.
        """
        if member is not None and member.impersonated:
            raise ImpersonationNotAllowedError
        await self._rate_limits.count(client, None, REQUESTS_RATE)
        name = given.provider.upper()
        account = await self._recognised(app, client, name, given)
        member_id = None if member is None else member.member_id
        arrival = Arrival(name, account, member_id, uuid7(), given.profile)
        used = sha256(signed_part(given.id_token)).digest()

        async def within(passes: Passes, rows: MemberRows) -> Entered | None:
            async with self._database.transaction(app.app_id) as connection:
                if not await single_use.spend(connection, app.app_id, used, _PURPOSE, _REMEMBERED):
                    return None
                return await self._entrance.enter(connection, app, client, arrival, agent, passes, rows)

        entered = await self._entrance.attempt(app, client, within)
        if entered is None:
            await self._fail(client)
            raise InvalidIdTokenError
        return settled(entered.outcome), entered.is_new

    async def _recognised(self, app: AppInfo, client: Client, name: str, given: IdTokenSignIn) -> Profile:
        account = await self._providers.account(app.app_id, name)
        if account is None:
            raise ProviderNotEnabledError
        if not vendor_of(name).gives_id_tokens:
            raise invalid("provider", "provider: this vendor gives no ID tokens.", "NO_ID_TOKENS")
        try:
            return await self._vendors.recognised(account, given.id_token, given.nonce, _MAX_AGE.total_seconds())
        except VendorUnreachableError as error:
            _log.warning("id token not checked", app_id=str(app.app_id), provider=name, reason=str(error))
            raise ProviderUnavailableError from None
        except VendorError as error:
            _log.info("id token rejected", app_id=str(app.app_id), provider=name, reason=str(error))
            await self._fail(client)
            raise InvalidIdTokenError from None

    async def _fail(self, client: Client) -> None:
        """Count an invalid token; raises `RateLimitedError` beyond the limit."""
        await self._rate_limits.count(client, None, "oauth_exchange_failures")
        client.standing = None
