"""Walks with cursors as a property: whatever is written meanwhile, a row that keeps its place is told exactly once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import httpx
import pytest

from tests.rows.test_cursors import asked, walked
from tests.rows.test_orders import in_order
from tests.rules.test_rules import rows, ruled
from tests.support import App
from tests.whole import times

SCHEMA = {"name": "string", "number": "number", "day": "date", "done": "boolean", "note": "int", "kind": "string"}
VALUES: dict[str, list[Any]] = {
    "name": ["", "a", "b", 'quo"te', "x" * 499, "x" * 600, "x" * 601],
    "number": [0, 1, -1, 0.1, 1e-7, 12345678901234567890.5],
    "day": ["1999-12-31T23:59:59.000000Z", "2026-01-31T00:00:00.000000Z", "2026-01-31T12:00:00.123456Z"],
    "done": [False, True],
}
STAYING, MOVING = 40, 20


def a_row(rng: random.Random, **more: Any) -> dict[str, Any]:
    return {column: rng.choice(some) for column, some in VALUES.items() if rng.random() < 0.75} | more


class Writer:
    """Writes that leave the places of staying rows as they are: they come from one thread of chance."""

    def __init__(self, client: httpx.AsyncClient, table: str, rng: random.Random) -> None:
        self.client, self.path, self.rng = client, rows(table), rng
        self.staying: list[str] = []
        self.moving: list[str] = []

    async def fill(self) -> None:
        for number, found, kind in ((STAYING, self.staying, "stays"), (MOVING, self.moving, "moves")):
            data = [a_row(self.rng, kind=kind) for _ in range(number)]
            answer = await self.client.post(f"{self.path}/bulk", json={"data": data})
            found += [row["id"] for row in answer.json()["created"]]

    async def write(self) -> None:
        """Write something: a new row, the end of one, a change of its place, or one of a row that keeps it."""
        await self.rng.choice([self.create, self.create, self.delete, self.move, self.note, self.change_many])()

    async def create(self) -> None:
        await self._done(self.client.post(self.path, json={"data": a_row(self.rng, kind="moves")}), self.moving)

    async def delete(self) -> None:
        if self.moving:
            row_id = self.moving.pop(self.rng.randrange(len(self.moving)))
            await self._done(self.client.delete(f"{self.path}/{row_id}"))

    async def move(self) -> None:
        if self.moving:
            row_id = self.moving[self.rng.randrange(len(self.moving))]
            await self._done(self.client.patch(f"{self.path}/{row_id}", json={"data": a_row(self.rng)}))

    async def note(self) -> None:
        row_id = self.rng.choice(self.staying)
        await self._done(self.client.patch(f"{self.path}/{row_id}", json={"data": {"note": {"$inc": 1}}}))

    async def change_many(self) -> None:
        change = {"where": {"kind": "moves", "done": self.rng.random() < 0.5}, "data": a_row(self.rng)}
        await self._done(self.client.post(f"{self.path}/update-where", json=change))

    async def _done(self, sending: Coroutine[Any, Any, httpx.Response], made: list[str] | None = None) -> None:
        answer = await sending
        # Another writer may have deleted the row before.
        assert answer.is_success or answer.status_code == 404, answer.text
        if made is not None:
            made.append(answer.json()["id"])


def an_order(rng: random.Random) -> list[dict[str, Any]]:
    columns = rng.sample(list(VALUES), rng.choice([1, 1, 2, 3]))
    return [{"column": column, "direction": rng.choice(["asc", "desc"])} for column in columns]


@pytest.mark.parametrize("seed", range(times(3, whole=60)))
async def test_what_keeps_its_place_is_told_once_while_others_are_written(app: App, seed: int):
    rng = random.Random(seed)
    rule = rng.choice([True, {"number": {"$gte": 0}}, {"$or": [{"done": True}, {"name": {"$isNull": True}}]}])
    table = await ruled(app, SCHEMA, {"read": rule, "create": True, "update": True, "delete": True})
    order, where = an_order(rng), rng.choice([None, {"done": {"$ne": True}}, {"kind": {"$in": ["stays", "moves"]}}])
    query: dict[str, Any] = {"order_by": order, "where": where}
    # The secret key's writes are free of the rule; the walk is nobody's.
    async with app.client(app.secret_key) as client:
        writer = Writer(client, table, rng)
        await writer.fill()
        stay = {**query, "where": {"$and": [{"kind": "stays"}, *([where] if where else [])]}}
        expected = [row["id"] for row in (await asked(app, table, limit=100, **stay))["data"]]
        walking = True

        async def write_on(write: Callable[[], Coroutine[Any, Any, None]]) -> None:
            while walking:
                await write()

        writing = [asyncio.create_task(write_on(partial(Writer.write, writer))) for _ in range(4)]
        try:
            found = await walk(app, table, rng, query)
        finally:
            walking = False
            await asyncio.gather(*writing)
    assert [row_id for row_id in found if row_id in set(writer.staying)] == expected
    # One that moves may be told again where it is then; never twice on a page, nor where it stands still.
    whole = (await asked(app, table, limit=1000, **query))["data"]
    assert [row["id"] for row in whole] == in_order(whole, order)
    assert [row["id"] for row in await walked(app, table, limit=rng.randint(1, 9), **query)] == in_order(whole, order)


async def walk(app: App, table: str, rng: random.Random, query: dict[str, Any]) -> list[str]:
    """Return the ids of a walk with pages of any size; begins again from a row that is gone with its long value."""
    found: list[str] = []
    cursor: str | None = "first"
    async with app.client() as client:
        while cursor:
            asked_ = query | {"cursor": cursor, "limit": rng.randint(1, 7)}
            answer = await client.post(f"{rows(table)}/query", json=asked_)
            if answer.status_code == 400:
                assert answer.json()["code"] == "CURSOR_EXPIRED", answer.text
                found, cursor = [], "first"
                continue
            assert answer.status_code == 200, answer.text
            page = answer.json()
            ids = [row["id"] for row in page["data"]]
            assert max(Counter(ids).values(), default=1) == 1
            found += ids
            cursor = page["next_cursor"]
    return found
