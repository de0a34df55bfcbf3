"""The endpoint layer's `Authenticator`: who stands behind a credential."""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.keys import SECRET_PREFIX
from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.http.principals import AppInfo, InvalidTokenError, Principal, Role, RoleRequiredError
from pilotis.members.service import Members
from pilotis.sessions.service import CONSOLE, Sessions, TokenPair
from pilotis.users.service import Users


class Access:
    """Asks apps, members and console users about credentials."""

    def __init__(self, apps: Apps, members: Members, users: Users, sessions: Sessions) -> None:
        self._apps = apps
        self._members = members
        self._users = users
        self._sessions = sessions

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app a public key names, if it may be used from the origin."""
        return await self._apps.by_public_key(key, origin)

    async def bearer(self, app: AppInfo, token: str) -> Principal:
        """Return who acts on the app with a member token, a console token or a secret key."""
        if token.startswith(SECRET_PREFIX):
            return await self.secret_key(app, token)
        if self._sessions.is_console_token(token):
            user = await self._users.authenticate(token)
            role = await self._users.role_on(app.app_id, user.user_id)
            if role is None:
                raise RoleRequiredError("You have no role on this app.")
            return Principal(app, user=user, role=role)
        app_id, member = await self._members.authenticate(token)
        if app_id != app.app_id:
            raise InvalidTokenError("The token belongs to another app than the public key.")
        return Principal(app, member=member)

    async def secret_key(self, app: AppInfo, key: str) -> Principal:
        """Return the secret key's principal on the app."""
        return await self._apps.by_secret_key(app, key)

    async def member(self, token: str) -> Principal:
        """Return the member, and the app, that an access token names."""
        app_id, member = await self._members.authenticate(token)
        try:
            return Principal(await self._apps.by_id(app_id), member=member)
        except AppNotFoundError:
            raise InvalidTokenError from None

    async def console_user(self, token: str) -> Principal:
        """Return the console user that an access token names."""
        return Principal(user=await self._users.authenticate(token))

    async def on_app(self, principal: Principal, app_id: UUID, role: Role) -> Principal:
        """Return the console user's principal on an app; 404 without any role on it, 403 with too low a one."""
        assert principal.user is not None
        held = await self._users.role_on(app_id, principal.user.user_id)
        if held is None:
            raise AppNotFoundError
        if held < role:
            raise RoleRequiredError
        return Principal(await self._apps.by_id(app_id), user=principal.user, role=held)

    async def refresh(self, token: str) -> TokenPair:
        """Exchange a refresh token, a console user's or a member's, for the next pair."""
        claims = self._sessions.refresh_claims(token)
        if claims.app_id == CONSOLE:
            await self._users.require_active(UUID(claims.sub))
        else:
            try:
                await self._apps.by_id(claims.app_id)
            except AppNotFoundError:
                raise InvalidTokenError from None
            await self._members.require_active(claims.app_id, claims.sub)
        return await self._sessions.refresh(claims)

    async def sign_out_console(self, token: str) -> None:
        """End the session of a console user's refresh token."""
        claims = self._sessions.refresh_claims(token)
        if claims.app_id != CONSOLE:
            raise InvalidTokenError("Only a console user's refresh token is taken here.")
        if not await self._sessions.revoke(CONSOLE, claims.sid):
            raise InvalidTokenError
