"""The scopes that an app offers, and the clients registered with it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.crypto import base64url, random_token, secret_hash
from pilotis.kit.errors import ConflictError, NotFoundError, invalid
from pilotis.oauth import client_store, scope_store
from pilotis.oauth.auth_methods import NO_SECRET, PRIVATE_KEY, SECRET_METHODS
from pilotis.oauth.public_keys import public_key
from pilotis.oauth.records import StoredClient, StoredScope
from pilotis.oauth.redirect_uris import check_redirect_uri
from pilotis.oauth.resources import own_resources
from pilotis.oauth.types import (
    ApiScope,
    ApiScopeChange,
    ClientChange,
    ClientKeys,
    ClientType,
    CreatedClient,
    NewClient,
    RegeneratedSecret,
    RegisteredClient,
    ScopeTranslation,
)
from pilotis.security.audit.service import record

BUILT_IN_SCOPES = frozenset(("openid", "profile", "email", "address", "phone", "offline_access"))
CLIENT_PREFIX = "cl_"
SECRET_PREFIX = "cs_"  # noqa: S105 - a prefix, not a secret
_CLIENT_BYTES = 8
# What the server says of a member or a token. `custom_data` is written by its member, and must not say it.
_OWN_CLAIMS = frozenset(
    (
        *("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "sid", "nonce", "azp", "at_hash", "c_hash", "cnf", "scope"),
        *("auth_time", "acr", "amr", "client_id", "grant_id", "app_id"),
        *("name", "nickname", "picture", "updated_at", "email", "email_verified"),
    )
)
_SHOWN_CHARACTERS = 7
_PAGES = ("client_uri", "policy_uri", "tos_uri", "backchannel_logout_uri")
_LISTS = ("grant_types", "redirect_uris", "post_logout_redirect_uris", "scopes", "resources")


class OAuthClientNotFoundError(NotFoundError):
    """404: the app has no such OAuth client."""

    code = "OAUTH_CLIENT_NOT_FOUND"
    message = "The app has no such OAuth client."


class OAuthScopeNotFoundError(NotFoundError):
    """404: the app has no such scope."""

    code = "OAUTH_SCOPE_NOT_FOUND"
    message = "The app has no such scope."


class OAuthScopeInUseError(ConflictError):
    """409: clients may request the scope; remove it from them first."""

    code = "OAUTH_SCOPE_IN_USE"
    message = "Clients may request this scope. Remove it from them first."


class PublicClientError(ConflictError):
    """409: the OAuth client has no secret: it is public, or authenticates with `private_key_jwt`."""

    code = "OAUTH_CLIENT_PUBLIC"
    message = "This client has no secret: it is public, or authenticates with private_key_jwt."


class DynamicClientError(ConflictError):
    """409: the OAuth client registered itself, so only it can change its metadata; the app can only disable it."""

    code = "OAUTH_CLIENT_DYNAMIC"
    message = "This client registered itself, and manages its own metadata. You can disable it with is_active."


class Clients:
    """Registers, changes and deletes scopes and clients of apps."""

    def __init__(self, database: Database, issuer: str) -> None:
        self._database = database
        self._issuer = issuer

    async def scopes(self, app: AppInfo, paging: Paging) -> ItemPage[ApiScope]:
        """Return a page of the app's own scopes, by name."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await scope_store.scopes(self._database, app.app_id, limit, paging.offset)
        return ItemPage(data=[_scope(row) for row in rows], total_count=total, limit=limit, offset=paging.offset)

    async def put_scope(self, app_id: UUID, actor: Actor, name: str, change: ApiScopeChange) -> ApiScope:
        """Create a scope or change its texts; rejects the built-in scopes."""
        if name in BUILT_IN_SCOPES:
            raise invalid("name", f"{name} is built in: OpenID Connect defines it.")
        if reserved := _OWN_CLAIMS & change.claims.keys():
            raise invalid("claims", f"The server decides the claim {min(reserved)}: it cannot come from custom_data.")
        async with self._database.transaction(app_id) as connection:
            row = await scope_store.put_scope(
                connection,
                app_id,
                name,
                change.title,
                change.description,
                change.is_default,
                change.is_required,
                json.encode(change.translations).decode(),
                json.encode(change.claims).decode(),
            )
            await record(connection, app_id, actor, "oauth_scope.put", name, title=change.title)
        return _scope(row)

    async def delete_scope(self, app_id: UUID, actor: Actor, name: str) -> None:
        """Delete a scope; raises `OAuthScopeInUseError` if a client may request it."""
        async with self._database.transaction(app_id) as connection:
            if not await scope_store.delete_scope(connection, app_id, name):
                raise OAuthScopeNotFoundError
            # The deletion has waited for transactions that were adding the scope to a client.
            if await client_store.clients_with_scope(connection, app_id, name):
                raise OAuthScopeInUseError
            await record(connection, app_id, actor, "oauth_scope.delete", name)

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[RegisteredClient]:
        """Return a page of the app's clients, oldest first."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await client_store.clients(self._database, app.app_id, limit, paging.offset)
        return ItemPage(
            data=[_client(row, self._issuer) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def read(self, app_id: UUID, client_id: str) -> RegisteredClient:
        """Return a client; raises `OAuthClientNotFoundError`."""
        row = await client_store.client(self._database, app_id, client_id)
        if row is None:
            raise OAuthClientNotFoundError
        return _client(row, self._issuer)

    async def create(self, app_id: UUID, actor: Actor, new: NewClient, *, source: str = "console") -> CreatedClient:
        """Register a client; the secret of a confidential one is returned only here."""
        fields = msgspec.to_builtins(new)
        _check_type(fields, new.token_endpoint_auth_method)
        is_public = new.token_endpoint_auth_method == NO_SECRET
        check_client(fields, is_public=is_public)
        client_id = new_id(app_id)
        has_secret = new.token_endpoint_auth_method in SECRET_METHODS
        secret = SECRET_PREFIX + random_token() if has_secret else None
        async with self._database.transaction(app_id) as connection:
            await require_scopes(connection, app_id, new.scopes)
            await self._require_resources(connection, app_id, new.resources)
            row = await client_store.insert_client(
                connection,
                app_id,
                client_id,
                fields,
                source=source,
                secret_hash=None if secret is None else secret_hash(secret),
                secret_prefix=None if secret is None else secret[:_SHOWN_CHARACTERS],
            )
            await record(connection, app_id, actor, "oauth_client.create", client_id, name=new.name)
        return CreatedClient(**msgspec.structs.asdict(_client(row, self._issuer)), client_secret=secret)

    async def create_first_party(self, connection: Connection, app_id: UUID, actor: Actor) -> str:
        """Register the public client of the app's own site, which needs no consent, and return its id."""
        client_id, new = new_id(app_id), NewClient("Own site", token_endpoint_auth_method="none")  # noqa: S106 - a name
        fields = msgspec.to_builtins(new)
        fields["scopes"] = sorted(BUILT_IN_SCOPES)
        await client_store.insert_client(connection, app_id, client_id, fields, source="console", first_party=True)
        await record(connection, app_id, actor, "oauth_client.create", client_id, name=new.name, first_party=True)
        return client_id

    async def change(self, app_id: UUID, actor: Actor, client_id: str, change: ClientChange) -> RegisteredClient:
        """Change a client; unset fields keep their values. Raises `OAuthClientNotFoundError`."""
        given = msgspec.to_builtins(change)
        async with self._database.transaction(app_id) as connection:
            row = await client_store.lock_client(connection, app_id, client_id)
            if row is None:
                raise OAuthClientNotFoundError
            if row.is_dynamic and given.keys() - {"is_active"}:
                raise DynamicClientError
            _check_type(given, row.token_endpoint_auth_method)
            fields = {**msgspec.structs.asdict(row), **given}
            check_client(fields, is_public=row.token_endpoint_auth_method == NO_SECRET)
            await require_scopes(connection, app_id, given.get("scopes", []))
            await self._require_resources(connection, app_id, given.get("resources", []))
            row = await client_store.update_client(connection, app_id, client_id, fields)
            await record(connection, app_id, actor, "oauth_client.update", client_id, fields=sorted(given))
        return _client(row, self._issuer)

    async def regenerate_secret(
        self, app_id: UUID, actor: Actor, client_id: str, overlap_seconds: int
    ) -> RegeneratedSecret:
        """Replace a client's secret; raises `OAuthClientNotFoundError` or `PublicClientError`."""
        secret = SECRET_PREFIX + random_token()
        async with self._database.transaction(app_id) as connection:
            row = await client_store.lock_client(connection, app_id, client_id)
            if row is None:
                raise OAuthClientNotFoundError
            if row.secret_hash is None:
                raise PublicClientError
            row = await client_store.replace_secret(
                connection, app_id, client_id, secret_hash(secret), secret[:_SHOWN_CHARACTERS], overlap_seconds
            )
            await record(
                connection, app_id, actor, "oauth_client.regenerate_secret", client_id, overlap_seconds=overlap_seconds
            )
        return RegeneratedSecret(client_id, secret, optional_rfc3339(row.previous_secret_expires_at))

    async def delete(self, app_id: UUID, actor: Actor, client_id: str) -> None:
        """Delete a client; raises `OAuthClientNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            if not await client_store.delete_client(connection, app_id, client_id):
                raise OAuthClientNotFoundError
            await record(connection, app_id, actor, "oauth_client.delete", client_id)

    async def _require_resources(self, connection: Connection, app_id: UUID, wanted: Sequence[str]) -> None:
        if wanted:
            known = {*own_resources(self._issuer, app_id), *await client_store.resources(connection, app_id)}
            if missing := set(wanted) - known:
                raise invalid("resources", f"The app has no resource {min(missing)}; PUT oauth/settings adds it.")


def _type_of(method: str) -> ClientType:
    return "public" if method == NO_SECRET else "confidential"


def _check_type(given: dict[str, Any], method: str) -> None:
    """Take `client_type` out of what was sent; raises a 400 error if it contradicts how the client authenticates."""
    expected = _type_of(method)
    if given.pop("client_type", expected) != expected:
        raise invalid("client_type", f"client_type: with token_endpoint_auth_method {method} a client is {expected}.")


def check_client(fields: dict[str, Any], *, is_public: bool) -> None:
    """Raise `ValidationError` for contradictory metadata (RFC 7591, section 2) or an invalid URI."""
    for name in _LISTS:
        if len(set(fields[name])) < len(fields[name]):
            raise invalid(name, f"{name} contains a duplicate.")
    grants = set(fields["grant_types"])
    if is_public and "client_credentials" in grants:
        raise invalid("grant_types", "A public client has no secret, so it cannot use client_credentials.")
    if "refresh_token" in grants and "authorization_code" not in grants:
        raise invalid("grant_types", "refresh_token requires authorization_code.")
    if "authorization_code" in grants and not fields["redirect_uris"]:
        raise invalid("redirect_uris", "With authorization_code a client needs at least one redirect URI.")
    _check_keys(fields)
    for name in ("redirect_uris", "post_logout_redirect_uris"):
        for index, uri in enumerate(fields[name]):
            try:
                check_redirect_uri(uri, is_public=is_public)
            except ValueError as error:
                raise invalid(f"{name}[{index}]", str(error)) from None
    for name in _PAGES:
        if fields[name] is not None:
            try:
                check_redirect_uri(fields[name], is_public=False)
            except ValueError as error:
                raise invalid(name, str(error).replace("A redirect URI", "The address")) from None


def _check_keys(fields: dict[str, Any]) -> None:
    jwks = fields["jwks"] if not isinstance(fields["jwks"], str) else json.decode(fields["jwks"].encode())
    if (jwks is not None) != (fields["token_endpoint_auth_method"] == PRIVATE_KEY):
        raise invalid("jwks", "jwks is for clients with token_endpoint_auth_method private_key_jwt, which need it.")
    for index, key in enumerate(jwks["keys"] if jwks else ()):
        try:
            public_key(key)
        except ValueError as error:
            raise invalid(f"jwks.keys[{index}]", str(error)) from None


def logo_url(issuer: str, path: str | None) -> str | None:
    """Return the URL of a client's logo, whose path is stored."""
    return None if path is None else issuer + path


def new_id(app_id: UUID) -> str:
    """Return a new client id, which contains the app's id."""
    return CLIENT_PREFIX + base64url(app_id.bytes + secrets.token_bytes(_CLIENT_BYTES))


async def require_scopes(connection: Connection, app_id: UUID, names: Sequence[str], field: str = "scopes") -> None:
    """Raise `ValidationError` about the field unless each scope is built in or one of the app's."""
    own = set(names) - BUILT_IN_SCOPES
    missing = own - await scope_store.existing_scopes(connection, app_id, sorted(own)) if own else own
    if missing:
        raise invalid(field, f"The app has no scope {min(missing)}; PUT oauth/scopes/:name creates it.")


def _scope(row: StoredScope) -> ApiScope:
    return ApiScope(
        name=row.name,
        title=row.title,
        description=row.description,
        is_default=row.is_default,
        is_required=row.is_required,
        translations=msgspec.json.decode(row.translations, type=dict[str, ScopeTranslation]),
        claims=msgspec.json.decode(row.claims, type=dict[str, str]),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def _client(row: StoredClient, issuer: str) -> RegisteredClient:
    return RegisteredClient(
        client_id=row.client_id,
        app_id=row.app_id,
        consumer_app_id=row.consumer_app_id,
        name=row.name,
        description=row.description,
        client_type=_type_of(row.token_endpoint_auth_method),
        token_endpoint_auth_method=row.token_endpoint_auth_method,
        grant_types=row.grant_types,
        redirect_uris=row.redirect_uris,
        post_logout_redirect_uris=row.post_logout_redirect_uris,
        scopes=row.scopes,
        resources=row.resources,
        client_uri=row.client_uri,
        logo_url=logo_url(issuer, row.logo_url),
        policy_uri=row.policy_uri,
        tos_uri=row.tos_uri,
        backchannel_logout_uri=row.backchannel_logout_uri,
        backchannel_logout_session_required=row.backchannel_logout_session_required,
        is_resource_server=row.is_resource_server,
        require_pushed_authorization_requests=row.require_pushed_authorization_requests,
        dpop_bound_access_tokens=row.dpop_bound_access_tokens,
        claims_in_id_token=row.claims_in_id_token,
        jwks=None if row.jwks is None else msgspec.json.decode(row.jwks, type=ClientKeys),
        first_party=row.first_party,
        is_dynamic=row.is_dynamic,
        is_active=row.is_active,
        source=row.source,
        has_secret=row.secret_hash is not None,
        secret_prefix=row.secret_prefix,
        previous_secret_expires_at=optional_rfc3339(row.previous_secret_expires_at),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )
