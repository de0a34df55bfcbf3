"""The routes of unique keys."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.keys.examples import EXAMPLES
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

_KEYS = "/v1/apps/:app_id/tables/:table_id/unique"


class UniqueKeyEndpoints(Endpoints, tag="Unique keys", examples=EXAMPLES):
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
        errors=[
            TableNotFoundError,
            UnknownColumnError,
            NotForUniqueError,
            KeyExistsError,
            RowsNotUniqueError,
            TableBusyError,
        ],
    )
    async def create(self, call: Call, app_id: UUID, table_id: UUID, body: NewUniqueKey) -> ShownUniqueKey:
        """Create a unique key; from then on a row that another one forbids is answered 409 `UNIQUE_VIOLATION`.

        If rows have the same values already, nothing is changed, and `details` names five pairs.
        """
        return await self._keys.create(call.app, call.actor, table_id, body)

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
