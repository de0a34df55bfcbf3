"""Clients' logos: uploaded in the console, and encoded again before anyone sees them.

A client's own `logo_uri` is never fetched or shown, and clients that manage their own metadata have no logo: members
would take the picture for one that the app has checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from urllib.parse import quote
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor
from pilotis.kit.errors import NotFoundError
from pilotis.kit.logos import Encoder, encoded_logo
from pilotis.oauth import client_store
from pilotis.oauth.clients import Clients, DynamicClientError, OAuthClientNotFoundError
from pilotis.oauth.records import StoredClient
from pilotis.oauth.registry import app_of
from pilotis.oauth.types import RegisteredClient
from pilotis.security.audit.service import record

SIDE = 256
"""The longest side in pixels; a smaller image keeps its size."""


class LogoNotFoundError(NotFoundError):
    """404: the OAuth client does not exist, or has no logo."""

    code = "OAUTH_LOGO_NOT_FOUND"
    message = "There is no such OAuth client, or it has no logo."


class Logos:
    """Stores and serves clients' logos."""

    def __init__(self, database: Database, clients: Clients) -> None:
        self._database = database
        self._clients = clients
        self._encode: Encoder | None = None

    def attach(self, encode: Encoder) -> None:
        """Set what decodes the images, which the storage of files has: its processes have memory for one image each."""
        self._encode = encode

    async def put(self, app_id: UUID, actor: Actor, client_id: str, body: AsyncIterator[bytes]) -> RegisteredClient:
        """Replace a client's logo; raises `InvalidLogoError`, `OAuthClientNotFoundError` or `DynamicClientError`."""
        _require_own(await client_store.client(self._database, app_id, client_id))
        assert self._encode is not None
        image = await encoded_logo(self._encode, app_id, body, side=SIDE)
        version = hashlib.sha256(image).hexdigest()[:16]
        path = f"/v1/public/oauth/clients/{quote(client_id, safe='')}/logo?v={version}"
        async with self._database.transaction(app_id) as connection:
            _require_own(await client_store.lock_client(connection, app_id, client_id))
            await client_store.put_logo(connection, app_id, client_id, image, path)
            await record(connection, app_id, actor, "oauth_client.put_logo", client_id, bytes=len(image))
        return await self._clients.read(app_id, client_id)

    async def delete(self, app_id: UUID, actor: Actor, client_id: str) -> None:
        """Delete a client's logo; raises `LogoNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            # In the order in which `put` locks them.
            await client_store.lock_client(connection, app_id, client_id)
            if not await client_store.delete_logo(connection, app_id, client_id):
                raise LogoNotFoundError
            await record(connection, app_id, actor, "oauth_client.delete_logo", client_id)

    async def image(self, client_id: str) -> bytes:
        """Return a client's logo, WebP; raises `LogoNotFoundError`."""
        app_id = app_of(client_id) if client_id.isascii() else None
        image = None if app_id is None else await client_store.logo(self._database, app_id, client_id)
        if image is None:
            raise LogoNotFoundError
        return image


def _require_own(row: StoredClient | None) -> None:
    if row is None:
        raise OAuthClientNotFoundError
    if row.is_dynamic:
        raise DynamicClientError
