"""The tables of an app as a part of its definitions: each change is one transaction of the parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilotis.branches.inside import AppInside
from pilotis.branches.parts import Part, Sides, table_body, table_definition
from pilotis.branches.types import ColumnDifference, Found
from pilotis.kit.definition_plan import (
    Step,
    alone,
    in_order_of_dropping,
    references,
    without_references,
)

_TABLES = "/v1/public/tables"


class Tables(Part):
    """Tables with columns, unique keys and rules, but not their rows. One that is dropped is in the parent's trash."""

    name = "tables"

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        found = Found()
        for table in (await app.ask("GET", _TABLES))["tables"]:
            rules = None
            if table.get("has_rules"):
                rules = (await app.ask("GET", f"tables/{table['id']}/rules"))["rules"]
            found[table["id"]] = table_definition(table, rules)
        return found

    async def prepare(self, sides: Sides, steps: Sequence[Step]) -> None:
        """Create new tables without what leads to others, rename, and take references from tables that are dropped."""
        for step in steps:
            if step.kind == "create":
                wanted = sides.wanted[step.title]
                made = await sides.parent.ask("POST", _TABLES, table_body(alone(wanted) or wanted))
                sides.ids[step.title] = made["id"]
        for step in steps:
            # Others refer to a table by its title.
            if (
                step.kind == "change"
                and (title := sides.wanted[step.title]["title"]) != sides.found[step.title]["title"]
            ):
                renamed = table_body({**sides.found[step.title], "title": title})
                await sides.parent.ask("PATCH", f"{_TABLES}/{step.title}", renamed)
        for step in steps:
            wanted = sides.wanted.get(step.title, {})
            if step.kind == "create" and "rules" in wanted and any(references(wanted)):
                # Rules lead along references of other tables, so all references come before.
                path = f"{_TABLES}/{sides.ids[step.title]}"
                await sides.parent.ask("PATCH", path, table_body({**wanted, "rules": {}}))
        await _loosen(sides, [step.title for step in steps if step.kind == "drop"])

    async def apply(self, sides: Sides, step: Step) -> None:
        """See `Part`."""
        path = f"{_TABLES}/{sides.ids.get(step.title, step.title)}"
        if step.kind == "drop":
            await sides.parent.ask("DELETE", path)
        elif step.kind == "change" or alone(sides.wanted[step.title]) is not None:
            await sides.parent.ask("PATCH", path, table_body(sides.wanted[step.title]))

    async def columns(self, sides: Sides, key: str) -> list[ColumnDifference]:
        """Return what a merge would do to each column of a table of the parent."""
        wanted = sides.wanted[key]
        known = {one["title"] for one in sides.found.values()}
        # Those that the merge creates do not exist yet.
        unknown = {name for name, target in references(wanted) if target not in known}
        body = {
            "title": wanted["title"],
            "schema": without_references(wanted, unknown),
            "access_level": wanted["access_level"],
        }
        changes = (await sides.parent.ask("POST", f"tables/{key}/schema-preview", body))["changes"]
        return [
            ColumnDifference(
                kind=one["kind"],
                name=one["name"],
                rows=one["rows"] or 0,
                rows_that_do_not_fit=one["rows_that_do_not_fit"] or 0,
            )
            for one in changes
        ]

    def ordered(self, sides: Sides, steps: Sequence[Step]) -> list[Step]:
        """Return steps in the order in which they can be applied: rules follow references of other tables."""
        drops = {step.title: step for step in steps if step.kind == "drop"}
        by_title = {sides.found[key]["title"]: key for key in drops}
        order = in_order_of_dropping(by_title, {title: sides.found[key] for title, key in by_title.items()})
        others = [step for step in steps if step.kind != "drop"]
        others.sort(key=lambda step: "rules" in sides.wanted[step.title])
        return [*others, *(drops[by_title[title]] for title in order)]


async def _loosen(sides: Sides, dropped: Sequence[str]) -> None:
    """Take rules and references from tables that are dropped: they may lead through each other."""
    titles = {sides.found[key]["title"] for key in dropped}
    for key in dropped:
        definition: dict[str, Any] = sides.found[key]
        columns = {name for name, target in references(definition) if target in titles}
        if columns or "rules" in definition:
            loose = {**definition, "schema": without_references(definition, columns)}
            if "rules" in loose:
                loose["rules"] = {}
            await sides.parent.ask("PATCH", f"{_TABLES}/{key}", table_body(loose))
