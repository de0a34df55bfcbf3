"""A bulk create stores what creating the same rows one by one does."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pilotis.data.rows.arrays import array, array_of_json
from pilotis.kit import json
from tests.conftest import new_app
from tests.database import connection_to
from tests.rows.values import DATES, SCHEMA, typed_rows
from tests.support import Server
from tests.waiting import PATIENCE
from tests.whole import times

PROFILE = settings(
    max_examples=times(15, whole=300),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
# What has a meaning in JSON or in an array of PostgreSQL, and what is near it.
HARD = [
    "",
    "null",
    "NULL",
    "{}",
    '{"a",b}',
    "a,b",
    " a ",
    "\\",
    "\\n",
    "\\\\n",
    "\n",
    "\\\n",
    "\n\\",
    "\\u0001",
    "\x01",
    "\\\x01",
    "\x1f\x7f",
    '\\"',
    '"\\',
    "\t\b\f\r",
    "\u2028",
    "é\\é",
    "😀",
]
hard_texts = st.text(st.sampled_from('\\"\n\r\t\b\f\x01\x1f,{}nu01 é'), max_size=12) | st.sampled_from(HARD)


@pytest.fixture
async def connection(server: Server) -> Any:
    async with connection_to(server) as opened:
        yield opened


async def test_postgres_reads_each_value_of_an_array(connection: asyncpg.Connection):
    assert await connection.fetchval("select $1::text::text[]", array(HARD)) == HARD
    for values, type_ in (
        ([None, "null", UNSET, ""], "text"),
        ([1, None, -(2**63)], "bigint"),
        ([True, False, None], "boolean"),
        ([UUID(int=1), None], "uuid"),
        ([], "text"),
    ):
        expected = [None if value is UNSET else value for value in values]
        assert await connection.fetchval(f"select $1::text::{type_}[]", array(values)) == expected


async def test_postgres_reads_the_json_of_objects_and_lists(connection: asyncpg.Connection):
    values = [{"k": HARD}, None, HARD, UNSET, ["null"], {}, [], {"null": None, '"': ["\\"]}, [None]]
    texts = [None if value is None or value is UNSET else json.encode(value).decode() for value in values]
    assert await connection.fetchval("select $1::text::text[]", array_of_json(values)) == texts
    assert await connection.fetchval("select $1::text::text[]", array_of_json([])) == []


@given(st.lists(st.none() | hard_texts, max_size=6))
@example(["\\" * length + end for length in range(6) for end in ("", "n", "\n", '"', "\x01")])
def test_an_array_has_characters_in_place_of_the_escapes_that_it_does_not_know(values: list[str | None]):
    """What is within quotes is read as section 8.15.6 of PostgreSQL's documentation says."""
    text = array(values)
    found: list[str | None] = []
    place = 1
    while text[place] != "}":
        place += text[place] == ","
        if text.startswith("null", place):
            found.append(None)
            place += 4
            continue
        assert text[place] == '"'
        place += 1
        read = ""
        while text[place] != '"':
            place += text[place] == "\\"
            read += text[place]
            place += 1
        found.append(read)
        place += 1
    assert place == len(text) - 1
    assert found == values


class Tables:
    """Two tables with the same columns."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        # Of the dates, one has what a new row without it gets.
        schema: dict[str, Any] = {**SCHEMA, "date_2": {"type": "date", "default": {"$now": True}}}
        self.together, self.singly = (
            client.post("/v1/public/tables", json={"title": title, "schema": schema, "access_level": "Public"}).json()[
                "id"
            ]
            for title in ("together", "singly")
        )

    def post(self, table: str, rest: str, body: Any) -> Any:
        answer = self._client.post(
            f"/v1/public/tables/{table}/data{rest}",
            content=json.encode(body),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in {200, 201}, (body, answer.text)
        return json.decode(answer.content)

    def ordered(self, table: str, column: str) -> list[Any]:
        """The rows in the order of a column, with what the server makes of the time left out."""
        asked = {"order_by": column, "order_direction": "asc", "limit": 100}
        return [
            {name: value for name, value in item["data"].items() if name != "date_2"}
            for item in self.post(table, "/query", asked)["data"]
        ]


@pytest.fixture(scope="module")
def tables(server: Server, console: dict[str, str]) -> Iterator[Tables]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}, timeout=PATIENCE) as client:
        yield Tables(client)


rows_with_hard_texts = st.tuples(typed_rows, hard_texts, hard_texts).map(
    lambda one: {**one[0], "string_1": one[1], "object_1": {"k": one[2]}}
)


@PROFILE
@given(rows=st.lists(typed_rows | rows_with_hard_texts, min_size=2, max_size=6))
@example(rows=[{"date_1": date, "string_1": text} for date, text in zip(DATES * 3, HARD, strict=False)])
def test_what_is_created_together_is_what_is_created_singly(tables: Tables, rows: list[Any]):
    for table in (tables.together, tables.singly):
        tables.post(table, "/delete-where", {"all": True})
    made = tables.post(tables.together, "/bulk", {"data": rows})
    assert made["success"] == len(rows)
    singly = [tables.post(tables.singly, "", {"data": row}) for row in rows]
    for one, other, row in zip(made["created"], singly, rows, strict=True):
        # The answer has the time of the write where the row has no other.
        assert one["data"] == other["data"] | ({} if "date_2" in row else {"date_2": one["created_at"]})
    for column in ("date_1", "int_1", "number_1", "string_1"):
        assert tables.ordered(tables.together, column) == tables.ordered(tables.singly, column)
    nowhere = {"date_2": {"$isNull": True}}
    counts = {
        table: tables.post(table, "/query", {"where": nowhere})["total_count"]
        for table in (tables.together, tables.singly)
    }
    assert len(set(counts.values())) == 1
