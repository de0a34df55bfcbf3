"""Authorization: from a route's `Access` and a request's credentials to a principal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from pilotis.http.api import capabilities
from pilotis.http.api.challenges import resource_challenge
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.inside import require_access
from pilotis.http.api.principals import (
    ActAsReadOnlyError,
    ActAsRefusedError,
    Anonymous,
    AppInfo,
    AppMember,
    AppPrincipal,
    AppUser,
    Authenticator,
    Credential,
    FunctionCaller,
    ImpersonationNotAllowedError,
    InvalidTokenError,
    Principal,
    PublicClient,
    PublicKeyRequiredError,
    ReauthenticationRequiredError,
    Role,
    SecretKeyRequiredError,
    TokenRequiredError,
    UserInfo,
    with_capabilities,
)
from pilotis.http.api.request import NOBODY, Call
from pilotis.kit import clock, ids
from pilotis.kit.errors import InvalidIdError, UnauthorizedError

APP_PARAMETER = "app_id"
SECRET_PREFIX = "sk_"  # noqa: S105 - the form of secret keys

_NOT_SHARED = [(b"vary", capabilities.HEADER), (b"cache-control", b"private, no-store")]

Authorize = Callable[[Call, tuple[str, ...]], Awaitable[Principal]]
"""Returns the principal, given the path's values, or raises a 401, 403 or 404 error."""


def authorizer(endpoint: Endpoint, authenticator: Authenticator) -> Authorize:
    """Return what authorizes calls of an endpoint; raises `TypeError` for an access that cannot be checked."""
    ways = _Ways(endpoint, authenticator)
    return ways.or_function(_way(endpoint, ways)) if endpoint.access.any_of else ways.open


def _way(endpoint: Endpoint, ways: _Ways) -> Authorize:
    access = endpoint.access
    if access.takes(Credential.PUBLIC_KEY):
        return ways.public_or_oauth if access.takes(Credential.OAUTH_TOKEN) else ways.public
    if access.takes(Credential.CONSOLE):
        return ways.console
    if access.takes(Credential.MEMBER):
        return ways.member
    if access.takes(Credential.REFRESH):
        return ways.refresh
    if access.takes(Credential.PUBLIC_KEY, Credential.MEMBER):
        return ways.key_and_member
    if access.takes(Credential.PUBLIC_KEY, Credential.SECRET_KEY):
        return ways.key_and_secret
    raise TypeError(f"{endpoint.method} {endpoint.path}: no request can satisfy {access}.")


class _Ways:
    def __init__(self, endpoint: Endpoint, authenticator: Authenticator) -> None:
        self._endpoint = endpoint
        self._access = endpoint.access
        self._authenticator = authenticator
        if self._access.role is not None and APP_PARAMETER not in endpoint.parameters:
            raise TypeError(f"{endpoint.method} {endpoint.path} requires a role on an app that its path does not name.")

    def or_function(self, way: Authorize) -> Authorize:
        """Return a way that takes the token of a running function as well, after all others have rejected it."""

        async def authorize(call: Call, values: tuple[str, ...]) -> Principal:
            try:
                return await way(call, values)
            except UnauthorizedError:
                principal = await self._function(call)
                if principal is None:
                    raise
            require_access(self._endpoint, principal, dict(zip(self._endpoint.parameters, values, strict=True)))
            return principal

        return authorize

    async def _function(self, call: Call) -> FunctionCaller | None:
        token = None
        with suppress(InvalidTokenError):
            token = call.bearer()
        principal = await self._authenticator.function(token) if token else None
        if principal is not None and b"x-public-key" in call.headers:
            app = await self._app_of_key(call)
            if app.app_id != principal.app.app_id:
                raise InvalidTokenError("The token belongs to a different app than the public key.")
        return principal

    async def open(self, _call: Call, _values: tuple[str, ...]) -> Anonymous:
        return NOBODY

    async def refresh(self, call: Call, _values: tuple[str, ...]) -> Anonymous:
        call.need_bearer()
        return NOBODY

    async def public(self, call: Call, _values: tuple[str, ...]) -> Principal:
        if b"x-act-as" in call.headers:
            return await self._acting(call)
        principal = await self._public(call)
        if (text := call.header(capabilities.HEADER)) is None:
            return principal
        call.answer_headers += _NOT_SHARED
        return with_capabilities(principal, capabilities.parse(text))

    async def _acting(self, call: Call) -> Principal:
        """Return the member that `X-Act-As` names, whose rows a console user reads as the member sees them."""
        if not self._endpoint.only_reads:
            raise ActAsReadOnlyError
        principal = await self._public(call, presumes=False)
        if not isinstance(principal, AppUser) or not principal.may(Role.EDITOR):
            raise ActAsRefusedError
        return await self._authenticator.acting(principal, call.header(b"x-act-as") or "", call.request_id)

    async def _public(self, call: Call, *, presumes: bool = True) -> AppPrincipal:
        key = call.headers.get(b"x-public-key")
        if key is None:
            if b"x-app-id" in call.headers:
                return await self._console_on_app(call)
            raise PublicKeyRequiredError
        app = await self._authenticator.public_key(key.decode("latin-1"), call.header(b"origin"))
        if b"authorization" not in call.headers:
            return PublicClient(app)
        token = call.need_bearer()
        may_presume = presumes and self._endpoint.only_reads and not call.is_inside
        if may_presume and (presumed := self._authenticator.presume(token)):
            app_id, member, call.presumption = presumed
            return _of_app(AppMember(app, member), app_id)
        return await self._authenticator.bearer(app, token)

    async def public_or_oauth(self, call: Call, values: tuple[str, ...]) -> Principal:
        if b"x-public-key" in call.headers:
            return await self.public(call, values)
        try:
            return await self._authenticator.oauth_client(call) or await self.public(call, values)
        except (PublicKeyRequiredError, TokenRequiredError) as error:
            # Without a credential only X-App-Id names the app whose metadata tells where tokens come from.
            app_id = call.header(b"x-app-id")
            if app_id is not None and ids.is_uuid(app_id):
                error.headers |= resource_challenge(call.server.base_url, app_id)
            raise

    async def _console_on_app(self, call: Call) -> AppPrincipal:
        """Return the console user on the app that `X-App-Id` names: the console has no public key to send."""
        token, app_id = call.need_bearer(), call.header(b"x-app-id") or ""
        if not ids.is_uuid(app_id):
            await self._authenticator.console_user(token)
        return await self._authenticator.user_on_app(token, _uuid("X-App-Id", app_id), Role.VIEWER)

    async def key_and_member(self, call: Call, _values: tuple[str, ...]) -> Principal:
        app = await self._app_of_key(call)
        return _of_app(
            await self._authenticator.member(call.need_bearer(), provisional=self._access.provisional), app.app_id
        )

    async def key_and_secret(self, call: Call, _values: tuple[str, ...]) -> Principal:
        app = await self._app_of_key(call)
        if b"authorization" not in call.headers:
            raise SecretKeyRequiredError
        return await self._authenticator.secret_key(app, call.need_bearer())

    async def _app_of_key(self, call: Call) -> AppInfo:
        key = call.header(b"x-public-key")
        if key is None:
            raise PublicKeyRequiredError
        return await self._authenticator.public_key(key, call.header(b"origin"))

    async def member(self, call: Call, _values: tuple[str, ...]) -> Principal:
        principal = await self._member(call)
        key = call.header(b"x-public-key")
        if key is None:
            return principal
        app = await self._authenticator.public_key(key, call.header(b"origin"))
        return _of_app(principal, app.app_id)

    async def _member(self, call: Call) -> AppMember:
        principal = await self._present_member(call)
        if principal.member.impersonated and self._endpoint.method != "GET":
            # What is a member's own, such as its password, its consents and its teams, stays its own.
            raise ImpersonationNotAllowedError
        return principal

    async def _present_member(self, call: Call) -> AppMember:
        token = call.need_bearer()
        provisional = self._access.provisional
        presumed = None
        if self._endpoint.only_reads and not call.is_inside:
            presumed = self._authenticator.presume(token, provisional=provisional)
        if presumed is None:
            return await self._authenticator.member(token, provisional=provisional)
        app_id, member, call.presumption = presumed
        return AppMember(await self._authenticator.app(app_id), member)

    async def console(self, call: Call, values: tuple[str, ...]) -> Principal:
        token = call.need_bearer()
        role = self._access.role
        if role is not None and token.startswith(SECRET_PREFIX) and self._access.takes(Credential.SECRET_KEY):
            return await self._authenticator.secret_key_on(token, self._app_id(values), role)
        if role is None or not ids.is_uuid(self._app_text(values)):
            # An invalid token precedes an invalid id.
            user = await self._authenticator.console_user(token)
            if role is None:
                self._require_fresh(call, user.user)
                if self._access.factor:
                    self._authenticator.require_factor(user.user)
                return user
        principal = await self._authenticator.user_on_app(token, self._app_id(values), role)
        self._require_fresh(call, principal.user)
        return principal

    def _require_fresh(self, call: Call, user: UserInfo) -> None:
        """Raise the error of a console user whose last proof was too long ago for what the route does."""
        seconds = call.server.limits.console_fresh_seconds
        if self._access.fresh and seconds and user.session_id is not None:
            proved_at = user.proved_at
            if proved_at is None or clock.now() - proved_at > timedelta(seconds=seconds):
                raise ReauthenticationRequiredError(user.factors or ["password"])

    def _app_id(self, values: tuple[str, ...]) -> UUID:
        return _uuid(f"{APP_PARAMETER} in the path", self._app_text(values))

    def _app_text(self, values: tuple[str, ...]) -> str:
        return values[list(self._endpoint.parameters).index(APP_PARAMETER)]


def _of_app(principal: AppMember, app_id: UUID) -> AppMember:
    if principal.app.app_id != app_id:
        raise InvalidTokenError("The token belongs to a different app than the public key.")
    return principal


def _uuid(name: str, value: str) -> UUID:
    if not ids.is_uuid(value):
        raise InvalidIdError(f"{name} is not a UUID.")
    return UUID(value)
