"""From a route's `Access` and a request's credentials to a principal."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import NOBODY, Call
from pilotis.http.endpoint import Endpoint
from pilotis.http.principals import (
    Access,
    Authenticator,
    InvalidTokenError,
    Principal,
    PublicKeyRequiredError,
    SecretKeyRequiredError,
)
from pilotis.kit import ids
from pilotis.kit.errors import InvalidIdError

APP_PARAMETER = "app_id"


class Gate:
    """Admits a request to its endpoint, or raises the 401, 403 or 404 that says why not."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def admit(self, endpoint: Endpoint, call: Call, values: tuple[str, ...]) -> Principal:
        """Return who calls, once the credentials satisfy the endpoint's access."""
        access = endpoint.access
        if access is Access.PUBLIC_KEY:
            return await self._with_public_key(call)
        if access is Access.OPEN:
            return NOBODY
        if access.needs_public_key:
            return await self._with_both(access, call)
        if access is Access.MEMBER:
            return await self._member(call)
        if access is Access.REFRESH_TOKEN:
            call.need_bearer()
            return NOBODY
        principal = await self._authenticator.console_user(call.need_bearer())
        if access.role is None:
            return principal
        return await self._authenticator.on_app(principal, _app_id(endpoint, values), access.role)

    async def _with_public_key(self, call: Call) -> Principal:
        key = call.headers.get(b"x-public-key")
        if key is None:
            raise PublicKeyRequiredError
        app = await self._authenticator.public_key(key.decode("latin-1"), call.header(b"origin"))
        if b"authorization" not in call.headers:
            return Principal(app)
        return await self._authenticator.bearer(app, call.need_bearer())

    async def _with_both(self, access: Access, call: Call) -> Principal:
        key = call.header(b"x-public-key")
        if key is None:
            raise PublicKeyRequiredError
        app = await self._authenticator.public_key(key, call.header(b"origin"))
        if access is Access.SECRET_KEY:
            if b"authorization" not in call.headers:
                raise SecretKeyRequiredError
            return await self._authenticator.secret_key(app, call.need_bearer())
        return _of_app(await self._authenticator.member(call.need_bearer()), app.app_id)

    async def _member(self, call: Call) -> Principal:
        principal = await self._authenticator.member(call.need_bearer())
        key = call.header(b"x-public-key")
        if key is None:
            return principal
        app = await self._authenticator.public_key(key, call.header(b"origin"))
        return _of_app(principal, app.app_id)


def _of_app(principal: Principal, app_id: UUID) -> Principal:
    if principal.app is None or principal.app.app_id != app_id:
        raise InvalidTokenError("The token belongs to another app than the public key.")
    return principal


def _app_id(endpoint: Endpoint, values: tuple[str, ...]) -> UUID:
    value = values[list(endpoint.parameters).index(APP_PARAMETER)]
    if not ids.is_uuid(value):
        raise InvalidIdError(f"{APP_PARAMETER} in the path is not a UUID.")
    return UUID(value)
