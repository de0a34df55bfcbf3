"""Unique keys and references on two nodes of one database: many writers, and a node that does not know of a key yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.console import client_of
from tests.database import second_node
from tests.rows.test_unique_keys import assert_taken, keyed
from tests.rules.test_rules import manager, rows
from tests.support import App, assert_error
from tests.whole import times

WRITERS = 50
Clients = list[httpx.AsyncClient]


@pytest.fixture
async def both(app: App) -> AsyncIterator[Clients]:
    """Clients of the server and of another node on its database."""
    async with (
        second_node(app.server) as node,
        app.client() as one,
        client_of(node, **{"X-Public-Key": app.public_key}) as other,
    ):
        yield [one, other]


async def at_once(both: Clients, path: str, bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    return await asyncio.gather(*(both[number % 2].post(path, json=body) for number, body in enumerate(bodies)))


async def test_fifty_writers_of_one_value_make_one_row(app: App, both: Clients):
    table = await keyed(app, {"columns": ["email"], "ignore_case": True})
    for turn in range(times(2, whole=50)):
        mails = [f"{'Ada' if number % 3 else 'ADA'}{turn}@x.example" for number in range(WRITERS)]
        answers = await at_once(both, rows(table), [{"data": {"email": mail}} for mail in mails])
        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: WRITERS - 1}
        (made,) = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        for answer in answers:
            if answer.status_code == 409:
                assert_taken(answer, "email", made)
        for client in both:
            listed = (await client.get(rows(table), params={"limit": 1000})).json()
            assert listed["total_count"] == len(listed["data"]) == turn + 1


async def test_upserts_of_one_value_make_one_row_and_lose_nothing(app: App, both: Clients):
    schema = {"email": "string", "visits": "int"}
    table = await keyed(app, {"columns": ["email"]}, schema=schema)
    for turn in range(times(2, whole=50)):
        body = {"key": "email", "data": {"email": str(turn), "visits": {"$inc": 1}}}
        first = {"key": "email", "data": {"email": str(turn), "visits": 0}}
        answers = await at_once(both, f"{rows(table)}/upsert", [first] * 20)
        assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 19}
        assert Counter(answer.json()["created"] for answer in answers) == {True: 1, False: 19}
        assert len({answer.json()["id"] for answer in answers}) == 1
        answers = await at_once(both, f"{rows(table)}/upsert", [body] * 20)
        assert sorted(answer.json()["data"]["visits"] for answer in answers) == list(range(1, 21))
        assert (await both[1].get(rows(table))).json()["total_count"] == turn + 1


async def test_what_one_node_declares_holds_for_the_next_write_on_the_other(app: App, both: Clients):
    authors = await app.table({"name": "string"})
    table = await app.table({"email": "string", "author": "uuid"})
    one, other = both

    async def write(**data: Any) -> httpx.Response:
        """The other node writes a row. It knows the table as it was before the change."""
        return await other.post(rows(table), json={"data": data})

    first = (await write(email="x")).json()["id"]
    async with manager(app) as owner:
        assert (await owner.post(f"/tables/{table}/unique", json={"columns": ["email"]})).status_code == 201
        assert_taken(await write(email="x"), "email", first)
        answer = await other.post(f"{rows(table)}/upsert", json={"key": "email", "data": {"email": "x"}})
        assert (answer.status_code, answer.json()["id"]) == (200, first)
        assert (await owner.delete(f"/tables/{table}/unique/email")).status_code == 200
        assert (await write(email="x")).status_code == 201
    answer = await other.post(f"{rows(table)}/upsert", json={"key": "email", "data": {"email": "x"}})
    assert_error(answer, 400, "UNKNOWN_KEY")
    # Nor does the other one write a row that refers to none, or delete one to which a row refers.
    refers = {"references": {"table": authors, "on_delete": "restrict"}}
    assert (await one.patch(f"/v1/public/tables/{table}/columns/author", json=refers)).status_code == 200
    ada = (await other.post(rows(authors), json={"data": {"name": "Ada"}})).json()["id"]
    assert_error(await write(author=first), 400, "REFERENCE_NOT_FOUND")
    assert (await write(author=ada)).status_code == 201
    assert_error(await other.delete(f"{rows(authors)}/{ada}"), 409, "ROW_REFERENCED")
    refers["references"]["on_delete"] = "cascade"
    assert (await one.patch(f"/v1/public/tables/{table}/columns/author", json=refers)).status_code == 200
    before = (await other.get(rows(table))).json()["total_count"]
    assert (await other.delete(f"{rows(authors)}/{ada}")).status_code == 200
    for client in both:
        assert (await client.get(rows(table))).json()["total_count"] == before - 1
