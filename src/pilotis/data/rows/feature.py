"""Rows: reading and writing, one by one and in batches."""

from __future__ import annotations

from pilotis.apps.feature import AppsFeature
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.rows.arrivals import Arrivals
from pilotis.data.rows.batches import Batches
from pilotis.data.rows.counts import Folding
from pilotis.data.rows.departures import Departures
from pilotis.data.rows.endpoints import KeyedRowEndpoints, RowEndpoints, RuleTestEndpoints
from pilotis.data.rows.events import EVENT_TYPES
from pilotis.data.rows.keyed import KeyedRows
from pilotis.data.rows.rule_tests import RuleTests
from pilotis.data.rows.service import Rows
from pilotis.data.rows.statistics import TableStatistics
from pilotis.data.rows.table import PreparedTables
from pilotis.data.rows.upserting import Upserts
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.members.feature import MembersFeature


class RowsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Rows."""

    described = (RowEndpoints, KeyedRowEndpoints, RuleTestEndpoints)

    rows: Rows
    rule_tests: RuleTests
    batches: Batches
    prepared_tables: PreparedTables
    statistics: TableStatistics
    counts: Folding


def feature(
    floor: Floor,
    tables: TablesFeature,
    indexes: IndexesFeature,
    rules: RulesFeature,
    members: MembersFeature,
    apps: AppsFeature,
) -> RowsFeature:
    """Return the feature."""
    statistics, counts = TableStatistics(floor.database), Folding(floor.database)
    prepared = PreparedTables(
        floor.database,
        tables.tables,
        floor.encryption,
        indexes.uses,
        rules.durations,
        statistics,
        counts,
        floor.events.committed,
        members.members.nickname,
        floor.extensions,
    )
    rows = Rows(prepared)
    upserts = Upserts(prepared)
    keyed = KeyedRows(prepared, rows, floor.rate_limits)
    rule_tests = RuleTests(floor.database, tables.tables, prepared, rules.rules, members.members)
    departures = Departures(tables.tables, prepared, floor.jobs, apps.apps.by_id)
    members.members.followers.append(departures.deleted)
    arrivals = Arrivals(floor.database, tables.tables, prepared, apps.settings.stored)
    members.members.arrivals.attach(arrivals.making)
    apps.settings.attach_rows(arrivals.check)

    async def close() -> None:
        await statistics.stop()
        await counts.stop()

    return RowsFeature(
        name="rows",
        jobs=[departures.kind],
        endpoints=[RowEndpoints(rows, upserts), KeyedRowEndpoints(keyed), RuleTestEndpoints(rule_tests)],
        event_types=EVENT_TYPES,
        close=close,
        rows=rows,
        rule_tests=rule_tests,
        batches=Batches(floor.database, prepared, rows, upserts, keyed),
        prepared_tables=prepared,
        statistics=statistics,
        counts=counts,
    )
