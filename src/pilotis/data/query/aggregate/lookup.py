"""The stage `$lookup`: a related row, or a list of related rows, as a field of each document. Pure.

`{"localField": "author", "as": "writer"}` follows a field that refers to rows; `{"from": "comments.post", "as":
"comments", "limit": 5}` finds the rows that refer to the document's own. What is found are documents as they enter a
pipeline, so their fields are named as in `$writer.name`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pilotis.data.query.aggregate import relation as relations
from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.expressions import wrong
from pilotis.data.query.aggregate.joins import Joined, Joins, Referring
from pilotis.data.query.aggregate.relation import Relation
from pilotis.data.query.aggregate.values import Value
from pilotis.data.rows.query import and_where, order_of
from pilotis.data.rows.types import Query
from pilotis.data.tables.schema import OWN_FIELDS
from pilotis.data.where.operands import Arguments, Kind
from pilotis.kit.errors import PilotisError
from pilotis.limits import Limits

Json = Any

MAX_LOOKUPS, MAX_LISTED = 5, 50
_FORWARD = frozenset({"localField", "as", "fields"})
_BACKWARD = frozenset({"from", "as", "fields", "where", "order_by", "order_direction", "limit"})


class Join(NamedTuple):
    """A lateral join: a select that yields the column `column`, and the value that it stands for."""

    local: str
    column: str
    select: str
    value: Value


class LookupCompiler(NamedTuple):
    """Compiles `$lookup` stages; `own` is the id of a member who calls. `patterns` collects those of conditions."""

    joins: Joins
    arguments: Arguments
    limits: Limits
    own: str | None
    patterns: list[str]

    def compile(self, relation: Relation, operand: Json, place: str, names: Sequence[str]) -> Join:
        """Return the join of a stage; `names` are three names that the statement does not use yet."""
        if not isinstance(operand, Mapping) or ("localField" in operand) == ("from" in operand):
            raise wrong(place, "$lookup takes an object with as, and either localField or from.")
        known = _FORWARD if "localField" in operand else _BACKWARD
        if others := sorted(set(operand) - known):
            raise wrong(f"{place}.{others[0][:100]}", f"With these, $lookup takes {', '.join(sorted(known))}.")
        shown = operand.get("as")
        if not isinstance(shown, str) or not shown or "." in shown or shown.startswith("$"):
            raise wrong(f"{place}.as", "as is the name of the field that is added: not empty, without dots and $.")
        if "localField" in operand:
            return self._one(relation, operand, place, names)
        return self._several(relation, operand, place, names)

    def _one(self, relation: Relation, operand: Mapping[str, Json], place: str, names: Sequence[str]) -> Join:
        local, column, inner = names
        name = operand["localField"]
        if not isinstance(name, str):
            raise wrong(f"{place}.localField", "localField is the name of a field.")
        refers = relation.resolve(name, self.arguments, f"{place}.localField")
        joined = None if refers.target is None else self.joins.targets.get(refers.target)
        if joined is None:
            raise wrong(f"{place}.localField", f"{name[:100]} is not a field that refers to rows of another table.")
        value = Value(column, Kind.JSON, computed=True)
        if joined.visible is None:
            return Join(refers.sql, column, f"select null::jsonb as {column}", value)
        with self.arguments.about(joined.hash, joined.visible.shows_creator, self.own):
            document = self._document(joined, operand, place)
            rule = joined.visible.and_condition(self.arguments)
        physical, version = joined.table.physical, joined.table.at_this_version_within
        found = f"select * from {physical} where __id = {local}{rule} and {version} limit 1"
        select = f"select {values.bounded(document)}::jsonb as {column} from ({found}) {inner}"
        return Join(refers.sql, column, select, value)

    def _several(self, relation: Relation, operand: Mapping[str, Json], place: str, names: Sequence[str]) -> Join:
        _, column, _ = names
        named, limit = operand["from"], operand.get("limit")
        referring = self.joins.referring.get(named) if isinstance(named, str) else None
        if referring is None:
            raise wrong(
                f"{place}.from", "from is a table and its column that refers to this one, such as comments.post."
            )
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
            raise wrong(f"{place}.limit", f"limit says how many rows are listed at most, from 1 to {MAX_LISTED}.")
        refers = relation.fields.get("id")
        if refers is None or referring.column.references is None or refers.target != referring.column.references.target:
            raise wrong(f"{place}.from", "These documents have no id of a row any more; look rows up before that.")
        select = self._listed(referring, operand, place, limit, names)
        return Join(refers.sql, column, select, Value(column, Kind.JSON, computed=True))

    def _listed(
        self, referring: Referring, operand: Mapping[str, Json], place: str, limit: int, names: Sequence[str]
    ) -> str:
        local, column, inner = names
        joined, visible = referring.joined, referring.joined.visible
        assert visible is not None
        where = operand.get("where")
        if where is not None and not isinstance(where, Mapping):
            raise wrong(f"{place}.where", "where takes an object of conditions.")
        by, direction = operand.get("order_by"), operand.get("order_direction", "asc")
        if not isinstance(by, str | None) or direction not in {"asc", "desc"}:
            raise wrong(f"{place}.order_by", "order_by is a column, order_direction asc or desc.")
        with self.arguments.about(joined.hash, visible.shows_creator, self.own):
            try:
                order = order_of(visible.table, Query(order_by=by, order_direction=direction), self.arguments).clause
            except PilotisError as error:
                raise error.within(place) from None
            rest, patterns = and_where(visible.table, where, visible, self.arguments, self.limits, f"{place}.where")
            document = self._document(joined, operand, place)
        self.patterns.extend(patterns)
        physical, version = joined.table.physical, joined.table.at_this_version_within
        condition = f"{referring.column.physical} = {local}{rest} and {version}"
        # The limit first, so that no more rows are put together than are shown.
        found = f"(select * from {physical} where {condition} order by {order} limit {limit}) {inner}f"
        listed = "string_agg(item, ',' order by place)"
        numbered = f"select {document} as item, row_number() over (order by {order}) as place from {found}"
        text = values.bounded(f"'[' || coalesce({listed}, '') || ']'")
        return f"select {text}::jsonb as {column} from ({numbered}) {inner}"

    def _document(self, joined: Joined, operand: Mapping[str, Json], place: str) -> str:
        """Return the expression for the JSON of a row, as it would enter a pipeline, with the fields asked for."""
        assert joined.visible is not None
        row = relations.of_table(joined.visible.table)
        fields = operand.get("fields")
        if fields is None:
            return row.document(self.arguments)
        if not isinstance(fields, Sequence) or not all(isinstance(name, str) for name in fields):
            raise wrong(f"{place}.fields", "fields is a list of columns.")
        asked = [name for name in fields if name not in OWN_FIELDS]
        if any("." in name or name.startswith("$") for name in asked):
            raise wrong(f"{place}.fields", "fields is a list of columns, without paths into them.")
        shown = {name: row.resolve(name, self.arguments, f"{place}.fields") for name in dict.fromkeys(asked)}
        first, *times = (row.fields[name] for name in OWN_FIELDS)
        members = {"id": first, **shown, **dict(zip(OWN_FIELDS[1:], times, strict=True))}
        return values.as_json_text(values.document(members, self.arguments))
