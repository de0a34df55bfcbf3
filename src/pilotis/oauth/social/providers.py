"""The providers of social login that an app has set up."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import msgspec

from pilotis.apps.service import Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.oauth.flow.types import LoginProvider
from pilotis.oauth.https import is_loopback_url
from pilotis.oauth.social import store
from pilotis.oauth.social.client import Account
from pilotis.oauth.social.errors import TooManySocialProvidersError
from pilotis.oauth.social.id_tokens import apple_secret
from pilotis.oauth.social.types import ProviderOptions, SocialProvider, SocialProviderChange
from pilotis.oauth.social.vendors import VendorError, vendor_of
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,31}")
_MAX_PROVIDERS = 50


class SocialProviderNotFoundError(NotFoundError):
    """404: the app has not set up this provider of social login."""

    code = "SOCIAL_PROVIDER_NOT_FOUND"
    message = "The app has not set up this provider."


class SocialProviders:
    """Sets up providers; `issuer` is the server's address."""

    def __init__(self, database: Database, apps: Apps, secrets: Secrets, issuer: str) -> None:
        self._database = database
        self._apps = apps
        self._secrets = secrets
        self._issuer = issuer

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[SocialProvider]:
        """Return a page of an app's providers, by name."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.providers(self._database, app.app_id, limit, paging.offset)
        return ItemPage(data=[self._shown(row) for row in rows], total_count=total, limit=limit, offset=paging.offset)

    async def put(self, app_id: UUID, actor: Actor, name: str, change: SocialProviderChange) -> SocialProvider:
        """Set up a provider, or change the given fields."""
        if not _NAME.fullmatch(name):
            raise invalid(
                "provider",
                "The name of a provider must be an upper-case identifier of 2 to 32 characters, such as GOOGLE.",
            )
        given: dict[str, Any] = {
            field: value for field in change.__struct_fields__ if (value := getattr(change, field)) is not msgspec.UNSET
        }
        secrets = await self._secrets.app(app_id)
        async with self._apps.change(app_id) as connection:
            before = await store.provider(connection, app_id, name)
            if before is None and await store.count_providers(connection, app_id) >= _MAX_PROVIDERS:
                raise TooManySocialProvidersError
            fields: dict[str, Any] = {
                "client_id": None,
                "client_secret": None,
                "scopes": [],
                "client_ids": [],
                "is_enabled": True,
            }
            if before is not None:
                fields |= msgspec.structs.asdict(before)
            options = _options(before)
            if "options" in given:
                options = given["options"]
            self._check(name, {**fields, **given}, options, given.get("client_secret") or None)
            fields |= given
            if given.get("client_secret"):
                secret = given["client_secret"].encode()
                fields["client_secret"] = secrets.encrypt(Purpose.OAUTH_SOCIAL_SECRET, name, secret)
            fields["options"] = json.encode(options).decode()
            row = await store.put_provider(connection, app_id, name, fields)
            await self._apps.set_oauth_providers(connection, app_id, await store.enabled_names(connection, app_id))
            shown = {field: value for field, value in given.items() if field not in {"client_secret", "options"}}
            await record(
                connection, app_id, actor, "social_provider.put", name, **shown, new_secret="client_secret" in given
            )
        return self._shown(row)

    async def delete(self, app_id: UUID, actor: Actor, name: str) -> None:
        """Remove a provider; raises `SocialProviderNotFoundError`."""
        async with self._apps.change(app_id) as connection:
            if not await store.delete_provider(connection, app_id, name):
                raise SocialProviderNotFoundError
            await self._apps.set_oauth_providers(connection, app_id, await store.enabled_names(connection, app_id))
            await record(connection, app_id, actor, "social_provider.delete", name)

    async def account(self, app_id: UUID, name: str) -> Account | None:
        """Return an app's registration with an enabled provider, with its secret."""
        row = await store.enabled_provider(self._database, app_id, name)
        if row is None:
            return None
        secret = None
        if row.client_secret is not None:
            secrets = await self._secrets.app(app_id)
            secret = secrets.decrypt(Purpose.OAUTH_SOCIAL_SECRET, name, row.client_secret).decode()
        return Account(name, row.client_id, secret, row.scopes, _options(row), row.client_ids)

    def redirect_uri(self, name: str) -> str:
        """Return the URL to which a vendor redirects the browser."""
        return f"{self._issuer}/v1/public/oauth/{name.lower()}/callback"

    def _check(self, name: str, fields: dict[str, Any], options: ProviderOptions, new_secret: str | None) -> None:
        kind = vendor_of(name).kind
        if not fields["client_id"]:
            raise invalid("client_id", "A new provider needs the client_id from its vendor.")
        if fields["client_secret"] is None and kind != "oidc":
            raise invalid("client_secret", "A new provider needs the client_secret from its vendor.")
        if kind == "oidc" and options.issuer is None:
            raise invalid("options.issuer", "A provider that is not built in needs an issuer.")
        if kind != "oidc" and (options.issuer is not None or options.trust_email):
            raise invalid("options", "issuer and trust_email are only for providers that are not built in.")
        if fields["client_ids"] and not vendor_of(name).gives_id_tokens:
            raise invalid("client_ids", "client_ids are for providers with ID tokens, which this one does not give.")
        if options.issuer is not None and not options.issuer.startswith("https://"):
            self._require_loopback("options.issuer", "An issuer must begin with https://.")
        if kind == "apple":
            if options.team_id is None or options.key_id is None:
                raise invalid("options", "Apple needs team_id and key_id.")
            if new_secret is not None:
                _check_apple_key(new_secret)
        if options.endpoints is not None:
            self._require_loopback("options.endpoints", "Custom endpoints are only for tests on loopback.")
            if kind == "oidc":
                raise invalid("options.endpoints", "An issuer's endpoints come from its discovery document.")

    def _require_loopback(self, field: str, sentence: str) -> None:
        if not is_loopback_url(self._issuer):
            raise invalid(field, sentence)

    def _shown(self, row: store.StoredProvider) -> SocialProvider:
        name = row.provider
        return SocialProvider(
            provider=name,
            kind=vendor_of(name).kind,
            client_id=row.client_id,
            has_secret=row.client_secret is not None,
            scopes=row.scopes,
            client_ids=row.client_ids,
            is_enabled=row.is_enabled,
            options=_options(row),
            redirect_uri=self.redirect_uri(name),
            created_at=rfc3339(row.created_at),
            updated_at=rfc3339(row.updated_at),
        )


async def enabled_providers(database: Database, app_id: UUID) -> list[LoginProvider]:
    """Return the providers with which an app's members may sign in."""
    rows = await store.enabled(database, app_id)
    return [LoginProvider(row.provider, vendor_of(row.provider, name=_options(row).name).name) for row in rows]


def _options(row: store.EnabledProvider | None) -> ProviderOptions:
    return ProviderOptions() if row is None else msgspec.json.decode(row.options, type=ProviderOptions)


def _check_apple_key(secret: str) -> None:
    try:
        apple_secret(secret, team_id="team", key_id="key", client_id="client")
    except VendorError as error:
        raise invalid("client_secret", str(error)) from None
