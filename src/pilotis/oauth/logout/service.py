"""Ends a member's session at a client's request.

The provider's cookie determines the session; an id_token_hint identifies the client, and makes the confirmation
unnecessary.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.db.pool import Database
from pilotis.http.api.cookies import SetCookie
from pilotis.http.api.principals import MemberInfo
from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, secret_hash
from pilotis.members.service import Members
from pilotis.oauth.errors import InvalidRequestError
from pilotis.oauth.flow.granting import PROVIDER_COOKIE
from pilotis.oauth.flow.store import browser_session
from pilotis.oauth.parameters import Parameters
from pilotis.oauth.records import KnownClient
from pilotis.oauth.redirect_uris import is_registered
from pilotis.oauth.registry import find_client
from pilotis.oauth.tokens.issuing import Issuer

_PURPOSE = "oauth/logout"


class Signed(NamedTuple):
    """A member that is signed in with the provider in this browser, and the cookie that proves it."""

    app_id: UUID
    member_id: str
    session_id: UUID
    cookie: str
    value: str


class LogoutStep(NamedTuple):
    """The next step: a confirmation page with its `token`, a final page or a redirect; and the cookies to delete.

    `app_id` is the only app that it is about.
    """

    question: str | None
    location: str | None
    client_name: str | None
    cookies: list[SetCookie]
    app_id: UUID | None


class Logout:
    """The end-session endpoint."""

    def __init__(
        self,
        database: Database,
        issuer: Issuer,
        apps: Apps,
        members: Members,
        keyring: MasterKeyring,
        wake: Callable[[], None],
    ) -> None:
        """`wake` starts sending the logout tokens at once."""
        self._database = database
        self._issuer = issuer
        self._apps = apps
        self._members = members
        self._keyring = keyring
        self._wake = wake

    async def end(self, parameters: Parameters, cookies: Mapping[str, str]) -> LogoutStep:
        """Process a logout request; raises `InvalidRequestError` for a redirect URI of another client.

        The confirmation form sends `confirm`, which is bound to the browser's cookies.
        """
        hint = await self._hint(parameters)
        client = await self._client(parameters, hint)
        location = _target(parameters, client)
        signed = [one for one in await self._signed(cookies) if client is None or one.app_id == client.app_id]
        concerned = {one.app_id for one in signed} if client is None else {client.app_id}
        app_id = concerned.pop() if len(concerned) == 1 else None
        if signed and not (self._is_hinted(hint, signed) or self._is_confirmed(parameters, signed)):
            return LogoutStep(self._token(signed), location, client.name if client else None, [], app_id)
        for one in signed:
            await self._sign_out(one)
        if signed:
            self._wake()
        elif hint is None:
            location = None  # Without a session or a hint, anybody could have created the link.
        gone = [SetCookie(name=one.cookie, value="", max_age=0) for one in signed]
        return LogoutStep(None, location, client.name if client else None, gone, app_id)

    async def _hint(self, parameters: Parameters) -> dict[str, Any] | None:
        text = parameters.get("id_token_hint")
        if text is None:
            return None
        claims = await self._issuer.hinted_member(text)
        if claims is None:
            raise InvalidRequestError("id_token_hint must be an ID token of this server.")
        return claims

    async def _client(self, parameters: Parameters, hint: dict[str, Any] | None) -> KnownClient | None:
        named, hinted = parameters.get("client_id"), None if hint is None else str(hint.get("aud"))
        if named is not None and hinted not in {None, named}:
            raise InvalidRequestError("id_token_hint was issued to a client other than client_id.")
        client_id = named or hinted
        if client_id is None:
            return None
        client = await find_client(self._database, client_id, _app_of(hint))
        if client is None:
            raise InvalidRequestError("This server has no client with this client_id.")
        return client

    async def _signed(self, cookies: Mapping[str, str]) -> list[Signed]:
        found = []
        for name, value in list(cookies.items())[:20]:
            try:
                app_id = UUID(hex=name.removeprefix(PROVIDER_COOKIE))
            except ValueError:
                continue
            row = await browser_session(self._database, app_id, secret_hash(value))
            if row is not None:
                found.append(Signed(app_id, row.member_id, row.session_id, name, value))
        return found

    def _is_hinted(self, hint: dict[str, Any] | None, signed: list[Signed]) -> bool:
        return hint is not None and all(
            (hint.get("sub"), hint.get("sid")) == (one.member_id, str(one.session_id)) for one in signed
        )

    def _is_confirmed(self, parameters: Parameters, signed: list[Signed]) -> bool:
        return hmac.compare_digest((parameters.get("confirm") or "").encode(), self._token(signed).encode())

    def _token(self, signed: list[Signed]) -> str:
        key = derive_key(self._keyring.keys.current, _PURPOSE)
        return base64url(hmac.digest(key, "\n".join(sorted(one.value for one in signed)).encode(), "sha256"))

    async def _sign_out(self, one: Signed) -> None:
        try:
            app = await self._apps.by_id(one.app_id)
        except AppNotFoundError:
            return
        await self._members.sign_out(app, MemberInfo(one.member_id, one.session_id, False))


def _app_of(hint: dict[str, Any] | None) -> UUID | None:
    """Return the app of an ID token."""
    return None if hint is None or "app_id" not in hint else UUID(hint["app_id"])


def _target(parameters: Parameters, client: KnownClient | None) -> str | None:
    """Return the redirect URI with the client's `state`, or None."""
    uri, state = parameters.get("post_logout_redirect_uri"), parameters.get("state")
    if uri is None:
        return None
    if client is None or not is_registered(uri, client.post_logout_redirect_uris):
        raise InvalidRequestError("The client has not registered this post_logout_redirect_uri.")
    return uri if state is None else f"{uri}{'&' if '?' in uri else '?'}{urlencode({'state': state})}"
