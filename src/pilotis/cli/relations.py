"""What `pilotis table unique` and `pilotis table references` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from pilotis.cli.session import Session
from pilotis.cli.transfers import table_of
from pilotis.data.keys.feature import KeysFeature
from pilotis.data.keys.service import RowsNotUniqueError
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.tables.schema import NewReference
from pilotis.data.tables.types import ColumnChange, NewUniqueKey, ShownReference, ShownUniqueKey
from pilotis.http.api.principals import OPERATOR
from pilotis.serve.errors import CommandError


class Referring(NamedTuple):
    """A column that refers to rows or to members."""

    table: str
    column: str
    reference: ShownReference


async def keys_of(on: Session, app_id: UUID, name: str) -> Sequence[ShownUniqueKey]:
    """Return the unique keys of a table; raises `CommandError` if the app has no such table."""
    app, table_id = await table_of(on, app_id, name)
    return (await on.features.get(KeysFeature).keys.list(app, table_id)).unique


async def add_key(on: Session, app_id: UUID, name: str, new: NewUniqueKey) -> ShownUniqueKey:
    """Add a unique key to a table; raises `CommandError` with the ids of rows that have the same values."""
    app, table_id = await table_of(on, app_id, name)
    try:
        return await on.features.get(KeysFeature).keys.create(app, OPERATOR, table_id, new)
    except RowsNotUniqueError as error:
        pairs = ", ".join(f"{one.field}: {one.message}" for one in error.details)
        raise CommandError(f"{error.text} {pairs}") from None


async def remove_key(on: Session, app_id: UUID, name: str, key: str) -> None:
    """Remove a unique key from a table."""
    app, table_id = await table_of(on, app_id, name)
    await on.features.get(KeysFeature).keys.remove(app, OPERATOR, table_id, key)


async def references(on: Session, app_id: UUID, name: str | None) -> list[Referring]:
    """Return the columns of a table that refer to something, or those of all tables of the app."""
    app = await on.apps.by_id(app_id)
    tables = on.features.get(TablesFeature).tables
    found = await tables.all(app)
    if name is not None:
        _, table_id = await table_of(on, app_id, name)
        found = [table for table in found if table.id == table_id]
    return [
        Referring(table.title, column.name, column.references)
        for table in found
        for column in await tables.columns(app, table.id)
        if isinstance(column.references, ShownReference)
    ]


async def refer(on: Session, app_id: UUID, name: str, column: str, to: NewReference | None) -> None:
    """Let a column refer to something, or to nothing any more."""
    app, table_id = await table_of(on, app_id, name)
    change = ColumnChange(references=to)
    await on.features.get(TablesFeature).tables.change_column(app, OPERATOR, table_id, column, change)


def target(reference: ShownReference) -> str:
    """Return the words for what a column refers to."""
    if reference.table is msgspec.UNSET:
        return "members"
    return f"{reference.table} by {'id' if reference.key is msgspec.UNSET else reference.key}"
