"""What is stored of scopes, clients and an app's settings as a provider."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

import msgspec

from pilotis.kit.crypto import secret_hash
from pilotis.oauth.auth_methods import NO_SECRET, AuthMethod
from pilotis.oauth.types import GrantType


class ScopeTexts(msgspec.Struct, frozen=True):
    """A scope of an app with the texts that members read; `translations` and `claims` are JSON objects."""

    name: str
    title: str
    description: str
    is_default: bool
    is_required: bool
    translations: str
    claims: str


class StoredScope(ScopeTexts, frozen=True):
    """A scope of an app."""

    created_at: datetime
    updated_at: datetime


class ClientSecrets(msgspec.Struct, frozen=True):
    """The hashes of a client's secrets."""

    secret_hash: bytes | None
    previous_secret_hash: bytes | None
    previous_secret_expires_at: datetime | None

    def knows_secret(self, secret: str) -> bool:
        """Return whether a secret is the current one, or the previous one while that is valid, in constant time."""
        given = secret_hash(secret)
        current = hmac.compare_digest(given, self.secret_hash or b"")
        previous = hmac.compare_digest(given, self.previous_secret_hash or b"")
        expires_at = self.previous_secret_expires_at
        return current or (previous and expires_at is not None and expires_at > datetime.now(UTC))


class StoredClient(ClientSecrets, frozen=True):
    """A client that is registered with an app; see `RegisteredClient` for the fields. `jwks` is a JSON object."""

    client_id: str
    app_id: UUID
    consumer_app_id: UUID | None
    name: str
    description: str
    token_endpoint_auth_method: AuthMethod
    grant_types: list[GrantType]
    redirect_uris: list[str]
    post_logout_redirect_uris: list[str]
    scopes: list[str]
    resources: list[str]
    client_uri: str | None
    logo_url: str | None
    policy_uri: str | None
    tos_uri: str | None
    backchannel_logout_uri: str | None
    backchannel_logout_session_required: bool
    is_resource_server: bool
    require_pushed_authorization_requests: bool
    dpop_bound_access_tokens: bool
    claims_in_id_token: bool
    jwks: str | None
    first_party: bool
    is_dynamic: bool
    is_active: bool
    source: str
    secret_prefix: str | None
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class Provider(msgspec.Struct, frozen=True):
    """The app whose members sign in, with its provider settings."""

    app_id: UUID
    name: str
    allow_id_password_login: bool
    is_provider: bool
    access_token_seconds: int
    refresh_idle_days: int
    refresh_absolute_days: int
    consent_url: str | None
    login_redirect_uris: list[str]
    dpop_nonce: str
    public_key: str | None
    resources: list[str]
    dynamic_scopes: list[str]


class KnownClient(ClientSecrets, frozen=True):
    """A client with its provider app, as the protocol endpoints need them; see `RegisteredClient` for the fields."""

    client_id: str
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
    last_used_at: datetime | None
    provider: Provider

    @property
    def app_id(self) -> UUID:
        """The provider app's id."""
        return self.provider.app_id

    @property
    def is_public(self) -> bool:
        """Whether the client has no secret."""
        return self.token_endpoint_auth_method == NO_SECRET


class Registration(msgspec.Struct, frozen=True):
    """A client that registered without a credential: its metadata, a JSON object, and its secret's hash."""

    metadata: str
    secret_hash: bytes | None


class StoredSettings(msgspec.Struct, frozen=True):
    """An app's settings as a provider; see `OAuthSettings` for the fields."""

    is_provider: bool
    access_token_seconds: int
    refresh_idle_days: int
    refresh_absolute_days: int
    consent_url: str | None
    login_redirect_uris: list[str]
    dpop_nonce: Literal["offered", "required"]
    link_by_verified_email: bool
    resources: list[str]
    dynamic_clients: bool
    dynamic_scopes: list[str]
    first_party_client_id: str | None
    public_key: str | None
    updated_at: datetime


class NamedProvider(msgspec.Struct, frozen=True):
    """The name of an app that is a provider, and the names of its scopes."""

    name: str
    scopes: list[str]
