"""An app's settings as a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps.service import Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, Role, RoleRequiredError
from pilotis.kit.account_settings import is_listed
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.oauth import settings_store as store
from pilotis.oauth.clients import Clients, require_scopes
from pilotis.oauth.records import StoredSettings
from pilotis.oauth.redirect_uris import check_redirect_uri, origin_of
from pilotis.oauth.resources import ResourceProofs, ResourceTakenError, check_resource, normal_resource, own_resources
from pilotis.oauth.types import OAuthSettings, OAuthSettingsChange, ProtectedResource
from pilotis.security.audit.service import record

_OWNERS = ("consent_url", "login_redirect_uris", "link_by_verified_email")
CONSENT_KEY_NAME = "OAuth consent page"

_INITIAL = OAuthSettings(
    is_provider=False,
    access_token_seconds=600,
    refresh_idle_days=30,
    refresh_absolute_days=365,
    consent_url=None,
    login_redirect_uris=[],
    dpop_nonce="offered",
    link_by_verified_email=False,
    resources=[],
    dynamic_clients=False,
    dynamic_scopes=[],
    first_party_client_id=None,
    public_key=None,
    updated_at=None,
)


class ProviderSettings:
    """Reads and changes the provider settings of apps; `issuer` is the server's address."""

    def __init__(self, database: Database, apps: Apps, clients: Clients, proofs: ResourceProofs, issuer: str) -> None:
        self._database = database
        self._apps = apps
        self._clients = clients
        self._proofs = proofs
        self._issuer = issuer

    async def page_fault(self, app_id: UUID, url: str) -> str | None:
        """Return why mails of an app must not lead to a page, a sentence; None if it is one of the app's."""
        try:
            check_redirect_uri(url, is_public=False, is_page=True)
        except ValueError as error:
            return str(error)
        row = await store.settings(self._database, app_id)
        if row is None or not is_listed(url, row.login_redirect_uris):
            return "a page with the origin of one of the app's login_redirect_uris is expected."
        return None

    async def read(self, app_id: UUID) -> OAuthSettings:
        """Return an app's settings."""
        row = await store.settings(self._database, app_id)
        return _INITIAL if row is None else _shown(row)

    async def resource(self, app_id: UUID, *, is_mcp: bool = False) -> ProtectedResource:
        """Return the metadata of an app's API, or of its MCP server.

        Raises `NotFoundError` if the app is not a provider.
        """
        row = await store.provider(self._database, app_id)
        if row is None:
            raise NotFoundError
        return ProtectedResource(
            resource=own_resources(self._issuer, app_id)[is_mcp],
            resource_name=row.name,
            authorization_servers=[self._issuer],
            scopes_supported=row.scopes,
            bearer_methods_supported=["header"],
            jwks_uri=f"{self._issuer}/.well-known/jwks.json",
        )

    async def change(self, app_id: UUID, actor: Actor, role: Role | None, change: OAuthSettingsChange) -> OAuthSettings:
        """Change an app's settings.

        When an app becomes a provider, it gets a first-party client for its own site and a public key for the consent
        page. Raises `RoleRequiredError` if a role below owner changes where members' tokens may be sent,
        `ResourceNotProvenError` for a new resource without a proof, and `ResourceTakenError`.
        """
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        if role is not Role.OWNER and any(name in given for name in _OWNERS):
            raise RoleRequiredError(f"Only owners may change {', '.join(_OWNERS)}.")
        _check(given, self._issuer)
        await self._prove(app_id, given.get("resources", []))
        async with self._apps.change(app_id) as connection:
            before = await store.lock_settings(connection, app_id)
            fields = {**msgspec.structs.asdict(before), **given}
            if fields["is_provider"]:
                if fields["consent_url"] != before.consent_url:
                    fields["public_key"] = None  # The existing key may not be allowed on the new page's origin.
                fields |= await self._equipment(connection, app_id, actor, fields)
            if "resources" in given:
                normal = [normal_resource(one) for one in given["resources"]]
                if not await store.claim_resources(connection, app_id, normal):
                    raise ResourceTakenError
            await require_scopes(connection, app_id, given.get("dynamic_scopes", []), "dynamic_scopes")
            row = await store.update_settings(connection, app_id, fields)
            await record(connection, app_id, actor, "oauth_settings.update", app_id, **given)
        return _shown(row)

    async def _prove(self, app_id: UUID, resources: Sequence[str]) -> None:
        """Raise `ResourceNotProvenError` unless each resource that the app does not have yet has a proof."""
        known = (await self.read(app_id)).resources if resources else []
        try:
            async with asyncio.TaskGroup() as fetching:
                for resource in resources:
                    if resource not in known:
                        fetching.create_task(self._proofs.require(resource, app_id))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _equipment(
        self, connection: Connection, app_id: UUID, actor: Actor, fields: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the first-party client and the consent page's key, creating those that do not exist."""
        client_id, key = fields["first_party_client_id"], fields["public_key"]
        if client_id is None:
            client_id = await self._clients.create_first_party(connection, app_id, actor)
        pages = dict.fromkeys(origin_of(url) for url in (self._issuer, fields["consent_url"]) if url)
        if not await store.is_key_in_force(connection, app_id, key):
            key = await self._apps.create_public_key(connection, app_id, CONSENT_KEY_NAME, list(pages))
        return {"first_party_client_id": client_id, "public_key": key}


def _check(given: dict[str, Any], issuer: str) -> None:
    if given.get("consent_url") is not None:
        _check_page("consent_url", given["consent_url"])
    for index, uri in enumerate(given.get("login_redirect_uris", ())):
        _check_page(f"login_redirect_uris[{index}]", uri)
    resources = given.get("resources", [])
    for index, resource in enumerate(resources):
        try:
            check_redirect_uri(resource, is_public=False)
            check_resource(resource, issuer)
        except ValueError as error:
            raise invalid(f"resources[{index}]", str(error).replace("A redirect URI", "A resource")) from None
    if len({normal_resource(one) for one in resources}) < len(resources):
        raise invalid("resources", "resources contains a duplicate.")


def _check_page(field: str, uri: str) -> None:
    try:
        check_redirect_uri(uri, is_public=False, is_page=True)
    except ValueError as error:
        raise invalid(field, str(error)) from None


def _shown(row: StoredSettings) -> OAuthSettings:
    return OAuthSettings(
        is_provider=row.is_provider,
        access_token_seconds=row.access_token_seconds,
        refresh_idle_days=row.refresh_idle_days,
        refresh_absolute_days=row.refresh_absolute_days,
        consent_url=row.consent_url,
        login_redirect_uris=row.login_redirect_uris,
        dpop_nonce=row.dpop_nonce,
        link_by_verified_email=row.link_by_verified_email,
        resources=row.resources,
        dynamic_clients=row.dynamic_clients,
        dynamic_scopes=row.dynamic_scopes,
        first_party_client_id=row.first_party_client_id,
        public_key=row.public_key,
        updated_at=rfc3339(row.updated_at),
    )
