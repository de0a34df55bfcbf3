"""The routes of the pages and of the OpenAPI document. They describe the interface and so are no part of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoint, Endpoints, Reply, get
from pilotis.http.openapi import Json, document
from pilotis.http.principals import Access
from pilotis.http.site.page import asset, page
from pilotis.http.site.reference import reference
from pilotis.kit import json
from pilotis.limits import Limits


class SiteEndpoints(Endpoints, tag="Pages"):
    """`/`, `/docs`, `/openapi.json` and `/setup`, over the endpoints they describe; each made once, when asked for."""

    def __init__(self, endpoints: Sequence[Endpoint], *, base_url: str, version: str, limits: Limits) -> None:
        self._endpoints = endpoints
        self._base_url = base_url
        self._version = version
        self._limits = limits

    @get("/openapi.json", access=Access.OPEN, returns=dict)
    async def openapi(self, _call: Call) -> Reply:
        """Read the OpenAPI 3.1 document."""
        return self._openapi

    @get("/docs", access=Access.OPEN, returns=str)
    async def docs(self, _call: Call) -> Reply:
        """Read the reference."""
        return self._docs

    @get("/setup", access=Access.OPEN, returns=str)
    async def setup(self, _call: Call) -> Reply:
        """Show the form behind the first-run link and behind invitations.

        The token is in the link's fragment, which a browser keeps to itself.
        """
        return self._setup

    @get("/", access=Access.OPEN, returns=str)
    async def home(self, _call: Call) -> Reply:
        """Tell what answers here."""
        return self._home

    @cached_property
    def _document(self) -> Json:
        return document(self._endpoints, base_url=self._base_url, version=self._version)

    @cached_property
    def _openapi(self) -> Reply:
        return Reply(json.encode(self._document))

    @cached_property
    def _docs(self) -> Reply:
        return page("Pilotis reference", reference(self._endpoints, self._document), script=asset("docs.js"))

    @cached_property
    def _setup(self) -> Reply:
        form = asset("setup.html")
        for name in ("password_min_length", "password_max_length"):
            form = form.replace(f"{{{name}}}", str(getattr(self._limits, name)))
        return page("Create a console user · Pilotis", form, script=asset("setup.js"))

    @cached_property
    def _home(self) -> Reply:
        return page("Pilotis", asset("home.html"))
