"""The where compiler against plain Python: the same condition on the same rows must choose the same rows."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pilotis.kit import json
from tests.conftest import new_app
from tests.rows import where_model
from tests.rows.values import FREE_FIELDS, SCHEMA, TYPED_FIELDS, UUIDS, free_rows, typed_rows, wheres
from tests.support import Server
from tests.whole import times

PROFILE = settings(max_examples=times(25, whole=100), deadline=None, phases=[Phase.reuse, Phase.generate, Phase.shrink])
SORTABLE = [name for name, type_ in SCHEMA.items() if type_ not in {"object", "array"}] + ["id", "created_at"]


class Table:
    """A table on the server, emptied and refilled for each example."""

    def __init__(self, client: httpx.Client, schema: dict[str, str]) -> None:
        self._client = client
        self.schema = schema
        body = {"title": f"of {len(schema)}", "schema": schema, "access_level": "Public"}
        made = client.post("/v1/public/tables", json=body)
        assert made.status_code == 201, made.text
        self._path = f"/v1/public/tables/{made.json()['id']}/data"

    def fill(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._post("/delete-where", {"all": True})
        if rows:
            self._post("/bulk", {"data": rows}, 201)
        items = self.query({"limit": 1000})["data"]
        assert len(items) == len(rows)
        return items

    def query(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._post("/query", body)

    def _post(self, path: str, body: Any, status: int = 200) -> Any:
        headers = {"Content-Type": "application/json"}
        answer = self._client.post(self._path + path, content=json.encode(body), headers=headers)
        assert answer.status_code == status, (body, answer.text)
        return json.decode(answer.content)


@pytest.fixture(scope="module")
def client(server: Server, console: dict[str, str]) -> Iterator[httpx.Client]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}) as client:
        yield client


@pytest.fixture(scope="module")
def typed(client: httpx.Client) -> Table:
    return Table(client, SCHEMA)


@pytest.fixture(scope="module")
def free(client: httpx.Client) -> Table:
    return Table(client, {})


@PROFILE
@given(rows=st.lists(typed_rows, max_size=6), conditions=st.lists(wheres(TYPED_FIELDS), min_size=1, max_size=6))
def test_conditions_on_columns(typed: Table, rows: list[Any], conditions: list[Any]):
    assert_the_same_rows(typed, rows, conditions)


@PROFILE
@given(rows=st.lists(free_rows, max_size=6), conditions=st.lists(wheres(FREE_FIELDS), min_size=1, max_size=6))
def test_conditions_on_free_form_rows(free: Table, rows: list[Any], conditions: list[Any]):
    assert_the_same_rows(free, rows, conditions)


THREE = {
    "string_1": ["A", "a", "é"],
    "number_1": [-1, 1.5, 2],
    "int_1": [-(2**63), 0, 2**63 - 1],
    "date_1": ["2019-12-31T23:59:59Z", "2020-01-01", "2020-01-01T00:00:00.000001Z"],
    "uuid_1": [UUIDS[0], UUIDS[0].replace("1", "2"), UUIDS[1]],
}


def test_both_bounds_of_between_hold_and_belong_to_it(typed: Table):
    items = typed.fill([{name: values[number] for name, values in THREE.items()} for number in range(3)])
    ids = [item["id"] for item in items]
    for name, (low, middle, high) in THREE.items():
        for bounds, expected in [
            ([low, middle], ids[:2]),
            ([middle, middle], ids[1:2]),
            ([middle, high], ids[1:]),
            ([high, low], []),
        ]:
            found = typed.query({"where": {name: {"$between": bounds}}})
            assert [item["id"] for item in found["data"]] == expected, (name, bounds)


def assert_the_same_rows(table: Table, rows: list[Any], conditions: list[Any]) -> None:
    items = table.fill(rows)
    for where in conditions:
        expected = [item["id"] for item in items if where_model.matches(item, where, table.schema)]
        found = table.query({"where": where, "limit": 1000})
        assert [item["id"] for item in found["data"]] == expected, where
        assert found["total_count"] == len(expected)


@PROFILE
@given(
    rows=st.lists(typed_rows, max_size=8),
    name=st.sampled_from(SORTABLE),
    direction=st.sampled_from(["asc", "desc"]),
    limit=st.integers(1, 4),
)
def test_sorting_puts_nulls_last_and_pages_never_overlap(
    typed: Table, rows: list[Any], name: str, direction: str, limit: int
):
    items = typed.fill(rows)
    assert paged(typed, name, direction, limit) == in_order(items, name, direction, typed.schema)


def in_order(items: list[Any], name: str, direction: str, schema: dict[str, str]) -> list[str]:
    valued, rest = [], []
    for item in items:
        type_, value = where_model.field(item, name, schema)
        (rest if value is None else valued).append((where_model.comparable(type_, value), item["id"]))
    # Python's sort is stable, also in reverse: ties stay in the order of their ids.
    valued.sort(key=lambda pair: pair[0], reverse=direction == "desc")
    return [row_id for _, row_id in [*valued, *rest]]


@PROFILE
@given(
    rows=st.lists(free_rows, max_size=8),
    name=st.sampled_from(sorted(FREE_FIELDS)),
    direction=st.sampled_from(["asc", "desc"]),
    limit=st.integers(1, 4),
)
def test_sorting_by_a_path_puts_nulls_last_and_pages_never_overlap(
    free: Table, rows: list[Any], name: str, direction: str, limit: int
):
    items = free.fill(rows)
    ids = paged(free, name, direction, limit)
    values = {item["id"]: where_model.field(item, name, {})[1] for item in items}
    assert sorted(ids) == sorted(values)
    nulls = [row_id for row_id in ids if values[row_id] is None]
    assert ids[len(ids) - len(nulls) :] == sorted(nulls)
    for wanted in ("number", "text", "boolean"):
        of_kind = [values[row_id] for row_id in ids if where_model.kind(values[row_id]) == wanted]
        assert of_kind == sorted(of_kind, reverse=direction == "desc")


def paged(table: Table, name: str, direction: str, limit: int) -> list[str]:
    ids: list[str] = []
    while True:
        body = {"order_by": name, "order_direction": direction, "limit": limit, "offset": len(ids)}
        page = table.query(body)["data"]
        ids += [item["id"] for item in page]
        if len(page) < limit:
            return ids
