"""The console routes of apps."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pilotis.apps.service import Apps
from pilotis.apps.types import NewApp
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, post
from pilotis.http.principals import Access


class AppName(msgspec.Struct, forbid_unknown_fields=True):
    """An app to make."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class AppEndpoints(Endpoints, tag="Apps"):
    """Apps, for console users."""

    def __init__(self, apps: Apps) -> None:
        self._apps = apps

    @post("/v1/apps", access=Access.CONSOLE, status=201)
    async def create(self, call: Call, body: AppName) -> NewApp:
        """Make an app with its first public and secret key. The secret key is shown this once."""
        return await self._apps.create(body.name, call.user.user_id)
