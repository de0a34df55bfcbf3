"""The provider of an app's models: its settings, and requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, invalid
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.workflows import ai_provider_store
from pilotis.workflows.types import AiProvider, AiProviderSettings, ModelPrice

MAX_ANSWER_BYTES = 4 * 2**20
_TRIES = 4
_MAX_WAIT = 30.0
_REQUEST_SECONDS = 120.0
_MAX_TEXT = 500
_TRIED_AGAIN = frozenset({408, 429})


class ProviderFailedError(Exception):
    """The provider gave no answer; the message says why, without the key."""


class Provider(NamedTuple):
    """An app's provider, with its secrets."""

    base_url: str
    api_key: str | None
    headers: Mapping[str, str]
    default_model: str | None
    prices: Mapping[str, ModelPrice]

    def masked(self, text: str) -> str:
        """Return a text of the provider's, cut, without the secrets that it may repeat."""
        for secret in (self.api_key, *self.headers.values()):
            if secret:
                text = text.replace(secret, "…")
        return text[:_MAX_TEXT]


class AiProviders:
    """The providers of apps."""

    def __init__(self, database: Database, secrets: Secrets, outgoing: Callable[[], Outgoing]) -> None:
        self._database = database
        self._secrets = secrets
        self._outgoing = outgoing

    async def read(self, app: AppInfo) -> AiProvider:
        """Return an app's provider without its secrets; all is null if it has none."""
        row = await ai_provider_store.read(self._database.of(app.app_id), app.app_id)
        if row is None:
            return AiProvider(base_url=None, has_api_key=False, default_model=None, header_names=[], prices={})
        return AiProvider(
            base_url=row.base_url,
            has_api_key=row.api_key is not None,
            default_model=row.default_model,
            header_names=row.header_names,
            prices=_prices(row.prices),
        )

    async def put(self, app: AppInfo, actor: Actor, new: AiProviderSettings) -> AiProvider:
        """Set an app's provider; a key that is absent stays, unless the address is another one."""
        try:
            await self._outgoing().check(new.base_url, reach=Reach.SERVER, tenant=app.app_id)
        except OutgoingError as error:
            raise invalid("base_url", f"base_url: {error}", error.failure.value) from None
        secrets, app_id = await self._secrets.app(app.app_id), app.app_id
        async with self._database.transaction(app_id) as connection:
            row = await ai_provider_store.read(connection, app_id)
            if new.api_key is not msgspec.UNSET:
                key = new.api_key and secrets.encrypt(Purpose.AI_PROVIDER, "api_key", new.api_key.encode())
            else:
                # A user who can change the address must not be able to have the key sent there.
                key = row.api_key if row is not None and row.base_url == new.base_url else None
            values: dict[str, Any] = {
                "base_url": new.base_url,
                "api_key": key or None,
                "headers": secrets.encrypt(Purpose.AI_PROVIDER, "headers", json.encode(new.headers)),
                "header_names": sorted(new.headers),
                "default_model": new.default_model,
                "prices": json.encode(new.prices).decode(),
            }
            await ai_provider_store.put(connection, app_id, values)
            await record(connection, app_id, actor, "ai_provider.put", app_id, base_url=new.base_url)
        return await self.read(app)

    async def delete(self, app: AppInfo, actor: Actor) -> None:
        """Delete an app's provider with its key."""
        async with self._database.transaction(app.app_id) as connection:
            await ai_provider_store.delete(connection, app.app_id)
            await record(connection, app.app_id, actor, "ai_provider.delete", app.app_id)

    async def of(self, app_id: UUID) -> Provider | None:
        """Return an app's provider with its secrets."""
        row = await ai_provider_store.read(self._database.of(app_id), app_id)
        if row is None:
            return None
        secrets = await self._secrets.app(app_id)
        key = row.api_key
        return Provider(
            base_url=row.base_url,
            api_key=None if key is None else secrets.decrypt(Purpose.AI_PROVIDER, "api_key", key).decode(),
            headers=msgspec.json.decode(secrets.decrypt(Purpose.AI_PROVIDER, "headers", row.headers)),
            default_model=row.default_model,
            prices=_prices(row.prices),
        )

    async def complete(self, provider: Provider, body: dict[str, Any]) -> dict[str, Any]:
        """Return the provider's answer to a chat completion; raises `ProviderFailedError`.

        A busy or failing provider is asked up to four times, after the time that it asks for.
        """
        headers = {"Content-Type": "application/json", "Accept": "application/json", **provider.headers}
        if provider.api_key is not None:
            headers["Authorization"] = f"Bearer {provider.api_key}"
        request = OutgoingRequest(
            url=f"{provider.base_url.rstrip('/')}/chat/completions", headers=headers, body=json.encode(body)
        )
        for number in range(1, _TRIES + 1):
            wait = min(_MAX_WAIT, 2.0 ** (number - 1))
            try:
                answer = await self._outgoing().send(
                    request,
                    reach=Reach.SERVER,
                    seconds=_REQUEST_SECONDS,
                    max_bytes=MAX_ANSWER_BYTES,
                    tenant=provider.base_url,
                )
            except OutgoingError as error:
                raise ProviderFailedError(f"The provider could not be asked: {error}") from None
            if answer.status < 300:
                return _decoded(answer.body, is_truncated=answer.is_truncated)
            again = answer.status in _TRIED_AGAIN or answer.status >= 500
            if not again or number == _TRIES:
                text = provider.masked(answer.body[: 8 * _MAX_TEXT].decode(errors="replace").replace("\0", "\ufffd"))
                raise ProviderFailedError(f"The provider answered {answer.status}: {text}")
            asked = answer.header("retry-after") or ""
            await asyncio.sleep(min(_MAX_WAIT, float(asked)) if asked.isascii() and asked.isdigit() else wait)
        raise AssertionError


def _decoded(body: bytes, *, is_truncated: bool) -> dict[str, Any]:
    if is_truncated:
        raise ProviderFailedError(f"The provider's answer has more than {MAX_ANSWER_BYTES} bytes.")
    try:
        value = json.decode(body)
    except PilotisError:
        value = None
    if not isinstance(value, dict) or json.has_nul(value):
        raise ProviderFailedError("The provider's answer is not JSON that can be stored.")
    return value


def _prices(text: str) -> dict[str, ModelPrice]:
    return msgspec.json.decode(text, type=dict[str, ModelPrice])
