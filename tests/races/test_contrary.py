"""Sixteen clients who want the same, or the opposite, at once: nobody gets a 500, and nobody waits for a deadlock."""

import asyncio
import os
import random
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from tests.acceptance.test_files import complete, fixed, storage, upload
from tests.acceptance.test_files import send as send_bytes
from tests.backstage import bearer
from tests.races.requests import AT_ONCE, Got, at_once, families, mixtures, prepared
from tests.services import address, connected
from tests.support import App, Server
from tests.waiting import until
from tests.whole import sample

SEED = os.environ.get("TEST_SEED", "1")
FAMILIES = families()
# What waits for a process that decodes a picture, of which few run at once, and which gives way to all others.
_DECODE_PICTURES = {"replaceClientLogo", "replaceAccountLogo"}
# Their examples call functions.
_RUNNING = {"Functions", "Workflows"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(verify=False, timeout=120, limits=limits) as made:
        yield made


async def deadlocks(server: Server) -> int:
    connection = await asyncpg.connect(**address(server))
    try:
        await connection.execute("select pg_stat_force_next_flush()")
        return int(await connection.fetchval("select sum(deadlocks) from pg_stat_database"))
    finally:
        await connection.close()


def check(answers: list[Got]) -> None:
    failed = [got for got in answers if got.status >= 500 and got.status != 503]
    assert not failed, failed[:5]
    # Of an app's exports one at a time is downloaded, and a process imports few archives at a time.
    expected = ("EXPORT_BUSY", "IMPORTS_BUSY")
    busy = [got for got in answers if got.status == 503 and not any(code in got.text for code in expected)]
    assert not busy, busy[:5]
    for are_pictures in (False, True):
        durations = sorted(got.seconds for got in answers if (got.operation in _DECODE_PICTURES) is are_pictures)
        if durations:
            slowest = durations[int(len(durations) * 0.99)]
            # Where requests are short, PostgreSQL's second before it looks for a deadlock is still far more than this.
            assert slowest <= max(20 * statistics.median(durations), 0.9), answers


@pytest.fixture
def runnable(request: pytest.FixtureRequest, family: str) -> None:
    """Skip a family whose functions cannot run here."""
    if family in _RUNNING:
        request.getfixturevalue("sandboxes")


@pytest.mark.parametrize("family", sample(FAMILIES, 0.2))
@pytest.mark.usefixtures("runnable")
async def test_sixteen_at_once(server: Server, console: dict[str, str], client: httpx.AsyncClient, family: str):
    before = await deadlocks(server)
    wanted = await asyncio.to_thread(prepared, server, console, FAMILIES[family])
    answers: list[Got] = []
    for mixture in mixtures(wanted, random.Random(SEED), rounds=3):
        answers += await at_once(client, mixture)
    check(answers)
    assert await deadlocks(server) == before


async def test_the_same_sixteen_times(server: Server, console: dict[str, str], client: httpx.AsyncClient):
    """Of each route one request, at once with its repetitions; the families of people take a processor each time."""
    before = await deadlocks(server)
    for family in ("Tables and columns", "File storages", "Page metadata", "Webhooks", "Workflows", "Events"):
        for one in await asyncio.to_thread(prepared, server, console, FAMILIES[family]):
            answers = await at_once(client, [one] * AT_ONCE)
            failed = [got for got in answers if got.status >= 500]
            assert not failed, failed[:3]
    assert await deadlocks(server) == before


async def test_one_path_replaced_completed_and_limited_at_once(app: App, client: httpx.AsyncClient):
    """Each completes its upload twice, while the quota and the name of what they replace change."""
    before = await deadlocks(app.server)
    base = await storage(app, quota_bytes=1_000_000)
    headers = bearer(app.console["access_token"])
    settings = f"{app.server.url}/v1/apps/{app.app_id}/storages/files/{base.rpartition('/')[2]}"
    answers: list[httpx.Response] = []

    async def replace(number: int) -> None:
        async with app.client() as public:
            for round_ in range(3):
                path = ("a.png", "b.png")[(number + round_) % 2]
                made = await fixed(public, base, path, b"%d" % number, overwrite=True)
                answers.append(made)
                if made.status_code != 200:
                    continue
                answers.append(await send_bytes(made.json(), b"%d" % number))
                done = await asyncio.gather(*(complete(public, base, made.json()) for _ in range(2)))
                answers.extend(done)
                item = f"{settings}/items/{made.json()['file_id']}"
                change: dict[str, Any] = {"name": ("b.png", "a.png")[number % 2]}
                if number % 4 == 0:
                    answers.append(await client.patch(item, json=change, headers=headers))
                elif number % 4 == 1:
                    size = {"quota_bytes": 1_000_000 + number}
                    answers.append(await client.patch(settings, json=size, headers=headers))
                elif number % 8 == 2:
                    answers.append(await public.delete(f"{base}/items/{made.json()['file_id']}"))

    await asyncio.gather(*(replace(number) for number in range(AT_ONCE)))
    failed = [
        (answer.request.method, answer.request.url.path, answer.text) for answer in answers if answer.status_code >= 500
    ]
    assert not failed, failed[:5]
    assert await deadlocks(app.server) == before


async def test_a_deletion_waits_for_the_storage_before_it_locks_the_file(app: App):
    """As a completion does, which otherwise waits for the file that the deletion holds."""
    base = await storage(app, quota_bytes=1_000_000)
    async with app.client() as client, connected(app.server) as completion, connected(app.server) as other:
        file = await upload(client, base, file_name="a.png")
        await completion.execute("begin; select from pilotis.file_storages for no key update")
        deletion = asyncio.create_task(client.delete(f"{base}/items/{file['id']}"))
        waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
        await until(lambda: other.fetchval(waiting))
        await completion.execute("select from pilotis.files for update nowait")
        await completion.execute("rollback")
        assert (await deletion).status_code == 200


async def test_many_rows_changed_by_conditions_and_by_transactions_in_the_contrary_order(app: App):
    before = await deadlocks(app.server)
    table = await app.table({"n": "int", "k": "int"})
    base = f"/v1/public/tables/{table}/data"
    rows = {"data": [{"n": n, "k": -n} for n in range(100)]}
    async with app.client() as client:
        made = (await client.post(f"{base}/bulk", json=rows)).json()["created"]
        gone = {"data": [{"n": -1, "k": 0}] * 100}
        add = {"n": {"$inc": 1}}
        update = [{"type": "update", "table_id": table, "doc_id": row["id"], "data": add} for row in reversed(made)]
        wanted = [
            ("/v1/public/transactions", {"operations": update}),
            (f"{base}/update-where", {"all": True, "data": {"k": {"$inc": 1}}}),
            (f"{base}/update-where", {"where": {"n": {"$gte": 0}}, "data": {"k": {"$inc": 1}}}),
            (f"{base}/delete-where", {"where": {"n": -1}}),
        ]

        async def one(path: str, body: dict[str, Any]) -> Got:
            began = time.monotonic()
            answer = await client.post(path, json=body)
            return Got(path, answer.status_code, time.monotonic() - began, answer.text)

        answers: list[Got] = []
        for _ in range(3):
            assert (await client.post(f"{base}/bulk", json=gone)).status_code == 201
            for _ in range(3):
                # Changed rows move, so that a scan no longer finds them in the order of their ids.
                await one(f"{base}/update-where", {"where": {"n": -1, "k": {"$lt": 50}}, "data": {"k": {"$inc": 7}}})
            answers += await asyncio.gather(*(one(*wanted[number % 4]) for number in range(AT_ONCE)))
        check(answers)
        changed = [got for got in answers if got.status == 200]
        assert len(changed) == len(answers)
        last = (await client.get(f"{base}/{made[0]['id']}")).json()["data"]
    assert last == {"n": 12, "k": 24}, last
    assert await deadlocks(app.server) == before


async def test_the_same_name_for_sixteen_functions(app: App, client: httpx.AsyncClient):
    """One is made or gets it, the others hear that it is taken."""
    headers = bearer(app.console["access_token"])
    base = f"{app.server.url}/v1/apps/{app.app_id}/functions"
    bodies = [{"name": f"f{number}", "runtime": "javascript"} for number in range(8)]
    made = [(await client.post(base, json=body, headers=headers)).json()["id"] for body in bodies]
    new = {"name": "same", "runtime": "javascript"}
    schedule = {"type": "event", "events": ["row.created"]}
    answers = await asyncio.gather(
        *(client.post(base, json=new, headers=headers) for _ in range(8)),
        *(client.patch(f"{base}/{one}", json={"name": "same"}, headers=headers) for one in made),
        *(client.post(f"{base}/{one}/triggers", json=schedule, headers=headers) for one in made),
    )
    named = [answer.status_code for answer in answers[:16]]
    assert sum(status in {200, 201} for status in named) == 1
    assert sum(status == 409 for status in named) == 15
    assert [answer.status_code for answer in answers[16:]] == [201] * 8
