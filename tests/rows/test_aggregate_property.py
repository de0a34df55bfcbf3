"""Pipelines against plain Python: the same stages on the same documents must give the same answer."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pilotis.kit import json
from tests.conftest import new_app
from tests.rows import aggregate_model
from tests.support import Server
from tests.waiting import PATIENCE
from tests.whole import times

PROFILE = settings(max_examples=times(25, whole=150), deadline=None, phases=[Phase.reuse, Phase.generate, Phase.shrink])
FIELDS = ["a", "b", "n", "s"]
OWN = {"id", "created_at", "updated_at"}

numbers = st.sampled_from([0, 1, -1, 2, 7, Decimal("0.5"), Decimal("-2.25"), 10**12])
texts = st.sampled_from(["", "a", "B", "é", "ab", "1", "true"])
scalars = st.none() | st.booleans() | numbers | texts
free_rows = st.dictionaries(st.sampled_from(FIELDS), scalars | st.lists(scalars, max_size=3), max_size=4)
TYPED = {
    "a": ("int", st.integers(-3, 3)),
    "b": ("boolean", st.booleans()),
    "n": ("number", numbers),
    "s": ("string", texts),
}
typed_rows = st.fixed_dictionaries({}, optional={name: st.none() | of for name, (_, of) in TYPED.items()})

fields = st.sampled_from([f"${name}" for name in FIELDS])
operands = fields | numbers | st.sampled_from(["a", "ab"]) | st.booleans() | st.none()


def _calls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.lists(inner, min_size=2, max_size=2)
    binary = st.sampled_from(
        ["$add", "$subtract", "$multiply", "$eq", "$ne", "$gt", "$lte", "$and", "$or", "$ifNull", "$concat"]
    )
    return st.one_of(
        st.builds(lambda name, pair: {name: pair}, binary, pairs),
        st.builds(lambda one: {"$not": [one]}, inner),
        st.builds(lambda three: {"$cond": three}, st.lists(inner, min_size=3, max_size=3)),
    )


objects = st.dictionaries(st.sampled_from(["u", "v"]), operands, min_size=1, max_size=2)
expressions = st.recursive(operands, _calls, max_leaves=6)
sorts = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from([1, -1]), min_size=1, max_size=3).map(
    lambda keys: {"$sort": keys}
)
# Objects have an order among themselves that the model does not know: nothing compares x.
adds = st.builds(
    lambda given_, more: {"$addFields": given_ | more},
    st.dictionaries(st.sampled_from(FIELDS), expressions, min_size=1, max_size=3),
    st.fixed_dictionaries({}, optional={"x": expressions | objects}),
)
pages = st.builds(lambda name, count: {name: count}, st.sampled_from(["$limit", "$skip"]), st.integers(1, 4))
accumulators = st.builds(
    lambda name, of: {name: of},
    st.sampled_from(["$sum", "$min", "$max", "$first", "$last", "$push", "$addToSet"]),
    fields,
)
pushed = st.builds(lambda name, of: {name: of}, st.sampled_from(["$push", "$addToSet"]), objects)
groups = st.builds(
    lambda key, results: {"$group": {"_id": key, **results}},
    fields | st.none() | objects,
    st.dictionaries(st.sampled_from(["u", "v"]), accumulators | pushed, max_size=2),
)
unwinds = st.fixed_dictionaries(
    {"path": st.just("$s")},
    optional={"preserveNullAndEmptyArrays": st.booleans(), "includeArrayIndex": st.just("i")},
).map(lambda options: {"$unwind": options})


class Table:
    """A table on the server, emptied and refilled for each example."""

    def __init__(self, client: httpx.Client, schema: dict[str, str]) -> None:
        self._client = client
        body = {"title": f"of {len(schema)}", "schema": schema, "access_level": "Public"}
        self._id = client.post("/v1/public/tables", json=body).json()["id"]

    def fill(self, rows: list[dict[str, Any]]) -> None:
        path = f"/v1/public/tables/{self._id}/data"
        assert self._post(f"{path}/delete-where", {"all": True}).status_code == 200
        if rows:
            assert self._post(f"{path}/bulk", {"data": rows}).status_code == 201

    def run(self, pipeline: list[dict[str, Any]]) -> httpx.Response:
        return self._post("/v1/public/aggregate", {"table_id": self._id, "pipeline": pipeline})

    def _post(self, path: str, body: Any) -> httpx.Response:
        return self._client.post(path, content=json.encode(body), headers={"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def client(server: Server, console: dict[str, str]) -> Iterator[httpx.Client]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def free(client: httpx.Client) -> Table:
    return Table(client, {})


@pytest.fixture(scope="module")
def typed(client: httpx.Client) -> Table:
    return Table(client, {name: type_ for name, (type_, _) in TYPED.items()})


def comparable(documents: list[Any], *, in_order: bool) -> list[Any]:
    """Documents as they can be compared: without the service's fields, in any order where none is set."""
    shown = [json.encode(_plain(one)) for one in documents]
    return shown if in_order else sorted(shown)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value) if name not in OWN}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if aggregate_model.is_number(value):
        number = Decimal(value).normalize()
        return f"number {number:f}"
    return value


def sets_in_order(documents: list[Any], pipeline: list[Any]) -> list[Any]:
    """Documents of a `$group` with what `$addToSet` made of them in one order; it has none of its own."""
    sets = {
        name
        for name, accumulator in pipeline[-1].get("$group", {}).items()
        if name != "_id" and "$addToSet" in accumulator
    }
    return [
        {
            name: sorted(one, key=lambda item: json.encode(_plain(item))) if name in sets else one
            for name, one in document.items()
        }
        for document in documents
    ]


def assert_the_same(table: Table, rows: list[Any], pipeline: list[Any]) -> None:
    table.fill(rows)
    answer = table.run(pipeline)
    assert answer.status_code == 200, (pipeline, answer.text)
    found = json.decode(answer.content)["data"]
    expected = aggregate_model.run(rows, pipeline)
    found, expected = sets_in_order(found, pipeline), sets_in_order(expected, pipeline)
    in_order = "$group" not in pipeline[-1]
    assert comparable(found, in_order=in_order) == comparable(expected, in_order=in_order), pipeline


@PROFILE
@given(
    rows=st.lists(free_rows, max_size=6),
    pipeline=st.lists(sorts | pages | st.just({"$unwind": "$s"}) | unwinds, min_size=1, max_size=4),
)
def test_order_and_pages_of_mixed_types(free: Table, rows: list[Any], pipeline: list[Any]):
    # Lists have an order among themselves that the model does not know.
    rows = [{name: one for name, one in row.items() if name == "s" or not isinstance(one, list)} for row in rows]
    keys = [stage for stage in pipeline if "$sort" not in stage or "s" not in stage["$sort"]]
    assert_the_same(free, rows, keys or [{"$limit": 9}])


@PROFILE
@given(rows=st.lists(free_rows, max_size=8), sort=sorts, group=groups)
def test_groups_of_mixed_types(free: Table, rows: list[Any], sort: Any, group: Any):
    rows = [{name: one for name, one in row.items() if not isinstance(one, list)} for row in rows]
    assert_the_same(free, rows, [sort, group])
    assert_the_same(free, rows, [sort, group, {"$count": "groups"}])


@PROFILE
@given(rows=st.lists(typed_rows, max_size=8), stages=st.lists(sorts | pages | unwinds, max_size=2), group=groups)
def test_groups_of_typed_columns(typed: Table, rows: list[Any], stages: list[Any], group: Any):
    assert_the_same(typed, rows, [*stages, group])


@PROFILE
@given(rows=st.lists(free_rows, max_size=4), stages=st.lists(adds, min_size=1, max_size=3))
def test_expressions_over_mixed_types(free: Table, rows: list[Any], stages: list[Any]):
    rows = [{name: one for name, one in row.items() if not isinstance(one, list)} for row in rows]
    assert_the_same(free, rows, stages)


@PROFILE
@given(rows=st.lists(typed_rows, max_size=4), stages=st.lists(adds, min_size=1, max_size=3), group=groups)
def test_expressions_over_typed_columns(typed: Table, rows: list[Any], stages: list[Any], group: Any):
    assert_the_same(typed, rows, [*stages, group])
