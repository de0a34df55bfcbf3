"""Finds a client with its provider app, as the protocol endpoints need them."""

from __future__ import annotations

from functools import partial
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.kit.crypto import from_base64url
from pilotis.oauth import client_store
from pilotis.oauth.records import KnownClient

_PREFIX = "cl_"
_APP_BYTES = 16
_ID_BYTES = 24
_DOCUMENT_SCHEMES = ("https://", "http://")
MAX_CHARACTERS = 2048
"""Length of a client's id at most."""
NO_APP = UUID(int=0)
"""The app in the ids of clients that registered themselves."""

# Requests of one client at the same time share a lookup, which is never older than any of them.
_LOOKUPS: WeakKeyDictionary[Database, SingleFlight[KnownClient | None]] = WeakKeyDictionary()


def app_of(client_id: str) -> UUID | None:
    """Return the app id in a client's id, or None if it is malformed. The client may not exist."""
    data = from_base64url(client_id.removeprefix(_PREFIX)) if client_id.startswith(_PREFIX) else None
    return UUID(bytes=data[:_APP_BYTES]) if data and len(data) == _ID_BYTES else None


def is_dynamic(client_id: str) -> bool:
    """Return whether a client's id names no app: it registered itself, or its id is the URL of its metadata."""
    return client_id.startswith(_DOCUMENT_SCHEMES) or app_of(client_id) == NO_APP


async def find_client(database: Database, client_id: str, app_id: UUID | None = None) -> KnownClient | None:
    """Return an active client of an existing app, with its provider, or None.

    `app_id` is the app that the request names. The id of a dynamic client does not name one, so it is required there.
    """
    if not client_id.isascii() or len(client_id) > MAX_CHARACTERS:
        return None
    own = app_id if is_dynamic(client_id) else app_of(client_id)
    if own is None:
        return None
    flight = _LOOKUPS.setdefault(database, SingleFlight())
    return await flight.run((own, client_id), partial(_read, database, own, client_id))


async def _read(database: Database, app_id: UUID, client_id: str) -> KnownClient | None:
    client = await client_store.known_client(database, app_id, client_id)
    if client is None or not client.is_dynamic:
        return client
    own = [name for name in client.provider.dynamic_scopes if name != "openid"]
    return msgspec.structs.replace(client, scopes=["openid", *own])
