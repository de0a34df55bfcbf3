"""Request and response types of the provider."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.json_schemas import Json, described_as
from pilotis.http.api.schemas import Paging
from pilotis.oauth.auth_methods import AuthMethod


class Jwk(msgspec.Struct, frozen=True, kw_only=True):
    """A public RSA key that verifies tokens (RFC 7517, section 4)."""

    kty: str
    use: str
    alg: str
    kid: str
    n: str
    e: str


class JwkSet(msgspec.Struct, frozen=True):
    """The public keys that verify the server's tokens (RFC 7517, section 5); empty if there is no key."""

    keys: list[Jwk]


class ShownKey(msgspec.Struct, frozen=True, kw_only=True):
    """A signing key of the server.

    `signing` signs now; `next` is published and signs from `signs_from` on; `published` verifies tokens until
    `published_until`; `known` verifies only the ID tokens that name a session to end. Keys of the source `setting` come
    from `OAUTH_RSA_PRIVATE_KEY_PEM` and have no times.
    """

    kid: str
    state: Literal["signing", "next", "published", "known"]
    source: Literal["database", "setting"]
    created_at: str | None
    signs_from: str | None
    published_until: str | None


class LogoQuery(msgspec.Struct):
    """`v` is the picture's version in a logo's address, so that a replaced one has another address."""

    v: str = ""


class GrantQuery(Paging, forbid_unknown_fields=True):
    """A range of the grants, of all clients and members or of one."""

    client_id: ClientId | None = None
    member_id: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class GrantClient(msgspec.Struct, frozen=True):
    """The client that a grant was issued to."""

    client_id: ClientId
    name: str


class GrantMember(msgspec.Struct, frozen=True):
    """The member that a grant is about."""

    member_id: str
    nickname: str | None


class IssuedGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a member's sign-in at a client allows that client: the parent of its code and its tokens.

    `is_active` tells whether its tokens are valid. `session_id` is the member's session; without `is_offline` the grant
    ends with it. `is_bound` tells whether its tokens are bound to a key of the client (DPoP). `last_used_at` is when
    its code or refresh token was last exchanged.
    """

    grant_id: UUID
    client: GrantClient
    member: GrantMember
    session_id: UUID
    scopes: list[str]
    resources: list[str]
    is_active: bool
    is_offline: bool
    is_bound: bool
    created_at: str
    last_used_at: str | None
    expires_at: str
    revoked_at: str | None
    revoke_reason: str | None


GrantType = Literal["authorization_code", "refresh_token", "client_credentials"]
ClientType = Literal["confidential", "public"]
ClientId = Annotated[str, msgspec.Meta(max_length=2048, pattern=r"^[\x21-\x7E]+$")]
ScopeName = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[\x21\x23-\x5B\x5D-\x7E]+$")]
ClaimName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:/-]+$")]
ClaimKey = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
RedirectUri = Annotated[str, msgspec.Meta(max_length=2000)]
PageUri = Annotated[str, msgspec.Meta(max_length=2000)]
RedirectUris = Annotated[list[RedirectUri], msgspec.Meta(max_length=20)]
Resources = Annotated[list[RedirectUri], msgspec.Meta(max_length=10)]
ScopeNames = Annotated[list[ScopeName], msgspec.Meta(max_length=100)]
GrantTypes = Annotated[list[GrantType], msgspec.Meta(min_length=1, max_length=3)]


# What its members may be is in the description: a union of a list and others does not compile in Java.
_JWK: Json = {
    "type": "object",
    "additionalProperties": True,
    "description": "A public key (RFC 7517, section 4): texts and, for `key_ops` and `x5c`, lists of them.",
}
PublicJwk = Annotated[dict[str, str | list[str] | bool | int], described_as(_JWK)]


class ClientKeys(msgspec.Struct, frozen=True):
    """The public keys of a client that authenticates with `private_key_jwt` (RFC 7517, section 5)."""

    keys: Annotated[list[PublicJwk], msgspec.Meta(min_length=1, max_length=10)]


class ScopeTranslation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Title and description in another language of the consent page."""

    title: Title
    description: Description = ""


class ApiScopeChange(msgspec.Struct, forbid_unknown_fields=True):
    """The texts of a scope, which members read before they consent.

    With `is_default`, a client that requests no scopes gets this one; with `is_required`, members cannot
    decline it.
    """

    title: Title
    description: Description = ""
    is_default: bool = False
    is_required: bool = False
    translations: dict[Literal["ko", "ja", "zh", "de", "fr", "es"], ScopeTranslation] = {}
    claims: Annotated[dict[ClaimName, ClaimKey], msgspec.Meta(max_length=50)] = {}


class ApiScope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope that the app offers to clients."""

    name: str
    title: str
    description: str
    is_default: bool
    is_required: bool
    translations: dict[str, ScopeTranslation]
    claims: dict[str, str]
    created_at: str
    updated_at: str


class DeletedScope(msgspec.Struct, frozen=True):
    """The scope that was deleted."""

    message: str
    name: str


class NewClient(msgspec.Struct, forbid_unknown_fields=True):
    """A client to register. With `token_endpoint_auth_method` `none` it is public and has no secret.

    With `private_key_jwt` it has none either, and `jwks` are its public keys. `client_type` follows from it, and may be
    sent where it does not contradict. With `claims_in_id_token` ID tokens also have the claims of the granted scopes,
    for programs that do not ask `/oauth/userinfo`.
    `resources` are those of the app for which it may request tokens; if empty, all of them.
    """

    name: Title
    description: Description = ""
    token_endpoint_auth_method: AuthMethod = "client_secret_basic"  # noqa: S105 - a name
    client_type: ClientType | msgspec.UnsetType = msgspec.UNSET
    grant_types: GrantTypes = msgspec.field(default_factory=lambda: ["authorization_code", "refresh_token"])
    redirect_uris: RedirectUris = []
    post_logout_redirect_uris: RedirectUris = []
    scopes: ScopeNames = msgspec.field(default_factory=lambda: ["openid"])
    resources: Resources = []
    client_uri: PageUri | None = None
    policy_uri: PageUri | None = None
    tos_uri: PageUri | None = None
    backchannel_logout_uri: PageUri | None = None
    backchannel_logout_session_required: bool = False
    is_resource_server: bool = False
    require_pushed_authorization_requests: bool = False
    dpop_bound_access_tokens: bool = False
    claims_in_id_token: bool = False
    jwks: ClientKeys | None = None


# Go has no type for null alone.
_NO_ID: Json = {
    "anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}],
    "description": "Only null, which unlinks the app.",
}
Unlinked = Annotated[None, described_as(_NO_ID)]


class ClientChange(msgspec.Struct, forbid_unknown_fields=True):
    """The changes to a client; absent fields keep their values. A null `consumer_app_id` unlinks the consumer app."""

    name: Title | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    client_type: ClientType | msgspec.UnsetType = msgspec.UNSET
    grant_types: GrantTypes | msgspec.UnsetType = msgspec.UNSET
    redirect_uris: RedirectUris | msgspec.UnsetType = msgspec.UNSET
    post_logout_redirect_uris: RedirectUris | msgspec.UnsetType = msgspec.UNSET
    scopes: ScopeNames | msgspec.UnsetType = msgspec.UNSET
    resources: Resources | msgspec.UnsetType = msgspec.UNSET
    client_uri: PageUri | msgspec.UnsetType | None = msgspec.UNSET
    policy_uri: PageUri | msgspec.UnsetType | None = msgspec.UNSET
    tos_uri: PageUri | msgspec.UnsetType | None = msgspec.UNSET
    backchannel_logout_uri: PageUri | msgspec.UnsetType | None = msgspec.UNSET
    backchannel_logout_session_required: bool | msgspec.UnsetType = msgspec.UNSET
    is_resource_server: bool | msgspec.UnsetType = msgspec.UNSET
    require_pushed_authorization_requests: bool | msgspec.UnsetType = msgspec.UNSET
    dpop_bound_access_tokens: bool | msgspec.UnsetType = msgspec.UNSET
    claims_in_id_token: bool | msgspec.UnsetType = msgspec.UNSET
    jwks: ClientKeys | msgspec.UnsetType | None = msgspec.UNSET
    is_active: bool | msgspec.UnsetType = msgspec.UNSET
    consumer_app_id: Unlinked | msgspec.UnsetType = msgspec.UNSET


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is registered with the app. Of its secret only the first characters are shown."""

    client_id: ClientId
    app_id: UUID
    consumer_app_id: UUID | None
    name: str
    description: str
    client_type: ClientType
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
    jwks: ClientKeys | None
    first_party: bool
    is_dynamic: bool
    is_active: bool
    source: str
    has_secret: bool
    secret_prefix: str | None
    previous_secret_expires_at: str | None
    created_at: str
    updated_at: str
    last_used_at: str | None


class CreatedClient(RegisteredClient, frozen=True, kw_only=True):
    """A new client with its secret, which is shown only here; a public client has none."""

    client_secret: str | None


class SecretRegeneration(msgspec.Struct, forbid_unknown_fields=True):
    """How many seconds the previous secret stays valid; 0 after a leak."""

    overlap_seconds: Annotated[int, msgspec.Meta(ge=0, le=2_592_000)] = 86_400


class RegeneratedSecret(msgspec.Struct, frozen=True):
    """A client's new secret, shown only here, and until when the previous one is valid."""

    client_id: ClientId
    client_secret: str
    previous_secret_expires_at: str | None


class DeletedClient(msgspec.Struct, frozen=True):
    """The client that was deleted."""

    message: str
    id: ClientId


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The provider's metadata (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str
    introspection_endpoint: str
    revocation_endpoint: str
    pushed_authorization_request_endpoint: str
    registration_endpoint: str | None = None
    end_session_endpoint: str
    backchannel_logout_supported: bool
    backchannel_logout_session_supported: bool
    dpop_signing_alg_values_supported: list[str]
    scopes_supported: list[str]
    response_types_supported: list[str]
    response_modes_supported: list[str]
    grant_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    token_endpoint_auth_signing_alg_values_supported: list[str]
    introspection_endpoint_auth_methods_supported: list[str]
    introspection_endpoint_auth_signing_alg_values_supported: list[str]
    revocation_endpoint_auth_methods_supported: list[str]
    revocation_endpoint_auth_signing_alg_values_supported: list[str]
    code_challenge_methods_supported: list[str]
    claims_supported: list[str]
    acr_values_supported: list[str]
    ui_locales_supported: list[str]
    authorization_response_iss_parameter_supported: bool
    claims_parameter_supported: bool
    request_parameter_supported: bool
    request_uri_parameter_supported: bool
    require_pushed_authorization_requests: bool
    client_id_metadata_document_supported: bool


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An app's settings as a provider; lifetimes are in the unit of their name.

    `consent_url` is the app's own consent page, None for the server's. With `link_by_verified_email` an account at a
    provider of social login joins the member whose address another provider has verified. `resources` are the APIs
    outside of this server for which clients may request tokens. With `dynamic_clients`, members may connect clients
    that nobody has registered with the app; these may request `openid` and `dynamic_scopes`. `public_key` is the one
    that the server's page uses,
    `first_party_client_id` the client of the app's own site; both are made when the app becomes a provider.
    """

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
    first_party_client_id: ClientId | None
    public_key: str | None
    updated_at: str | None


class OAuthSettingsChange(msgspec.Struct, forbid_unknown_fields=True):
    """The changes; absent fields keep their values.

    Only owners may change `consent_url`, `login_redirect_uris` and `link_by_verified_email`.
    """

    is_provider: bool | msgspec.UnsetType = msgspec.UNSET
    access_token_seconds: Annotated[int, msgspec.Meta(ge=60, le=3600)] | msgspec.UnsetType = msgspec.UNSET
    refresh_idle_days: Annotated[int, msgspec.Meta(ge=1, le=365)] | msgspec.UnsetType = msgspec.UNSET
    refresh_absolute_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] | msgspec.UnsetType = msgspec.UNSET
    consent_url: PageUri | msgspec.UnsetType | None = msgspec.UNSET
    login_redirect_uris: RedirectUris | msgspec.UnsetType = msgspec.UNSET
    dpop_nonce: Literal["offered", "required"] | msgspec.UnsetType = msgspec.UNSET
    link_by_verified_email: bool | msgspec.UnsetType = msgspec.UNSET
    resources: Resources | msgspec.UnsetType = msgspec.UNSET
    dynamic_clients: bool | msgspec.UnsetType = msgspec.UNSET
    dynamic_scopes: ScopeNames | msgspec.UnsetType = msgspec.UNSET


class ProtectedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an app's API, which clients read before they have a token (RFC 9728, section 2)."""

    resource: str
    resource_name: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]
    jwks_uri: str
