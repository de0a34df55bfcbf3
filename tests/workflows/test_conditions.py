"""Conditions in Python mean what they mean on rows in PostgreSQL."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotis.kit.errors import BadRequestError
from pilotis.workflows.conditions import compile_condition
from pilotis.workflows.paths import follow, parse
from tests.support import App
from tests.whole import times
from tests.workflows.support import Workflows

TEXT = st.text(st.sampled_from("abAB%_\\é"), max_size=3)
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), TEXT, st.sampled_from([1.0, 2.5, -0.5]))
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
ORDERED = st.one_of(st.booleans(), st.integers(-3, 3), TEXT, st.just(2.5))
OPERATORS = st.one_of(
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$eq", "$ne"]), VALUE),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ORDERED),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$in", "$nin"]), st.lists(VALUE, max_size=3)),
    st.builds(lambda low, high: {"$between": [low, high]}, ORDERED, ORDERED),
    st.builds(lambda value: {"$isNull": value}, st.booleans()),
    st.builds(lambda name, v: {name: v}, st.sampled_from(["$contains", "$startsWith", "$endsWith"]), TEXT),
    st.builds(lambda value: {"$arrayContains": value}, VALUE),
    st.builds(lambda value: {"$arrayContainsAny": value}, st.lists(VALUE, max_size=3)),
)
LEAF = st.builds(lambda path, test: {path: test}, st.sampled_from(["a", "b", "a.a", "b.a"]), OPERATORS | SCALAR)
WHERE = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"$and": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"$or": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"$not": part}, inner),
    ),
    max_leaves=4,
)
CONDITIONS = times(60, whole=150)
ROW = st.dictionaries(st.sampled_from("ab"), VALUE, max_size=2)


def on_paths(where: dict[str, Any]) -> dict[str, Any]:
    """The condition with `$.input.a` in the place of the column `a`."""
    found: dict[str, Any] = {}
    for name, value in where.items():
        if name in {"$and", "$or"}:
            found[name] = [on_paths(part) for part in value]
        elif name == "$not":
            found[name] = on_paths(value)
        else:
            found[f"$.input.{name}"] = value
    return found


def holds(where: dict[str, Any], row: dict[str, Any]) -> bool:
    condition = compile_condition(on_paths(where), "condition")
    return condition(lambda path: follow({"input": row}, parse(path)))


async def test_python_and_postgresql_agree(app: App):
    """Each of many conditions selects the same of many rows, by the route of the data and by the evaluator."""
    table = await app.table({})
    examples: list[tuple[list[Any], list[Any]]] = []

    @settings(max_examples=4)
    @given(st.lists(ROW, min_size=30, max_size=30), st.lists(WHERE, min_size=CONDITIONS, max_size=CONDITIONS))
    def collect(rows: list[Any], wheres: list[Any]) -> None:
        examples.append((rows, wheres))

    collect()
    async with app.client() as client:
        for rows, wheres in examples[-1:]:
            body = {"data": [{**row, "n": at} for at, row in enumerate(rows)]}
            made = await client.post(f"/v1/public/tables/{table}/data/bulk", json=body)
            assert made.status_code == 201, made.text
            for where in wheres:
                query = {"where": where, "limit": 100}
                answer = await client.post(f"/v1/public/tables/{table}/data/query", json=query)
                assert answer.status_code == 200, answer.text
                found = sorted(row["data"]["n"] for row in answer.json()["data"])
                expected = [at for at, row in enumerate(rows) if holds(where, row)]
                assert found == expected, (where, [rows[at] for at in {*found} ^ {*expected}])


@pytest.mark.parametrize(
    "condition",
    [
        {"$.input.a": {"$matches": "x"}},
        {"$.nothing": 1},
        {"a": 1},
        {"$.steps.a": 1},
        {"$or": {}},
        {"$.input.a": {"$gt": None}},
        {"$.input.a": "x" * 3000},
        {"$.input.__class__.[": 1},
    ],
)
async def test_what_is_no_condition(workflows: Workflows, condition: dict[str, Any]):
    with pytest.raises(BadRequestError):
        compile_condition(condition, "condition")
    steps = [{"step_type": "condition", "condition": condition}]
    answer = await workflows.console.post(f"{workflows.base}/validate", json={"name": "x", "steps": steps})
    (error,) = answer.json()["errors"]
    assert (error["code"], error["field"][:18]) == ("INVALID_CONDITION", "steps[0].condition")
