"""The routes of the pages and of the OpenAPI document. They describe the API and so are not part of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from html import escape
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.http.api.endpoint import Endpoint, Endpoints, get
from pilotis.http.api.json_schemas import Json
from pilotis.http.api.openapi import document
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.reference.guides import guide_page, guide_text, guides, guides_page, llms_text
from pilotis.http.reference.page import asset, font, page
from pilotis.http.reference.reference import reference
from pilotis.http.reference.sdk import client_file
from pilotis.http.replies.redirect import Redirect
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import NotFoundError
from pilotis.limits import Limits

_MARKDOWN = b"text/markdown; charset=utf-8"


class DocumentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of the API a document describes: all of it, or what an app's programs use."""

    audience: Literal["app"] | UnsetType = msgspec.field(default=UNSET, name="for")


class SiteEndpoints(Endpoints, tag="Pages"):
    """`/`, `/docs`, the guides, `/openapi.json`, `/sdk` and `/setup`, for the endpoints they describe.

    Each except the guides is rendered once, on the first request. `is_set_up` tells whether there is a console user.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        base_url: str,
        version: str,
        limits: Limits,
        is_set_up: Callable[[], Awaitable[bool]],
    ) -> None:
        self._endpoints = endpoints
        self._ask_set_up = is_set_up
        self._is_set_up = False
        self._base_url = base_url
        self._version = version
        self._limits = limits

    @get("/openapi.json", access=Access.OPEN, returns=dict)
    async def openapi(self, _call: Call, query: DocumentQuery) -> Reply:
        """Read the OpenAPI 3.1 document; `for=app` leaves out the console's routes."""
        return self._openapi if query.audience is UNSET else self._openapi_for_apps

    @get("/llms.txt", access=Access.OPEN, returns=str, media_type="text/markdown")
    async def llms(self, _call: Call) -> Reply:
        """List the documentation for language models (llmstxt.org)."""
        return Reply(llms_text(self._base_url).encode(), content_type=_MARKDOWN)

    @get("/sdk/:version/:name", access=Access.OPEN, returns=bytes, media_type="text/javascript")
    async def client(self, call: Call, version: str, name: str) -> Reply:
        """Read a file of the JavaScript client, of the newest version for `v1`."""
        found = client_file(version, name, call.headers)
        if found is None:
            raise NotFoundError
        return found

    @get("/docs", access=Access.OPEN, returns=str)
    async def docs(self, _call: Call) -> Reply:
        """Read the reference."""
        return self._docs

    @get("/docs/:name", access=Access.OPEN, returns=str, media_type="text/markdown")
    async def guide_text(self, _call: Call, name: str) -> Reply:
        """Read a guide as Markdown, by its name and `.md`."""
        text = guide_text(name.removesuffix(".md")) if name.endswith(".md") else None
        if text is None:
            raise NotFoundError
        return Reply(text.encode(), content_type=_MARKDOWN)

    @get("/docs/fonts/:name", access=Access.OPEN, returns=bytes, media_type="font/woff2")
    async def font(self, _call: Call, name: str) -> Reply:
        """Read a font of the pages."""
        found = font(name)
        if found is None:
            raise NotFoundError
        return Reply(found, headers=[(b"cache-control", b"public, max-age=604800")], content_type=b"font/woff2")

    @get("/docs/guides", access=Access.OPEN, returns=str)
    async def list_guides(self, _call: Call) -> Reply:
        """List the guides."""
        return self._guides

    @get("/docs/guides/:name", access=Access.OPEN, returns=str)
    async def guide(self, _call: Call, name: str) -> Reply:
        """Read a guide."""
        found = guides().get(name)
        if found is None:
            raise NotFoundError
        title = f"{found.title} · Pilotis"
        return page(title, guide_page(found), script=asset("docs.js"), current="/docs/guides")

    @get("/setup", access=Access.OPEN)
    async def setup(self, _call: Call) -> Redirect:
        """Lead the first-run link and invitations into the console.

        The token is in the link's fragment, which browsers do not send, but take along (RFC 9110, section 10.2.2).
        """
        return Redirect(location="/console/setup")

    @get("/setup/reset", access=Access.OPEN, returns=str)
    async def reset(self, _call: Call) -> Reply:
        """Show the form behind the link that resets a console user's password."""
        return self._reset

    @get("/", access=Access.OPEN, returns=str)
    async def home(self, _call: Call) -> Reply:
        """Show the home page: how to set the server up, or where to go on a server that is."""
        # A server that has a console user keeps one.
        self._is_set_up = self._is_set_up or await self._ask_set_up()
        return self._home if self._is_set_up else self._first_steps

    @cached_property
    def _document(self) -> Json:
        return document(self._endpoints, base_url=self._base_url, version=self._version)

    @cached_property
    def _openapi(self) -> Reply:
        return Reply(json.encode(self._document))

    @cached_property
    def _openapi_for_apps(self) -> Reply:
        endpoints = [endpoint for endpoint in self._endpoints if not endpoint.is_console]
        return Reply(json.encode(document(endpoints, base_url=self._base_url, version=self._version)))

    @cached_property
    def _docs(self) -> Reply:
        return page(
            "API reference · Pilotis",
            reference(self._endpoints, self._document),
            script=asset("docs.js") + asset("run.js"),
            current="/docs",
        )

    @cached_property
    def _guides(self) -> Reply:
        return page("Guides · Pilotis", guides_page(), current="/docs/guides")

    @cached_property
    def _reset(self) -> Reply:
        return page("Set a new password · Pilotis", self._form("reset.html"), script=asset("reset.js"))

    def _form(self, name: str) -> str:
        form = asset(name)
        for limit in ("password_min_length", "password_max_length"):
            form = form.replace(f"{{{limit}}}", str(getattr(self._limits, limit)))
        return form

    @cached_property
    def _home(self) -> Reply:
        return self._front(asset("console.html"))

    @cached_property
    def _first_steps(self) -> Reply:
        return self._front(asset("first.html"))

    def _front(self, step: str) -> Reply:
        body = asset("home.html").replace("{step}", step).replace("{url}", escape(self._base_url))
        return page("Pilotis", body, script=asset("docs.js"))
