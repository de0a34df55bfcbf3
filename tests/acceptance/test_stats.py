"""Interface: App settings, usage statistics."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pilotis.apps.stats.recorder import RequestRecorder
from pilotis.db.pool import Database
from pilotis.http.api.principals import InvalidPublicKeyError
from tests.conftest import new_app
from tests.console import owner_of
from tests.database import connection_to, second_node
from tests.services import stale_node
from tests.support import App, Server, assert_error
from tests.waiting import until

NOTHING = {"requests": 0, "client_errors": 0, "errors": 0}


async def stats(app: App) -> dict[str, Any]:
    async with app.client() as client:
        answer = await client.get("/v1/public/stats")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_new_app_has_nothing(app: App):
    before = datetime.now(UTC).date()
    answer = await stats(app)
    after = datetime.now(UTC).date()
    assert set(answer) == {"members", "tables", "rows", "storage_bytes", "traffic"}
    assert answer["members"] == {"total": 0, "guests": 0, "active_1d": 0, "active_7d": 0, "active_30d": 0}
    assert (answer["tables"], answer["rows"]) == (0, 0)
    traffic = answer["traffic"]
    assert (traffic["last_24h"], traffic["last_30d"]) == (NOTHING, NOTHING)
    # Which differ only where midnight comes between.
    assert traffic["by_day"] in [
        [{"date": (today - timedelta(days=ago)).isoformat(), **NOTHING} for ago in range(29, -1, -1)]
        for today in (before, after)
    ]


async def test_an_app_that_was_deleted_on_another_node_has_none(app: App, server: Server):
    async with stale_node(server) as node:
        known = await node.apps.by_public_key(app.public_key, None)
        async with owner_of(app).client(app) as console:
            assert (await console.delete("")).status_code == 200
        assert await node.apps.by_public_key(app.public_key, None) is known
        with pytest.raises(InvalidPublicKeyError):
            await node.statistics.of(known)


async def test_members_are_counted_by_kind_and_activity(app: App, server: Server):
    members = [await app.member(f"member {number}") for number in range(4)]
    async with app.client() as client:
        await client.post("/v1/public/app-members")
    async with connection_to(server) as connection:
        for member, days in zip(members, (0.5, 3, 20, 90), strict=True):
            await connection.execute(
                "update pilotis.members set last_active_at = now() - $3::interval where app_id = $1 and member_id = $2",
                app.app_id,
                member["member_id"],
                timedelta(days=days),
            )
    assert (await stats(app))["members"] == {"total": 5, "guests": 1, "active_1d": 2, "active_7d": 3, "active_30d": 4}


async def test_tables_and_rows_are_exact_and_leave_the_trash_out(app: App, other_app: App):
    first, second = await app.table({"a": "string"}), await app.table({})
    empty = (await stats(app))["storage_bytes"]
    assert empty > 0
    async with app.client() as client:
        rows = [{"a": "x" * 1000}] * 500
        await client.post(f"/v1/public/tables/{first}/data/bulk", json={"data": rows})
    row = await app.row(second, {"free": 1})
    await app.row(second, {"free": 2})
    answer = await stats(app)
    assert (answer["tables"], answer["rows"]) == (2, 502)
    assert 40_000 < answer["storage_bytes"] - empty < 4_000_000
    async with app.client() as client:
        await client.delete(f"/v1/public/tables/{second}/data/{row['id']}")
        assert (await stats(app))["rows"] == 501
        await client.delete(f"/v1/public/tables/{first}")
    answer = await stats(app)
    assert (answer["tables"], answer["rows"]) == (1, 1)
    assert (await stats(other_app))["tables"] == 0


async def test_requests_are_counted_with_their_errors(app: App, other_app: App):
    before = datetime.now(UTC).date()
    async with app.client() as client:
        for path in ("auth-settings-that-is-not", "tables", "tables", "tables/x"):
            await client.get(f"/v1/public/{path}")
    async with app.client("rubbish") as client:
        assert_error(await client.get("/v1/public/tables"), 401, "INVALID_TOKEN")
    traffic: dict[str, Any] = {}

    async def all_are_written() -> bool:
        """The requests above may be written in two parts; a later request is never written before them."""
        nonlocal traffic
        traffic = (await stats(app))["traffic"]
        return traffic["last_24h"]["requests"] >= 4

    await until(all_are_written)
    # The tables twice, and once by a bad id; what names no route or no caller belongs to no app.
    seen = traffic["last_24h"]
    assert (seen["client_errors"], seen["errors"]) == (1, 0)
    assert traffic["last_30d"] == seen
    days = [day for day in traffic["by_day"] if day["requests"]]
    assert {name: sum(day[name] for day in days) for name in seen} == seen
    # Two only if midnight was in between.
    assert {day["date"] for day in days} <= {str(before), str(datetime.now(UTC).date())}
    assert (await stats(other_app))["traffic"]["last_30d"] == NOTHING


async def test_traffic_is_told_by_day_and_by_24_hours(server: Server, console: dict[str, str]):
    # Once more where an hour ended in the middle.
    while not await told_by_day_and_by_24_hours(new_app(server, console), server):
        pass


async def told_by_day_and_by_24_hours(app: App, server: Server) -> bool:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    midnight = now.replace(hour=0)
    hours = {now: 1, now - timedelta(hours=23): 2, now - timedelta(hours=24): 4, midnight - timedelta(days=29): 8}
    too_old = {midnight - timedelta(days=29, hours=1): 16}
    async with connection_to(server) as connection:
        await connection.executemany(
            "insert into pilotis.request_stats values ($1, $2, $3::bigint, $3 * 10, $3 * 100)",
            [(app.app_id, hour, number) for hour, number in (hours | too_old).items()],
        )
    traffic = (await stats(app))["traffic"]
    if datetime.now(UTC) - now >= timedelta(hours=1):
        return False
    assert traffic["last_24h"] == {"requests": 3, "client_errors": 30, "errors": 300}
    assert traffic["last_30d"] == {"requests": 15, "client_errors": 150, "errors": 1500}
    assert traffic["by_day"][0]["requests"] == 8
    assert sum(day["requests"] for day in traffic["by_day"]) == 15
    return True


async def test_what_cannot_be_written_stays_counted(app: App, server: Server):
    async with second_node(server) as node:
        recorder = RequestRecorder(Database({"host": "/nowhere"}))
        recorder.count(app.app_id, 200)
        with pytest.raises(Exception, match="not reachable"):
            await recorder.flush()
        recorder.count(app.app_id, 503)
        recorder._database = node.database
        await recorder.flush()
        await recorder.flush()
    assert (await stats(app))["traffic"]["last_24h"] == {"requests": 2, "client_errors": 0, "errors": 1}


async def test_nodes_add_to_one_another(app: App, other_app: App, server: Server):
    async with second_node(server) as first, second_node(server) as second:
        recorders = [first.services.statistics.requests, second.services.statistics.requests]
        for _ in range(20):
            for recorder, apps in zip(recorders, ((app, other_app), (other_app, app)), strict=True):
                for one in apps:
                    recorder.count(one.app_id, 404)
            await asyncio.gather(*(recorder.flush() for recorder in recorders))
    for one in (app, other_app):
        seen = (await stats(one))["traffic"]["last_24h"]
        assert (seen["requests"], seen["client_errors"]) == (40, 40)


async def test_stopping_writes_what_is_counted(app: App, server: Server):
    async with second_node(server) as node:
        node.services.statistics.requests.start()
        node.services.statistics.requests.count(app.app_id, 200)
    assert (await stats(app))["traffic"]["last_24h"]["requests"] == 1


async def test_an_app_that_is_gone_does_not_stop_the_others(app: App, server: Server):
    async with second_node(server) as node:
        recorder = node.services.statistics.requests
        recorder.count("00000000-0000-0000-0000-000000000001", 200)
        recorder.count(app.app_id, 200)
        await recorder.flush()
    assert (await stats(app))["traffic"]["last_24h"]["requests"] == 1


async def test_the_public_key_is_needed(app: App):
    async with app.client() as client:
        del client.headers["x-public-key"]
        assert_error(await client.get("/v1/public/stats"), 401, "PUBLIC_KEY_REQUIRED")


async def test_the_console_reads_as_many_days_as_it_asks_for(app: App, server: Server):
    async with connection_to(server) as connection:
        for days in (0, 40):
            await connection.execute(
                "insert into pilotis.request_stats values ($1, $2, 5, 0, 0)",
                app.app_id,
                datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=days),
            )
    async with owner_of(app).client(app) as console:
        for days in (1, 30, 60):
            traffic = (await console.get(f"/stats?days={days}")).json()["traffic"]
            assert len(traffic["by_day"]) == days
            assert sum(day["requests"] for day in traffic["by_day"]) == (10 if days == 60 else 5)
            assert traffic["last_30d"]["requests"] == 5
        assert_error(await console.get("/stats?days=61"), 400, "VALIDATION_FAILED")
        assert_error(await console.get("/stats?days=0"), 400, "VALIDATION_FAILED")
