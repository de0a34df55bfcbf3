"""A client with its provider app, as the protocol endpoints need them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec
from asyncpg import Record

from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.kit.crypto import from_base64url, secret_hash
from pilotis.oauth import client_store
from pilotis.oauth.auth_methods import NO_SECRET

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


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """The app whose members sign in, with its provider settings."""

    app_id: UUID
    name: str
    is_provider: bool
    access_token_seconds: int
    refresh_idle_days: int
    refresh_absolute_days: int
    consent_url: str | None
    login_redirect_uris: list[str]
    resources: list[str]
    dpop_nonce: str
    public_key: str | None
    allow_id_password_login: bool


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client; see `RegisteredClient` for the fields."""

    client_id: str
    provider: Provider
    name: str
    token_endpoint_auth_method: str
    grant_types: list[str]
    redirect_uris: list[str]
    post_logout_redirect_uris: list[str]
    scopes: list[str]
    resources: list[str]
    client_uri: str | None
    logo_url: str | None
    policy_uri: str | None
    tos_uri: str | None
    jwks: str | None
    is_dynamic: bool
    first_party: bool
    is_resource_server: bool
    require_pushed_authorization_requests: bool
    dpop_bound_access_tokens: bool
    claims_in_id_token: bool
    secret_hash: bytes | None
    previous_secret_hash: bytes | None
    previous_secret_expires_at: datetime | None
    last_used_at: datetime | None

    @property
    def app_id(self) -> UUID:
        """The provider app's id."""
        return self.provider.app_id

    @property
    def is_public(self) -> bool:
        """Whether the client has no secret."""
        return self.token_endpoint_auth_method == NO_SECRET

    def knows_secret(self, secret: str) -> bool:
        """Return whether a secret is the current one, or the previous one while that is valid, in constant time."""
        return knows_secret(msgspec.structs.asdict(self), secret)


def knows_secret(client: Mapping[str, Any] | Record, secret: str) -> bool:
    """Return whether a secret is the current one, or the previous one while that is valid, in constant time."""
    given = secret_hash(secret)
    current = hmac.compare_digest(given, client["secret_hash"] or b"")
    previous = hmac.compare_digest(given, client["previous_secret_hash"] or b"")
    expires_at = client["previous_secret_expires_at"]
    return current or (previous and expires_at is not None and expires_at > datetime.now(UTC))


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
    row = await client_store.known_client(database, app_id, client_id)
    if row is None:
        return None
    of_app = {**row, "resources": row["app_resources"]}
    provider = Provider(**{name: of_app[name] for name in Provider.__struct_fields__})
    of_client = {**row, "name": row["client_name"], "provider": provider}
    if row["is_dynamic"]:
        of_client["scopes"] = ["openid", *(name for name in row["dynamic_scopes"] if name != "openid")]
    return KnownClient(**{name: of_client[name] for name in KnownClient.__struct_fields__})
