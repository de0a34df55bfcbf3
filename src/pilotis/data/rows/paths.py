"""Conditions through references: `author.name` is about the row to which the column `author` refers.

Such a condition is compiled to one on the ids of the other table's rows, among those that the caller may read there. A
reference that leads to none fulfils no condition.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pilotis.data.rows.query import within
from pilotis.data.rows.referring import without_hidden_key
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import Column, TableSchema, normal_path
from pilotis.data.where.compiler import Through, WhereTooComplexError, compile_where
from pilotis.data.where.operands import Arguments, operand
from pilotis.http.api.principals import Principal
from pilotis.kit.errors import PilotisError
from pilotis.limits import Limits

MAX_STEPS, MAX_PATHS = 2, 20


class _Step(NamedTuple):
    """A column that refers to rows, what the caller may read of these, if anything, and the steps from there."""

    column: Column
    table: PreparedTable
    visible: Visibility | None
    beyond: Mapping[str, _Step]


class Paths:
    """The references that a request's conditions go through, and what it needs to name places."""

    def __init__(self, steps: Mapping[str, _Step], own: str | None, cube: str | None = None) -> None:
        self._cube = cube
        self._steps = steps
        self._own = own

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from the same request of callers who see other rows."""

        def keys(steps: Mapping[str, _Step]) -> Iterator[Any]:
            for step in steps.values():
                yield step.visible and step.visible.key
                yield from keys(step.beyond)

        return tuple(keys(self._steps))

    def through(self, arguments: Arguments, limits: Limits) -> Through:
        """Return what compiles conditions with such names, into a statement with these arguments."""
        arguments.cube = self._cube
        return functools.partial(self._condition, self._steps, arguments, limits)

    def _condition(
        self,
        steps: Mapping[str, _Step],
        arguments: Arguments,
        limits: Limits,
        name: str,
        value: Any,
        place: str,
    ) -> tuple[str, list[str]] | None:
        first, _, rest = normal_path(name).partition(".")
        step = steps.get(first)
        if step is None:
            return None
        if step.visible is None:
            return "false", []
        schema, visible = step.table.schema, step.visible
        with arguments.access.ignored(), arguments.about(step.table.hash, visible.shows_creator, self._own):
            resolve = functools.partial(operand, visible.table, arguments=arguments)
            through = functools.partial(self._condition, step.beyond, arguments, limits)
            condition, patterns = compile_where({rest: value}, resolve, limits, arguments, f"{place}.{first}", through)
            condition = within(visible, condition, patterns, arguments, many=True)
        reference = step.column.references
        referred = schema.referred_column(None if reference is None else reference.column)
        ids = f"select {referred} from {schema.physical} where {condition} and {schema.at_this_version_within}"
        return f"{step.column.physical} in ({ids})", patterns


async def paths_of(
    tables: PreparedTables, principal: Principal, table: PreparedTable, seen: TableSchema, where: Any
) -> Paths | None:
    """Look up the references that a condition on a table goes through; None if it needs nothing.

    `seen` is the table as the caller sees it. Raises `WhereTooComplexError`, and `ExtensionMissingError` for places.
    """
    if not where:
        return None
    cube = await tables.cube() if _names_places(where) else None
    # Others with a dot are paths into objects.
    referring = {column.name for column, _ in seen.references}
    names = [parts for name in _dotted(where) if (parts := name.split("."))[0] in referring] if referring else []
    if not names:
        return None if cube is None else Paths({}, None, cube)
    if len(names) > MAX_PATHS:
        raise WhereTooComplexError(f"Conditions go through references at {MAX_PATHS} places at most.").at("where")
    member = principal.member
    steps = await _steps(tables, principal, table, seen, names, MAX_STEPS)
    return Paths(steps, None if member is None else member.member_id, cube)


async def _steps(
    tables: PreparedTables,
    principal: Principal,
    table: PreparedTable,
    seen: TableSchema,
    names: list[list[str]],
    left: int,
) -> Mapping[str, _Step]:
    found: dict[str, _Step] = {}
    for first, *_ in names if left else ():
        column = seen.by_name.get(first)
        if first in found or column is None or column.references is None:
            continue
        target = await tables.named(table.schema.app_id, column.references.target)
        try:
            visible = without_hidden_key(await target.visible(principal, Action.READ), column)
        except PilotisError as error:
            if error.status >= 500:
                raise
            visible = None
        beyond = [rest for other, *rest in names if other == first and len(rest) > 1]
        shown = target.schema if visible is None else visible.table
        found[first] = _Step(column, target, visible, await _steps(tables, principal, target, shown, beyond, left - 1))
    return found


def _names_places(where: Any) -> bool:
    """Return whether a condition has the operator `$within` at any depth."""
    waiting = [where]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if "$within" in one:
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False


def _dotted(where: Any) -> Iterator[str]:
    """Yield the names of fields in a condition that have a dot."""
    waiting = [where]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            for name, value in one.items():
                if name in {"$and", "$or", "$not"}:
                    waiting.append(value)
                elif "." in name:
                    yield normal_path(name)
        elif isinstance(one, list):
            waiting += one
