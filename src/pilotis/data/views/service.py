"""Views: saving them, and keeping what they name."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.query.aggregate.joins import every_join
from pilotis.data.query.aggregate.pipeline import compile_pipeline
from pilotis.data.rows.table import PreparedTables
from pilotis.data.rules import of_member
from pilotis.data.rules.actions import Action
from pilotis.data.rules.types import RuleFinding
from pilotis.data.rules.visibility import everything
from pilotis.data.tables import store as tables_store
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.views import names, store
from pilotis.data.views.parameters import check_definitions, samples, substituted
from pilotis.data.views.store import Definition, Saved
from pilotis.data.views.types import NewView, Parameters, View, ViewChange, ViewList
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, MemberInfo
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import ConflictError, NotFoundError, PilotisError, invalid
from pilotis.limits import Limits
from pilotis.security.audit.service import record

_MAX_BYTES = 64 * 1024
# A view was checked when it was saved, when limits may have been others.
_LIMITS = Limits(aggregate_stages=10_000, where_conditions=10_000, where_depth=100, where_list_values=100_000)
_NEW_MEMBER = MemberInfo("", UUID(int=0), is_guest=False)


class ViewNotFoundError(NotFoundError):
    """404 `VIEW_NOT_FOUND`: the app has no such view."""

    code = "VIEW_NOT_FOUND"
    message = "The app has no such view."


class ViewNameTakenError(ConflictError):
    """409 `VIEW_NAME_TAKEN`: another view of the app already has this name."""

    code = "VIEW_NAME_TAKEN"
    message = "Another view of this app already has this name."


class UsedInViewError(ConflictError):
    """409 `USED_IN_VIEW`: a saved view needs the column or the table."""

    code = "USED_IN_VIEW"

    def __init__(self, views: Sequence[str]) -> None:
        what = "The view" if len(views) == 1 else "The views"
        super().__init__(
            f"{what} {', '.join(views)} would not work without this. Change or delete what needs it first."
        )


class Views:
    """Saves views. Each is read again for each call, so that a change holds for the next one on every node."""

    def __init__(self, database: Database, tables: Tables, prepared: PreparedTables) -> None:
        self._database = database
        self._prepared = prepared
        tables.guards.append(_require_named)

    async def all(self, app: AppInfo) -> ViewList:
        """Return an app's views with today's names."""
        saved = await store.all_of(self._database.of(app.app_id), app.app_id)
        if not saved:
            return ViewList([])
        tables = await _tables(self._database, app.app_id)
        return ViewList([_shown(one, tables) for one in saved])

    async def read(self, app: AppInfo, view_id: UUID) -> View:
        """Return a view with today's names; raises `ViewNotFoundError`."""
        saved = await store.by_id(self._database.of(app.app_id), app.app_id, view_id)
        if saved is None:
            raise ViewNotFoundError
        return _shown(saved, await _tables(self._database, app.app_id))

    async def create(self, app: AppInfo, actor: Actor, view_id: UUID, new: NewView) -> None:
        """Save a new view; raises a 400 error that names the place."""
        table_id = await self._prepared.id_of(app, new.table_id)
        async with _unique_name(), self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            if await store.count(connection, app.app_id) >= app.limits.views:
                raise ConflictError(f"An app has at most {app.limits.views} views.")
            definition = await _checked(connection, app, table_id, new)
            await store.insert(connection, app.app_id, view_id, definition)
            await record(connection, app.app_id, actor, "view.create", view_id, **_audited(definition))

    async def change(self, app: AppInfo, actor: Actor, view_id: UUID, change: ViewChange) -> None:
        """Change a view; raises `ViewNotFoundError`, and a 400 error that names the place."""
        moved = None
        if change.table_id is not msgspec.UNSET:
            moved = await self._prepared.id_of(app, change.table_id)
        async with _unique_name(), self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            saved = await store.by_id(connection, app.app_id, view_id)
            if saved is None:
                raise ViewNotFoundError
            now = _shown(saved, await _tables(connection, app.app_id))
            given = {
                name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET
            }
            kept = {field: getattr(now, field) for field in NewView.__struct_fields__}
            wanted = NewView(**(kept | given | {"table_id": ""}))
            definition = await _checked(connection, app, moved or saved.table_id, wanted)
            await store.lock(connection, app.app_id, view_id)
            await store.update(connection, app.app_id, view_id, definition)
            await record(connection, app.app_id, actor, "view.update", view_id, **_audited(definition))

    async def delete(self, app: AppInfo, actor: Actor, view_id: UUID) -> None:
        """Delete a view; raises `ViewNotFoundError`."""
        async with self._database.transaction(app.app_id) as connection:
            name = await store.delete(connection, app.app_id, view_id)
            if name is None:
                raise ViewNotFoundError
            await record(connection, app.app_id, actor, "view.delete", view_id, name=name)

    async def exposed(self, app: AppInfo) -> list[RuleFinding]:
        """Return what the views that read as the app show to whom."""
        saved = await store.all_of(self._database.of(app.app_id), app.app_id)
        anybody = app.allow_id_password_login or app.allow_guest_login
        return [_exposed(view, anybody=anybody) for view in saved if view.run_as == "app"]


@asynccontextmanager
async def _unique_name() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "view_name_unique":
            raise ViewNameTakenError from None
        raise


async def _tables(database: Database | Connection, app_id: UUID) -> dict[UUID, TableSchema]:
    connection = database.of(app_id) if isinstance(database, Database) else database
    return {row.schema.table_id: row.schema for row in await tables_store.live_tables(connection, app_id)}


async def _checked(connection: Connection, app: AppInfo, table_id: UUID, new: NewView) -> Definition:
    """Return a view as it is stored; raises a 400 error that names the place. The app must be locked.

    The tables that it reads are locked, so that none of their columns is dropped meanwhile: whoever comes first is
    seen by the other.
    """
    limits = app.limits
    if len(json.encode([new.pipeline, new.params])) > _MAX_BYTES:
        raise invalid("pipeline", f"The pipeline of a view and its params have at most {_MAX_BYTES} bytes.")
    check_definitions(new.params, limits)
    read = new.read
    if read is msgspec.UNSET:
        if new.run_as == "app":
            raise invalid("read", "A view that reads as the app says who may call it: null, true or a rule.")
        read = True
    of_member.check(read, "read", limits)
    if new.cache_seconds and new.run_as == "caller":
        raise invalid("cache_seconds", "Answers are cached where all callers get the same: with run_as app, else 0.")
    tables = await _tables(connection, app.app_id)
    if table_id not in tables:
        raise TableNotFoundError
    _, read_by = names.stored(_compiled(new.pipeline, new.params, tables, table_id, limits), tables[table_id], tables)
    for each in sorted(read_by):
        await tables_store.lock_table(connection, app.app_id, each)
    tables = await _tables(connection, app.app_id)
    if not read_by <= tables.keys():
        raise TableNotFoundError
    pipeline = _compiled(new.pipeline, new.params, tables, table_id, limits)
    kept, read_by = names.stored(pipeline, tables[table_id], tables)
    return Definition(
        new.name, table_id, read_by, kept, new.params, read, new.run_as, new.cache_seconds, new.description
    )


def _compiled(
    pipeline: Sequence[Any], params: Parameters, tables: Mapping[UUID, TableSchema], table_id: UUID, limits: Limits
) -> Sequence[Any]:
    """Return a pipeline that compiles with values of its parameters; raises a 400 error that names the place."""
    table = tables[table_id]
    stages = substituted(pipeline, samples(params))
    visible = everything(table, Action.LIST, shows_creator=True)
    compile_pipeline(table, stages, visible, limits, joins=every_join(table, tables, stages))
    return pipeline


async def _require_named(connection: Connection, app_id: UUID, table_id: UUID) -> None:
    """Raise `UsedInViewError` if views that read a table do not fit it any more, as it has just been changed."""
    naming = await store.naming(connection, app_id, table_id)
    if not naming:
        return
    tables = await _tables(connection, app_id)
    broken = [view.name for view in naming if not _fits(view, tables)]
    if broken:
        raise UsedInViewError(broken)


def _fits(view: Saved, tables: Mapping[UUID, TableSchema]) -> bool:
    if not set(view.table_ids) <= tables.keys():
        return False
    try:
        pipeline = names.shown(view.pipeline, tables[view.table_id], tables)
        _compiled(pipeline, view.params, tables, view.table_id, _LIMITS)
    except PilotisError:
        return False
    return True


def _shown(saved: Saved, tables: Mapping[UUID, TableSchema]) -> View:
    return View(
        id=saved.view_id,
        name=saved.name,
        table_id=saved.table_id,
        table=saved.title,
        pipeline=names.shown(saved.pipeline, tables[saved.table_id], tables),
        params=saved.params,
        read=saved.read,
        run_as=saved.run_as,
        cache_seconds=saved.cache_seconds,
        description=saved.description,
        created_at=rfc3339(saved.created_at),
        updated_at=rfc3339(saved.updated_at),
    )


def _audited(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "table_id": str(definition.table_id),
        "read": definition.read,
        "run_as": definition.run_as,
        "cache_seconds": definition.cache_seconds,
    }


def _exposed(view: Saved, *, anybody: bool) -> RuleFinding:
    what = f"View {view.name}: {{}} what it computes from all rows of {view.title}, hidden columns included."
    if of_member.allows(view.read, None):
        return RuleFinding("medium", "VIEW_AS_APP", view.table_id, what.format("the public key alone gets"))
    if of_member.allows(view.read, _NEW_MEMBER):
        who = "any member, and so anyone who signs up, gets" if anybody else "any member gets"
        return RuleFinding("medium" if anybody else "low", "VIEW_AS_APP", view.table_id, what.format(who))
    who = "nobody but the app itself gets" if view.read is None else "members whom its rule names get"
    return RuleFinding("none", "VIEW_AS_APP", view.table_id, what.format(who))
