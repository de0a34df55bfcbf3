"""Console: the request log of an app, and how long its requests took."""

import asyncio
from typing import Any

import pytest

from pilotis.kit.durations import BUCKETS, percentile
from tests.console import database_of, owner_of
from tests.support import App, assert_error
from tests.waiting import until

ROWS = "/v1/public/tables/:table_id/data"


async def entries(app: App, **filters: Any) -> list[dict[str, Any]]:
    async with owner_of(app).client(app) as console:
        answer = await console.get("/requests", params=filters)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_failed_requests_are_in_the_log_and_counted(app: App):
    table = await app.table({"name": "string"})
    member = await app.member()
    async with app.client(member["access_token"]) as client:
        await client.get(f"/v1/public/tables/{table}/data?secret=1")
        failed = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"other": "hidden"}})
        assert failed.status_code == 400
    async with app.client() as client:
        assert (await client.get("/v1/public/tables/00000000-0000-7000-8000-000000000000")).status_code == 404

    async def logged() -> bool:
        return len(await entries(app, status="4xx")) == 3

    await until(logged)
    latest, first, unknown = await entries(app, status="4xx")
    assert (unknown["method"], unknown["status"]) == ("GET", 400)
    assert first["duration_ms"] > 0
    assert first | {"time": "", "duration_ms": 0} == {
        "request_id": failed.headers["x-request-id"],
        "time": "",
        "method": "POST",
        "route": ROWS,
        "status": 400,
        "code": "UNKNOWN_COLUMN",
        "duration_ms": 0,
        "actor_kind": "member",
        "actor_id": member["member_id"],
        "address": "127.0.0.1",
        "function_id": None,
    }
    assert (latest["status"], latest["code"]) == (404, "TABLE_NOT_FOUND")
    assert [entry["status"] for entry in await entries(app, status="404")] == [404]
    assert [entry["status"] for entry in await entries(app, status="4xx", member_id=member["member_id"])] == [400, 400]
    filters = {"status": "4xx", "route": "POST ", "to": "2100-01-01T00:00:00Z"}
    assert [entry["status"] for entry in await entries(app, **filters)] == [400]
    assert await entries(app, min_ms="600000") == []
    for filters in (
        {"search": "unknown_col"},
        {"actor_id": member["member_id"], "route": "POST"},
        {"request_id": first["request_id"]},
    ):
        assert first in await entries(app, **filters)
        assert latest not in await entries(app, **filters)
    assert await entries(app, search="%") == []
    assert "hidden" not in str(await entries(app))
    assert "secret" not in str(await entries(app))
    async with owner_of(app).client(app) as console:
        for step in ("minute", "hour", "day"):
            (whole,) = (await console.get("/metrics", params={"step": step})).json()["series"]
            assert sum(point["client_errors"] for point in whole["points"]) == 3
            assert sum(point["requests"] for point in whole["points"]) >= 5
            assert all(0 < point["p50_ms"] <= point["p95_ms"] for point in whole["points"])
        by_route = (await console.get("/metrics", params={"by": "route"})).json()["series"]
        assert {f"POST {ROWS}", f"GET {ROWS}"} <= {series["key"] for series in by_route}
        by_status = (await console.get("/metrics", params={"by": "status"})).json()["series"]
        assert {series["key"] for series in by_status} == {"2xx", "4xx"}


async def test_no_app_sees_the_requests_of_another(app: App, other_app: App):
    async with app.client() as client:
        await client.get("/v1/public/tables/00000000-0000-7000-8000-000000000000")

    async def logged() -> bool:
        return len(await entries(app)) == 1

    await until(logged)
    assert await entries(other_app) == []
    async with owner_of(other_app).client(other_app) as console:
        series = (await console.get("/metrics")).json()["series"]
    assert all(point["client_errors"] == 0 for one in series for point in one["points"])


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/requests", {"from": "yesterday"}),
        ("/requests", {"status": "9xx"}),
        ("/requests", {"min_ms": "-1"}),
        ("/metrics", {"step": "second"}),
        ("/metrics", {"step": "minute", "from": "2020-01-01T00:00:00Z"}),
        ("/metrics", {"to": "now"}),
    ],
)
async def test_an_invalid_filter_is_an_error(app: App, path: str, query: dict[str, str]):
    async with owner_of(app).client(app) as console:
        assert_error(await console.get(path, params=query), 400, "VALIDATION_FAILED")


async def test_a_flood_of_errors_leaves_a_bounded_log(app: App):
    async with app.client() as client:
        await asyncio.gather(*(client.get("/v1/public/tables/x") for _ in range(200)))

    async def counted() -> bool:
        async with owner_of(app).client(app) as console:
            series = (await console.get("/metrics")).json()["series"]
        return bool(series) and series[0]["points"][-1]["client_errors"] == 200

    await until(counted)
    async with database_of(app.server) as connection:
        assert await connection.fetchval("select count(*) from pilotis.requests where app_id = $1", app.app_id) <= 200


def test_percentiles_are_interpolated_in_their_bucket():
    nothing = [0] * BUCKETS
    assert percentile(nothing, 0.5) is None
    first = [10, *nothing[1:]]
    assert percentile(first, 0.5) == 0.5
    assert percentile([50, 0, 0, 50, *nothing[4:]], 0.95) == pytest.approx(9.5)
    assert percentile([*nothing[:-1], 1], 0.5) == 10000.0
