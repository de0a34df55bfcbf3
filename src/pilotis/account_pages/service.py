"""The logos of account pages: uploaded by the app's owner, and encoded again before anyone sees them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

from asyncpg import Connection

from pilotis.account_pages import store
from pilotis.apps.service import Apps
from pilotis.apps.types import AppAccountSettings
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor
from pilotis.kit.errors import NotFoundError
from pilotis.kit.logos import Encoder, encoded_logo
from pilotis.security.audit.service import record

SIDE = 512
"""The longest side in pixels; a smaller image keeps its size."""

SetVersion = Callable[[Connection, UUID, str | None], Awaitable[AppAccountSettings]]
"""Stores the version of an app's logo in its account settings, and returns these."""


class AccountLogoNotFoundError(NotFoundError):
    """404: the account pages of the app have no logo."""

    code = "ACCOUNT_LOGO_NOT_FOUND"
    message = "The account pages of this app have no logo."


class AccountLogos:
    """Stores and serves the logos of account pages."""

    def __init__(self, database: Database, apps: Apps, set_version: SetVersion) -> None:
        self._database = database
        self._apps = apps
        self._set_version = set_version
        self._encode: Encoder | None = None

    def attach(self, encode: Encoder) -> None:
        """Set what decodes the images, which the storage of files has: its processes have memory for one image each."""
        self._encode = encode

    async def put(self, app_id: UUID, actor: Actor, body: AsyncIterator[bytes]) -> AppAccountSettings:
        """Replace the logo; return the account settings. Raises `InvalidLogoError` or `PayloadTooLargeError`."""
        assert self._encode is not None
        image = await encoded_logo(self._encode, app_id, body, side=SIDE)
        version = hashlib.sha256(image).hexdigest()[:16]
        async with self._apps.change(app_id) as connection:
            await store.put_logo(connection, app_id, image)
            settings = await self._set_version(connection, app_id, version)
            await record(connection, app_id, actor, "account_settings.put_logo", app_id, bytes=len(image))
        return settings

    async def delete(self, app_id: UUID, actor: Actor) -> None:
        """Delete the logo; raises `AccountLogoNotFoundError`."""
        async with self._apps.change(app_id) as connection:
            if not await store.delete_logo(connection, app_id):
                raise AccountLogoNotFoundError
            await self._set_version(connection, app_id, None)
            await record(connection, app_id, actor, "account_settings.delete_logo", app_id)

    async def image(self, app_id: UUID) -> bytes:
        """Return the logo, WebP; raises `AccountLogoNotFoundError`."""
        image = await store.logo(self._database, app_id)
        if image is None:
            raise AccountLogoNotFoundError
        return image
