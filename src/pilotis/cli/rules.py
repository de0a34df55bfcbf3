"""What `pilotis table rules` and `pilotis storage rules` do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

import msgspec

from pilotis.cli.definitions import Definition
from pilotis.cli.session import Session
from pilotis.cli.transfers import table_of
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.rules.types import (
    FileRuleSet,
    NewFileRules,
    NewRules,
    RuleSet,
    RuleTest,
    RuleTestResult,
    StorageRules,
    TableRules,
)
from pilotis.files.storages import Storages
from pilotis.http.api.principals import OPERATOR, AppInfo
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import is_uuid
from pilotis.serve.errors import CommandError


async def read(on: Session, app_id: UUID, name: str) -> TableRules:
    """Return the rules of a table; raises `CommandError` if the app has no such table."""
    app, table_id = await table_of(on, app_id, name)
    return await on.features.get(RulesFeature).rules.read(app, table_id)


async def save(on: Session, app_id: UUID, name: str, given: Definition | None) -> TableRules:
    """Set the rules of a table, or remove them; raises `CommandError` with the line of what is wrong."""
    app, table_id = await table_of(on, app_id, name)
    rules = on.features.get(RulesFeature).rules
    with _at_its_line(given):
        document = None if given is None else msgspec.convert(given.value, RuleSet)
        await rules.save(app, OPERATOR, table_id, NewRules(document))
    return await rules.read(app, table_id)


async def read_of_storage(on: Session, storages: Storages, app_id: UUID, name: str) -> StorageRules:
    """Return the rules of a file storage; raises `CommandError` if the app has no such storage."""
    return await storages.rules(*await _storage(on, storages, app_id, name))


async def save_of_storage(
    on: Session, storages: Storages, app_id: UUID, name: str, given: Definition | None
) -> StorageRules:
    """Set the rules of a file storage, or remove them; raises `CommandError` with the line of what is wrong."""
    app, storage_id = await _storage(on, storages, app_id, name)
    with _at_its_line(given):
        document = None if given is None else msgspec.convert(given.value, FileRuleSet)
        await storages.save_rules(app, OPERATOR, storage_id, NewFileRules(document))
    return await storages.rules(app, storage_id)


@contextmanager
def _at_its_line(given: Definition | None) -> Iterator[None]:
    """Say where in a file of rules an error is."""
    try:
        yield
    except msgspec.ValidationError as error:
        assert given is not None
        raise CommandError(f"{given.place(None)}: {error}.") from None
    except PilotisError as error:
        if given is None or not error.details:
            raise
        place = error.details[0].field.removeprefix("rules").removeprefix(".")
        raise CommandError(f"{given.place(place)}: {error.details[0].message}") from None


class RuleCase(RuleTest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test in a file: what is tried, and the answer that is expected, `allowed` or the code of an error."""

    expect: str
    name: str = ""


class RuleCases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of tests."""

    tests: list[RuleCase]


class Tried(NamedTuple):
    """A test and its answer."""

    case: RuleCase
    answer: str
    result: RuleTestResult

    @property
    def passed(self) -> bool:
        """Whether it answered what was expected."""
        return self.answer == self.case.expect

    @property
    def said(self) -> str:
        """What is printed about it, with the conditions that decided where it failed."""
        case = self.case
        name = case.name or f"{case.action} as {case.caller if case.caller == 'public' else 'a member'}"
        if self.passed:
            return f"passed  {name}"
        holds = {True: "yes", False: "no", None: "unknown"}
        why = "".join(f"\n        {holds[part.holds]:8}{part.words}" for part in self.result.parts)
        return f"FAILED  {name}: expected {case.expect}, answered {self.answer}{why}"


async def run(on: Session, app_id: UUID, name: str, given: Definition) -> list[Tried]:
    """Run the tests of a file against a table's rules; raises `CommandError` with the line of what is wrong."""
    app, table_id = await table_of(on, app_id, name)
    tests = on.features.get(RowsFeature).rule_tests
    try:
        cases = msgspec.convert(given.value, RuleCases).tests
    except msgspec.ValidationError as error:
        raise CommandError(f"{given.place(None)}: {error}.") from None
    tried = []
    for at, case in enumerate(cases):
        try:
            result = await tests.run(app, table_id, case)
        except PilotisError as error:
            raise CommandError(f"{given.place(f'tests[{at}]')}: {error.text}") from None
        tried.append(Tried(case, "allowed" if result.allowed else result.code or "", result))
    return tried


async def _storage(on: Session, storages: Storages, app_id: UUID, name: str) -> tuple[AppInfo, UUID]:
    app = await on.apps.by_id(app_id)
    found = UUID(name) if is_uuid(name) else await storages.id_of(app_id, name)
    if found is None:
        raise CommandError(f"The app has no file storage {name}.")
    return app, found
