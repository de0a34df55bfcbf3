"""A table and a model of it go through the same life: rows made, changed, deleted, columns added, dropped, cast."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pilotis.kit import json
from tests.conftest import new_app
from tests.rows import where_model
from tests.rows.values import OF_TYPE
from tests.support import Server
from tests.whole import times

TYPES = list(OF_TYPE)
NAMES = ["a", "b", "c", "xmin"]


class TableLife(RuleBasedStateMachine):
    """The model is a map from row ids to data, and one from column names to types."""

    client: httpx.Client
    number = 0

    @initialize(schema=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), max_size=3))
    def make(self, schema: dict[str, str]) -> None:
        TableLife.number += 1
        self.schema = schema
        self.rows: dict[str, dict[str, Any]] = {}
        body = {"title": f"life {TableLife.number}", "schema": schema, "access_level": "Public"}
        self.table = f"/v1/public/tables/{self.send('POST', '/v1/public/tables', body, 201)['id']}"

    def send(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        content = None if body is None else json.encode(body)
        headers = {"Content-Type": "application/json"}
        answer = self.client.request(method, path, content=content, headers=headers)
        assert answer.status_code == status, (body, answer.text)
        return json.decode(answer.content)

    def draw_row(self, data: st.DataObject) -> dict[str, Any]:
        if not self.schema:
            return data.draw(st.dictionaries(st.sampled_from(NAMES), st.none() | OF_TYPE["array"] | OF_TYPE["int"]))
        columns = {name: st.none() | OF_TYPE[type_] for name, type_ in self.schema.items()}
        return data.draw(st.fixed_dictionaries({}, optional=columns))

    def draw_id(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.rows)))

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        row = self.draw_row(data)
        made = self.send("POST", f"{self.table}/data", {"data": row}, 201)
        assert made["data"] == row
        self.rows[made["id"]] = row

    @rule(data=st.data(), size=st.integers(1, 4))
    def create_many(self, data: st.DataObject, size: int) -> None:
        rows = [self.draw_row(data) for _ in range(size)]
        made = self.send("POST", f"{self.table}/data/bulk", {"data": rows}, 201)
        assert [item["data"] for item in made["created"]] == rows
        self.rows |= {item["id"]: item["data"] for item in made["created"]}

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        row_id, change = self.draw_id(data), self.draw_row(data)
        self.rows[row_id] = self.rows[row_id] | change
        assert self.send("PATCH", f"{self.table}/data/{row_id}", {"data": change})["data"] == self.rows[row_id]

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        row_id = self.draw_id(data)
        self.send("DELETE", f"{self.table}/data/{row_id}")
        del self.rows[row_id]
        self.send("GET", f"{self.table}/data/{row_id}", status=404)

    @precondition(lambda self: self.schema)
    @rule(data=st.data())
    def delete_where(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.schema)))
        where = {name: {"$eq": data.draw(st.none() | OF_TYPE[self.schema[name]])}}
        gone = [
            row_id
            for row_id, row in self.rows.items()
            if where_model.matches({"id": row_id, "data": row}, where, self.schema)
        ]
        assert self.send("POST", f"{self.table}/data/delete-where", {"where": where}) == {"deleted_count": len(gone)}
        for row_id in gone:
            del self.rows[row_id]

    @precondition(lambda self: self.schema and len(self.schema) < len(NAMES))
    @rule(data=st.data(), type_=st.sampled_from(TYPES))
    def add_column(self, data: st.DataObject, type_: str) -> None:
        name = data.draw(st.sampled_from([name for name in NAMES if name not in self.schema]))
        self.send("POST", f"{self.table}/columns", {"name": name, "data_type": type_}, 201)
        self.schema = self.schema | {name: type_}

    @precondition(lambda self: len(self.schema) > 1)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.schema)))
        self.send("DELETE", f"{self.table}/columns/{name}")
        self.schema = {other: type_ for other, type_ in self.schema.items() if other != name}
        for row in self.rows.values():
            row.pop(name, None)

    @precondition(lambda self: self.schema)
    @rule(data=st.data())
    def cast_to_text_and_back(self, data: st.DataObject) -> None:
        """Through text, whatever a column holds comes back as it was."""
        name = data.draw(st.sampled_from(sorted(self.schema)))
        for type_ in ("string", self.schema[name]):
            body = {"data_type": {"boolean": "bool"}.get(type_, type_)}
            self.send("PATCH", f"{self.table}/columns/{name}", body)

    @precondition(lambda self: self.schema)
    @rule(data=st.data(), type_=st.sampled_from(TYPES))
    def cast(self, data: st.DataObject, type_: str) -> None:
        """A cast of no values but nulls always works, one of any others either works whole or changes nothing."""
        name = data.draw(st.sampled_from(sorted(self.schema)))
        held = any(row.get(name) is not None for row in self.rows.values())
        if not held:
            self.send("PATCH", f"{self.table}/columns/{name}", {"data_type": type_})
            self.schema = self.schema | {name: type_}

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        page = self.send("GET", f"{self.table}/data?limit=1000")
        assert {item["id"]: item["data"] for item in page["data"]} == self.rows
        assert page["total_count"] == len(self.rows)
        shown = self.send("GET", self.table)["schema"]
        assert shown == self.schema


@pytest.fixture
def client(server: Server, console: dict[str, str]) -> Iterator[httpx.Client]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}, verify=False) as client:
        yield client


def test_a_table_lives_as_its_model_does(client: httpx.Client):
    class Life(TableLife):
        pass

    Life.client = client
    profile = settings(
        max_examples=times(5, whole=25), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Life, settings=profile)
