"""Plans of the operator: limits, quotas that are metered, and what follows when one is used up."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pilotis.apps.feature import AppsFeature
from pilotis.plans.feature import PlansFeature
from tests import commands
from tests.backstage import run_sql
from tests.branches.previews import branch_of, owner
from tests.services import Services, stale_node
from tests.support import App, Server
from tests.waiting import until


def run(app: App, *words: str) -> Any:
    """Run a command beside the server, and return what it prints as JSON."""
    done = commands.run(*words, *app.server.place, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def set_plan(app: App, folder: Path, text: str, name: str = "free") -> Any:
    """Set a plan, and give it to the app."""
    file = folder / f"{name}.toml"
    file.write_text(text)
    made = run(app, "plan", "set", name, str(file))
    run(app, "app", "plan", app.app_id, name)
    return made


@pytest.fixture
async def node(server: Server) -> AsyncIterator[Services]:
    """Another node, which judges on request."""
    async with stale_node(server) as services:
        yield services


async def judge(node: Services) -> None:
    """What the task does every few seconds."""
    async with node.database.connection() as connection:
        await node.features.get(PlansFeature).plans.judge(connection)


async def quotas(app: App) -> dict[str, Any]:
    """The quotas that the app's usage shows, by name."""
    async with owner(app) as client:
        answer = await client.get(f"/v1/apps/{app.app_id}/usage")
    assert answer.status_code == 200, answer.text
    return {one["quota"]: one for one in answer.json()["quotas"]}


async def test_past_a_hard_quota_an_app_stores_nothing_and_reads_and_deletes(app: App, node: Services, tmp_path: Path):
    table = await app.table({"a": "int"})
    row = await app.row(table, {"a": 1})
    branch = await branch_of(app)
    set_plan(app, tmp_path, "[quotas]\nrow_bytes = 1000\nrequests = {limit = 1000000, hard = false}\n")
    data = f"/v1/public/tables/{table}/data"
    async with app.client() as client, branch.client() as preview:

        async def is_refused() -> bool:
            return (await client.post(data, json={"data": {"a": 2}})).status_code == 403

        await until(is_refused)
        error = assert_exceeded(await client.post(data, json={"data": {"a": 2}}))
        assert error["quota"] == "row_bytes"
        assert error["resets_at"].endswith("-01T00:00:00.000Z")
        # A branch has the quota of its parent.
        assert_exceeded(await preview.post(data, json={"data": {"a": 2}}))
        assert_exceeded(await client.patch(f"{data}/{row['id']}", json={"data": {"a": 3}}))
        assert_exceeded(await client.post(f"{data}/bulk", json={"rows": [{"a": 2}]}))
        assert (await client.get(data)).json()["total_count"] == 1
        assert (await client.post(f"{data}/query", json={"where": {"a": 1}})).status_code == 200
        assert (await client.delete(f"{data}/{row['id']}")).status_code == 200
        used = (await quotas(app))["row_bytes"]
        assert used["used"] > used["limit"] == 1000
        assert (await quotas(branch))["row_bytes"]["limit"] == 1000
        # More room: the operator has set another quota.
        set_plan(app, tmp_path, "[quotas]\nrow_bytes = 100000000\n")

        async def is_accepted() -> bool:
            return (await client.post(data, json={"data": {"a": 2}})).status_code == 201

        await until(is_accepted)
        assert (await preview.post(data, json={"data": {"a": 2}})).status_code == 201


def assert_exceeded(answer: Any) -> dict[str, Any]:
    """Check that a quota is used up."""
    assert (answer.status_code, answer.json()["code"]) == (403, "QUOTA_EXCEEDED"), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_requests_and_bytes_are_counted_and_owners_are_told_once(app: App, node: Services, tmp_path: Path):
    table = await app.table({"a": "string"})
    await app.row(table, {"a": "x" * 10_000})
    set_plan(app, tmp_path, "[quotas]\nrequests = {limit = 100, hard = false}\ntraffic_bytes = 200000\n", "counted")
    before = await quotas(app)
    async with app.client() as client:
        size = 0
        for _ in range(9):
            answer = await client.get(f"/v1/public/tables/{table}/data", params={"limit": "7"})
            size += len(answer.content)
        with_file = await client.get(f"/v1/public/tables/{table}/export", params={"format": "csv"})
        size += len(with_file.content)

    async def is_counted() -> bool:
        return (await quotas(app))["requests"]["used"] >= before["requests"]["used"] + 10

    await until(is_counted)
    now = await quotas(app)
    # The first requests may have been written after the first look.
    assert 0 <= now["traffic_bytes"]["used"] - before["traffic_bytes"]["used"] - size < 20_000
    told = "select coalesce(array_agg(percent order by percent), '{}') from pilotis.quota_notices where app_id = $1"
    assert await run_sql(app.server, told, app.app_id) == []
    more = "update pilotis.request_stats set requests = 81 where app_id = $1"
    await run_sql(app.server, more, app.app_id)
    await judge(node)
    await judge(node)
    assert await run_sql(app.server, told, app.app_id) == [80]
    await run_sql(app.server, more.replace("81", "101"), app.app_id)
    await judge(node)
    assert await run_sql(app.server, told, app.app_id) == [80, 100]
    # The quota is not hard.
    await app.row(table, {"a": "y"})


async def test_a_call_of_a_function_counts_with_its_time(app: App, node: Services):
    app_id = UUID(app.app_id)
    query = "select array[executions, function_ms, mails] from pilotis.metered where app_id = $1"

    meter = node.features.get(AppsFeature).meter
    meter.called(app_id, 1500)
    meter.called(app_id, 700)
    meter.mailed(app_id)
    await meter.flush()
    meter.called(app_id, 1)
    await meter.flush()
    assert await run_sql(app.server, query, app_id) == [3, 2201, 1]


async def test_a_plan_makes_limits_stricter_and_never_looser(app: App, tmp_path: Path):
    made = set_plan(app, tmp_path, "[limits]\ntables = 2\nviews = 100000\n", "small")
    assert made["limits"] == {"tables": 2, "views": 100000}
    async with owner(app) as client:

        async def is_known() -> bool:
            limits = (await client.get(f"/v1/apps/{app.app_id}/limits")).json()["limits"]
            return limits["tables"]["value"] == 2 and limits["views"]["value"] == 100

        await until(is_known)
        assert (await client.patch(f"/v1/apps/{app.app_id}/limits", json={"tables": 1})).status_code == 200
        limits = (await client.get(f"/v1/apps/{app.app_id}/limits")).json()["limits"]
        assert limits["tables"]["value"] == 1
        await app.table({})
        answer = await client.post("/v1/public/tables", json=TABLE, headers={"X-App-Id": app.app_id})
        assert answer.status_code == 409, answer.text
    listed = {one["name"]: one for one in run(app, "plan", "list")}
    assert listed["small"]["apps"] == 1
    run(app, "app", "plan", app.app_id, "none")
    assert {one["name"]: one for one in run(app, "plan", "list")}["small"]["apps"] == 0


TABLE = {"title": "more", "schema": {}, "access_level": "Public"}


def test_a_plan_that_is_wrong_is_refused(app: App, tmp_path: Path):
    for text, sentence in (
        ("[limits]\nno_such = 1\n", "no_such"),
        ("[quotas]\nminds = 1\n", "minds"),
        ("[quotas]\nrequests = -1\n", "quotas"),
        ("[limits]\ntables = 0\n", "tables"),
        ("[limits", "not valid TOML"),
    ):
        file = tmp_path / "plan.toml"
        file.write_text(text)
        done = commands.run("plan", "set", "wrong", str(file), *app.server.place)
        assert done.returncode == 1, text
        assert sentence in done.stderr
    done = commands.run("app", "plan", app.app_id, "nothing", *app.server.place)
    assert (done.returncode, "no plan of this name" in done.stderr) == (1, True)
    done = commands.run("plan", "set", "Über", str(tmp_path / "none"), *app.server.place)
    assert done.returncode == 1


async def test_the_use_of_a_month_is_a_table_for_somebodys_billing(app: App):
    async with owner(app) as client:
        assert (await client.patch(f"/v1/apps/{app.app_id}", json={"name": "=1+1"})).status_code == 200
    await run_sql(
        app.server,
        "insert into pilotis.request_stats (app_id, hour, requests, client_errors, errors, bytes)"
        " values ($1, '2026-01-31 23:00Z', 7, 0, 0, 70), ($1, '2026-02-01 00:00Z', 9, 0, 0, 90)",
        app.app_id,
    )
    done = commands.run("usage", "--month", "2026-01", "--csv", *app.server.place)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head == ("app_id,name,plan,requests,row_bytes,file_bytes,traffic_bytes,function_seconds,mails,executions")
    (row,) = [row.split(",") for row in rows if row.startswith(app.app_id)]
    assert (row[1], row[3], row[6]) == ("'=1+1", "7", "70")
    assert commands.run("usage", "--month", "2026-13", *app.server.place).returncode == 2
