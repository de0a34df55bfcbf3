"""The routes of unique keys."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.data.keys.service import (
    KeyExistsError,
    KeyNotFoundError,
    NotForUniqueError,
    RowsNotUniqueError,
    UniqueKeys,
)
from pilotis.data.keys.types import UniqueKeyList
from pilotis.data.tables.service import TableBusyError, TableNotFoundError
from pilotis.data.tables.types import NewUniqueKey, ShownUniqueKey, TableResult
from pilotis.data.tables.values import UnknownColumnError
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Whole
from pilotis.http.replies.reply import Reply
from pilotis.kit import json

_KEYS = "/v1/apps/:app_id/tables/:table_id/unique"


class UniqueKeyEndpoints(Endpoints, tag="Unique keys"):
    """Unique keys: columns whose values no two rows of a table share."""

    def __init__(self, keys: UniqueKeys) -> None:
        self._keys = keys

    @get(_KEYS, access=console(Role.VIEWER, secret_key=True), errors=[TableNotFoundError])
    async def list(self, call: Call, app_id: UUID, table_id: UUID, query: Whole) -> UniqueKeyList:
        """List a table's unique keys."""
        return await self._keys.list(call.app, table_id)

    @post(
        _KEYS,
        access=console(Role.EDITOR, secret_key=True),
        status=201,
        creates="name",
        again="created",
        returns=ShownUniqueKey,
        other_statuses=(202,),
        errors=[
            TableNotFoundError,
            UnknownColumnError,
            NotForUniqueError,
            KeyExistsError,
            RowsNotUniqueError,
            TableBusyError,
        ],
    )
    async def create(self, call: Call, app_id: UUID, table_id: UUID, body: NewUniqueKey) -> Reply:
        """Create a unique key; from then on a row that another one forbids is answered 409 `UNIQUE_VIOLATION`.

        If rows have the same values already, nothing is changed, and `details` names five pairs. In a table with more
        rows than `column_migration_rows` the answer is 202 and the key is built in the background: until its `state` is
        gone it may forbid rows, and if rows are not unique the `state` is `failed`, which another request tries again.
        """
        key = await self._keys.create(call.app, call.actor, table_id, body)
        return Reply(json.encode(key), 201 if key.state is msgspec.UNSET else 202)

    async def created(self, call: Call, app_id: UUID, table_id: UUID, body: NewUniqueKey) -> ShownUniqueKey:
        """Return the answer for a created key."""
        return await self._keys.like(call.app, table_id, body)

    @delete(
        f"{_KEYS}/:name",
        access=console(Role.EDITOR, secret_key=True),
        errors=[TableNotFoundError, KeyNotFoundError, TableBusyError],
    )
    async def remove(self, call: Call, app_id: UUID, table_id: UUID, name: str) -> TableResult:
        """Delete a unique key. The rows stay as they are."""
        await self._keys.remove(call.app, call.actor, table_id, name)
        return TableResult("Unique key deleted.", table_id)
