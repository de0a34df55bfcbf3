"""The provider's public documents, and the console routes for scopes and clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import msgspec

from pilotis.http.api.bodies import Raw
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import PayloadTooLargeError, invalid
from pilotis.kit.logos import HEADERS, InvalidLogoError
from pilotis.oauth.client_metadata import InvalidClientMetadataError, parse
from pilotis.oauth.clients import (
    Clients,
    DynamicClientError,
    OAuthClientNotFoundError,
    OAuthScopeInUseError,
    OAuthScopeNotFoundError,
    PublicClientError,
)
from pilotis.oauth.discovery import server_metadata
from pilotis.oauth.dynamic_clients import DynamicClients
from pilotis.oauth.errors import InvalidRequestError
from pilotis.oauth.grants import Grants, OAuthGrantNotFoundError
from pilotis.oauth.https import Https
from pilotis.oauth.keys import SigningKeyExistsError, SigningKeys
from pilotis.oauth.logos import LogoNotFoundError, Logos
from pilotis.oauth.provider_settings import ProviderSettings
from pilotis.oauth.types import (
    ApiScope,
    ApiScopeChange,
    ClientChange,
    CreatedClient,
    DeletedClient,
    DeletedScope,
    GrantQuery,
    IssuedGrant,
    JwkSet,
    LogoQuery,
    NewClient,
    OAuthSettings,
    OAuthSettingsChange,
    ProtectedResource,
    RegeneratedSecret,
    RegisteredClient,
    ScopeName,
    SecretRegeneration,
    ServerMetadata,
    ShownKey,
)

_MAX_METADATA_BYTES = 4096
_NOT_STORED = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))
_CACHED = (b"cache-control", b"public, max-age=300")


class DiscoveryEndpoints(Endpoints, tag="OAuth"):
    """The documents that clients and resource servers read first."""

    def __init__(self, keys: SigningKeys, issuer: str, *, registers: bool = True) -> None:
        self._keys = keys
        self._metadata = json.encode(server_metadata(issuer, registers=registers))

    @get("/.well-known/oauth-authorization-server", access=Access.OPEN, returns=ServerMetadata)
    async def authorization_server(self, call: Call) -> Reply:
        """Read the provider's endpoints and capabilities (RFC 8414).

        One provider serves all apps of the server: a client's id identifies its app.
        """
        return Reply(self._metadata, headers=[_CACHED])

    @get("/.well-known/openid-configuration", access=Access.OPEN, returns=ServerMetadata)
    async def openid_configuration(self, call: Call) -> Reply:
        """Read the same document at the address that OpenID Connect defines (Discovery 1.0, section 4)."""
        return Reply(self._metadata, headers=[_CACHED])

    @get("/.well-known/jwks.json", access=Access.OPEN, returns=JwkSet)
    async def key_set(self, call: Call) -> Reply:
        """Read the public keys that verify the server's OAuth tokens (RFC 7517).

        The set is empty while the server has no signing key. Cache it for five minutes, and read it again if a token
        names an unknown key.
        """
        return Reply(json.encode((await self._keys.current()).key_set()), headers=[_CACHED])


class RegistrationEndpoints(Endpoints, tag="Pages", error_styles={"/oauth": "oauth"}):
    """The route with which clients register themselves."""

    def __init__(self, https: Https, dynamic: DynamicClients) -> None:
        self._https = https
        self._dynamic = dynamic

    @post("/oauth/register", access=Access.OPEN, status=201, returns=dict, body_media_type="application/json")
    async def register(self, call: Call, body: Raw) -> Reply:
        """Register a client (RFC 7591), with an app's secret key as bearer, or without a credential.

        Without one, the client belongs to no app; apps with the setting `dynamic_clients` accept it.
        """
        self._https.check(call)
        content_type = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if content_type != b"application/json":
            raise InvalidRequestError("Send the metadata as application/json.")
        if len(body) > _MAX_METADATA_BYTES:
            raise InvalidClientMetadataError(f"The metadata must have at most {_MAX_METADATA_BYTES} bytes.")
        found = await self._dynamic.register(call.client, call.bearer(), parse(body))
        return Reply(json.encode(found), 201, _NOT_STORED)


class ProtectedResourceEndpoints(Endpoints, tag="OAuth"):
    """Metadata that clients, such as those of MCP, find by the address of an app's API."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings

    @get("/.well-known/oauth-protected-resource/apps/:app_id", access=Access.OPEN, returns=ProtectedResource)
    async def resource(self, call: Call, app_id: UUID) -> Reply:
        """Read which server issues tokens for the app's API, and the available scopes (RFC 9728)."""
        return Reply(json.encode(await self._settings.resource(app_id)), headers=[_CACHED])

    @get("/.well-known/oauth-protected-resource/mcp/:app_id", access=Access.OPEN, returns=ProtectedResource)
    async def mcp_resource(self, call: Call, app_id: UUID) -> Reply:
        """Read the same about the app's MCP server (RFC 9728).

        Its resource is `/mcp/:app_id`: one address for all apps could not tell a client which app it signs in to.
        """
        return Reply(json.encode(await self._settings.resource(app_id, is_mcp=True)), headers=[_CACHED])


class OAuthSettingsEndpoints(Endpoints, tag="OAuth"):
    """An app's settings as an OAuth provider."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings

    @get("/v1/apps/:app_id/oauth/settings", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID) -> OAuthSettings:
        """Read the app's settings as an OAuth provider."""
        return await self._settings.read(app_id)

    @put("/v1/apps/:app_id/oauth/settings", access=Access.APP_EDITOR)
    async def change(self, call: Call, app_id: UUID, body: OAuthSettingsChange) -> OAuthSettings:
        """Change the app's settings as an OAuth provider. Absent fields keep their values.

        Only owners may change `consent_url`, `login_redirect_uris` and `link_by_verified_email`, because they
        decide who receives members' tokens.
        """
        return await self._settings.change(app_id, call.actor, call.principal.role, body)


class OAuthClientEndpoints(Endpoints, tag="OAuth"):
    """The scopes that an app offers to clients, and the registered clients."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @get("/v1/apps/:app_id/oauth/scopes", access=Access.APP_VIEWER)
    async def scopes(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[ApiScope]:
        """List the app's scopes.

        The list does not include the built-in scopes `openid`, `profile`, `email`, `address`, `phone` and
        `offline_access`.
        """
        return await self._clients.scopes(call.app, query)

    @put("/v1/apps/:app_id/oauth/scopes/:name", access=Access.APP_EDITOR)
    async def put_scope(self, call: Call, app_id: UUID, name: str, body: ApiScopeChange) -> ApiScope:
        """Create a scope, or change its texts.

        Members read the title and description before they consent.
        """
        return await self._clients.put_scope(app_id, call.actor, _scope_name(name), body)

    @delete(
        "/v1/apps/:app_id/oauth/scopes/:name",
        access=Access.APP_EDITOR,
        errors=[OAuthScopeNotFoundError, OAuthScopeInUseError],
    )
    async def delete_scope(self, call: Call, app_id: UUID, name: str) -> DeletedScope:
        """Delete a scope that no client may request."""
        await self._clients.delete_scope(app_id, call.actor, name)
        return DeletedScope("Scope deleted.", name)

    @get("/v1/apps/:app_id/oauth/clients", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[RegisteredClient]:
        """List the app's OAuth clients, oldest first."""
        return await self._clients.page(call.app, query)

    @post("/v1/apps/:app_id/oauth/clients", access=Access.APP_EDITOR, status=201, creates="client_id")
    async def create(self, call: Call, app_id: UUID, body: NewClient) -> CreatedClient:
        """Register an OAuth client. The response is the only one that contains its secret.

        A client with `token_endpoint_auth_method` `none`, such as an app on a phone, is public and has no secret.
        """
        return await self._clients.create(app_id, call.actor, body)

    @get("/v1/apps/:app_id/oauth/clients/:client_id", access=Access.APP_VIEWER, errors=[OAuthClientNotFoundError])
    async def read(self, call: Call, app_id: UUID, client_id: str) -> RegisteredClient:
        """Read an OAuth client."""
        return await self._clients.read(app_id, client_id)

    @put(
        "/v1/apps/:app_id/oauth/clients/:client_id",
        access=Access.APP_EDITOR,
        errors=[OAuthClientNotFoundError, DynamicClientError],
    )
    async def change(self, call: Call, app_id: UUID, client_id: str, body: ClientChange) -> RegisteredClient:
        """Change an OAuth client. Absent fields keep their values."""
        return await self._clients.change(app_id, call.actor, client_id, body)

    @post(
        "/v1/apps/:app_id/oauth/clients/:client_id/regenerate-secret",
        access=Access.APP_EDITOR,
        errors=[OAuthClientNotFoundError, PublicClientError],
    )
    async def regenerate_secret(
        self, call: Call, app_id: UUID, client_id: str, body: SecretRegeneration
    ) -> RegeneratedSecret:
        """Replace an OAuth client's secret. The response is the only one that contains the new secret.

        The previous secret stays valid for `overlap_seconds`, by default one day, so that you can update the client.
        """
        return await self._clients.regenerate_secret(app_id, call.actor, client_id, body.overlap_seconds)

    @delete("/v1/apps/:app_id/oauth/clients/:client_id", access=Access.APP_EDITOR, errors=[OAuthClientNotFoundError])
    async def delete(self, call: Call, app_id: UUID, client_id: str) -> DeletedClient:
        """Delete an OAuth client."""
        await self._clients.delete(app_id, call.actor, client_id)
        return DeletedClient("OAuth client deleted.", client_id)


def _scope_name(text: str) -> str:
    try:
        return msgspec.convert(text, ScopeName)
    except msgspec.ValidationError:
        raise invalid(
            "name", "A scope's name is 1 to 64 printable ASCII characters, without spaces, quotes or \\."
        ) from None


class LogoEndpoints(Endpoints, tag="OAuth"):
    """The pictures of clients."""

    def __init__(self, logos: Logos) -> None:
        self._logos = logos

    @put(
        "/v1/apps/:app_id/oauth/clients/:client_id/logo",
        access=Access.APP_EDITOR,
        errors=[InvalidLogoError, PayloadTooLargeError, OAuthClientNotFoundError, DynamicClientError],
    )
    async def put(self, call: Call, app_id: UUID, client_id: str, body: AsyncIterator[bytes]) -> RegisteredClient:
        """Replace an OAuth client's logo by an image as PNG, JPEG, GIF or WebP, of at most 1 MB.

        The server encodes it again, with at most 256 pixels on each side. Members see it on the consent page.
        """
        return await self._logos.put(app_id, call.actor, client_id, body)

    @delete(
        "/v1/apps/:app_id/oauth/clients/:client_id/logo",
        access=Access.APP_EDITOR,
        errors=[LogoNotFoundError],
    )
    async def delete(self, call: Call, app_id: UUID, client_id: str) -> DeletedClient:
        """Delete an OAuth client's logo."""
        await self._logos.delete(app_id, call.actor, client_id)
        return DeletedClient("Logo deleted.", client_id)

    @get(
        "/v1/public/oauth/clients/:client_id/logo",
        access=Access.OPEN,
        returns=bytes,
        media_type="*/*",
        errors=[LogoNotFoundError],
    )
    async def read(self, call: Call, client_id: str, query: LogoQuery) -> Reply:
        """Read an OAuth client's logo, as WebP."""
        return Reply(await self._logos.image(client_id), headers=HEADERS, content_type=b"image/webp")


class GrantEndpoints(Endpoints, tag="OAuth"):
    """The grants of an app, and the keys that sign its tokens."""

    def __init__(self, grants: Grants, keys: SigningKeys) -> None:
        self._grants = grants
        self._keys = keys

    @get("/v1/apps/:app_id/oauth/grants", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: GrantQuery) -> ItemPage[IssuedGrant]:
        """List the app's grants, newest first: which client may act for which member.

        A grant stays in the list for one day after it has ended.
        """
        return await self._grants.page(call.app, query)

    @delete("/v1/apps/:app_id/oauth/grants/:grant_id", access=Access.APP_EDITOR, errors=[OAuthGrantNotFoundError])
    async def revoke(self, call: Call, app_id: UUID, grant_id: UUID) -> Deleted:
        """Revoke a grant with its code and its tokens.

        The client is notified that the member's session has ended, if it has a `backchannel_logout_uri`. The member's
        consent stays, so the next sign-in needs no new one.
        """
        await self._grants.revoke(app_id, call.actor, grant_id)
        return Deleted("Grant revoked.", grant_id)

    @post("/v1/apps/:app_id/oauth/keys", access=Access.APP_OWNER, status=201, errors=[SigningKeyExistsError])
    async def create_key(self, call: Call, app_id: UUID) -> ShownKey:
        """Create the server's first key, which signs the tokens of all apps from now on.

        Only the operator replaces it, with `pilotis oauth keys rotate`.
        """
        return await self._keys.create(call.actor)

    @get("/v1/apps/:app_id/oauth/keys", access=Access.APP_VIEWER)
    async def keys(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[ShownKey]:
        """List the keys that sign and verify the tokens of all apps on this server.

        Only the operator replaces them, with `pilotis oauth keys rotate`, because a rotation affects every app.
        """
        found = await self._keys.all()
        limit = call.app.limits.page_size(query.limit)
        page = found[query.offset : query.offset + limit]
        return ItemPage(data=page, total_count=len(found), limit=limit, offset=query.offset)
