"""Pipelines, stage by stage, into one SQL statement. Pure: names are looked up, values are bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from pilotis.data.query.aggregate import relation as relations
from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.accumulators import ACCUMULATORS, ordering
from pilotis.data.query.aggregate.expressions import Budget, Expressions, wrong
from pilotis.data.query.aggregate.joins import NONE, Joins
from pilotis.data.query.aggregate.lookup import MAX_LOOKUPS, LookupCompiler
from pilotis.data.query.aggregate.relation import Relation
from pilotis.data.query.aggregate.union import MAX_UNIONS, UNION, operand_of, united
from pilotis.data.query.aggregate.values import Value
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import TableSchema, normal_path
from pilotis.data.where.access_patterns import AccessKind, AccessPatterns
from pilotis.data.where.compiler import compile_where
from pilotis.data.where.operands import Arguments, Kind, Operand, operand_column
from pilotis.limits import Limits

Json = Any

_MAX_FIELDS = 200
_MAX_SORTS = 32
# Including nested members: PostgreSQL's select list has at most 1664 entries.
_MAX_COLUMNS = 1000
_DEEPEST_PATH = 50
_MAX_SKIPPED = 2**53
_LONGEST_SQL = 1_000_000
# The limit of PostgreSQL's protocol.
_MAX_PARAMETERS = 32_767


class CompiledPipeline(NamedTuple):
    """A statement that yields `total_count` and `data`, its arguments, and its `$matches` patterns.

    `access` records how it reads the table.
    """

    sql: str
    arguments: list[object]
    patterns: list[str]
    access: AccessPatterns


def compile_pipeline(
    table: TableSchema,
    pipeline: Sequence[Json],
    visible: Visibility,
    limits: Limits,
    own: str | None = None,
    joins: Joins = NONE,
) -> CompiledPipeline:
    """Compile a pipeline for a caller who sees the rows of `visible`; `own` is its id, if it is a member.

    `joins` are the tables that its `$lookup` stages read.

    The statement yields one document more than `aggregate_documents` if there are too many, and no `data` if the
    documents exceed the size of a page.
    """
    if len(pipeline) > limits.aggregate_stages:
        raise wrong("pipeline", f"A pipeline has at most {limits.aggregate_stages} stages.")
    compiler = _Pipeline(table, limits, own, joins, Arguments(creators=visible.shows_creator, own=own))
    relation = _rows(table, visible, compiler.arguments, "own")
    for index, stage in enumerate(pipeline):
        relation = compiler.stage(relation, stage, f"pipeline[{index}]")
        if len(relation.source) > _LONGEST_SQL:
            raise wrong(f"pipeline[{index}]", "The pipeline is too long up to here; compute less in it.")
    sql = f"""
        select count(*) as total_count, case when max(size) > {limits.page_bytes} then null else
            coalesce('[' || string_agg(item, ',') filter (where size <= {limits.page_bytes}) || ']', '[]') end as data
        from (
            select item, sum(octet_length(item)) over (rows unbounded preceding) as size from (
                select {relation.document(compiler.arguments)} as item from {relation.source}{ordering(relation.order)}
                limit {limits.aggregate_documents + 1}
            ) documents
        ) sized
    """
    if len(compiler.arguments.values) > _MAX_PARAMETERS:
        raise wrong("pipeline", "The pipeline is too large; split or simplify it.")
    return CompiledPipeline(
        compiler.arguments.complete(sql), compiler.arguments.values, compiler.patterns, compiler.arguments.access
    )


def _rows(table: TableSchema, visible: Visibility, arguments: Arguments, alias: str) -> Relation:
    """Return the rows of a table that a caller sees, as documents."""
    relation = relations.of_table(table)
    condition = table.at_this_version + visible.and_condition(arguments, many=True)
    # A stage that fails, or takes long, must not meet rows that a rule hides, however cheap it seems.
    fence = "" if visible.is_simple else " offset 0"
    return relation._replace(source=f"(select * from {relation.source} where {condition}{fence}) {alias}")


class _Pipeline:
    def __init__(self, table: TableSchema, limits: Limits, own: str | None, joins: Joins, arguments: Arguments) -> None:
        self._table = table
        self._own = own
        self._joins = joins
        self._unions = 0
        self._limits = limits
        self._lookups = 0
        # Whether the documents are still the table's rows, for which indexes apply.
        self._indexable = True
        self._names = 0
        self._budget = Budget()
        self.arguments = arguments
        self.patterns: list[str] = []
        self._lookup_compiler = LookupCompiler(joins, self.arguments, limits, own, self.patterns)

    def stage(self, relation: Relation, stage: Json, place: str) -> Relation:
        """Return the documents after a stage."""
        if not isinstance(stage, Mapping) or len(stage) != 1:
            raise wrong(place, "A stage is an object with exactly one operator, such as {$match: …}.")
        name, operand = next(iter(stage.items()))
        compile_ = _STAGES.get(name)
        if compile_ is None:
            raise wrong(f"{place}.{name[:64]}", f"{name[:64]} is not a stage; the stages are {', '.join(_STAGES)}.")
        self._indexable = self._indexable and name in {"$match", "$sort"}
        if name not in _ROWS_STAY:
            self.arguments.creators, self.arguments.own = False, None
        if name in _NAMING and isinstance(operand, Mapping):
            operand = {normal_path(path): item for path, item in operand.items()}
        return compile_(self, relation, operand, f"{place}.{name}")

    def _operand(self, relation: Relation, name: str) -> Operand:
        found = relation.operand(name, self.arguments)
        return found._replace(column=operand_column(self._table, name)) if self._indexable else found

    def _match(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, Mapping):
            raise wrong(place, "$match takes an object of conditions.")
        condition, patterns = compile_where(
            operand, lambda name: self._operand(relation, name), self._limits, self.arguments, place
        )
        self.patterns += patterns
        return relation._replace(source=self._from(f"select * from {relation.source} where {condition}"))

    def _group(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, Mapping) or "_id" not in operand:
            raise wrong(place, "$group takes an object with _id and accumulators.")
        if len(operand) > _MAX_FIELDS:
            raise wrong(place, f"A document has at most {_MAX_FIELDS} fields here.")
        expressions = self._expressions(relation)
        inner: dict[str, str] = {column: column for column, _ in relation.order}
        key = self._grouped(expressions.compile(operand["_id"], f"{place}._id"), inner)
        keys = [column for column in inner if column.startswith(_KEY)]
        # A moment can be written in several ways; the group shows one of them.
        outer = {column: column if column in keys else f"min({column})" for column in inner if _of_key(column)}
        results = {
            name: self._accumulated(expressions, name, accumulator, f"{place}.{name}", relation, inner)
            for name, accumulator in operand.items()
            if name != "_id"
        }
        fields = {"_id": key, **{name: self._stored(result, outer) for name, result in results.items()}}
        grouping = f"group by {', '.join(keys)}" if keys else "having count(*) > 0"
        source = f"select {_columns(inner)} from {relation.source}"
        return Relation(self._from(f"select {_columns(outer)} from ({source}) documents {grouping}"), fields, [])

    def _grouped(self, key: Value, inner: dict[str, str], *, inside: bool = False) -> Value:
        """Put a group's key, or each member of a compound key, into its own column.

        A missing key is grouped with null, as null; a missing member is left out and forms a group of its own.
        """
        if key.members is not None:
            members = {name: self._grouped(item, inner, inside=True) for name, item in key.members.items()}
            return values.document(members, self.arguments)
        if key.kind is Kind.JSON and key.sql.startswith("$") and key.computed:
            # A constant: a single group.
            return key
        column = self._name("key")
        text = null = None
        if key.kind is not Kind.JSON:
            inner[column] = key.sql
        else:
            inner[column] = values.collected(key) if inside else f"nullif({key.sql}, 'null')"
        if inside and key.null is not None and key.kind is not Kind.JSON:
            null = self._name("key")
            inner[null] = f"(({key.sql}) is null and {key.null})"
        if key.text is not None:
            text = self._name("written")
            inner[text] = key.text
        return Value(column, key.kind, text, computed=key.computed or not inside, null=null, target=key.target)

    def _accumulated(
        self,
        expressions: Expressions,
        field: str,
        accumulator: Json,
        place: str,
        relation: Relation,
        inner: dict[str, str],
    ) -> Value:
        if not field or field.startswith("$") or "." in field:
            raise wrong(place, "A field's name in $group is not empty, has no dot and does not begin with $.")
        if not isinstance(accumulator, Mapping) or len(accumulator) != 1:
            raise wrong(place, "An accumulator is an object with exactly one operator, such as {$sum: …}.")
        name, operand = next(iter(accumulator.items()))
        if name == "$count":
            return Value("count(*)::numeric", Kind.NUMERIC, computed=True)
        compile_ = ACCUMULATORS.get(name)
        if compile_ is None:
            known = ", ".join([*ACCUMULATORS, "$count"])
            raise wrong(f"{place}.{name[:64]}", f"{name[:64]} is not an accumulator; the accumulators are {known}.")
        value = expressions.compile(operand, f"{place}.{name}")
        return compile_(self._stored(value, inner, "a"), ordering(relation.order))

    def _sort(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, Mapping) or not operand:
            raise wrong(place, "$sort takes an object such as {price: -1}.")
        if len(operand) > _MAX_SORTS:
            raise wrong(place, f"$sort takes at most {_MAX_SORTS} fields.")
        columns: dict[str, str] = {}
        order: list[tuple[str, str]] = []
        for name, direction in operand.items():
            if isinstance(direction, bool) or direction not in (1, -1):
                raise wrong(f"{place}.{name}", "A field is sorted by 1 or -1.")
            value = relation.resolve(name, self.arguments, f"{place}.{name[:100]}")
            for key in values.order_keys(value._replace(null=None), direction):
                column = self._name("k")
                columns[column], _, suffix = key.rpartition(" nulls ")
                columns[column], _, word = columns[column].rpartition(" ")
                order.append((column, f"{word} nulls {suffix}"))
        if self._indexable and len(operand) == 1:
            name, direction = next(iter(operand.items()))
            kind = AccessKind.SORT_NULLS_FIRST if direction == 1 else AccessKind.SORT_DESCENDING
            self.arguments.access.add(kind, operand_column(self._table, name))
        self._indexable = False
        source = self._from(f"select *, {_columns(columns)} from {relation.source}")
        return relation._replace(source=source, order=[*order, *relation.order])

    def _limit(self, relation: Relation, operand: Json, place: str) -> Relation:
        count = _whole(operand, 1, place)
        return self._sliced(relation, f"limit {count}")

    def _skip(self, relation: Relation, operand: Json, place: str) -> Relation:
        count = _whole(operand, 0, place)
        return self._sliced(relation, f"offset {count}")

    def _sliced(self, relation: Relation, clause: str) -> Relation:
        return relation._replace(
            source=self._from(f"select * from {relation.source}{ordering(relation.order)} {clause}")
        )

    def _count(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, str) or not operand or operand.startswith("$") or "." in operand:
            raise wrong(place, "$count takes the name of the field that is to hold the count.")
        source = self._from(f"select count(*)::numeric as n from {relation.source} having count(*) > 0")
        return Relation(source, {operand: Value("n", Kind.NUMERIC, computed=True)}, [])

    def _project(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, Mapping) or not operand:
            raise wrong(place, "$project takes an object of fields.")
        excluded = {name for name, item in operand.items() if _is_flag(item) and not item}
        identity = "_id" if "_id" in relation.fields else "id"
        if excluded == set(operand):
            return self._without(relation, excluded, place)
        if mixed := excluded - {identity, "_id"}:
            raise wrong(f"{place}.{min(mixed)}", "A projection either includes fields or excludes them.")
        expressions = self._expressions(relation)
        fields: dict[str, Value] = {}
        if identity in relation.fields and identity not in excluded:
            fields[identity] = relation.fields[identity]
        for name, item in operand.items():
            if name not in excluded:
                value = None
                if _is_flag(item):
                    self._budget.count(f"{place}.{name[:100]}")
                    value = relation.resolve(name, self.arguments, f"{place}.{name[:100]}")
                value = value or expressions.compile(item, f"{place}.{name}")
                self._put(fields, name, value, f"{place}.{name}")
        return self._reshaped(relation._replace(hidden=frozenset()), fields, None)

    def _without(self, relation: Relation, names: set[str], place: str) -> Relation:
        if len(names) > _MAX_FIELDS:
            raise wrong(place, f"A stage leaves out at most {_MAX_FIELDS} fields.")
        fields = {name: value for name, value in relation.fields.items() if name not in names}
        rest = relation.rest
        for name in sorted(names):
            first, *inside = _names(name, f"{place}.{name[:100]}")
            if not inside and rest is not None:
                # A column's explicit nulls are there as well.
                rest = f"({rest} - {self.arguments.bind(name, 'text')})"
            elif name in relation.fields:
                continue
            elif inside and first in fields and fields[first].members is None and fields[first].kind is Kind.JSON:
                path = self.arguments.bind(inside, "text[]")
                fields[first] = fields[first]._replace(sql=f"pilotis.without({fields[first].sql}, {path})")
            else:
                raise wrong(f"{place}.{name}", f"{name} is not a field of the documents.")
        return self._reshaped(relation, fields, rest)

    def _add_fields(self, relation: Relation, operand: Json, place: str) -> Relation:
        if not isinstance(operand, Mapping) or not operand:
            raise wrong(place, "$addFields takes an object of fields.")
        expressions = self._expressions(relation)
        fields, rest = dict(relation.fields), relation.rest
        for name, item in operand.items():
            value = expressions.compile(item, f"{place}.{name}")
            first = name.split(".")[0]
            if "." in name and first not in fields and relation.open:
                fields[first] = relation.resolve(first, self.arguments, place)
            if rest is not None:
                rest = f"({rest} - {self.arguments.bind(first, 'text')})"
            self._put(fields, name, value, f"{place}.{name}")
        return self._reshaped(relation, fields, rest)

    def _unwind(self, relation: Relation, operand: Json, place: str) -> Relation:
        options = operand if isinstance(operand, Mapping) else {"path": operand}
        path, index = options.get("path"), options.get("includeArrayIndex")
        keeps = options.get("preserveNullAndEmptyArrays", False)
        known = {"path", "includeArrayIndex", "preserveNullAndEmptyArrays"}
        if not isinstance(path, str) or not path.startswith("$") or not isinstance(keeps, bool) or set(options) - known:
            raise wrong(place, "$unwind takes a field such as $tags, or an object with path.")
        if index is not None and (not isinstance(index, str) or index.startswith("$") or not index):
            raise wrong(f"{place}.includeArrayIndex", "includeArrayIndex takes the name of a field.")
        value = relation.resolve(path[1:], self.arguments, place)
        json = values.as_json(value)
        of_null = "'[null]'" if keeps else "'[]'"
        array = (
            f"case when {json} is null then '[]' when {json} = 'null' then {of_null} "
            f"when jsonb_typeof({json}) = 'array' then {json} else jsonb_build_array({json}) end"
        )
        item, position = self._name("u"), self._name("u")
        join = "left join lateral" if keeps else "join lateral"
        source = self._from(
            f"select * from {relation.source} {join} "
            f"jsonb_array_elements({array}) with ordinality as elements({item}, {position}) on true"
        )
        fields = dict(relation.fields)
        rest = relation.rest
        first = path[1:].split(".")[0]
        if first not in fields:
            fields[first] = relation.resolve(first, self.arguments, place)
        if rest is not None:
            rest = f"({rest} - {self.arguments.bind(first, 'text')})"
        self._put(fields, path[1:], Value(item, Kind.JSON), place)
        if index:
            if rest is not None:
                rest = f"({rest} - {self.arguments.bind(index.split('.')[0], 'text')})"
            number = f"case when jsonb_typeof({json}) = 'array' then {position} - 1 end"
            self._put(fields, index, Value(f"({number})", Kind.NUMERIC, computed=True), place)
        return relation._replace(source=source, fields=fields, order=[*relation.order, (position, "asc")], rest=rest)

    def _lookup(self, relation: Relation, operand: Json, place: str) -> Relation:
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS:
            raise wrong(place, f"A pipeline has at most {MAX_LOOKUPS} $lookup stages.")
        local, column, inner = self._name("l"), self._name("l"), self._name("s")
        with self.arguments.access.ignored():
            join = self._lookup_compiler.compile(relation, operand, place, (local, column, inner))
        # What the other table is compared with has a name of its own, which no column of that table has.
        left = self._from(f"select *, {join.local} as {local} from {relation.source}")
        source = self._from(f"select * from {left} left join lateral ({join.select}) {self._name('s')} on true")
        fields, rest = dict(relation.fields), relation.rest
        if rest is not None:
            rest = f"({rest} - {self.arguments.bind(operand['as'], 'text')})"
        self._put(fields, operand["as"], join.value, f"{place}.as")
        return relation._replace(source=source, fields=fields, rest=rest)

    def _union(self, relation: Relation, operand: Json, place: str) -> Relation:
        table, stages = operand_of(operand, place)
        self._unions += 1
        if self._unions > MAX_UNIONS:
            raise wrong(place, f"A pipeline has at most {MAX_UNIONS} {UNION} stages.")
        union = self._joins.unions.get(table)
        if union is None or union.joined.visible is None:
            raise wrong(f"{place}.table", f"The app has no table {table[:100]}.")
        if len(stages) > self._limits.aggregate_stages:
            raise wrong(f"{place}.pipeline", f"A pipeline has at most {self._limits.aggregate_stages} stages.")
        visible = union.joined.visible
        arguments = self.arguments
        with arguments.access.ignored(), arguments.about(union.joined.hash, visible.shows_creator, self._own):
            inner = _Pipeline(visible.table, self._limits, self._own, union.joins, arguments)
            # What is counted, and named, is so in the whole statement.
            inner._names, inner._budget, inner._lookups = self._names, self._budget, self._lookups
            inner.patterns = self.patterns
            inner._lookup_compiler = inner._lookup_compiler._replace(patterns=self.patterns)
            other = _rows(visible.table, visible, arguments, inner._name("s"))
            for index, stage in enumerate(stages):
                if isinstance(stage, Mapping) and UNION in stage:
                    raise wrong(f"{place}.pipeline[{index}]", f"There is no {UNION} within another.")
                other = inner.stage(other, stage, f"{place}.pipeline[{index}]")
            self._names, self._lookups = inner._names, inner._lookups
        return united([relation, other], arguments, self._name)

    def _put(self, fields: dict[str, Value], name: str, value: Value, place: str) -> None:
        """Set a value at a name or a dotted path."""
        first, *inside = _names(name, place)
        if not first or first.startswith("$") or not all(inside):
            raise wrong(place, "A field's name is not empty and does not begin with $.")
        if len(fields) >= _MAX_FIELDS and first not in fields:
            raise wrong(place, f"A document has at most {_MAX_FIELDS} fields here.")
        parent = fields.get(first)
        if not inside:
            fields[first] = value
        elif parent is not None and parent.members is None:
            path = self.arguments.bind(inside, "text[]")
            item, whole = values.collected(value), values.as_json(parent)
            changed = f"pilotis.set_at({whole}, {path}, {item})"
            if not value.computed:
                changed = f"case when {item} is null then pilotis.without({whole}, {path}) else {changed} end"
            fields[first] = Value(values.bounded(changed), Kind.JSON)
        else:
            members = dict(parent.members) if parent is not None and parent.members is not None else {}
            self._put(members, ".".join(inside), value, place)
            fields[first] = values.document(members, self.arguments)

    def _reshaped(self, relation: Relation, fields: Mapping[str, Value], rest: str | None) -> Relation:
        """Materialise every field as a column, so that expressions do not grow from stage to stage.

        Without OFFSET 0, PostgreSQL would substitute the expression for each mention of a column in later stages: the
        plan would grow exponentially and exhaust memory before the time limit applies.
        """
        columns = {column: column for column, _ in relation.order}
        stored = {name: self._stored(value, columns) for name, value in fields.items()}
        if rest is not None:
            name = self._name("r")
            columns[name], rest = rest, name
        fence = " offset 0" if any(value.computed for value in fields.values()) or rest is not None else ""
        source = self._from(f"select {_columns(columns)} from {relation.source}{fence}")
        return relation._replace(source=source, fields=stored, rest=rest)

    def _stored(self, value: Value, columns: dict[str, str], prefix: str = "f") -> Value:
        if value.members is not None:
            members = {name: self._stored(item, columns, prefix) for name, item in value.members.items()}
            return values.document(members, self.arguments)
        if len(columns) >= _MAX_COLUMNS:
            raise wrong("pipeline", f"The documents between two stages have at most {_MAX_COLUMNS} members in all.")
        column = self._name(prefix)
        text = null = None
        columns[column] = values.as_json(value) if value.kind is Kind.JSON else value.sql
        if value.text:
            text = self._name(prefix)
            columns[text] = value.text
        if value.null is not None and value.kind is not Kind.JSON:
            null = self._name(prefix)
            columns[null] = value.null
        return value._replace(sql=column, text=text, null=null)

    def _expressions(self, relation: Relation) -> Expressions:
        return Expressions(
            lambda path, place: relation.resolve(path, self.arguments, place), self.arguments, self._budget
        )

    def _from(self, select: str) -> str:
        return f"({select}) {self._name('s')}"

    def _name(self, prefix: str) -> str:
        self._names += 1
        # No user column begins with __, and none of Pilotis' own columns has a second _ after a word.
        return f"__{prefix}_{self._names}"


def _names(path: str, place: str) -> list[str]:
    """Return the names of a dotted path under which a value is set or removed."""
    names = path.split(".")
    if len(names) > _DEEPEST_PATH + 1:
        raise wrong(place, f"A path has at most {_DEEPEST_PATH} names.")
    return names


_KEY, _WRITTEN = "__key_", "__written_"


def _of_key(column: str) -> bool:
    return column.startswith((_KEY, _WRITTEN))


Stage = Callable[[_Pipeline, Relation, Json, str], Relation]

_STAGES: dict[str, Stage] = {
    "$match": _Pipeline._match,
    "$group": _Pipeline._group,
    "$sort": _Pipeline._sort,
    "$limit": _Pipeline._limit,
    "$skip": _Pipeline._skip,
    "$project": _Pipeline._project,
    "$count": _Pipeline._count,
    "$unwind": _Pipeline._unwind,
    "$addFields": _Pipeline._add_fields,
    "$lookup": _Pipeline._lookup,
    UNION: _Pipeline._union,
}


# Stages whose operand has field names as keys.
_NAMING = frozenset({"$group", "$sort", "$project", "$addFields"})
# Stages whose documents are still rows, whose creators conditions may name.
_ROWS_STAY = frozenset({"$match", "$sort", "$limit", "$skip"})


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(sql if sql == name else f"{sql} as {name}" for name, sql in columns.items()) or "1 as one"


def _whole(operand: Json, minimum: int, place: str) -> int:
    if isinstance(operand, bool) or not isinstance(operand, int) or not minimum <= operand <= _MAX_SKIPPED:
        raise wrong(place, f"{place.rpartition('.')[2]} takes a whole number from {minimum}.")
    return operand


def _is_flag(item: Json) -> bool:
    return isinstance(item, (bool, int, Decimal))
