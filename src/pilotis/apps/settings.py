"""An app's settings: how its members sign in, and the limits that hold for it."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Record

from pilotis.apps import store
from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.apps.types import AppLimits, AuthSettings, Limit
from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo
from pilotis.kit import json
from pilotis.kit.errors import invalid
from pilotis.limits import PER_APP, Limits, for_app

_PROVIDER = re.compile(r"[A-Z][A-Z0-9_]*")


class AppSettings:
    """Reads and changes the settings of an app."""

    def __init__(self, database: Database, apps: Apps, limits: Limits) -> None:
        self._database = database
        self._apps = apps
        self._limits = limits

    def auth(self, app: AppInfo) -> AuthSettings:
        """Return how an app's members may sign in."""
        return AuthSettings(app.allow_id_password_login, app.allow_guest_login, app.enabled_oauth_providers)

    async def change_auth(self, app_id: UUID, actor: Actor, settings: AuthSettings) -> AuthSettings:
        """Put auth settings in place of the app's, and return them; a provider given twice is kept once."""
        providers = _providers(settings.enabled_oauth_providers)
        settings = msgspec.structs.replace(settings, enabled_oauth_providers=providers)
        async with self._apps.change(app_id) as connection:
            await store.update_auth_settings(
                connection, app_id, settings.allow_id_password_login, settings.allow_guest_login, providers
            )
            await record(connection, app_id, actor, "auth_settings.update", app_id, **msgspec.structs.asdict(settings))
        return settings

    async def limits(self, app_id: UUID) -> AppLimits:
        """Return the limits in force for an app."""
        row = await store.read_app(self._database, app_id)
        if row is None:
            raise AppNotFoundError
        return self._app_limits(row)

    async def change_limits(self, app_id: UUID, actor: Actor, change: msgspec.Struct) -> AppLimits:
        """Set limits of an app's own, or take them away, and return those in force. `change` is a `LimitChange`."""
        given: dict[str, Any] = {
            name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET
        }
        own = {name: value for name, value in given.items() if value is not None}
        async with self._apps.change(app_id) as connection:
            row = await store.update_limits(
                connection, app_id, json.encode(own).decode(), [name for name in given if name not in own]
            )
            _check(for_app(self._limits, _own(row)))
            await record(connection, app_id, actor, "limits.update", app_id, **given)
        return self._app_limits(row)

    def _app_limits(self, row: Record) -> AppLimits:
        own = _own(row)
        server = msgspec.structs.asdict(self._limits)
        in_force = msgspec.structs.asdict(for_app(self._limits, own))
        return AppLimits(
            {
                name: Limit(value, server[name], name in own and name in PER_APP, name in PER_APP)
                for name, value in in_force.items()
            }
        )


def _providers(names: list[str]) -> list[str]:
    for index, name in enumerate(names):
        if not _PROVIDER.fullmatch(name):
            raise invalid(
                f"enabled_oauth_providers[{index}]", "A provider is an upper-case identifier, such as GOOGLE."
            )
    return list(dict.fromkeys(names))


def _own(row: Record) -> dict[str, int]:
    own: dict[str, int] = json.decode(row["limits"].encode())
    return own


def _check(limits: Limits) -> None:
    if limits.password_min_length > limits.password_max_length:
        most = limits.password_max_length
        raise invalid("password_min_length", f"A password has at most {most} characters on this server.")
