"""Rules of tables."""

from __future__ import annotations

from pilotis.data.rules.endpoints import RuleEndpoints
from pilotis.data.rules.files.service import FileRules
from pilotis.data.rules.service import Rules
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor


class RulesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Rules."""

    described = (RuleEndpoints,)

    rules: Rules
    file_rules: FileRules


def feature(floor: Floor, tables: TablesFeature) -> RulesFeature:
    """Return the feature."""
    rules = Rules(floor.database, tables.tables)
    return RulesFeature(
        name="rules",
        endpoints=[RuleEndpoints(rules)],
        rules=rules,
        file_rules=FileRules(floor.database, tables.tables, rules),
    )
