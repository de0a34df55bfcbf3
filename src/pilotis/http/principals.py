"""Who is calling: what a credential proves, and what a route asks for.

The endpoint layer knows only these shapes; `pilotis.access` finds out who stands behind a credential.
"""

from __future__ import annotations

import enum
from typing import Protocol
from uuid import UUID

import msgspec

from pilotis.kit.errors import ForbiddenError, UnauthorizedError
from pilotis.limits import Limits


class Role(enum.IntEnum):
    """What a console user may do on an app; each role includes the ones below it."""

    VIEWER = 1
    EDITOR = 2
    OWNER = 3


class Access(enum.Enum):
    """The credentials a route asks for."""

    OPEN = "open"
    PUBLIC_KEY = "public key; a bearer credential of the app counts where given"
    PUBLIC_KEY_AND_MEMBER = "public key and member access token"
    MEMBER = "member access token"
    SECRET_KEY = "public key and secret key"  # noqa: S105 - a sentence, not a secret
    REFRESH_TOKEN = "refresh token"  # noqa: S105
    CONSOLE = "console user access token"
    APP_VIEWER = "console user with the role viewer on the app"
    APP_EDITOR = "console user with the role editor on the app"
    APP_OWNER = "console user with the role owner on the app"

    @property
    def role(self) -> Role | None:
        """The role on the path's app that the route asks for, if it is about one app."""
        return _ROLES.get(self)

    @property
    def needs_public_key(self) -> bool:
        """Whether `X-Public-Key` must be sent."""
        return self in {Access.PUBLIC_KEY, Access.PUBLIC_KEY_AND_MEMBER, Access.SECRET_KEY}

    @property
    def needs_bearer(self) -> bool:
        """Whether an `Authorization: Bearer` credential must be sent."""
        return self not in {Access.OPEN, Access.PUBLIC_KEY}

    @property
    def is_console(self) -> bool:
        """Whether the route belongs to console users alone, and so to the console's own origin."""
        return self is Access.CONSOLE or self.role is not None


_ROLES = {
    Access.APP_VIEWER: Role.VIEWER,
    Access.APP_EDITOR: Role.EDITOR,
    Access.APP_OWNER: Role.OWNER,
}


class AppInfo(msgspec.Struct, frozen=True):
    """The tenant a request belongs to, as the credentials named it. `limits` are the ones in force for it."""

    app_id: UUID
    name: str
    version: int
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: list[str]
    limits: Limits

    @property
    def schema(self) -> str:
        """The PostgreSQL schema that holds the app's rows; hexadecimal digits only, so it needs no quoting."""
        return f"app_{self.app_id.hex}"


class MemberInfo(msgspec.Struct, frozen=True):
    """A signed-in end user of the app."""

    member_id: str
    session_id: UUID
    is_guest: bool


class UserInfo(msgspec.Struct, frozen=True):
    """A console user. `session_id` is None where a secret key acts for the user."""

    user_id: UUID
    email: str
    session_id: UUID | None


class Principal(msgspec.Struct, frozen=True):
    """Who calls: an app's public, one of its members, or somebody with a role on it."""

    app: AppInfo | None = None
    member: MemberInfo | None = None
    user: UserInfo | None = None
    role: Role | None = None
    secret_key_id: UUID | None = None

    @property
    def kind(self) -> str:
        """One word for logs: `secret_key`, `console_user`, `member`, `public` or `anonymous`."""
        if self.secret_key_id:
            return "secret_key"
        if self.user:
            return "console_user"
        if self.member:
            return "member"
        return "public" if self.app else "anonymous"

    @property
    def actor_id(self) -> str | None:
        """The id of the member, console user or secret key that acts."""
        actor = self.secret_key_id or (self.user and self.user.user_id) or (self.member and self.member.member_id)
        return str(actor) if actor else None

    def may(self, role: Role) -> bool:
        """Whether the caller has the role, or a higher one, on the app."""
        return self.role is not None and self.role >= role


class Actor(msgspec.Struct, frozen=True):
    """Who did something, for the audit log.

    `kind` is a principal's, or `operator` on the command line, or `system` for what happens by itself.
    """

    kind: str
    id: str | None
    request_id: str | None


OPERATOR = Actor("operator", None, None)
SYSTEM = Actor("system", None, None)


class PublicKeyRequiredError(UnauthorizedError):
    """401: `X-Public-Key` is missing."""

    code = "PUBLIC_KEY_REQUIRED"
    message = "Send the app's public key in the header X-Public-Key."


class InvalidPublicKeyError(UnauthorizedError):
    """401: the public key is unknown or revoked."""

    code = "INVALID_PUBLIC_KEY"
    message = "The public key is unknown or revoked."


class OriginNotAllowedError(ForbiddenError):
    """403: the public key lists the origins it may be used from, and this is none of them."""

    code = "ORIGIN_NOT_ALLOWED"
    message = "This public key may not be used from this origin."


class SecretKeyRequiredError(UnauthorizedError):
    """401: a secret-key route was called without one."""

    code = "SECRET_KEY_REQUIRED"
    message = "Send a secret key of the app as Authorization: Bearer sk_…, beside the public key."


class InvalidSecretKeyError(UnauthorizedError):
    """401: the secret key is unknown, revoked, of another app, or its user may no longer act on the app."""

    code = "INVALID_SECRET_KEY"
    message = "The secret key is unknown or revoked, or does not belong to this app."


class TokenRequiredError(UnauthorizedError):
    """401: the `Authorization: Bearer` credential is missing."""

    code = "TOKEN_REQUIRED"
    message = "Send a token as Authorization: Bearer …."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"WWW-Authenticate": "Bearer"})


class InvalidTokenError(UnauthorizedError):
    """401: the token is malformed, expired, revoked, or of another kind than this route takes."""

    code = "INVALID_TOKEN"
    message = "The token is not valid here: it is malformed, expired, revoked, or of another kind."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


class RoleRequiredError(ForbiddenError):
    """403: the console user has a role on the app, but not one that allows this."""

    code = "ROLE_REQUIRED"
    message = "Your role on this app does not allow that."


class Authenticator(Protocol):
    """Finds out who stands behind a credential; every method raises an `UnauthorizedError` or `ForbiddenError`."""

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app a public key names, if it may be used from the origin."""

    async def bearer(self, app: AppInfo, token: str) -> Principal:
        """Return who acts on the app with a member token, a console token or a secret key."""

    async def secret_key(self, app: AppInfo, key: str) -> Principal:
        """Return the secret key's principal on the app."""

    async def member(self, token: str) -> Principal:
        """Return the member, and the app, that an access token names."""

    async def console_user(self, token: str) -> Principal:
        """Return the console user that an access token names."""

    async def on_app(self, principal: Principal, app_id: UUID, role: Role) -> Principal:
        """Return the console user's principal on an app; `NotFoundError` where the user has no role on it at all."""
