"""The tables that the `$lookup` stages of a pipeline read, and what the caller sees of them.

A `$lookup` follows a reference: from a field that refers to rows to such a row, or from a row to those that refer to
it. Each table's own rules decide what is found, as for `expand`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.query.aggregate.union import MAX_UNIONS, UNION
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility, everything
from pilotis.data.tables.schema import Column, TableSchema, normal_path
from pilotis.data.where.operands import Hash
from pilotis.http.api.principals import Principal
from pilotis.kit.errors import PilotisError

Json = Any


class Joined(NamedTuple):
    """A table that is read beside the pipeline's own; `visible` is None if the caller sees none of its rows."""

    table: TableSchema
    visible: Visibility | None
    hash: Hash | None


class Referring(NamedTuple):
    """A table whose column refers to rows of the pipeline's own."""

    joined: Joined
    column: Column


class Joins(NamedTuple):
    """The tables to whose rows the pipeline's own refer, and those that refer to them by what names them.

    `unions` are the tables of its `$unionWith` stages, by what names them.
    """

    targets: Mapping[UUID, Joined] = {}
    referring: Mapping[str, Referring] = {}
    unions: Mapping[str, Union] = {}


class Union(NamedTuple):
    """A table of a `$unionWith`, and what the pipeline over it joins in turn."""

    joined: Joined
    joins: Joins


NONE = Joins()


def lookups(pipeline: Sequence[Json]) -> list[Mapping[str, Json]]:
    """Return the operands of the `$lookup` stages that are objects."""
    found = [stage.get("$lookup") for stage in pipeline if isinstance(stage, Mapping)]
    return [operand for operand in found if isinstance(operand, Mapping)]


def unions(pipeline: Sequence[Json]) -> list[tuple[str, Sequence[Json]]]:
    """Return the tables and the pipelines of the `$unionWith` stages that are well formed."""
    found = [stage.get(UNION) for stage in pipeline if isinstance(stage, Mapping)]
    named = [operand for operand in found if isinstance(operand, Mapping) and isinstance(operand.get("table"), str)]
    return [
        (operand["table"], stages if isinstance(stages := operand.get("pipeline", []), list) else [])
        for operand in named
    ]


def referrer(table: TableSchema, named: str) -> tuple[UUID, str] | None:
    """Return the id of the table and the column that a text such as `comments.post` names, if they refer to a table."""
    title, _, name = named.rpartition(".")
    for one in table.referrers:
        if title in {one.table, str(one.table_id)} and one.column == normal_path(name) and one.key is None:
            return one.table_id, one.column
    return None


async def joins_of(
    tables: PreparedTables, principal: Principal | None, table: PreparedTable, pipeline: Sequence[Json]
) -> Joins:
    """Look up what a pipeline joins, for a caller; None sees everything.

    Raises the errors of the lists of tables whose rows refer to the pipeline's.
    """
    operands, others = lookups(pipeline), unions(pipeline)[:MAX_UNIONS]
    if not operands and not others:
        return NONE
    app_id = table.schema.app_id
    united: dict[str, Union] = {}
    for title, stages in others:
        if title in united:
            # Both read the same table; what each joins is looked up by its reference.
            stages = [*stages, *(stage for other, more in others if other == title for stage in more)]
        other = await tables.named(app_id, await tables.id_called(app_id, title, f"{UNION}.table"))
        visible = await _visible(other, principal, Action.LIST)
        joins = await joins_of(tables, principal, other, [one for one in stages if UNION not in one])
        united[title] = Union(Joined(other.schema, visible, other.hash), joins)
    targets: dict[UUID, Joined] = {}
    if any("localField" in operand for operand in operands):
        for _, reference in table.schema.references:
            if reference.target not in targets:
                targets[reference.target] = await _target(await tables.named(app_id, reference.target), principal)
    referring: dict[str, Referring] = {}
    for operand in operands:
        named = operand.get("from")
        if isinstance(named, str) and named not in referring and (found := referrer(table.schema, named)):
            child = await tables.named(app_id, found[0])
            visible = await _visible(child, principal, Action.LIST)
            # Where the column is hidden from the caller, the rows are not found by it.
            if column := visible.table.by_name.get(found[1]):
                referring[named] = Referring(Joined(child.schema, visible, child.hash), column)
    return Joins(targets, referring, united)


def every_join(table: TableSchema, tables: Mapping[UUID, TableSchema], pipeline: Sequence[Json]) -> Joins:
    """Return what a pipeline joins for one who sees everything; `tables` are those of the app by their ids."""

    def joined(one: TableSchema) -> Joined:
        return Joined(one, everything(one, Action.LIST, shows_creator=True), _no_hash)

    targets = {
        reference.target: joined(tables[reference.target])
        for _, reference in table.references
        if reference.target in tables
    }
    referring: dict[str, Referring] = {}
    for operand in lookups(pipeline):
        named = operand.get("from")
        if isinstance(named, str) and (found := referrer(table, named)) and found[0] in tables:
            child = tables[found[0]]
            referring[named] = Referring(joined(child), child.by_name[found[1]])
    united: dict[str, Union] = {}
    for title, stages in unions(pipeline):
        other = next((one for one in tables.values() if title in {one.title, str(one.table_id)}), None)
        if other is not None:
            united[title] = Union(joined(other), every_join(other, tables, stages))
    return Joins(targets, referring, united)


def _no_hash(_column: Column, _value: Json) -> bytes:
    return b""


async def _target(table: PreparedTable, principal: Principal | None) -> Joined:
    try:
        return Joined(table.schema, await _visible(table, principal, Action.READ), table.hash)
    except PilotisError as error:
        if error.status >= 500:
            raise
        return Joined(table.schema, None, table.hash)


async def _visible(table: PreparedTable, principal: Principal | None, action: Action) -> Visibility:
    if principal is None:
        return everything(table.schema, action, shows_creator=True)
    return await table.visible(principal, action)
