"""Rules of tables."""

from __future__ import annotations

from typing import ClassVar

from pilotis.data.rules.durations import RuleDurations
from pilotis.data.rules.endpoints import RuleEndpoints
from pilotis.data.rules.files.service import FileRules
from pilotis.data.rules.service import Rules
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut


class RulesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Rules."""

    described = (RuleEndpoints,)
    archived: ClassVar[Archived] = {"rule_durations": LeftOut("statistics are of the server that counted them")}

    rules: Rules
    file_rules: FileRules
    durations: RuleDurations


def feature(floor: Floor, tables: TablesFeature) -> RulesFeature:
    """Return the feature."""
    durations = RuleDurations(floor.database)
    rules = Rules(floor.database, tables.tables, durations)

    async def start() -> None:
        durations.start()

    return RulesFeature(
        name="rules",
        endpoints=[RuleEndpoints(rules)],
        start=start,
        close=durations.stop,
        rules=rules,
        file_rules=FileRules(floor.database, tables.tables, rules),
        durations=durations,
    )
