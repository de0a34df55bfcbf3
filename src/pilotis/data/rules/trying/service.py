"""Trying the rules of a storage: what a caller would be answered about a file, and which conditions decide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pilotis.data.rules.actions import Action
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import Related, shown
from pilotis.data.rules.files.facts import ITEM_TYPES, facts
from pilotis.data.rules.files.service import FileRules, Listed, RuledStorage, bound_items, columns_of, table_of
from pilotis.data.rules.fold import Caller, NoValueError, fold_part
from pilotis.data.rules.parts import Part, parts_of
from pilotis.data.rules.trying.callers import Acting, tried_caller
from pilotis.data.rules.types import FileFacts, FileRuleTest, RulePart
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.operands import Arguments
from pilotis.db.pool import TenantDatabase
from pilotis.http.api.principals import AppInfo, Principal

Json = Any


class FileTrials:
    """Tries rules of storages."""

    def __init__(self, rules: FileRules, acting: Acting) -> None:
        self._rules = rules
        self._acting = acting

    async def caller(self, app: AppInfo, test: FileRuleTest) -> Principal:
        """Return the caller that a test names; raises a 400 error, or `MemberNotFoundError`."""
        return await tried_caller(app, test.caller, test.capabilities, self._acting)

    async def storage(self, app: AppInfo, storage: RuledStorage, document: Mapping[str, Json] | None) -> RuledStorage:
        """Return a storage with the rules of a draft, if there is one; raises a 400 error that names the place."""
        if document is None:
            return storage
        drafted = await self._rules.draft(app, storage.storage_id, storage.name, document)
        return storage._replace(rules=drafted)

    async def outcome(
        self,
        on: TenantDatabase,
        storage: RuledStorage,
        principal: Principal,
        action: Action,
        item: FileFacts | None,
        after: FileFacts | None,
    ) -> Listed | bool:
        """Return whether a caller may do something, False for a file that is hidden; raises the errors of the rules.

        Of a list it is what the caller may list.

        `item` is the file, for a creation the new one, `after` what it is replaced with.
        """
        match action:
            case Action.LIST:
                return await self._rules.listed(on, storage, principal)
            case Action.READ:
                return await self._rules.judge_reading(on, storage, principal, item)
            case Action.CREATE:
                assert item is not None
                await self._rules.judge_creation(on, storage, principal, item)
                return True
            case Action.UPDATE:
                assert item is not None
                assert after is not None
                return await self._rules.judge_replacement(on, storage, principal, item, after)
            case Action.DELETE:
                assert item is not None
                return await self._rules.judge_deletion(on, storage, principal, [item], item.file_id)

    async def parts(
        self,
        on: TenantDatabase,
        storage: RuledStorage,
        principal: Principal,
        action: Action,
        item: FileFacts | None,
        after: FileFacts | None,
    ) -> list[RulePart]:
        """Return the conditions of an action's rule, and which of them hold of a file."""
        table = table_of(storage)
        related = await self._rules.tables_of(on, storage)
        document = shown(storage.rules, table, Related.of([*related.values()]))
        found = parts_of(action, storage.rules, document)
        if action not in {Action.CREATE, Action.READ}:
            # What may not be read is neither listed nor changed.
            found += [part._replace(version="$old") for part in parts_of(Action.READ, storage.rules, document)]
        known = [_folded(part, principal, table, related) for part in found]
        held = [None if isinstance(folded, dict) else folded for folded in known]
        asked = [at for at, folded in enumerate(known) if isinstance(folded, dict)]
        if item is not None and asked:
            arguments = Arguments(*columns_of([item]), *(columns_of([after]) if after is not None else ()))
            source = f"{bound_items('item', 1)} cross join {facts('item', 'f')}"
            if after is not None:
                next_item = bound_items("next_item", 1 + len(ITEM_TYPES))
                source += f" join {next_item} on next_item.at = item.at cross join {facts('next_item', 'n')}"
            both = ("f",) if after is None else ("f", "n")

            def condition(at: int) -> str:
                rows = {"$old": ("f",), "$new": both[-1:]}.get(found[at].version, both)
                folded = known[at]
                assert isinstance(folded, dict)
                holds = [
                    compile_rule(folded, table, related, arguments, row=row, old="f", new=both[-1]) for row in rows
                ]
                return f"coalesce({' and '.join(holds)}, false)"

            selected = ", ".join(map(condition, asked))
            (row,) = await on.fetch(arguments.complete(f"select {selected} from {source}"), *arguments.values)
            for at, value in zip(asked, row, strict=True):
                held[at] = value
        return [RulePart(part.place, part.words, holds) for part, holds in zip(found, held, strict=True)]


def _folded(
    part: Part, principal: Principal, table: TableSchema, related: Mapping[UUID, TableSchema]
) -> bool | dict[str, Json] | None:
    """Fold a part; None if a value of the caller that it needs is missing."""
    try:
        return fold_part(part.condition, Caller.of(principal.member, principal.capabilities), table, related)
    except (NoValueError, UnknownColumnError):
        return None
