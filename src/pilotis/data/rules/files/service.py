"""The rules of file storages: their checks, and who may do what with which files.

A file's facts are bound, and a statement of its own judges them, together with the rows that an `$exists` asks for. A
list is judged by a condition of the statement that reads it.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.data.rules import document
from pilotis.data.rules.access import needed
from pilotis.data.rules.actions import Action
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import Related, named_tables, shown, stored
from pilotis.data.rules.files import listing, presets, store
from pilotis.data.rules.files.facts import ITEM_TYPES, facts, table_of_files
from pilotis.data.rules.fold import Folded
from pilotis.data.rules.service import WAS_CHECKED, Rules, UsedInRuleError
from pilotis.data.rules.types import FileFacts, FileRuleSet, RuleWarning
from pilotis.data.rules.visibility import MemberTokenRequiredError, RuleDeniedError, Visibility, visibility
from pilotis.data.rules.warnings import BROKEN, warnings
from pilotis.data.tables import store as table_store
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import Tables
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.operands import Arguments
from pilotis.db.pool import Database, TenantDatabase
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, ForbiddenError, PilotisError, UnauthorizedError
from pilotis.kit.ids import is_uuid

Json = Any
Found = TypeVar("Found")
On = Connection | TenantDatabase

RULE_ERRORS = document.RULE_ERRORS
"""What is said of a storage's rules that are wrong."""
PRESETS = presets.PRESETS
"""What to begin with."""
_MAX_TRIES = 3
# PostgreSQL's errors for a statement that was compiled for an outdated schema of a table.
_TOO_OLD = (asyncpg.UndefinedColumnError, asyncpg.UndefinedTableError, asyncpg.DatatypeMismatchError)
_DONE = {
    Action.LIST: "list files here",
    Action.READ: "read this file",
    Action.CREATE: "create this here",
    Action.UPDATE: "replace this file",
    Action.DELETE: "delete this",
}


class FileRuleDeniedError(ForbiddenError):
    """403 `RULE_DENIED`: the storage's rules do not allow the caller to do this."""

    code = "RULE_DENIED"

    def __init__(self, action: Action) -> None:
        super().__init__(f"The rules of this storage do not let you {_DONE[action]}.")


class FileMemberRequiredError(UnauthorizedError):
    """401: the storage's rules require a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This storage requires a signed-in member: send a member's access token as Authorization: Bearer …."


class TooManyValuesAskedError(BadRequestError):
    """400 `RESULT_TOO_LARGE`: a rule would compare the files of a list with too many rows of another table."""

    code = "RESULT_TOO_LARGE"
    message = f"The rules of this storage would compare its files with more than {listing.MAX_VALUES} rows."


class Verdict(enum.Enum):
    """What a rule says of a file: it is hidden from the caller, closed to the action, or open."""

    HIDDEN = enum.auto()
    CLOSED = enum.auto()
    OPEN = enum.auto()


class RuledStorage(NamedTuple):
    """A storage with rules, in their stored form."""

    app_id: UUID
    storage_id: UUID
    name: str
    rules: Mapping[str, Json]


class Listed(NamedTuple):
    """The files of a storage that a caller may list."""

    table: TableSchema
    rule: Folded

    def source(self, item: str) -> str:
        """Return what a statement joins to have the facts of what it calls `item`."""
        return facts(item, "f")

    def condition(self, values: list[Any]) -> str:
        """Return the condition on these facts; its values are added to those of the statement."""
        if isinstance(self.rule, bool):
            return "true" if self.rule else "false"
        arguments = Arguments(*values)
        condition = compile_rule(self.rule, self.table, {}, arguments, row="f")
        values[:] = arguments.values
        return condition


class FileRules:
    """Reads and checks the rules of storages, and judges files by them."""

    def __init__(self, database: Database, tables: Tables, rules: Rules) -> None:
        self._database = database
        self._tables = tables
        self._rules = rules
        rules.others.append(self._tables_of_files)
        tables.guards.append(self._require_named)
        tables.namers.append(store.names_table)

    async def stored(
        self, connection: Connection, app: AppInfo, storage_id: UUID, name: str, document: Mapping[str, Json]
    ) -> str:
        """Return the stored form of a storage's rules as JSON; raises a 400 error that names the place.

        The app must be locked, so that no table that they name is dropped meanwhile.
        """
        related = Related.of([row.schema for row in await table_store.live_tables(connection, app.app_id)])
        table = table_of_files(app.app_id, storage_id, name, None)
        found = stored(document, table, related, app.limits, texts_are_ids=True)
        listing.check_lists(document)
        uses = [use for use in needed(storage_id, found) if use[0] != storage_id]
        for saved in self._rules.saved:
            saved(app.app_id, uses)
        return json.encode(found).decode()

    async def draft(
        self, app: AppInfo, storage_id: UUID, name: str, document: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Return the stored form of rules that are only tried; raises a 400 error that names the place."""
        related = Related.of(await self._tables.schemas(app.app_id))
        found = stored(
            document, table_of_files(app.app_id, storage_id, name, None), related, app.limits, texts_are_ids=True
        )
        listing.check_lists(document)
        return found

    async def tables_of(self, on: On, storage: RuledStorage) -> Mapping[UUID, TableSchema]:
        """Return the tables that a storage's rules name."""
        return await self._related(on, storage.app_id, named_tables(storage.rules))

    async def shown(self, storage: RuledStorage) -> tuple[FileRuleSet, list[RuleWarning]]:
        """Return a storage's rules with today's names, and what they may not have been meant to do."""
        related = Related.of(await self._tables.schemas(storage.app_id))
        table = table_of(storage)
        try:
            document = shown(storage.rules, table, related)
        except (PilotisError, KeyError):
            return FileRuleSet(), [BROKEN]
        return FileRuleSet(**document), warnings(document, table, "file")

    async def judge_reading(self, on: On, storage: RuledStorage, principal: Principal, item: FileFacts | None) -> bool:
        """Return whether there is the item and the caller may read it.

        Raises `FileMemberRequiredError` or `FileRuleDeniedError` if the rules allow nothing, also without an item.
        """
        verdicts = await self._judge(on, storage, principal, Action.READ, [] if item is None else [item])
        return verdicts == [Verdict.OPEN]

    async def judge_creation(self, on: On, storage: RuledStorage, principal: Principal, item: FileFacts) -> None:
        """Raise an error unless the rules let the caller create the item."""
        if await self._judge(on, storage, principal, Action.CREATE, [item]) != [Verdict.OPEN]:
            raise FileRuleDeniedError(Action.CREATE)

    async def judge_replacement(
        self, on: On, storage: RuledStorage, principal: Principal, before: FileFacts, after: FileFacts
    ) -> bool:
        """Return whether the caller may replace a file, and False for one that is hidden; raises an error otherwise."""
        try:
            if not await self.judge_reading(on, storage, principal, before):
                return False
        except (FileMemberRequiredError, FileRuleDeniedError):
            return False
        if await self._judge(on, storage, principal, Action.UPDATE, [before], [after]) != [Verdict.OPEN]:
            raise FileRuleDeniedError(Action.UPDATE)
        return True

    async def judge_deletion(
        self, on: On, storage: RuledStorage, principal: Principal, items: Sequence[FileFacts], top: UUID
    ) -> bool:
        """Return whether the caller may delete all items; False if `top`, the id of one, is missing or hidden.

        Raises an error for what may be seen and not deleted, and if the rules allow nothing, also without items.
        """
        verdicts = await self._judge(on, storage, principal, Action.DELETE, items)
        if not any(
            item.file_id == top and verdict is not Verdict.HIDDEN for item, verdict in zip(items, verdicts, strict=True)
        ):
            return False
        if any(verdict is not Verdict.OPEN for verdict in verdicts):
            raise FileRuleDeniedError(Action.DELETE)
        return True

    async def _judge(
        self,
        on: On,
        storage: RuledStorage,
        principal: Principal,
        action: Action,
        items: Sequence[FileFacts],
        after: Sequence[FileFacts] | None = None,
    ) -> list[Verdict]:
        async def once(tables: Mapping[UUID, TableSchema]) -> list[Verdict]:
            visible = self._visible(storage, principal, action, tables)
            if visible.is_everything and visible.after is True:
                return [Verdict.OPEN] * len(items)
            if not items:
                return []
            sql, values = _judgement(visible, items, after)
            rows = await on.fetch(sql, *values)
            return [
                Verdict.OPEN if allowed else Verdict.CLOSED if readable else Verdict.HIDDEN
                for readable, allowed in rows
            ]

        return await self._with_tables(on, storage, once)

    async def listed(self, on: On, storage: RuledStorage, principal: Principal) -> Listed:
        """Return the files that the caller may list; raises as `judge` does, and `TooManyValuesAskedError`."""

        async def once(tables: Mapping[UUID, TableSchema]) -> Listed:
            visible = self._visible(storage, principal, Action.LIST, tables)
            rule = visible.rule
            if isinstance(rule, bool):
                return Listed(visible.whole, rule)
            try:
                answers = {
                    json.encode(exists): await self._answer(on, exists, tables) for exists in listing.asked(rule)
                }
            except UnknownColumnError:
                # They name a column that was dropped in the moment when they were saved.
                return Listed(visible.whole, False)
            return Listed(visible.whole, listing.answered(rule, lambda exists: answers[json.encode(exists)]))

        return await self._with_tables(on, storage, once)

    async def _answer(self, on: On, exists: Mapping[str, Json], tables: Mapping[UUID, TableSchema]) -> dict[str, Json]:
        """Return the condition on a file that an `$exists` amounts to."""
        question = listing.question(exists, tables)
        assert question is not None, "check_lists refuses other forms"
        rows = await on.fetch(question.sql, *question.values)
        if question.key is None:
            nothing: dict[str, Json] = {"id": {"$in": []}}
            return {"$not": nothing} if rows[0][0] else nothing
        if len(rows) > listing.MAX_VALUES:
            raise TooManyValuesAskedError
        values = [value for (value,) in rows]
        if question.key == "id":
            values = [value for value in values if is_uuid(value) and str(UUID(value)) == value]
        return {question.key: {"$in": values}}

    def _visible(
        self, storage: RuledStorage, principal: Principal, action: Action, tables: Mapping[UUID, TableSchema]
    ) -> Visibility:
        table = table_of(storage)
        try:
            return visibility(principal, table, action, principal.member, tables)
        except MemberTokenRequiredError:
            raise FileMemberRequiredError from None
        except RuleDeniedError:
            raise FileRuleDeniedError(action) from None

    async def _with_tables(
        self, on: On, storage: RuledStorage, work: Callable[[Mapping[UUID, TableSchema]], Awaitable[Found]]
    ) -> Found:
        """Run what compiles statements with the tables that the rules name, again if they turn out to be outdated."""
        named = named_tables(storage.rules)
        if not named:
            return await work({})
        for attempt in range(_MAX_TRIES):
            tables = await self._related(on, storage.app_id, named)
            try:
                if isinstance(on, TenantDatabase):
                    return await work(tables)
                # A savepoint: the transaction goes on after a statement that turned out to be outdated.
                async with on.transaction():
                    return await work(tables)
            except _TOO_OLD:
                if attempt == _MAX_TRIES - 1:
                    raise
                for table in tables.values():
                    self._tables.forget(table)
        raise AssertionError

    async def _related(self, on: On, app_id: UUID, named: set[UUID]) -> dict[UUID, TableSchema]:
        """Return the tables with these ids; one that has just been dropped is left out."""
        found: dict[UUID, TableSchema] = {}
        for table_id in named:
            known = self._tables.known(app_id, table_id)
            # On the caller's connection: one that waits for a second while it holds another may wait for ever.
            if known is None and (row := await table_store.live_table(on, app_id, table_id)) is not None:
                known = row.schema
            if known is not None:
                found[table_id] = known
        return found

    async def _tables_of_files(self, app_id: UUID) -> list[TableSchema]:
        rows = await store.ruled_storages(self._database.of(app_id), app_id)
        return [table_of(ruled_storage(*row)) for row in rows]

    async def _require_named(self, connection: Connection, app_id: UUID, table_id: UUID) -> None:
        """Raise `UsedInRuleError` if rules of storages that name a table do not fit it any more."""
        naming = [
            storage
            for storage in [ruled_storage(*row) for row in await store.ruled_storages(connection, app_id)]
            if table_id in named_tables(storage.rules)
        ]
        if not naming:
            return
        tables = await table_store.live_tables(connection, app_id)
        related = Related.of([row.schema for row in tables])
        if broken := [f"the file storage {storage.name}" for storage in naming if not _fits(storage, related)]:
            raise UsedInRuleError(broken)


def ruled_storage(app_id: UUID, storage_id: UUID, name: str, rules: str) -> RuledStorage:
    """Return a storage with rules, which are JSON in their stored form."""
    return RuledStorage(app_id, storage_id, name, json.decode(rules.encode()))


def _fits(storage: RuledStorage, related: Related) -> bool:
    table = table_of(storage)
    try:
        stored(shown(storage.rules, table, related), table, related, WAS_CHECKED, texts_are_ids=True)
    except (PilotisError, KeyError):
        return False
    return True


def table_of(storage: RuledStorage) -> TableSchema:
    """Return the table that a storage's rules are about."""
    return table_of_files(storage.app_id, storage.storage_id, storage.name, storage.rules)


def _judgement(
    visible: Visibility, items: Sequence[FileFacts], after: Sequence[FileFacts] | None
) -> tuple[str, list[Any]]:
    """Return the statement that says of each item whether it is readable, and whether it is allowed."""
    values = columns_of(items) if after is None else [*columns_of(items), *columns_of(after)]
    arguments = Arguments(*values)
    source = f"{bound_items('item', 1)} cross join {facts('item', 'f')}"
    if after is not None:
        next_item = bound_items("next_item", 1 + len(ITEM_TYPES))
        source += f" join {next_item} on next_item.at = item.at cross join {facts('next_item', 'n')}"
    readable = f"true{visible.and_readable(arguments, row='f')}"
    allowed = f"true{visible.and_condition(arguments, row='f')}"
    if after is not None and (holds := visible.holds_after(arguments, old="f", new="n")):
        allowed = f"{allowed} and {holds}"
    sql = f"select ({readable}) is true as readable, ({allowed}) is true as allowed from {source} order by item.at"
    return arguments.complete(sql), arguments.values


def columns_of(items: Sequence[FileFacts]) -> list[Any]:
    """Return the facts of items as the arrays that `bound_items` reads."""
    return [list(column) for column in zip(*items, strict=True)]


def bound_items(name: str, first: int) -> str:
    """Return the source of items whose facts are bound as arrays, from a statement's parameter `first` on."""
    arrays = ", ".join(f"${first + at}::{type_}[]" for at, type_ in enumerate(ITEM_TYPES))
    return f"unnest({arrays}) with ordinality {name} ({', '.join(FileFacts._fields)}, at)"
