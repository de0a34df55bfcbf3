"""Live lists: the first rows of an order, with rows to which they refer, as a client keeps them by changes alone."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import httpx
import pytest

from tests.realtime.listening import Listener, deleted, listening, patched, refused
from tests.rules.test_rules import manager, ruled
from tests.support import App, assert_error
from tests.whole import times

EVERY = {"t": "string", "n": "number", "i": "int", "b": "boolean", "d": "date", "u": "uuid"}
TEXTS = ["", "a", "A", "aa", "Ä", "ä", "z", "é", "\U0001f600", "￿", "x" * 256, "x" * 257, "x" * 256 + "b", "ǅ"]
NUMBERS = [0, 1, -1, 0.1, 0.30000000000000004, 0.3, 1e21, -1e21, 123456789012345678, 123456789012345679, 1e-7, -2.5]
INTS = [0, 1, -1, 2**63 - 1, -(2**63), 42]
DATES = ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z"]
UUIDS = [
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-4fff-bfff-ffffffffffff",
    "7fffffff-0000-4000-8000-0000000000ff",
]


def some(choice: random.Random) -> dict[str, Any]:
    """Return the data of a row with values that are hard to compare, or none."""
    values = {"t": TEXTS, "n": NUMBERS, "i": INTS, "b": [True, False], "d": DATES, "u": UUIDS}
    return {name: choice.choice(of) for name, of in values.items() if choice.random() > 0.15}


def orders(choice: random.Random) -> list[dict[str, Any]]:
    """Return keys of an order."""
    names = choice.sample([*EVERY, "created_at", "updated_at"], choice.randint(1, 3))
    keys: list[dict[str, Any]] = [{"column": name, "direction": choice.choice(["asc", "desc"])} for name in names]
    for key in keys:
        if key["column"] == "t" and choice.random() < 0.5:
            key["ignore_case"] = True
    if len(keys) < 3 and choice.random() < 0.5:
        keys.append({"column": "id", "direction": "desc"})
    return keys


def is_before(one: str, other: str) -> bool | None:
    """Compare sort texts; None if they do not tell."""
    return None if one.startswith(other) or other.startswith(one) else one < other


class FirstRows:
    """The first rows of a subscription's order, kept as the guide says."""

    def __init__(self, client: httpx.AsyncClient, asked: dict[str, Any]) -> None:
        self._client = client
        self._path = f"/v1/public/tables/{asked['table_id']}/data/query"
        self._asked = {name: asked[name] for name in ("where", "order_by", "limit", "expand") if name in asked}
        self._seen = 0
        self.rows: list[dict[str, Any]] = []
        self.may_be_more = True
        self.readings = 0

    async def asked(self) -> list[dict[str, Any]]:
        """Return the rows of the query."""
        answer = await self._client.post(self._path, json={**self._asked, "with_sort": True, "count": False})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def read(self) -> None:
        """Read the list."""
        self.rows = await self.asked()
        self.may_be_more = len(self.rows) == self._asked["limit"]
        self.readings += 1

    async def follow(self, told: Listener) -> None:
        """Apply the events that came since."""
        while self._seen < len(told.events):
            event, data = told.events[self._seen]
            self._seen += 1
            if event == "reset" or (event == "change" and not self.apply(data)):
                await self.read()

    def apply(self, data: dict[str, Any]) -> bool:
        """Apply a change; return False if the list is to be read again."""
        row, limit = data["row"], self._asked["limit"]
        before = next((one for one in self.rows if one["id"] == row["id"]), None)
        if before is not None and before["updated_at"] > row["updated_at"]:
            return True
        rest = [one for one in self.rows if one is not before]
        if data["type"] in {"leave", "delete"}:
            if before is not None and self.may_be_more:
                return False
            self.rows = rest
            return True
        told = [is_before(one["sort"], row["sort"]) for one in rest]
        if None in told:
            return False
        place = sum(1 for one in told if one)
        if place == len(rest) and self.may_be_more and (before is not None or len(rest) < limit):
            return False
        rest.insert(place, row)
        self.may_be_more |= len(rest) > limit
        self.rows = rest[:limit]
        return True

    async def until_true(self, told: Listener) -> None:
        """Wait until the rows are those of the query."""
        for _ in range(200):
            await self.follow(told)
            if self.rows == (asked := await self.asked()):
                return
            await asyncio.sleep(0.02)
        assert self.rows == asked, told.events


async def test_sort_texts_are_in_the_order_of_the_query(app: App):
    table = await app.table(EVERY)
    choice = random.Random(3)
    async with app.client() as client:
        body = {"data": [some(choice) for _ in range(300)]}
        assert (await client.post(f"/v1/public/tables/{table}/data/bulk", json=body)).status_code == 201
        path = f"/v1/public/tables/{table}/data/query"
        for _ in range(times(12, whole=400)):
            asked = {"order_by": orders(choice), "with_sort": True, "limit": 400}
            if choice.random() < 0.3:
                asked |= {"cursor": "first", "limit": 300}
            answer = await client.post(path, json=asked)
            assert answer.status_code == 200, answer.text
            sorts = [row["sort"] for row in answer.json()["data"]]
            assert len(sorts) == 300
            for one, other in itertools.pairwise(sorts):
                assert is_before(one, other) is not False, (asked, one, other)
                assert len(one) <= 1024
        plain = await client.post(path, json={"order_by": [{"column": "i"}], "limit": 1, "with_sort": True})
        assert set(plain.json()["data"][0]) == {"id", "data", "created_at", "updated_at", "sort"}
        by_id = await client.post(path, json={"order_by": "id", "order_direction": "desc", "with_sort": True})
        sorts = [row["sort"] for row in by_id.json()["data"]]
        assert sorts == sorted(set(sorts))


async def test_numbers_that_no_double_has_do_not_tell_where_they_are(app: App):
    table = await app.table({"n": "number"})
    numbers = ["1e400", "-1e400", "1e-350", "-1e-350", "0", "1e308", "-1e308", "2e-300", "123456789012345678.5", "0.1"]
    async with app.client() as client:
        for number in numbers:
            content, kind = f'{{"data": {{"n": {number}}}}}', {"Content-Type": "application/json"}
            answer = await client.post(f"/v1/public/tables/{table}/data", content=content, headers=kind)
            assert answer.status_code in {201, 400}, answer.text
        for direction in ("asc", "desc"):
            asked = {"order_by": [{"column": "n", "direction": direction}], "with_sort": True}
            answer = await client.post(f"/v1/public/tables/{table}/data/query", json=asked)
            sorts = [row["sort"] for row in answer.json()["data"]]
            assert all(is_before(*pair) is not False for pair in itertools.pairwise(sorts))


@pytest.mark.parametrize("seed", range(2))
async def test_the_first_rows_of_an_order_stay_those_of_a_query(app: App, seed: int):
    """Random writes, orders, limits and conditions, of a member that sees some rows: the list equals the query."""
    choice = random.Random(seed)
    authors = await app.table({"name": "string"}, title="writers")
    rule = {"$or": [{"i": {"$gte": 0}}, {"b": True}]}
    columns = {**EVERY, "author": {"type": "uuid", "references": {"table": "writers"}}}
    table = await ruled(app, columns, {"read": rule, "create": True, "update": True, "delete": True})
    people = [(await app.row(authors, {"name": name}))["id"] for name in ("ada", "ben")]
    rows = []
    for _ in range(30):
        rows.append(await app.row(table, {**some(choice), "author": choice.choice(people)}, app.secret_key))
    ada = await app.member("ada")
    for _ in range(times(4, whole=60)):
        asked: dict[str, Any] = {"table_id": table, "order_by": orders(choice), "limit": choice.randint(1, 12)}
        if choice.random() < 0.5:
            asked["where"] = {"b": choice.choice([True, False])}
        if choice.random() < 0.5:
            asked["expand"] = ["author"]
        async with app.client(ada["access_token"]) as client, listening(client, {"id": "a", **asked}) as told:
            first = FirstRows(client, asked)
            await first.read()
            for _ in range(25):
                action, row = choice.random(), choice.choice(rows)
                if action < 0.5:
                    await patched(app, table, row, app.secret_key, **some(choice))
                elif action < 0.8 or len(rows) < 20:
                    rows.append(await app.row(table, {**some(choice), "author": people[0]}, app.secret_key))
                else:
                    rows.remove(row)
                    await deleted(app, table, row, app.secret_key)
            await first.until_true(told)


async def test_a_list_that_is_known_to_its_end_is_never_read_again(app: App):
    table = await app.table({"n": "int"})
    asked = {"table_id": table, "order_by": [{"column": "n"}], "limit": 200}
    async with app.client() as client, listening(client, {"id": "a", **asked}) as told:
        first = FirstRows(client, asked)
        await first.read()
        rows = [await app.row(table, {"n": n}) for n in (5, 1, 3)]
        await patched(app, table, rows[0], n=2)
        await deleted(app, table, rows[1])
        await first.until_true(told)
        assert [row["data"]["n"] for row in first.rows] == [2, 3]
        assert first.readings == 1


async def test_related_rows_are_shown_under_their_own_rules(app: App):
    teams = await app.table(
        {"name": "string", "open": "boolean", "key": {"type": "string", "encrypted": True}}, title="teams"
    )
    table = await app.table(
        {"title": "string", "team": {"type": "uuid", "references": {"table": "teams"}}, "note": "string"}
    )
    red = await app.row(teams, {"name": "red", "open": True, "key": "k1"})
    blue = await app.row(teams, {"name": "blue", "open": False, "key": "k2"})
    asked = {"id": "a", "table_id": table, "expand": ["team"], "fields": ["title"]}
    async with manager(app) as side, app.client() as client:
        rules = {"read": {"open": True}}
        answer = await side.put(f"/tables/{teams}/rules", json={"rules": rules})
        assert answer.status_code == 200, answer.text
        async with listening(client, asked) as told:

            async def shown(team: dict[str, Any] | None) -> Any:
                await app.row(table, {"title": "x", "team": team and team["id"]}, app.secret_key)
                ((event, data),) = await told.next()
                assert event == "change", data
                assert data["row"]["data"] == {"title": "x"}
                return data["row"]["expanded"]["team"]

            assert (await shown(red))["data"] == {"name": "red", "open": True, "key": "k1"}
            assert await shown(blue) is None
            assert await shown(None) is None
            # The rules of the other table change, and its columns.
            hides = {"read": True, "columns": {"key": {"read": None}}}
            assert (await side.put(f"/tables/{teams}/rules", json={"rules": hides})).status_code == 200
            await app.row(table, {"title": "x", "team": blue["id"]}, app.secret_key)
            assert await told.next() == [("reset", {"subscription": "a", "reason": "schema"})]
            assert (await shown(blue))["data"] == {"name": "blue", "open": False}


async def test_what_a_list_cannot_be(app: App):
    await app.table({"name": "string"}, title="targets")
    target = {"type": "uuid", "references": {"table": "targets"}}
    table = await ruled(
        app,
        {"o": "object", "secret": "string", "locked": {"type": "string", "encrypted": True}, "to": target},
        {"read": True, "create": True, "columns": {"secret": {"read": None}}},
    )
    cases: list[tuple[dict[str, Any], int, str, str]] = [
        ({"order_by": [{"column": "o.x"}]}, 400, "VALIDATION_FAILED", "subscriptions[0].order_by"),
        ({"order_by": [{"column": "nme"}]}, 400, "UNKNOWN_COLUMN", "subscriptions[0].order_by[0].column"),
        ({"order_by": [{"column": "secret"}]}, 403, "COLUMN_NOT_READABLE", "subscriptions[0].order_by[0].column"),
        ({"order_by": "locked"}, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE", "subscriptions[0].order_by"),
        ({"order_by": []}, 400, "VALIDATION_FAILED", ""),
        ({"limit": 201}, 400, "VALIDATION_FAILED", ""),
        ({"limit": 0}, 400, "VALIDATION_FAILED", ""),
        ({"expand": ["to.x"]}, 400, "NOT_SUPPORTED_IN_SUBSCRIPTION", ""),
        ({"expand": ["secret"]}, 403, "COLUMN_NOT_READABLE", "subscriptions[0].expand"),
        ({"expand": ["o"]}, 400, "UNKNOWN_REFERENCE", "subscriptions[0].expand"),
        ({"expand": ["to", "to", "to", "to"]}, 400, "VALIDATION_FAILED", ""),
    ]
    async with app.client() as client:
        for more, status, code, field in cases:
            body = assert_error(await refused(client, {"id": "a", "table_id": table, **more}), status, code)
            assert not field or body["details"][0]["field"] == field, (more, body)
        path = f"/v1/public/tables/{table}/data/query"
        nested = await client.post(path, json={"order_by": [{"column": "o.x"}], "with_sort": True})
        assert_error(nested, 400, "VALIDATION_FAILED")
