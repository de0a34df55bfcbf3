"""Principals and access: the caller of a request, and the requirements of a route.

The endpoint layer defines only these types; `pilotis.security` resolves credentials to principals.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from pilotis.http.api.capabilities import Capabilities
from pilotis.kit.account_settings import DEFAULTS, AccountSettings
from pilotis.kit.errors import Detail, ForbiddenError, Standing, UnauthorizedError
from pilotis.limits import Limits


class Role(enum.IntEnum):
    """The permissions of a console user on an app; each role includes the ones below it."""

    VIEWER = 1
    EDITOR = 2
    OWNER = 3


class Credential(enum.StrEnum):
    """The kinds of credentials.

    `FUNCTION` is a call from inside, or a running function's token over HTTP; no route takes `OAUTH_CLIENT`.
    """

    PUBLIC_KEY = "public key"
    MEMBER = "member access token"
    REFRESH = "refresh token"
    CONSOLE = "console user access token"
    SECRET_KEY = "secret key"  # noqa: S105 - a name, not a secret
    FUNCTION = "function"
    OAUTH_CLIENT = "OAuth client"
    OAUTH_TOKEN = "OAuth access token"  # noqa: S105


class Access(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The credentials that a route requires: one of the sets in `any_of`, the usual one first; empty means open.

    `role` is the role that a console user needs on the path's app, `scope` what a function must have been granted; a
    route without a scope rejects functions. `provisional` accepts members whose session awaits a proof, such as that of
    an address: only for routes about their own account.
    """

    OPEN: ClassVar[Access]
    PUBLIC_KEY: ClassVar[Access]
    PUBLIC_KEY_AND_MEMBER: ClassVar[Access]
    MEMBER: ClassVar[Access]
    ACCOUNT: ClassVar[Access]
    SECRET_KEY: ClassVar[Access]
    REFRESH_TOKEN: ClassVar[Access]
    CONSOLE: ClassVar[Access]
    APPS: ClassVar[Access]
    APP_VIEWER: ClassVar[Access]
    APP_EDITOR: ClassVar[Access]
    APP_OWNER: ClassVar[Access]
    APP_EDITOR_FRESH: ClassVar[Access]
    APP_OWNER_FRESH: ClassVar[Access]
    CONSOLE_FRESH: ClassVar[Access]

    any_of: tuple[frozenset[Credential], ...] = ()
    role: Role | None = None
    scope: str | None = None
    provisional: bool = False
    fresh: bool = False
    """Whether a console user must have proved recently who it is."""
    factor: bool = False
    """Whether a console user needs the second factor that the server requires; for apps, `role` implies it."""

    def takes(self, *credentials: Credential) -> bool:
        """Whether exactly these credentials together are sufficient."""
        return frozenset(credentials) in self.any_of

    @property
    def usual(self) -> frozenset[Credential]:
        """The credentials that most callers send."""
        return self.any_of[0] if self.any_of else frozenset()

    @property
    def needs_public_key(self) -> bool:
        """Whether `X-Public-Key` is usually sent."""
        return Credential.PUBLIC_KEY in self.usual

    @property
    def needs_bearer(self) -> bool:
        """Whether an `Authorization: Bearer` credential is usually sent."""
        return bool(self.usual - {Credential.PUBLIC_KEY})

    @functools.cached_property
    def is_console(self) -> bool:
        """Whether the route belongs to the console, and so to the console's origin."""
        return Credential.CONSOLE in self.usual

    @property
    def description(self) -> str:
        """The usual credentials in words for the reference."""
        if not self.any_of:
            return "open"
        if self.role is not None:
            return f"console user with the role {self.role.name.lower()} on the app"
        text = " and ".join(credential.value for credential in Credential if credential in self.usual)
        return f"{text}; a bearer credential of the app counts where given" if self.takes(*_KEY) else text


_KEY = (Credential.PUBLIC_KEY,)


def _sets(*any_of: tuple[Credential, ...]) -> tuple[frozenset[Credential], ...]:
    return tuple(map(frozenset, any_of))


def public(*, scope: str | None = None, oauth: bool = False) -> Access:
    """Return the access of a public route: anyone with the app's public key; signed-in users act as themselves.

    A console token is also accepted without the key if `X-App-Id` names the app; with `oauth`, so are access tokens of
    the app's OAuth clients, which name the app themselves.
    """
    key = Credential.PUBLIC_KEY
    sets = [_KEY, (key, Credential.MEMBER), (key, Credential.SECRET_KEY), (key, Credential.CONSOLE)]
    sets += [(Credential.CONSOLE,)] + ([(Credential.FUNCTION,)] if scope else [])
    sets += [(Credential.OAUTH_TOKEN,)] if oauth else []
    return Access(any_of=_sets(*sets), scope=scope)


def console(
    role: Role | None = None, *, secret_key: bool = False, scope: str | None = None, fresh: bool = False
) -> Access:
    """Return the access of a console route, about the app in its path if it requires a role.

    With `secret_key`, a secret key of that app is accepted too, with the lower of its own role and its user's. With
    `fresh`, a console user must have proved within `console_fresh_seconds` who it is.
    """
    sets = [(Credential.CONSOLE,)]
    sets += [(Credential.SECRET_KEY,)] if secret_key else []
    sets += [(Credential.FUNCTION,)] if scope else []
    return Access(any_of=_sets(*sets), role=role, scope=scope, fresh=fresh)


Access.OPEN = Access()
Access.PUBLIC_KEY = public()
Access.PUBLIC_KEY_AND_MEMBER = Access(any_of=_sets((Credential.PUBLIC_KEY, Credential.MEMBER)), provisional=True)
Access.MEMBER = Access(any_of=_sets((Credential.MEMBER,), (Credential.PUBLIC_KEY, Credential.MEMBER)))
Access.ACCOUNT = Access(any_of=Access.MEMBER.any_of, provisional=True)
Access.SECRET_KEY = Access(any_of=_sets((Credential.PUBLIC_KEY, Credential.SECRET_KEY)))
Access.REFRESH_TOKEN = Access(any_of=_sets((Credential.REFRESH,)))
Access.CONSOLE = console()
Access.APPS = Access(any_of=Access.CONSOLE.any_of, factor=True)
Access.APP_VIEWER = console(Role.VIEWER)
Access.APP_EDITOR = console(Role.EDITOR)
Access.APP_OWNER = console(Role.OWNER)
Access.APP_EDITOR_FRESH = console(Role.EDITOR, fresh=True)
Access.APP_OWNER_FRESH = console(Role.OWNER, fresh=True)
Access.CONSOLE_FRESH = console(fresh=True)


class Exceeded(msgspec.Struct, frozen=True):
    """The quota that an app has used up, and when it begins again."""

    quota: str
    resets_at: str


class QuotaExceededError(ForbiddenError):
    """403 `QUOTA_EXCEEDED`: the app has used up a quota of its plan; reading and deleting go on.

    `quota` names it, and at `resets_at` it begins again; that of stored bytes has room as soon as some are deleted.
    """

    code = "QUOTA_EXCEEDED"
    message = "The app has used up a quota of its plan."

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(f"The app has used up its quota of {exceeded.quota}.")
        self.extra = {"quota": exceeded.quota, "resets_at": exceeded.resets_at}


class AppInfo(msgspec.Struct, frozen=True):
    """The app (tenant) of a request, as its credentials name it. `limits` are those in force for it."""

    app_id: UUID
    name: str
    version: int
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: list[str]
    limits: Limits
    accounts: AccountSettings = DEFAULTS
    exceeded: Exceeded | None = None

    @property
    def schema(self) -> str:
        """The PostgreSQL schema with the app's rows; hexadecimal digits only, so it needs no quoting."""
        return f"app_{self.app_id.hex}"


class InTeam(NamedTuple):
    """A team that a member is in, and its roles there."""

    team_id: str
    roles: tuple[str, ...]


class MemberInfo(msgspec.Struct, frozen=True):
    """A signed-in end user of the app."""

    member_id: str
    session_id: UUID
    is_guest: bool
    roles: tuple[str, ...] = ()
    """What the app says of the member, with `claims`; rules ask for them, and the member cannot change them."""
    claims: dict[str, Any] = {}
    level: int = 1
    """How many factors the member has signed in with."""
    teams: tuple[InTeam, ...] = ()
    impersonated: bool = False
    """Whether somebody of the app's team acts as the member: then it changes nothing of its account."""
    nickname: str | None = None
    """Only where a table asks for it: a new row copies it."""
    until: int | None = None
    """When the member's access token expires, in seconds since 1970; None without one."""
    confirm: Callable[[], Awaitable[MemberInfo]] | None = None
    """Returns the whole member where only the token was checked so far: then nothing but the ids is known."""

    async def confirmed(self) -> MemberInfo:
        """Return the member with all that is known of it; raises the error of a session that is not alive."""
        return self if self.confirm is None else await self.confirm()


class UserInfo(msgspec.Struct, frozen=True):
    """A console user. `session_id` is None where a secret key acts for the user."""

    user_id: UUID
    email: str
    session_id: UUID | None
    proved_at: datetime | None = None
    """When the user has last proved in the session who it is."""
    factors: tuple[str, ...] = ()
    """The kinds of second factors that the user has set up."""
    level: int = 1
    """With how many factors the user has signed in."""


class _Caller(msgspec.Struct, frozen=True):
    """Base of the principals; what a kind does not have is None."""

    kind: ClassVar[str]
    """The kind in one word, for logs and the audit log."""

    @property
    def member(self) -> MemberInfo | None:
        """The signed-in member."""
        return None

    @property
    def user(self) -> UserInfo | None:
        """The console user, including the one for whom a secret key acts."""
        return None

    @property
    def role(self) -> Role | None:
        """The role on the app."""
        return None

    @property
    def actor_id(self) -> str | None:
        """The id of the caller."""
        return None

    @property
    def capabilities(self) -> Capabilities:
        """The texts of shared links that the request brings."""
        return {}

    @property
    def depth(self) -> int:
        """The number of functions and events between the original cause and this call."""
        return 0

    def may(self, role: Role) -> bool:
        """Whether the caller has the role, or a higher one, on the app."""
        return self.role is not None and self.role >= role


class Anonymous(_Caller, frozen=True):
    """No identity: the route is open, or its credential itself identifies the subject."""

    kind: ClassVar[str] = "anonymous"
    app: ClassVar[None] = None


class PublicClient(_Caller, frozen=True):
    """A client with the app's public key."""

    kind: ClassVar[str] = "public"
    app: AppInfo
    capabilities: Capabilities = {}


class AppMember(_Caller, frozen=True):
    """A signed-in end user of the app."""

    kind: ClassVar[str] = "member"
    app: AppInfo
    member: MemberInfo
    capabilities: Capabilities = {}

    @property
    def actor_id(self) -> str:
        """The member's id."""
        return self.member.member_id


class ConsoleUser(_Caller, frozen=True):
    """A console user, on a route that does not concern an app."""

    kind: ClassVar[str] = "console_user"
    app: ClassVar[None] = None
    user: UserInfo

    @property
    def actor_id(self) -> str:
        """The user's id."""
        return str(self.user.user_id)


class AppUser(_Caller, frozen=True):
    """A console user with a role on the app."""

    kind: ClassVar[str] = "console_user"
    app: AppInfo
    user: UserInfo
    role: Role

    @property
    def actor_id(self) -> str:
        """The user's id."""
        return str(self.user.user_id)


class SecretKey(_Caller, frozen=True):
    """A secret key of the app; `user` is the console user for whom it acts, if any."""

    kind: ClassVar[str] = "secret_key"
    app: AppInfo
    user: UserInfo | None
    role: Role
    secret_key_id: UUID

    @property
    def actor_id(self) -> str:
        """The key's id."""
        return str(self.secret_key_id)


class OAuthClient(_Caller, frozen=True):
    """A client of the app's OAuth provider, for itself or, with an access token, for a member."""

    kind: ClassVar[str] = "oauth_client"
    app: AppInfo
    client_id: str
    scopes: frozenset[str] = frozenset()
    member: MemberInfo | None = None
    claims: dict[str, Any] = {}

    @property
    def actor_id(self) -> str:
        """The client's id."""
        return self.client_id


class FunctionCaller(_Caller, frozen=True):
    """A function of the app, which acts as an editor within its scopes."""

    kind: ClassVar[str] = "function"
    app: AppInfo
    function_id: UUID
    execution_id: UUID
    scopes: frozenset[str]
    depth: int
    role: Role = Role.EDITOR

    @property
    def actor_id(self) -> str:
        """The function's id."""
        return str(self.function_id)


class AppItself(_Caller, frozen=True):
    """The app, where the server works for it by itself."""

    kind: ClassVar[str] = "system"
    app: AppInfo
    role: Role = Role.EDITOR
    member: MemberInfo | None = None
    """The member whom rows belong to that the server makes for it."""


AppPrincipal: TypeAlias = PublicClient | AppMember | AppUser | SecretKey | OAuthClient | FunctionCaller | AppItself
"""The principals on an app."""
Principal: TypeAlias = Anonymous | ConsoleUser | AppPrincipal
"""All principals. `app` is None only for the first two."""


def with_capabilities(principal: AppPrincipal, capabilities: Capabilities) -> AppPrincipal:
    """Return the principal with what its request brings; those who pass all rules need none."""
    if isinstance(principal, PublicClient | AppMember):
        return msgspec.structs.replace(principal, capabilities=capabilities)
    return principal


def app_of(principal: Principal) -> AppInfo:
    """Return the app on which the principal acts; only for routes whose access requires an app."""
    if principal.app is None:
        raise RuntimeError("This route's access names no app.")
    return principal.app


class Client(msgspec.Struct, eq=False):
    """Where a call comes from: the client's address and the request's id. Services take it instead of the request.

    `standing` is the client's standing with the last rate limit that counted it; the answer, also an error, reports it.
    """

    address: str
    request_id: str
    standing: Standing | None = None


class Actor(msgspec.Struct, frozen=True):
    """Who performed an action, for the audit log and for events.

    `kind` is that of a principal, `operator` on the command line, or `system` for automatic actions. `depth` is the
    number of functions and events that led to it.
    """

    kind: str
    id: str | None
    request_id: str | None
    depth: int = 0


OPERATOR = Actor("operator", None, None)
SYSTEM = Actor("system", None, None)


def by_itself(request_id: str | None) -> Actor:
    """Return the actor of what the server does by itself because of an earlier request."""
    return Actor("system", None, request_id)


class PublicKeyRequiredError(UnauthorizedError):
    """401: `X-Public-Key` is missing."""

    code = "PUBLIC_KEY_REQUIRED"
    message = "Send the app's public key in the header X-Public-Key."


class InvalidPublicKeyError(UnauthorizedError):
    """401: the public key is unknown or revoked."""

    code = "INVALID_PUBLIC_KEY"
    message = "The public key is unknown or revoked."


class OriginNotAllowedError(ForbiddenError):
    """403: the public key is restricted to a list of origins, and this is not one of them."""

    code = "ORIGIN_NOT_ALLOWED"
    message = "This public key is not allowed for this origin."


class SecretKeyRequiredError(UnauthorizedError):
    """401: the route requires a secret key, and none was sent."""

    code = "SECRET_KEY_REQUIRED"
    message = "Send a secret key of the app as Authorization: Bearer sk_…, together with the public key."


class InvalidSecretKeyError(UnauthorizedError):
    """401: the secret key is unknown, revoked, of another app, or its user has lost access to the app."""

    code = "INVALID_SECRET_KEY"
    message = "The secret key is unknown or revoked, or does not belong to this app."


class TokenRequiredError(UnauthorizedError):
    """401: the `Authorization: Bearer` credential is missing."""

    code = "TOKEN_REQUIRED"
    message = "Send a token as Authorization: Bearer …."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"WWW-Authenticate": "Bearer"})


class TokenFault(enum.StrEnum):
    """What is wrong with a token, the code of the error's detail. Only the holder of the token learns it."""

    MALFORMED = "MALFORMED"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"
    WRONG_KIND = "WRONG_KIND"


_FAULTS = {
    TokenFault.MALFORMED: "The token is malformed: this server has not signed it.",
    TokenFault.EXPIRED: "The token has expired. Exchange the refresh token for a new one, or sign in again.",
    TokenFault.REVOKED: "The token is revoked: its session has ended. Sign in again.",
    TokenFault.WRONG_KIND: "The token is of another kind than this route takes.",
}


class InvalidTokenError(UnauthorizedError):
    """401: the token is malformed, expired, revoked, or not of the kind that this route accepts."""

    code = "INVALID_TOKEN"
    message = "The token is invalid: it is malformed, expired, revoked, or of the wrong kind."

    def __init__(self, message: str | None = None, fault: TokenFault | None = None) -> None:
        text = message or (fault and _FAULTS[fault]) or self.message
        details = [Detail("Authorization", fault.value, text)] if fault else []
        super().__init__(text, details=details, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


class ReauthenticationRequiredError(ForbiddenError):
    """403: the session has proved too long ago whose it is; `methods` are those that `reauthenticate` takes."""

    code = "REAUTHENTICATION_REQUIRED"
    message = "Prove again who you are by reauthenticate, or sign in again: the last time was too long ago."

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__()
        self.extra = {"methods": list(methods)}


class ImpersonationNotAllowedError(ForbiddenError):
    """403: the app lets nobody act as its members, or who does may not do this in their name."""

    code = "IMPERSONATION_NOT_ALLOWED"
    message = "Who acts as a member may not do this, or the app's settings do not allow to act as members."


class RoleRequiredError(ForbiddenError):
    """403: the console user has a role on the app, but not one that allows this."""

    code = "ROLE_REQUIRED"
    message = "Your role on this app does not allow this action."


class ScopeRequiredError(ForbiddenError):
    """403: a function called a route outside its scopes, or one that does not accept functions."""

    code = "SCOPE_REQUIRED"
    message = "The function does not have the scope that this route requires."


class ActAsRefusedError(ForbiddenError):
    """403: `X-Act-As` was sent by somebody else than a console user with the role editor."""

    code = "ACT_AS_REFUSED"
    message = "Only a console user with the role editor on the app may send X-Act-As."


class ActAsReadOnlyError(ForbiddenError):
    """403: `X-Act-As` was sent to a route that does more than read rows."""

    code = "ACT_AS_READ_ONLY"
    message = "X-Act-As shows what a member sees: it is for routes that read rows."


class InsufficientScopeError(ForbiddenError):
    """403 `insufficient_scope`: the OAuth access token does not have the scope that this route requires."""

    code = "INSUFFICIENT_SCOPE"
    oauth_code = "insufficient_scope"
    message = "The access token does not have the scope that this route requires."


class DpopRefusedError(UnauthorizedError):
    """401 `invalid_dpop_proof` or `use_dpop_nonce`: an access token was sent without a valid proof of its key."""

    code = "DPOP_REFUSED"

    def __init__(self, message: str, oauth_code: str, headers: Mapping[str, str]) -> None:
        super().__init__(message, headers=headers)
        self.oauth_code = oauth_code


class TokenCall(Protocol):
    """The parts of a request that show who has an OAuth access token."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope."""

    @property
    def answer_headers(self) -> MutableSequence[tuple[bytes, bytes]]:
        """The headers of the answer so far."""

    def header(self, name: bytes) -> str | None:
        """Return a header's value, or None. The name is in lower case."""


def known_as(principal: Principal, member: MemberInfo | None) -> Principal:
    """Return the caller with what has become known of the member."""
    if isinstance(principal, AppMember) and member is not None:
        return msgspec.structs.replace(principal, member=member)
    return principal


class Presumption(NamedTuple):
    """A principal whose credential is still being checked: `check` ends with what `confirm` accepts, or raises for."""

    check: asyncio.Future[Any]
    confirm: Callable[[Any], object]
    member: Callable[[], MemberInfo]
    """Returns the member with all that is known of it, once the check has ended well."""


class Authenticator(Protocol):
    """Resolves credentials to principals; every method raises an `UnauthorizedError` or `ForbiddenError`."""

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app of a public key, if the key may be used from the origin."""

    def known_public_key(self, key: str, origin: str | None) -> AppInfo | None:
        """Return what `public_key` would, if that needs no query; else None."""

    async def bearer(self, app: AppInfo, token: str) -> AppPrincipal:
        """Return the principal on the app of a member token, a console token or a secret key."""

    def known_member(self, app: AppInfo, token: str) -> AppMember | None:
        """Return the member of an access token of the app, whose session was not checked; None for any other token."""

    def presume(self, token: str, *, provisional: bool = False) -> tuple[UUID, MemberInfo, Presumption] | None:
        """Return the app's id and the member of an access token, whose session is being checked.

        None for another credential. `provisional` as in `Access`.

        For routes that declare `only_reads`, see `pilotis.http.api.endpoint.route`.
        """

    async def secret_key(self, app: AppInfo, key: str) -> SecretKey:
        """Return the secret key's principal on the app."""

    async def member(self, token: str, *, provisional: bool = False) -> AppMember:
        """Return the member, and the app, of an access token; `provisional` as in `Access`."""

    async def app(self, app_id: UUID) -> AppInfo:
        """Return the app that a member's token names."""

    def require_factor(self, user: UserInfo) -> None:
        """Raise the error of a console user without the second factor that the server requires."""

    async def console_user(self, token: str) -> ConsoleUser:
        """Return the console user of an access token."""

    async def oauth_client(self, call: TokenCall) -> OAuthClient | None:
        """Return the client of a request's OAuth access token; None if the request has no token of this kind."""

    async def function(self, token: str) -> FunctionCaller | None:
        """Return the running function whose token this is, and count the use; None if it is no function's token."""

    async def user_on_app(self, token: str, app_id: UUID, role: Role) -> AppUser:
        """Return a console user's principal on an app; `NotFoundError` if the user has no role on it."""

    async def acting(self, user: AppUser, member_id: str, request_id: str) -> AppMember:
        """Return a member as whom a console user reads, and record it; `NotFoundError` if there is none."""

    async def secret_key_on(self, key: str, app_id: UUID, role: Role) -> SecretKey:
        """Return the principal of a secret key sent without a public key; raises an error unless it is the app's."""
