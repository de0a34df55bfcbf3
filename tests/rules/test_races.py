"""Rules while they, and what they ask for, change under many writers; and what the time of an answer tells."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.rows.test_references import create
from tests.rules.test_rules import rows, save
from tests.support import App
from tests.waiting import until

WRITERS = 20
AT_ONCE = 16
SEATED = {"$exists": {"table": "$", "where": {"team": {"$row": "team"}, "member": {"$member": "id"}}}}


async def team(app: App, seats: str) -> dict[str, Any]:
    """The rule of the members who have a seat."""
    return {"$exists": {**SEATED["$exists"], "table": seats}}


async def counted(app: App, table: str, row_id: str) -> int:
    async with app.client(app.secret_key) as own_side:
        return (await own_side.get(f"{rows(table)}/{row_id}")).json()["data"]["n"]


async def under_writers(app: App, table: str, row_id: str, token: str, closed: Any) -> None:
    """Twenty writers add to a number until they are refused; `closed` takes their right away meanwhile."""
    done, begun_after = 0, 0
    is_closed = False

    async def writer(client: httpx.AsyncClient) -> None:
        nonlocal done, begun_after
        while True:
            after = is_closed
            answer = await client.patch(f"{rows(table)}/{row_id}", json={"data": {"n": {"$inc": 1}}})
            if answer.status_code != 200:
                assert answer.status_code in {403, 404}, answer.text
                return
            done += 1
            begun_after += after

    async with app.client(token) as client:
        writers = [asyncio.create_task(writer(client)) for _ in range(WRITERS)]
        await until(lambda: done >= 2 * WRITERS)
        await closed()
        is_closed = True
        await asyncio.gather(*writers)
    assert begun_after == 0, "What began after the change was still allowed."
    assert await counted(app, table, row_id) == done, "What was refused has changed nothing, what was answered all."


async def test_a_seat_that_is_taken_away_holds_for_the_next_request(app: App):
    guest = await app.guest()
    title = f"seats {uuid4().hex[:8]}"
    seats = await app.table({"team": "string", "member": "string"}, title=title)
    table = await app.table({"team": "string", "n": "int"})
    async with app.client(app.secret_key) as own_side:
        seat = await create(own_side, seats, team="red", member=guest["member_id"])
        row_id = await create(own_side, table, team="red", n=0)
        rule = await team(app, title)
        await save(app, table, {"read": rule, "update": rule})

        async def taken() -> None:
            assert (await own_side.delete(f"{rows(seats)}/{seat}")).status_code == 200

        await under_writers(app, table, row_id, guest["access_token"], taken)


async def test_a_rule_that_is_saved_holds_for_the_next_request(app: App):
    guest = await app.guest()
    table = await app.table({"n": "int", "open": "boolean"})
    async with app.client(app.secret_key) as own_side:
        row_id = await create(own_side, table, n=0, open=True)
    await save(app, table, {"read": True, "update": {"open": True}})

    async def closed() -> None:
        await save(app, table, {"read": True, "update": {"open": False}})

    await under_writers(app, table, row_id, guest["access_token"], closed)


async def test_a_rule_and_the_column_that_it_names_never_part(app: App):
    """Of a rule and the end of its column that come together, sixteen times each, one is refused."""
    table = await app.table({"n": "int", "open": "boolean"})
    rules = f"/v1/apps/{app.app_id}/tables/{table}/rules"
    async with app.client(app.secret_key) as own_side:
        for turn in range(6):
            saves = (own_side.put(rules, json={"rules": {"read": {"open": True}}}) for _ in range(AT_ONCE))
            drops = (own_side.delete(f"/v1/public/tables/{table}/columns/open") for _ in range(AT_ONCE))
            answers = await asyncio.gather(*((*drops, *saves) if turn % 2 else (*saves, *drops)))
            assert {answer.status_code for answer in answers} <= {200, 400, 404, 409}, [a.text for a in answers]
            columns = (await own_side.get(f"/v1/public/tables/{table}/columns")).json()["columns"]
            kept = (await own_side.get(rules)).json()["rules"]
            assert bool(kept) == ("open" in {column["name"] for column in columns}), kept
            await own_side.put(rules, json={"rules": None})
            if not kept:
                added = await own_side.post(
                    f"/v1/public/tables/{table}/columns", json={"name": "open", "data_type": "boolean"}
                )
                assert added.status_code == 201, added.text


async def test_twenty_writers_hand_a_row_on_and_one_owns_it(app: App):
    """Who owns a row gives it to another: of those who try at once with the same right, one does."""
    members = [await app.guest() for _ in range(WRITERS)]
    table = await app.table({"owner": "string", "given": "int"})
    mine = {"owner": {"$member": "id"}}
    await save(app, table, {"read": True, "update": {"$old": mine}})
    first = members[0]["member_id"]
    async with app.client(app.secret_key) as own_side:
        row_id = await create(own_side, table, owner=first, given=0)
    async with app.client(members[0]["access_token"]) as owner:
        path = f"{rows(table)}/{row_id}"
        answers = await asyncio.gather(
            *(
                owner.patch(path, json={"data": {"owner": one["member_id"], "given": {"$inc": 1}}})
                for one in members[1:]
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200] + [403] * (WRITERS - 2)
        row = (await owner.get(path)).json()["data"]
    (won,) = (answer.json()["data"] for answer in answers if answer.status_code == 200)
    assert row == won
    assert row["given"] == 1


@pytest.mark.alone
async def test_a_hidden_row_takes_as_long_as_a_missing_one(app: App):
    guest = await app.guest()
    table = await app.table({"team": "string"})
    async with app.client(app.secret_key) as own_side:
        made = [{"team": f"team {n}"} for n in range(500)]
        hidden = [one["id"] for one in (await own_side.post(rows(table), json={"data": made})).json()["created"]]
    await save(app, table, {"read": {"team": "none"}})
    missing = [f"{one[:-12]}{uuid4().hex[:12]}" for one in hidden]
    async with app.client(guest["access_token"]) as client:

        async def took(row_id: str) -> float:
            began = time.perf_counter()
            answer = await client.get(f"{rows(table)}/{row_id}")
            assert answer.status_code == 404, answer.text
            return time.perf_counter() - began

        ratios = []
        for _ in range(5):
            pairs = [(await took(one), await took(other)) for one, other in zip(hidden[:200], missing, strict=False)]
            ratios.append(median(one for one, _ in pairs) / median(other for _, other in pairs))
            if abs(ratios[-1] - 1) < 0.1:
                return
    pytest.fail(f"The time of an answer tells hidden rows from missing ones: {ratios}")
