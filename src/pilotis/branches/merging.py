"""What differs between a branch and its parent, and its way into the parent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from pilotis.branches.errors import DifferencesChangedError, MergeConflictError, MergeFailedError
from pilotis.branches.inside import AppInside, RejectedError
from pilotis.branches.parts import (
    Channels,
    Functions,
    Ids,
    Part,
    Settings,
    Sides,
    Storages,
    Workflows,
    title_of,
    translated,
)
from pilotis.branches.tables import Tables
from pilotis.branches.types import BranchDiff, Difference, Found, Merge
from pilotis.kit import json
from pilotis.kit.definition_plan import Step, plan

TABLES = Tables()
PARTS: Sequence[Part] = (TABLES, Storages(), Channels(), Functions(), Workflows(), Settings())
"""In the order in which they are created: each may name things of those before."""
_APPLIED = {"create", "change", "drop"}

Base = dict[str, Found]
"""The definitions that a branch and its parent had in common, by part."""


class Compared(NamedTuple):
    """A part on both sides, and the steps that lead from the parent to the branch."""

    part: Part
    sides: Sides
    steps: list[Step]


async def definitions(app: AppInside) -> Base:
    """Return all definitions of an app."""
    return {part.name: await part.read(app) for part in PARTS}


async def compare(branch: AppInside, parent: AppInside, base: Base, ids: Ids) -> list[Compared]:
    """Compare a branch with its parent, part by part."""
    compared = list[Compared]()
    for part in PARTS:
        wanted: Found = translated(await part.read(branch), ids)
        found = await part.read(parent)
        steps = plan(wanted, {}, found, base.get(part.name, {}))
        compared.append(Compared(part, Sides(branch, parent, wanted, found, ids), steps))
    return compared


async def shown(compared: Sequence[Compared]) -> BranchDiff:
    """Return the differences as an answer, with the digest that says both sides are as they were read."""
    differences = list[Difference]()
    for part, sides, steps in compared:
        for step in steps:
            title = title_of(step.title, sides.wanted, sides.found)
            columns = await TABLES.columns(sides, step.title) if part is TABLES and step.kind == "change" else []
            differences.append(Difference(part=part.name, title=title, step=step.kind, columns=columns))
    return BranchDiff(digest=digest(compared), differences=differences)


def digest(compared: Sequence[Compared]) -> str:
    """Return a digest of all that a merge depends on."""
    everything = [[one.part.name, one.sides.wanted, one.sides.found, one.steps] for one in compared]
    return hashlib.sha256(json.encode(everything)).hexdigest()


def wanted_steps(compared: Sequence[Compared], merge: Merge) -> list[tuple[Compared, list[Step]]]:
    """Return what a merge applies; raises `DifferencesChangedError`, `MergeConflictError`."""
    if digest(compared) != merge.digest:
        raise DifferencesChangedError
    chosen, conflicts = list[tuple[Compared, list[Step]]](), list[str]()
    for one in compared:
        if one.part.name not in merge.parts:
            continue
        steps = list[Step]()
        for step in one.steps:
            kind = step.kind
            if kind == "conflict" and not merge.theirs:
                conflicts.append(title_of(step.title, one.sides.wanted, one.sides.found))
            if kind == "conflict":
                has_both = step.title in one.sides.wanted and step.title in one.sides.found
                kind = "change" if has_both else "create" if step.title in one.sides.wanted else "drop"
            if kind in _APPLIED and (kind != "drop" or merge.drops):
                steps.append(Step(kind, step.title))
        chosen.append((one, steps))
    if conflicts:
        raise MergeConflictError(f"Both sides have changed {', '.join(conflicts)}.")
    return chosen


class RunningMerge:
    """Applies steps to the parent, and remembers those that were applied."""

    def __init__(self, chosen: Sequence[tuple[Compared, list[Step]]]) -> None:
        self._chosen = chosen
        self.applied: list[tuple[Compared, Step]] = []

    @property
    def differences(self) -> list[Difference]:
        """What was applied."""
        return [
            Difference(
                part=one.part.name, title=title_of(step.title, one.sides.wanted, one.sides.found), step=step.kind
            )
            for one, step in self.applied
        ]

    async def run(self) -> None:
        """Create and change part by part, then drop in the reverse order; raises `MergeFailedError`."""
        for one, steps in self._chosen:
            await self._apply(one, [step for step in steps if step.kind != "drop"])
        for one, steps in reversed(self._chosen):
            await self._apply(one, [step for step in steps if step.kind == "drop"])

    async def _apply(self, one: Compared, steps: list[Step]) -> None:
        title = ""
        try:
            await one.part.prepare(one.sides, steps)
            for step in TABLES.ordered(one.sides, steps) if one.part is TABLES else steps:
                title = title_of(step.title, one.sides.wanted, one.sides.found)
                await one.part.apply(one.sides, step)
                self.applied.append((one, step))
        except RejectedError as error:
            before = f" {len(self.applied)} changes were applied before." if self.applied else ""
            raise MergeFailedError(f"{one.part.name} {title}: {error.text}{before}") from None


def merged_base(base: Base, merging: RunningMerge) -> Base:
    """Return what both sides have in common after a merge: the base, but for what was applied."""
    merged = {name: dict(found) for name, found in base.items()}
    for one, step in merging.applied:
        part = merged.setdefault(one.part.name, {})
        key = one.sides.ids.get(step.title, step.title)
        if step.kind == "drop":
            part.pop(key, None)
        else:
            part[key] = translated(one.sides.wanted[step.title], one.sides.ids)
    return merged
