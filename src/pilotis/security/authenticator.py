"""The endpoint layer's `Authenticator`: finds the principal of a credential."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from pilotis.apps.keys import PUBLIC_PREFIX, SECRET_PREFIX
from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.http.api.principals import (
    Actor,
    AppInfo,
    AppMember,
    AppPrincipal,
    AppUser,
    ConsoleUser,
    FunctionCaller,
    InvalidSecretKeyError,
    InvalidTokenError,
    MemberInfo,
    OAuthClient,
    Presumption,
    ReauthenticationRequiredError,
    Role,
    RoleRequiredError,
    SecretKey,
    TokenCall,
    TokenFault,
    UserInfo,
)
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import SecondFactorEnrolmentRequiredError
from pilotis.members.service import GUEST_PREFIX, Members
from pilotis.security.function_tokens.service import FunctionTokens
from pilotis.security.sessions.service import CONSOLE, Sessions, TokenPair
from pilotis.users.service import Users


class OAuthTokens(Protocol):
    """Finds the principal of an OAuth access token."""

    async def client_of(self, call: TokenCall) -> OAuthClient | None:
        """Return the client of a request's OAuth access token; None if the request has no token of this kind."""


class Authentication:
    """Finds the principal of a credential among apps, members and console users, and exchanges refresh tokens."""

    def __init__(
        self,
        apps: Apps,
        members: Members,
        users: Users,
        sessions: Sessions,
        oauth: OAuthTokens,
        functions: FunctionTokens,
        *,
        needs_second_factor: bool = False,
    ) -> None:
        """With `needs_second_factor` console users reach apps only with one."""
        self._needs_second_factor = needs_second_factor
        self._apps = apps
        self._members = members
        self._users = users
        self._sessions = sessions
        self._oauth = oauth
        self._functions = functions

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app of a public key, if the key may be used from the origin."""
        return await self._apps.by_public_key(key, origin)

    def known_public_key(self, key: str, origin: str | None) -> AppInfo | None:
        """Return what `public_key` would, if that needs no query; else None."""
        return self._apps.known_by_public_key(key, origin)

    async def bearer(self, app: AppInfo, token: str) -> AppPrincipal:
        """Return the principal of a member token, a console token or a secret key on the app."""
        if token.startswith(SECRET_PREFIX):
            return await self.secret_key(app, token)
        if self._sessions.is_console_token(token):
            user, role = await self._users.authenticate_on(token, app.app_id)
            if role is None:
                raise RoleRequiredError("You have no role on this app.")
            return self._on_app(app, user, role)
        _refuse_key(token)
        app_id, member = await self._members.authenticate(token)
        if app_id != app.app_id:
            raise InvalidTokenError("The token belongs to a different app than the public key.")
        return AppMember(app, member)

    def known_member(self, app: AppInfo, token: str) -> AppMember | None:
        """Return the member of an access token of the app, whose session was not checked; None for any other token."""
        if token.startswith((SECRET_PREFIX, PUBLIC_PREFIX)) or self._sessions.is_console_token(token):
            return None
        app_id, member = self._members.claimed(token)
        return AppMember(app, member) if app_id == app.app_id else None

    def presume(self, token: str, *, provisional: bool = False) -> tuple[UUID, MemberInfo, Presumption] | None:
        """Return the app's id and the member of an access token, whose session is being checked.

        None for another credential. `provisional` accepts a session that awaits a proof.
        """
        if token.startswith((SECRET_PREFIX, PUBLIC_PREFIX)) or self._sessions.is_console_token(token):
            return None
        return self._members.presume(token, provisional=provisional)

    async def secret_key(self, app: AppInfo, key: str) -> SecretKey:
        """Return the secret key's principal on the app."""
        if key.startswith(PUBLIC_PREFIX):
            raise InvalidSecretKeyError(
                "This is a public key; send it in the header X-Public-Key, beside a secret key."
            )
        return await self._apps.by_secret_key(app, key)

    async def member(self, token: str, *, provisional: bool = False) -> AppMember:
        """Return the member of an access token, and its app; `provisional` accepts a session that awaits a proof."""
        _refuse_key(token)
        app_id, member = await self._members.authenticate(token, provisional=provisional)
        return AppMember(await self.app(app_id), member)

    async def app(self, app_id: UUID) -> AppInfo:
        """Return the app that a member's token names."""
        try:
            return await self._apps.by_id(app_id)
        except AppNotFoundError:
            raise InvalidTokenError(fault=TokenFault.REVOKED) from None

    async def console_user(self, token: str) -> ConsoleUser:
        """Return the console user of an access token."""
        _refuse_key(token)
        return ConsoleUser(await self._users.authenticate(token))

    async def oauth_client(self, call: TokenCall) -> OAuthClient | None:
        """Return the client of a request's OAuth access token; None if the request has no token of this kind."""
        return await self._oauth.client_of(call)

    async def function(self, token: str) -> FunctionCaller | None:
        """Return the running function whose token this is, and count the use; None if it is no function's token."""
        return await self._functions.authenticate(token) if self._functions.is_one(token) else None

    async def user_on_app(self, token: str, app_id: UUID, role: Role) -> AppUser:
        """Return a console user's principal on an app; 404 without a role on it, 403 if the role is too low."""
        _refuse_key(token)
        user, held = await self._users.authenticate_on(token, app_id)
        if held is None:
            raise AppNotFoundError
        if held < role:
            raise RoleRequiredError
        return self._on_app(await self._apps.by_id(app_id), user, held)

    def _on_app(self, app: AppInfo, user: UserInfo, role: Role) -> AppUser:
        """Return a console user's principal, once it has a second factor where the server or the app requires one."""
        if self._needs_second_factor or app.accounts.team_second_factor:
            _require_factor(user)
        return AppUser(app, user, role)

    def require_factor(self, user: UserInfo) -> None:
        """Raise the error of a console user without the second factor that the server requires."""
        if self._needs_second_factor:
            _require_factor(user)

    async def acting(self, user: AppUser, member_id: str, request_id: str) -> AppMember:
        """Return a member as whom a console user reads, and record it; 404 if the app has no such member."""
        actor = Actor(user.kind, user.actor_id, request_id)
        member = await self._members.act_as(user.app.app_id, actor, member_id)
        if member is None:
            raise MemberNotFoundError
        return AppMember(user.app, member)

    async def secret_key_on(self, key: str, app_id: UUID, role: Role) -> SecretKey:
        """Return the principal of a secret key sent without the public key; 401 unless it belongs to the app."""
        try:
            app = await self._apps.by_id(app_id)
        except AppNotFoundError:
            raise InvalidSecretKeyError from None
        principal = await self._apps.by_secret_key(app, key)
        if not principal.may(role):
            raise RoleRequiredError
        return principal

    async def refresh(self, token: str) -> TokenPair:
        """Exchange a refresh token, a console user's or a member's, for the next pair."""
        claims = self._sessions.refresh_claims(token)
        if claims.app_id == CONSOLE:
            await self._users.require_active(UUID(claims.sub))
            return await self._sessions.refresh(claims, self._users.limits)
        try:
            app = await self._apps.by_id(claims.app_id)
        except AppNotFoundError:
            raise InvalidTokenError(fault=TokenFault.REVOKED) from None
        await self._members.require_entry(claims.app_id, claims.sub)
        is_guest = claims.sub.startswith(GUEST_PREFIX)
        return await self._sessions.refresh(claims, app.limits, is_guest=is_guest)

    async def sign_out_console(self, token: str) -> None:
        """End the session of a console user's refresh token."""
        claims = self._sessions.refresh_claims(token)
        if claims.app_id != CONSOLE:
            message = "This route accepts only a console user's refresh token."
            raise InvalidTokenError(message, TokenFault.WRONG_KIND)
        if not await self._sessions.revoke(CONSOLE, claims.sid):
            raise InvalidTokenError(fault=TokenFault.REVOKED)


def _require_factor(user: UserInfo) -> None:
    if user.level < 2:
        if user.factors:
            raise ReauthenticationRequiredError(user.factors)
        raise SecondFactorEnrolmentRequiredError("Set up a second factor in your profile first: it is required here.")


def _refuse_key(token: str) -> None:
    """Raise the error about a key of the app in place of a token."""
    if token.startswith(PUBLIC_PREFIX):
        message = "This is a public key; send it in the header X-Public-Key. A token belongs here."
        raise InvalidTokenError(message, TokenFault.WRONG_KIND)
    if token.startswith(SECRET_PREFIX):
        raise InvalidTokenError("This is a secret key, which this route does not take.", TokenFault.WRONG_KIND)
