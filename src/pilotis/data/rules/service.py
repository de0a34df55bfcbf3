"""Rules of tables: reading and saving them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.rules.access import Reading, needed, of_branches
from pilotis.data.rules.document import Related, named_tables, shown, stored
from pilotis.data.rules.durations import RuleDurations
from pilotis.data.rules.exposure import exposed
from pilotis.data.rules.presets import PRESETS
from pilotis.data.rules.types import NewRules, RuleFinding, RuleSet, TableRules
from pilotis.data.rules.visibility import LEVELS
from pilotis.data.rules.warnings import BROKEN, warnings
from pilotis.data.tables import store
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.where.access_patterns import AccessPattern
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import ConflictError, PilotisError
from pilotis.limits import Limits

# Rules were checked when they were saved, when limits may have been others.
WAS_CHECKED = Limits(rule_bytes=1_000_000_000, where_conditions=10_000, where_depth=100, where_list_values=100_000)


class UsedInRuleError(ConflictError):
    """409 `USED_IN_RULE`: a rule names the column or the table."""

    code = "USED_IN_RULE"

    def __init__(self, titles: list[str]) -> None:
        super().__init__(f"Rules of {', '.join(titles)} need this. Change those rules first.")


class RulesChangedError(ConflictError):
    """409 `PRECONDITION_FAILED`: the rules have changed since `expected_updated_at`."""

    code = "PRECONDITION_FAILED"
    message = "The rules have changed since expected_updated_at. Read them again."


class Rules:
    """Reads and saves the rules of tables, and keeps what they name."""

    def __init__(self, database: Database, tables: Tables, durations: RuleDurations) -> None:
        self._database = database
        self._durations = durations
        self._tables = tables
        self.saved: list[Callable[[UUID, Sequence[tuple[UUID, AccessPattern]]], None]] = []
        """Called with the app and how its tables will be read, where rules are being saved."""
        self.others: list[Callable[[UUID], Awaitable[list[TableSchema]]]] = []
        """Return what else of an app has rules, as the tables that these are about."""
        self.lacking: Callable[[AppInfo, Sequence[Reading]], Awaitable[set[Reading]]] | None = None
        """Returns those of the ways of reading tables that no index serves, though the tables are large."""
        tables.guards.append(_require_named)
        tables.rule_reader = self._read

    async def read(self, app: AppInfo, table_id: UUID) -> TableRules:
        """Return a table's rules with today's names; raises `TableNotFoundError`."""
        row = await store.live_table(self._database.of(app.app_id), app.app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = row.schema
        related = Related.of(await self._tables.schemas(app.app_id))
        document, broken = None, False
        if table.rules is not None:
            try:
                document = shown(table.rules, table, related)
            except (PilotisError, KeyError):
                # They came back from the trash, and name what is no longer there.
                document, broken = {}, True
        return TableRules(
            rules=None if document is None else _rule_set(document),
            level_rules=_rule_set({action.value: rule for action, rule in LEVELS[table.access_level].items()}),
            presets=PRESETS,
            warnings=[BROKEN] if broken else warnings(document or {}, table),
            updated_at=optional_rfc3339(row.rules_updated_at),
        )

    async def exposed(self, app: AppInfo) -> list[RuleFinding]:
        """Return what the rules of an app's tables, and of its file storages, leave open, and those that take long."""
        storages = [table for find in self.others for table in await find(app.app_id)]
        tables = await self._tables.schemas(app.app_id)
        return [*exposed(app, tables, storages), *await self._slow(app, tables)]

    async def _slow(self, app: AppInfo, tables: Sequence[TableSchema]) -> list[RuleFinding]:
        """Return a finding for each table whose rules look through a large table, or whose statements took long."""
        titles = {table.table_id: table.title for table in tables}
        readings = [(table, of_branches(table.table_id, table.rules)) for table in tables if table.rules is not None]
        asked = list(dict.fromkeys(reading for _, several in readings for reading in several))
        lacking = await self.lacking(app, asked) if self.lacking is not None and asked else set()
        found = []
        for table, several in readings:
            read = sorted({titles[one.table_id] for one in several if one in lacking and one.table_id in titles})
            if read:
                message = (
                    f"Table {table.title}: no index serves a part of its rules, so that a list reads all rows of "
                    f"{' and '.join(read)}. Compare a column for equality."
                )
                found.append(RuleFinding("low", "SLOW_RULE", table.table_id, message))
        taken = await self._durations.slow(app.app_id) if readings else {}
        for table, _ in readings:
            if table.table_id in taken:
                message = (
                    f"Table {table.title}: in the last day one in twenty statements under its rules took longer than "
                    f"{taken[table.table_id]:.0f} ms."
                )
                found.append(RuleFinding("low", "SLOW_RULE", table.table_id, message))
        return found

    async def draft(self, app: AppInfo, table_id: UUID, document: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of rules that are only tried; raises a 400 error that names the place."""
        related = Related.of(await self._tables.schemas(app.app_id))
        table = related.by_id.get(table_id)
        if table is None:
            raise TableNotFoundError
        return stored(document, table, related, app.limits)

    async def shown(self, table: TableSchema) -> dict[str, Any]:
        """Return a table's rules with today's names."""
        return shown(table.rules, table, Related.of(await self._tables.schemas(table.app_id)))

    async def save(self, app: AppInfo, actor: Actor, table_id: UUID, new: NewRules) -> None:
        """Replace a table's rules, which then hold on every node; raises a 400 error that names the place.

        The schema's version changes with them: a statement under the rules of before fails, and is compiled again.
        """
        document = None if new.rules is None else msgspec.to_builtins(new.rules)

        async def edit(connection: Connection, _table: TableSchema) -> None:
            row = await store.live_table(connection, app.app_id, table_id)
            assert row is not None
            expected = new.expected_updated_at
            if expected is not msgspec.UNSET and _moment(expected) != _moment(row.rules_updated_at):
                raise RulesChangedError
            text = None
            if document is not None:
                text = await self._read(connection, app, table_id, document)
            await store.set_rules(connection, app.app_id, table_id, text)

        await self._tables.change(
            app.app_id, actor, table_id, edit, "table.rules", locks_app=True, touch=False, rules=document
        )

    async def _read(self, connection: Connection, app: AppInfo, table_id: UUID, document: dict[str, Any]) -> str:
        """Return the stored form of a table's rules as JSON; raises a 400 error that names the place.

        The app must be locked, so that no table that they name is dropped meanwhile.
        """
        related = Related.of([row.schema for row in await store.live_tables(connection, app.app_id)])
        found = stored(document, related.by_id[table_id], related, app.limits)
        for saved in self.saved:
            saved(app.app_id, needed(table_id, found))
        return json.encode(found).decode()


async def _require_named(connection: Connection, app_id: UUID, table_id: UUID) -> None:
    """Raise `UsedInRuleError` if rules that name a table do not fit it any more, as it has just been changed."""
    ruled = [row.schema for row in await store.ruled_tables(connection, app_id)]
    naming = [table for table in ruled if table_id in {table.table_id, *named_tables(table.rules)}]
    if not naming:
        return
    related = Related.of([row.schema for row in await store.live_tables(connection, app_id)])
    broken = [table.title for table in naming if not _fits(table, related)]
    if broken:
        raise UsedInRuleError(broken)


def _fits(table: TableSchema, related: Related) -> bool:
    try:
        stored(shown(table.rules, table, related), table, related, WAS_CHECKED)
    except (PilotisError, KeyError):
        return False
    return True


def _rule_set(document: dict[str, Any]) -> RuleSet:
    return msgspec.convert(document, RuleSet)


def _moment(value: Any) -> str | None:
    return None if value is None else rfc3339(value)
