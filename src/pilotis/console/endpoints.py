"""The routes of the graphical console: its page, its files, its configuration and its sessions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Annotated
from uuid import UUID

from pilotis.accounts.factors.errors import InvalidSecondFactorError
from pilotis.accounts.passkeys.errors import InvalidPasskeyError
from pilotis.console.assets import Asset, Assets
from pilotis.console.context import Contexts
from pilotis.console.exposure import Exposure, findings
from pilotis.console.sessions import COOKIE, FORGET, BrowserSessions, Opened
from pilotis.console.types import (
    Attention,
    ConsoleConfig,
    ConsoleSession,
    ExposureReport,
    RequestContext,
    SessionPasskey,
    SessionSecondFactor,
    SessionStart,
    Usage,
    UsageQuery,
)
from pilotis.http.api.cookies import Cookie
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, AppInfo, InvalidTokenError, OriginNotAllowedError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import NotFoundError, RateLimitedError
from pilotis.members.gate.service import SecondFactorRequiredError
from pilotis.security.sessions.service import RefreshTokenReusedError
from pilotis.users.service import InvalidUserCredentialsError, UserInactiveError, Users

_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?")
_IMMUTABLE = b"public, max-age=31536000, immutable"


class ConsolePageEndpoints(Endpoints, tag="Pages"):
    """The console's page and its files."""

    def __init__(self, assets: Assets, sources: str) -> None:
        """Take the `sources`: other origins to which files are uploaded, and from which they are shown."""
        self._assets = assets
        self._headers_for = lru_cache(maxsize=64)(partial(_page_headers, sources))

    @get("/console/", access=Access.OPEN, returns=str, media_type="text/html", cors="none")
    @get("/console", access=Access.OPEN, returns=str, media_type="text/html", cors="none")
    async def root(self, call: Call) -> Reply:
        """Show the console."""
        return await self.page(call, "")

    @get("/console/*path", access=Access.OPEN, returns=str, media_type="text/html", cors="none")
    async def page(self, call: Call, path: str) -> Reply:
        """Show the console, which selects the screen by the address."""
        content = self._assets.page(f"/{path}".rstrip("/"))
        return Reply(
            content, headers=self._headers_for(call.header(b"host") or ""), content_type=b"text/html; charset=utf-8"
        )

    @get("/console/assets/:version/*path", access=Access.OPEN, returns=bytes, media_type="*/*", cors="none")
    async def asset(self, call: Call, version: str, path: str) -> Reply:
        """Read a file of the console.

        A request for another version gets this version's file with headers that prevent caching.
        """
        found = self._assets.get(path)
        if found is None:
            raise NotFoundError
        caching = _IMMUTABLE if version == self._assets.version else b"no-store"
        headers = [(b"cache-control", caching), (b"x-content-type-options", b"nosniff")]
        return _encoded(found, call.header(b"accept-encoding") or "", headers)


class ConsoleEndpoints(Endpoints, tag="Console"):
    """The console's configuration, and the sessions of browsers.

    Only the routes below `/v1/auth/session` read a cookie, and only from pages of this server.
    """

    def __init__(
        self, assets: Assets, sessions: BrowserSessions, users: Users, base_url: str, version: str, *, sends_mail: bool
    ) -> None:
        self._sends_mail = sends_mail
        self._assets = assets
        self._sessions = sessions
        self._users = users
        self._base_url = base_url
        self._version = version

    @get("/v1/console/config", access=Access.OPEN, console=True)
    async def config(self, _call: Call) -> ConsoleConfig:
        """Read what the console needs before sign-in."""
        limits = self._users.limits
        return ConsoleConfig(
            version=self._version,
            assets=self._assets.version,
            base_url=self._base_url,
            setup_required=not await self._users.exist(),
            password_min_length=limits.password_min_length,
            password_max_length=limits.password_max_length,
            sends_mail=self._sends_mail,
        )

    @post(
        "/v1/auth/session",
        access=Access.OPEN,
        needs_room=False,
        console=True,
        origins="own",
        returns=ConsoleSession,
        errors=[InvalidUserCredentialsError, UserInactiveError, SecondFactorRequiredError, OriginNotAllowedError],
    )
    async def start(self, call: Call, body: SessionStart) -> Reply:
        """Sign a console user in in a browser; the refresh token is a cookie that scripts cannot read."""
        return _reply(await self._sessions.start(call.client, body, call.header(b"user-agent")))

    @post(
        "/v1/auth/session/second-factor",
        access=Access.OPEN,
        needs_room=False,
        console=True,
        origins="own",
        returns=ConsoleSession,
        errors=[InvalidSecondFactorError, RateLimitedError, OriginNotAllowedError],
    )
    async def finish(self, call: Call, body: SessionSecondFactor) -> Reply:
        """Finish a sign-in in a browser that answered 401 `SECOND_FACTOR_REQUIRED`, by its ticket and a factor."""
        return _reply(await self._sessions.finish(call.client, body, call.header(b"user-agent")))

    @post(
        "/v1/auth/session/passkey",
        access=Access.OPEN,
        needs_room=False,
        console=True,
        origins="own",
        rate="signup",
        returns=ConsoleSession,
        errors=[InvalidPasskeyError, UserInactiveError, OriginNotAllowedError],
    )
    async def start_by_passkey(self, call: Call, body: SessionPasskey) -> Reply:
        """Sign a console user in in a browser by a passkey, which is two factors by itself."""
        return _reply(await self._sessions.start_by_passkey(call.client, body, call.header(b"user-agent")))

    @post(
        "/v1/auth/session/refresh",
        access=Access.OPEN,
        needs_room=False,
        console=True,
        origins="own",
        returns=ConsoleSession,
        errors=[InvalidTokenError, RefreshTokenReusedError, UserInactiveError, OriginNotAllowedError],
    )
    async def refresh(self, _call: Call, cookie: Annotated[str | None, Cookie(COOKIE)]) -> Reply:
        """Exchange the cookie for the next one and an access token.

        Each cookie can be used once. For 10 seconds a retry gets the same one, so several tabs can refresh at once. A
        browser without the cookie, in which nobody is signed in, is answered 204: that is no error.
        """
        if cookie is None:
            return Reply(b"", status=204, headers=[(b"cache-control", b"no-store")])
        return _reply(await self._sessions.renew(cookie))

    @delete(
        "/v1/auth/session",
        access=Access.OPEN,
        console=True,
        origins="own",
        returns=Deleted,
        errors=[InvalidTokenError, OriginNotAllowedError],
    )
    async def end(self, _call: Call, cookie: Annotated[str | None, Cookie(COOKIE)]) -> Reply:
        """Sign out: end the cookie's session and delete the cookie."""
        ended = await self._sessions.end(cookie)
        return Reply(json.encode(Deleted("Signed out.", ended)), cookies=[FORGET])


class ExposureEndpoints(Endpoints, tag="Apps"):
    """The access that the public has to an app."""

    def __init__(self, exposure: Callable[[AppInfo], Awaitable[Exposure]]) -> None:
        self._exposure = exposure

    @get("/v1/apps/:app_id/exposure", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID) -> ExposureReport:
        """Read what everybody can do with the app's public key, most critical first.

        `pilotis doctor --app` prints the same report.
        """
        order = ("high", "medium", "low", "none")
        found = findings(await self._exposure(call.app))
        return ExposureReport(sorted(found, key=lambda finding: order.index(finding.severity)))


class AttentionEndpoints(Endpoints, tag="Apps"):
    """What needs attention in an app."""

    def __init__(self, attention: Callable[[AppInfo], Awaitable[Attention]]) -> None:
        self._attention = attention

    @get("/v1/apps/:app_id/attention", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID) -> Attention:
        """Count what needs attention, for the badges of the console's sections."""
        return await self._attention(call.app)


class ContextEndpoints(Endpoints, tag="Apps"):
    """What a request has led to."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    @get("/v1/apps/:app_id/requests/:request_id", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID, request_id: str) -> RequestContext:
        """Read what is recorded with a request's id: requests, calls of functions, executions, deliveries of webhooks.

        Everything that a request leads to has its id, which the header `X-Request-Id` of its answer names: the calls of
        functions and those that these make, the workflows that they start, the events of what they change, their
        deliveries, and the functions that events call. What no request leads to, such as a schedule's call, has the id
        of that call or execution. The request itself is found if the log has it. At most 100 entries of each kind are
        answered.
        """
        return await self._contexts.read(app_id, request_id)


class UsageEndpoints(Endpoints, tag="Apps"):
    """Activity of an app other than requests."""

    def __init__(self, usage: Callable[[AppInfo, int], Awaitable[Usage]]) -> None:
        self._usage = usage

    @get("/v1/apps/:app_id/usage", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID, query: UsageQuery) -> Usage:
        """Count calls of functions, executions of workflows, deliveries of webhooks and deployments by day.

        What is no longer recorded is not counted: successful deliveries, for example, are kept for some days only.
        """
        return await self._usage(call.app, query.days)


def _reply(opened: Opened) -> Reply:
    return Reply(json.encode(opened.session), headers=[(b"cache-control", b"no-store")], cookies=[opened.cookie])


def _encoded(asset: Asset, accepted: str, headers: list[tuple[bytes, bytes]]) -> Reply:
    if asset.gzipped is None:
        return Reply(asset.content, headers=headers, content_type=asset.content_type)
    headers.append((b"vary", b"accept-encoding"))
    if "gzip" not in accepted.lower():
        return Reply(asset.content, headers=headers, content_type=asset.content_type)
    return Reply(asset.gzipped, headers=[*headers, (b"content-encoding", b"gzip")], content_type=asset.content_type)


def _page_headers(sources: str, host: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that restrict the console to its own files (CSP 3; Trusted Types, section 3).

    Scripts, styles and fonts come from the console's own paths of the host that the browser asked, because other paths
    of it may serve what users stored. Policies cannot name an IPv6 address (CSP 3, section 2.3.1).
    """
    own = f"{host}/console/assets/" if _HOST.fullmatch(host) else "'self'"
    policy = [
        "default-src 'none'",
        f"script-src {own}",
        f"style-src {own}",
        f"font-src {own}",
        f"img-src 'self' data: blob: {sources}",
        f"media-src 'self' blob: {sources}",
        f"connect-src 'self' {sources}",
        f"frame-src 'self' {sources}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return [
        (b"content-security-policy", "; ".join(part.strip() for part in policy).encode("ascii")),
        (b"cache-control", b"no-cache"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]
