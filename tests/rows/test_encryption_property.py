"""What is put into an encrypted column comes out as it was, and is found by what it equals and by nothing else."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pilotis.kit import json
from tests.conftest import new_app
from tests.rows import where_model
from tests.rows.values import OF_TYPE, typed_rows
from tests.support import Server
from tests.waiting import PATIENCE
from tests.whole import times

PROFILE = settings(max_examples=times(15, whole=100), deadline=None, phases=[Phase.reuse, Phase.generate, Phase.shrink])
PLAIN = {f"{type_}_{number}": type_ for type_ in OF_TYPE for number in (1, 2)}


class Table:
    """A table on the server whose columns are all encrypted."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        schema = {name: {"type": type_, "encrypted": True} for name, type_ in PLAIN.items()}
        made = client.post("/v1/public/tables", json={"title": "t", "schema": schema, "access_level": "Public"})
        self.path = f"/v1/public/tables/{made.json()['id']}/data"

    def post(self, rest: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        answer = self._client.post(self.path + rest, content=json.encode(body), headers=headers)
        assert answer.status_code in {200, 201}, (body, answer.text)
        return json.decode(answer.content)

    def read(self) -> list[Any]:
        return json.decode(self._client.get(self.path, params={"limit": 100}).content)["data"]


@pytest.fixture(scope="module")
def table(server: Server, console: dict[str, str]) -> Iterator[Table]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}, timeout=PATIENCE) as client:
        yield Table(client)


@PROFILE
@given(rows=st.lists(typed_rows, min_size=1, max_size=4), name=st.sampled_from(sorted(PLAIN)), data=st.data())
def test_round_trips_and_equality(table: Table, rows: list[Any], name: str, data: st.DataObject):
    table.post("/delete-where", {"all": True})
    made = table.post("/bulk", {"data": rows})["created"]
    assert [item["data"] for item in made] == rows
    assert table.read() == made
    wanted = data.draw(st.sampled_from([row.get(name) for row in rows]) | OF_TYPE[PLAIN[name]])
    if isinstance(wanted, dict) and any(key.startswith("$") for key in wanted):
        return
    for operator in ("$eq", "$ne"):
        where = {name: {operator: wanted}}
        found = table.post("/query", {"where": where, "limit": 100})
        expected = [item["id"] for item in made if where_model.matches(item, where, PLAIN)]
        assert [item["id"] for item in found["data"]] == expected, where
    found = table.post("/query", {"where": {name: {"$isNull": True}}})
    assert found["total_count"] == sum(row.get(name) is None for row in rows)
