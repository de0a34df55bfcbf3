"""Social login: redirects to the vendor, handles its response, and exchanges the page's code for a member's tokens.

Three rules protect accounts: only the vendor's subject identifies an account; codes go only to the app's own pages;
and a sign-in, a new member or a link takes effect only when the page that started it exchanges the code with its
verifier, never when a browser returns. So a sign-in that starts in one browser cannot be finished in another.
"""

from __future__ import annotations

import hmac
from datetime import timedelta
from urllib.parse import urlencode

import msgspec
import structlog

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Client, ImpersonationNotAllowedError, InvalidTokenError
from pilotis.kit.crypto import random_token
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import uuid7
from pilotis.members.arrivals.service import is_about_profile
from pilotis.members.arrivals.types import MemberRows
from pilotis.members.gate.service import settled
from pilotis.members.hooks import Passes
from pilotis.members.service import Members
from pilotis.oauth import settings_store
from pilotis.oauth.clients import OAuthClientNotFoundError
from pilotis.oauth.errors import InvalidRequestError
from pilotis.oauth.flow.granting import REQUEST_PREFIX
from pilotis.oauth.flow.requests import is_challenge
from pilotis.oauth.flow.service import REQUESTS_RATE
from pilotis.oauth.parameters import Parameters
from pilotis.oauth.records import KnownClient, Provider
from pilotis.oauth.registry import find_client
from pilotis.oauth.social import sign_in_codes, store
from pilotis.oauth.social.client import Account, Returned, VendorClient, challenge_of
from pilotis.oauth.social.entrance import Arrival, Entered, Entrance
from pilotis.oauth.social.errors import (
    CodeChallengeRequiredError,
    IdentityTakenError,
    InvalidCodeError,
    InvalidRedirectUriError,
    ProviderNotEnabledError,
)
from pilotis.oauth.social.providers import SocialProviders, enabled_providers
from pilotis.oauth.social.sign_in_codes import SignInCodes
from pilotis.oauth.social.types import (
    AccountPageVendors,
    Exchange,
    Exchanged,
    Recognised,
    SocialLoginQuery,
    SocialLoginUrl,
    State,
)
from pilotis.oauth.social.vendors import Profile, Vendor, VendorError
from pilotis.security import single_use
from pilotis.security.rate_limits import RateLimits
from pilotis.security.sessions.service import Sessions

_STATE_PREFIX, _CODE_PREFIX = "ss_", "xc_"
_STATE_PURPOSE, _CODE_PURPOSE = "oauth.social_state", "oauth.exchange"
_STATE_LIFETIME = timedelta(minutes=10)
_CODE_LIFETIME = timedelta(seconds=60)
ACCOUNT_PAGE = "sign-in"
"""The account page to which a vendor sends a member back; it goes on to where the member was."""
_DECLINED = frozenset(("access_denied", "user_cancelled_authorize", "user_cancelled_login", "user_denied"))

_log = structlog.get_logger("pilotis.oauth")


class SocialLogin:
    """Signs members in with accounts at vendors; `issuer` is the server's address."""

    def __init__(
        self,
        database: Database,
        apps: Apps,
        members: Members,
        sessions: Sessions,
        rate_limits: RateLimits,
        providers: SocialProviders,
        vendors: VendorClient,
        entrance: Entrance,
        issuer: str,
    ) -> None:
        self._database = database
        self._apps = apps
        self._members = members
        self._sessions = sessions
        self._rate_limits = rate_limits
        self._providers = providers
        self._vendors = vendors
        self._entrance = entrance
        self._issuer = issuer
        self.codes = SignInCodes(database, members, sessions, f"{issuer}/oauth/consent")

    async def begin(
        self, caller: Client, client_id: str, query: SocialLoginQuery, bearer: str | None
    ) -> SocialLoginUrl:
        """Return the URL at which a member signs in with a vendor, or links an account there.

        `bearer` is the access token of a member that links, or of a guest that becomes a member. Raises
        `OAuthClientNotFoundError`, and the errors of the query.
        """
        client = await find_client(self._database, client_id, single_use.app_of(REQUEST_PREFIX, query.request_id or ""))
        if client is None or not client.provider.is_provider:
            raise OAuthClientNotFoundError
        name = query.provider.upper()
        account = await self._providers.account(client.app_id, name)
        if account is None:
            raise ProviderNotEnabledError
        if query.redirect_uri not in self._pages(client.provider):
            raise InvalidRedirectUriError
        if query.code_challenge_method != "S256" or not is_challenge(query.code_challenge or ""):
            raise CodeChallengeRequiredError
        await self._rate_limits.count(caller, None, REQUESTS_RATE)
        vendor = await self._vendor(account)
        state = State(
            client_id=client.client_id,
            provider=name,
            redirect_uri=query.redirect_uri,
            code_challenge=query.code_challenge or "",
            verifier=random_token(),
            nonce=random_token(),
            state=query.state,
            request_id=query.request_id,
            member_id=await self._linking(client, bearer),
        )
        minted = single_use.mint(_STATE_PREFIX, client.app_id)
        async with self._database.transaction(client.app_id) as connection:
            await single_use.put(
                connection, client.app_id, minted, _STATE_PURPOSE, msgspec.to_builtins(state), _STATE_LIFETIME
            )
        url = self._authorization_url(vendor, account, state, minted.text)
        return SocialLoginUrl(url, name, int(_STATE_LIFETIME.total_seconds()))

    async def of_account_pages(self, app: AppInfo) -> AccountPageVendors | None:
        """Return the vendors of an app and the client for which its account pages use them; None if there are none."""
        if not app.enabled_oauth_providers:
            return None
        settings = await settings_store.settings(self._database, app.app_id)
        if settings is None or not settings.is_provider or settings.first_party_client_id is None:
            return None
        return AccountPageVendors(settings.first_party_client_id, await enabled_providers(self._database, app.app_id))

    async def returned(self, provider: str, parameters: Parameters) -> str:
        """Return the URL to which a browser that returns from a vendor is redirected, with a code or an error.

        Raises `InvalidRequestError` if the page that started the sign-in is unknown.
        """
        text = parameters.get("state") or ""
        app_id = single_use.app_of(_STATE_PREFIX, text)
        kept = None
        if app_id is not None:
            async with self._database.transaction(app_id) as connection:
                kept = await single_use.consume(connection, app_id, _STATE_PURPOSE, text)
        if kept is None:
            raise InvalidRequestError(
                "This sign-in is unknown, has already been finished, or took longer than ten minutes."
            )
        state = msgspec.convert(kept, State)
        if state.provider != provider.upper():
            raise InvalidRequestError("This sign-in was started with another provider.")
        client = await find_client(self._database, state.client_id, app_id)
        if client is None or not client.provider.is_provider or state.redirect_uri not in self._pages(client.provider):
            raise InvalidRequestError("The page that started this sign-in no longer belongs to the app.")
        try:
            code = await self._recognise(client, state, text, parameters)
        except IdentityTakenError:
            return _answer(state, error="identity_taken")
        except VendorError as error:
            refused = parameters.get("error")
            _log.warning("social login failed", app_id=str(client.app_id), provider=state.provider, reason=str(error))
            return _answer(state, error="access_denied" if refused in _DECLINED else "provider_error")
        return _answer(state, code=code)

    async def exchange(self, client: Client, given: Exchange, agent: str | None) -> Exchanged:
        """Return the tokens of the signed-in member to the page that started the sign-in.

        Raises `InvalidCodeError`, after which a second use has ended the session of the first, `IdentityTakenError` or
        `MemberInactiveError`; and what the rows do that are made with a member: then the code serves again.
        """
        prefix = sign_in_codes.PREFIX if given.code.startswith(sign_in_codes.PREFIX) else _CODE_PREFIX
        app_id = single_use.app_of(prefix, given.code)
        try:
            if app_id is None:
                raise InvalidCodeError
            app = await self._apps.by_id(app_id)
            if given.code.startswith(sign_in_codes.PREFIX):
                return await self._taken_over(client, app, given, agent)
            try:
                return await self._exchange(client, app, given, agent)
            except PilotisError as error:
                if is_about_profile(error):
                    # Whoever has to choose another name needs more than a minute.
                    await single_use.prolong(self._database, app_id, _CODE_PURPOSE, given.code, _STATE_LIFETIME)
                raise
        except (InvalidCodeError, AppNotFoundError):
            await self._rate_limits.count(client, None, "oauth_exchange_failures")
            client.standing = None
            raise InvalidCodeError from None

    async def _taken_over(self, client: Client, app: AppInfo, given: Exchange, agent: str | None) -> Exchanged:
        """Take over a sign-in on a page of the server; a second use of the code ends the session of the first."""

        def verify(challenge: str) -> None:
            if not hmac.compare_digest(challenge_of(given.code_verifier).encode(), challenge.encode()):
                raise InvalidCodeError

        taken = await self.codes.take(app, client, given.code, verify, agent)
        if taken is None:
            used = await self.codes.given(app.app_id, given.code)
            if used is not None:
                verify(used.code_challenge)
                await self._sessions.revoke(app.app_id, used.session_id)
            raise InvalidCodeError
        member = settled(taken.outcome)
        return Exchanged(
            member_id=member.member_id,
            nickname=member.nickname,
            access_token=member.access_token,
            refresh_token=member.refresh_token,
            token_type="Bearer",  # noqa: S106 - a name
            expires_in=app.limits.access_token_seconds,
            provider=taken.method,
            is_new_member=False,
            request_id=None,
        )

    async def _exchange(self, client: Client, app: AppInfo, given: Exchange, agent: str | None) -> Exchanged:
        async def within(passes: Passes, rows: MemberRows) -> tuple[Recognised, Entered] | None:
            async with self._database.transaction(app.app_id) as connection:
                kept = await single_use.consume(connection, app.app_id, _CODE_PURPOSE, given.code)
                if kept is None:
                    return None
                found = msgspec.convert(kept, Recognised)
                _require_verifier(found, given)
                account = Profile(
                    subject=found.subject,
                    email=found.email,
                    email_verified=found.email_verified,
                    name=found.name,
                    picture=found.picture,
                )
                arrival = Arrival(found.provider, account, found.member_id, found.session_id, given.profile)
                return found, await self._entrance.enter(connection, app, client, arrival, agent, passes, rows)

        result = await self._entrance.attempt(app, client, within)
        if result is None:
            used = await single_use.used_data(self._database, app.app_id, _CODE_PURPOSE, given.code)
            if used is not None:
                found = msgspec.convert(used, Recognised)
                _require_verifier(found, given)
                await self._sessions.revoke(app.app_id, found.session_id)
            raise InvalidCodeError
        found, entered = result
        member = settled(entered.outcome)
        return Exchanged(
            member_id=member.member_id,
            nickname=member.nickname,
            access_token=member.access_token,
            refresh_token=member.refresh_token,
            token_type="Bearer",  # noqa: S106 - a name
            expires_in=app.limits.access_token_seconds,
            provider=found.provider,
            is_new_member=entered.is_new,
            request_id=found.request_id,
        )

    async def _recognise(self, client: KnownClient, state: State, text: str, parameters: Parameters) -> str:
        """Get the profile from the vendor, and return the code for the page."""
        account = await self._providers.account(client.app_id, state.provider)
        code = parameters.get("code")
        if account is None or code is None:
            raise VendorError(
                "The provider is no longer enabled." if account is None else "The vendor returned no code."
            )
        returned = Returned(
            code=code,
            redirect_uri=self._providers.redirect_uri(state.provider),
            verifier=state.verifier,
            nonce=state.nonce,
            state=text,
            user=parameters.get("user"),
        )
        profile = await self._vendors.profile(account, returned)
        if state.member_id is not None:
            known = await store.linked_member(
                self._database.of(client.app_id), client.app_id, state.provider, profile.subject
            )
            if known not in {None, state.member_id}:
                raise IdentityTakenError
        return await self._keep(client, state, profile)

    async def _keep(self, client: KnownClient, state: State, profile: Profile) -> str:
        recognised = Recognised(
            client_id=client.client_id,
            provider=state.provider,
            code_challenge=state.code_challenge,
            request_id=state.request_id,
            member_id=state.member_id,
            session_id=uuid7(),
            **msgspec.structs.asdict(profile),
        )
        minted = single_use.mint(_CODE_PREFIX, client.app_id)
        async with self._database.transaction(client.app_id) as connection:
            await single_use.put(
                connection, client.app_id, minted, _CODE_PURPOSE, msgspec.to_builtins(recognised), _CODE_LIFETIME
            )
        return minted.text

    async def _vendor(self, account: Account) -> Vendor:
        try:
            return await self._vendors.vendor(account)
        except VendorError as error:
            _log.warning("social login cannot begin", provider=account.provider, reason=str(error))
            raise ProviderNotEnabledError("The provider cannot be reached, or is not set up correctly.") from None

    async def _linking(self, client: KnownClient, bearer: str | None) -> str | None:
        if bearer is None:
            return None
        app_id, member = await self._members.authenticate(bearer)
        if app_id != client.app_id:
            raise InvalidTokenError("The token belongs to a different app than the client.")
        if member.impersonated:
            raise ImpersonationNotAllowedError
        return member.member_id

    def _pages(self, provider: Provider) -> set[str]:
        """Return the pages that may receive a member's tokens, which all belong to the app or the server."""
        own = [] if provider.consent_url is None else [provider.consent_url]
        hosted = f"{self._issuer}/account/{provider.app_id}/{ACCOUNT_PAGE}"
        return {f"{self._issuer}/oauth/consent", hosted, *own, *provider.login_redirect_uris}

    def _authorization_url(self, vendor: Vendor, account: Account, state: State, text: str) -> str:
        query = {
            "response_type": "code",
            "client_id": account.client_id,
            "redirect_uri": self._providers.redirect_uri(account.provider),
            "state": text,
        }
        if scopes := account.scopes or vendor.scopes:
            query["scope"] = vendor.separator.join(scopes)
        if vendor.issuers:
            query["nonce"] = state.nonce
        if vendor.uses_pkce:
            query |= {"code_challenge": challenge_of(state.verifier), "code_challenge_method": "S256"}
        if vendor.uses_form_post:
            query["response_mode"] = "form_post"
        return _with(vendor.authorization, query)


def _require_verifier(found: Recognised, given: Exchange) -> None:
    if not hmac.compare_digest(challenge_of(given.code_verifier).encode(), found.code_challenge.encode()):
        raise InvalidCodeError


def _answer(state: State, **result: str) -> str:
    query = {**result}
    if state.state is not None:
        query["state"] = state.state
    if state.request_id is not None:
        query["request_id"] = state.request_id
    return _with(state.redirect_uri, query)


def _with(uri: str, query: dict[str, str]) -> str:
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(query)}"
