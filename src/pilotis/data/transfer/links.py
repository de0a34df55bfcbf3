"""Links that start one export without a header, for browsers, which cannot add one to a download.

A link is bound to the console user who created it: the role that counts is the one that the user has when it is used.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import msgspec

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.data.rows.bulk.service import BulkRows
from pilotis.data.transfer.formats import Format
from pilotis.data.transfer.types import ExportLink, ExportLinkRequest, ExportOptions
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, AppUser, InvalidTokenError, Role
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.security import single_use
from pilotis.users.service import UserInactiveError, Users

LINK_LIFETIME = timedelta(seconds=60)
LINK_PREFIX = "ex_"
_PURPOSE = "export"


class ExportLinkInvalidError(NotFoundError):
    """404: the link is unknown, has been used, or has expired, or its user has lost access to the app."""

    code = "EXPORT_LINK_INVALID"
    message = "The link is unknown, was used before, or is older than a minute. Start the export again."


class LinkedExport(msgspec.Struct, frozen=True):
    """What a link exports, and for whom."""

    table_id: UUID
    user_id: UUID
    format: str
    own_fields: bool
    neutralise_formulas: bool


class FoundExport(msgspec.Struct, frozen=True):
    """An export that a link has started."""

    app: AppInfo
    actor: Actor
    table_id: UUID
    options: ExportOptions


class ExportLinks:
    """Creates links, and finds what they export."""

    def __init__(self, database: Database, rows: BulkRows, apps: Apps, users: Users, base_url: str) -> None:
        self._database = database
        self._rows = rows
        self._apps = apps
        self._users = users
        self._base_url = base_url

    async def create(self, principal: AppUser, table_id: UUID, wanted: ExportLinkRequest) -> ExportLink:
        """Return a link for the user; raises a 404 error if the table does not exist."""
        app = principal.app
        await self._rows.schema(app, table_id)
        minted = single_use.mint(LINK_PREFIX, app.app_id)
        export = LinkedExport(
            table_id, principal.user.user_id, wanted.format, wanted.own_fields, wanted.neutralise_formulas
        )
        async with self._database.transaction(app.app_id) as connection:
            expires_at = await single_use.put(
                connection, app.app_id, minted, _PURPOSE, msgspec.to_builtins(export), LINK_LIFETIME
            )
        return ExportLink(f"{self._base_url}/v1/exports/{minted.text}", rfc3339(expires_at))

    async def consume(self, text: str, request_id: str) -> FoundExport:
        """Return what a link exports; raises `ExportLinkInvalidError`. It cannot be used again."""
        app_id = single_use.app_of(LINK_PREFIX, text)
        if app_id is None:
            raise ExportLinkInvalidError
        async with self._database.transaction(app_id) as connection:
            data = await single_use.consume(connection, app_id, _PURPOSE, text)
        if data is None:
            raise ExportLinkInvalidError
        export = msgspec.convert(data, LinkedExport)
        try:
            app = await self._apps.by_id(app_id)
            await self._users.require_active(export.user_id)
        except (AppNotFoundError, InvalidTokenError, UserInactiveError):
            raise ExportLinkInvalidError from None
        role = await self._users.role_on(app_id, export.user_id)
        if role is None:
            raise ExportLinkInvalidError
        options = ExportOptions(
            format=Format(export.format),
            own_fields=export.own_fields,
            encrypted=role >= Role.EDITOR,
            neutralise_formulas=export.neutralise_formulas,
        )
        actor = Actor(AppUser.kind, str(export.user_id), request_id)
        return FoundExport(app, actor, export.table_id, options)
