"""Clients that nobody registered with an app: they register themselves (RFC 7591), or publish their metadata.

Such a client belongs to no app. At its first request to an app with the setting `dynamic_clients` it becomes a client
of that app, with the same id, so that grants, consents and the console know it as any other.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import msgspec

from pilotis.apps import keys
from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, Client, InvalidSecretKeyError, Role, SecretKey
from pilotis.kit import json
from pilotis.kit.crypto import from_base64url, random_token, secret_hash
from pilotis.kit.errors import ValidationError
from pilotis.oauth import client_store, registry
from pilotis.oauth.client_documents import ClientDocuments
from pilotis.oauth.client_metadata import (
    ClientMetadata,
    InvalidClientMetadataError,
    has_secret,
    registration,
    shown,
)
from pilotis.oauth.clients import SECRET_PREFIX, Clients, new_id
from pilotis.oauth.errors import InvalidClientError, InvalidRequestError
from pilotis.oauth.parameters import CODE_PREFIX, PUSHED_PREFIX, Parameters
from pilotis.oauth.resources import normal_resource, own_resources
from pilotis.oauth.tokens import refresh_tokens
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import app_of

_RATE = "oauth_registrations"


class _AccessClaims(msgspec.Struct):
    app_id: UUID


class DynamicClients:
    """Registers clients, and lets dynamic ones be clients of the apps that accept them.

    `registers` tells whether the operator allows registration without a credential.
    """

    def __init__(
        self,
        database: Database,
        apps: Apps,
        clients: Clients,
        documents: ClientDocuments,
        rate_limits: RateLimits,
        issuer: str,
        *,
        registers: bool,
    ) -> None:
        self._database = database
        self._apps = apps
        self._clients = clients
        self._documents = documents
        self._rate_limits = rate_limits
        self._issuer = issuer
        self._registers = registers

    async def register(self, client: Client, bearer: str | None, given: ClientMetadata) -> dict[str, Any]:
        """Register a client and return its metadata: with an app's secret key with that app, otherwise with none.

        Raises `InvalidClientMetadataError`, `InvalidRedirectUrisError`, `InvalidClientError` or `RateLimitedError`.
        """
        if bearer is not None:
            return await self._register_with_app(client, bearer, given)
        if not self._registers:
            raise InvalidClientError(
                "Send a secret key of the app as the initial access token.", headers={"WWW-Authenticate": "Bearer"}
            )
        new = registration(given, is_dynamic=True)
        await self._rate_limits.count_hourly(client, _RATE)
        client_id = new_id(registry.NO_APP)
        secret = SECRET_PREFIX + random_token() if has_secret(new) else None
        hashed = None if secret is None else secret_hash(secret)
        await client_store.insert_registration(self._database, client_id, json.encode(new).decode(), hashed)
        return _registered(client_id, secret, shown(new))

    async def _register_with_app(self, client: Client, key: str, given: ClientMetadata) -> dict[str, Any]:
        principal = await secret_key_of(self._apps, key)
        app_id = principal.app.app_id
        if not principal.may(Role.EDITOR):
            raise InvalidClientError("The secret key has a role below editor.")
        new = registration(given, is_dynamic=False)
        actor = Actor(principal.kind, principal.actor_id, client.request_id)
        try:
            made = await self._clients.create(app_id, actor, new, source="registration")
        except ValidationError as error:
            raise InvalidClientMetadataError(error.text) from None
        return _registered(made.client_id, made.client_secret, {**shown(new), "scope": " ".join(new.scopes)})

    async def app_of(self, parameters: Parameters) -> UUID | None:
        """Return the app of a dynamic client's request: that of its resource, code, token or pushed request."""
        for resource in parameters.resources:
            found = await self._app_of_resource(resource)
            if found is not None:
                return found
        code, pushed = parameters.get("code") or "", parameters.get("request_uri") or ""
        token = parameters.get("refresh_token") or parameters.get("token") or ""
        return app_of(CODE_PREFIX, code) or app_of(PUSHED_PREFIX, pushed) or _app_of_token(token)

    async def _app_of_resource(self, resource: str) -> UUID | None:
        normal = normal_resource(resource)
        for prefix in own_resources(self._issuer, ""):
            own = normal_resource(prefix).partition("?")[0] + "/"
            if normal.startswith(own):
                try:
                    return UUID(normal.removeprefix(own).partition("?")[0])
                except ValueError:
                    return None
        return await client_store.app_of_resource(self._database, normal)

    async def admit(self, client: Client, client_id: str, app_id: UUID | None) -> None:
        """Let a dynamic client be a client of an app that accepts them, with its current metadata.

        Does nothing for any other client. Raises `InvalidRequestError` for a document that is not valid, and
        `RateLimitedError` if too many new ones come from one address.
        """
        if app_id is None or not registry.is_dynamic(client_id) or len(client_id) > registry.MAX_CHARACTERS:
            return
        is_document = registry.app_of(client_id) is None
        known = await client_store.client(self._database, app_id, client_id) is not None
        if known and (not is_document or self._documents.is_cached(client_id)):
            return
        if not await client_store.takes_dynamic_clients(self._database, app_id):
            return
        source, hashed = "document", None
        if is_document:
            self._documents.check(client_id)
            if not known:
                await self._rate_limits.count_hourly(client, _RATE)
            fields = msgspec.to_builtins(await self._documents.read(client_id))
        else:
            row = await client_store.registration(self._database, client_id)
            if row is None:
                raise InvalidRequestError("This server has no client with this client_id.")
            source, hashed = "registration", row.secret_hash
            fields = json.decode(row.metadata.encode())
        await client_store.put_dynamic_client(self._database, app_id, client_id, fields, source, hashed)


async def secret_key_of(apps: Apps, key: str) -> SecretKey:
    """Return the principal of an app's secret key, sent as bearer; raises `InvalidClientError`."""
    try:
        app_id = keys.app_of(key, keys.SECRET_PREFIX) if key.isascii() else None
        if app_id is None:
            raise InvalidSecretKeyError
        return await apps.by_secret_key(await apps.by_id(app_id), key)
    except (AppNotFoundError, InvalidSecretKeyError):
        challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
        raise InvalidClientError("The secret key is unknown or revoked.", headers=challenge) from None


def _registered(client_id: str, secret: str | None, metadata: dict[str, Any]) -> dict[str, Any]:
    answer = {"client_id": client_id, "client_id_issued_at": int(time.time())}
    if secret is not None:
        answer |= {"client_secret": secret, "client_secret_expires_at": 0}
    return {**answer, **metadata}


def _app_of_token(token: str) -> UUID | None:
    """Return the app that a token names, without any verification."""
    if token.startswith(refresh_tokens.PREFIX):
        data = from_base64url(token.removeprefix(refresh_tokens.PREFIX)) if token.isascii() else None
        return UUID(bytes=data[:16]) if data and len(data) > 16 else None
    try:
        return msgspec.json.decode(from_base64url(token.split(".")[1]) or b"", type=_AccessClaims).app_id
    except (IndexError, ValueError):
        return None
