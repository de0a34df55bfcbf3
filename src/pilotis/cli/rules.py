"""What `pilotis table rules` does."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.cli.definitions import Definition
from pilotis.cli.session import Session
from pilotis.cli.transfers import existing
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.rules.types import NewRules, RuleSet, TableRules
from pilotis.data.tables.feature import TablesFeature
from pilotis.http.api.principals import OPERATOR, AppInfo
from pilotis.kit.errors import PilotisError
from pilotis.serve.errors import CommandError


async def read(on: Session, app_id: UUID, name: str) -> TableRules:
    """Return the rules of a table; raises `CommandError` if the app has no such table."""
    app, table_id = await _table(on, app_id, name)
    return await on.features.get(RulesFeature).rules.read(app, table_id)


async def save(on: Session, app_id: UUID, name: str, given: Definition | None) -> TableRules:
    """Set the rules of a table, or remove them; raises `CommandError` with the line of what is wrong."""
    app, table_id = await _table(on, app_id, name)
    rules = on.features.get(RulesFeature).rules
    try:
        document = None if given is None else msgspec.convert(given.value, RuleSet)
        await rules.save(app, OPERATOR, table_id, NewRules(document))
    except msgspec.ValidationError as error:
        assert given is not None
        raise CommandError(f"{given.place(None)}: {error}.") from None
    except PilotisError as error:
        if given is None or not error.details:
            raise
        place = error.details[0].field.removeprefix("rules").removeprefix(".")
        raise CommandError(f"{given.place(place)}: {error.details[0].message}") from None
    return await rules.read(app, table_id)


async def _table(on: Session, app_id: UUID, name: str) -> tuple[AppInfo, UUID]:
    app = await on.apps.by_id(app_id)
    found = await existing(on.features.get(TablesFeature).tables, app, name)
    if found is None:
        raise CommandError(f"The app has no table {name}.")
    return app, found
