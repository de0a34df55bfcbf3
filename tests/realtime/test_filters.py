"""Streams with many kinds of conditions, over random writes: they end with the rows of a query."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.database import connection_to
from tests.realtime.listening import TrueList, listening, patched
from tests.support import App
from tests.whole import times

SCHEMA = {
    "name": "string",
    "state": "string",
    "price": "number",
    "due": "date",
    "tags": "array",
    "facts": "object",
    "done": "boolean",
    "secret": {"type": "string", "encrypted": True},
}
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"state": "open", "done": False},
    {"state": {"$in": ["open", "new"]}, "price": {"$gt": 2, "$lte": 4}},
    {"$or": [{"state": "open"}, {"price": {"$lt": 2}}, {"done": True, "name": {"$startsWith": "a"}}]},
    {"$not": {"state": "open"}},
    {"due": {"$gte": "2026-01-02T00:00:00Z"}},
    {"due": {"$isNull": True}},
    {"tags": {"$arrayContains": "red"}},
    {"facts.size": 2},
    {"secret": "x"},
    {"secret": {"$in": ["x", "y"]}, "state": {"$ne": "closed"}},
    {"$and": [{"price": 3}, {"$or": [{"state": "open"}, {"done": True}]}]},
]
VALUES: dict[str, list[Any]] = {
    "name": ["apple", "pear", None],
    "state": ["open", "new", "closed", None],
    "price": [1, 2, 3, 4.5, None],
    "due": ["2026-01-01", "2026-01-02T10:00:00+09:00", "2026-01-03T00:00:00Z", None],
    "tags": [["red"], ["blue", "red"], [], None],
    "facts": [{"size": 2}, {"size": "2"}, {}, None],
    "done": [True, False, None],
    "secret": ["x", "y", "z", None],
}


@pytest.mark.parametrize("seed", range(times(2, whole=12)))
async def test_lists_of_many_conditions_end_as_queries(app: App, seed: int):
    choice = random.Random(seed)
    table = await app.table(SCHEMA)
    rows: list[str] = []

    def some() -> dict[str, Any]:
        return {name: choice.choice(VALUES[name]) for name in choice.sample(sorted(VALUES), choice.randint(1, 5))}

    async with app.client() as client:
        asked = [{"id": str(at), "table_id": table, "where": where} for at, where in enumerate(CONDITIONS)]
        async with listening(client, asked[0]):
            # The log begins, which is a change of the table.
            pass
        async with listening(client, *asked) as told:
            lists = {str(at): TrueList(client, table, where) for at, where in enumerate(CONDITIONS)}
            types: set[str] = set()
            for _ in range(times(75, whole=300)):
                kind = choice.choice(["create", "create", "update", "update", "update", "delete"])
                if kind == "create" or not rows:
                    rows.append((await app.row(table, some()))["id"])
                elif kind == "update":
                    await patched(app, table, {"id": choice.choice(rows)}, **some())
                else:
                    gone = rows.pop(choice.randrange(len(rows)))
                    assert (await client.delete(f"/v1/public/tables/{table}/data/{gone}")).status_code == 200
            last = await app.row(table, {"name": "last"})
            await told.until(
                lambda events: any(e == "change" and data["row"]["id"] == last["id"] for e, data in events)
            )
            for event, data in told.events:
                assert event == "change", data
                types.add(data["type"])
                lists[data["subscription"]].apply(data)
            for name, kept in lists.items():
                assert kept.rows == await kept.asked(), CONDITIONS[int(name)]
            assert types == {"create", "update", "enter", "leave", "delete"}


async def test_a_subscription_that_cannot_be_judged_resets_alone(app: App):
    table = await app.table({"name": "string", "secret": {"type": "string", "encrypted": True}})
    await app.row(table, {"name": "first", "secret": "x"})
    all_, some = {"id": "all", "table_id": table}, {"id": "some", "table_id": table, "fields": ["name"]}
    async with (
        app.client() as client,
        connection_to(app.server) as connection,
        listening(client, all_, some) as told,
    ):
        # What no key opens.
        name = f"app_{app.app_id.replace('-', '')}.t_{table.replace('-', '')}"
        column = await connection.fetchval(
            "select attname from pg_attribute where attrelid = $1::regclass and attname like '\\_\\_e%'", name
        )
        await connection.execute(f'update {name} set "{column}" = $1', b"damaged")
        # An answer with the row would say that it is damaged.
        body = {"where": {"name": "first"}, "data": {"name": "second"}}
        answer = await client.post(f"/v1/public/tables/{table}/data/update-where", json=body)
        assert answer.status_code == 200, answer.text
        events = sorted(await told.next(2), key=lambda event: event[0])
        assert [event for event, _ in events] == ["change", "reset"]
        assert events[0][1]["row"]["data"] == {"name": "second"}
        assert events[1][1] == {"subscription": "all", "reason": "gap"}
        other = await app.row(table, {"name": "third", "secret": "y"})
        events = sorted(await told.next(2), key=lambda event: event[1]["subscription"])
        assert [data["row"]["id"] for _, data in events] == [other["id"]] * 2
