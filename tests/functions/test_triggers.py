"""Functions, section 9: schedules and events call functions."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from pilotis.db.pool import Database
from pilotis.functions.feature import FunctionsFeature
from pilotis.functions.triggers import CallPayload
from pilotis.jobs.kinds import DiscardError
from pilotis.kit.errors import UnavailableError
from pilotis.settings import Settings
from tests.backstage import run_sql
from tests.console import owner_of
from tests.database_proxy import proxied
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.services import Services
from tests.support import App, assert_error
from tests.waiting import PATIENCE, until

TOGETHER = 30
SUCCEEDED = {"success", "completed", "succeeded"}
COLLECT = """
export default async (payload, ctx) => {
  await ctx.api.rows("seen").create({ payload, trigger: ctx.trigger.type, key: ctx.idempotencyKey });
};"""


async def seen(app: App, table: str) -> list[dict[str, Any]]:
    async with app.client() as client:
        return [row["data"] for row in (await client.get(f"/v1/public/tables/{table}/data?limit=100")).json()["data"]]


async def make_due(app: App, schedule_id: str) -> None:
    """Let a schedule fire now, instead of within a minute."""
    due = "update pilotis.schedules set next_run_at = date_trunc('minute', now()) where schedule_id = $1"
    await run_sql(app.server, due, schedule_id)


async def _made(functions: Functions, **trigger: Any) -> tuple[str, str, httpx.Response]:
    table = await functions.app.table({"payload": "object", "trigger": "string", "key": "string"}, title="seen")
    function_id = await functions.made("collect", COLLECT)
    answer = await functions.console.post(f"{functions.base}/{function_id}/triggers", json=trigger)
    assert answer.status_code == 201, answer.text
    return table, function_id, answer


async def test_a_row_calls_a_function_once_for_each_committed_row(functions: Functions):
    app = functions.app
    orders = await app.table({"n": "int"}, title="orders")
    table, _, _ = await _made(functions, type="event", events=["row.created"], table_id=orders)
    await app.row(orders, {"n": 1})
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{orders}/data/bulk", json={"data": [{"n": 2}, {"n": 3}]})
        rolled = {"operations": [{"type": "create", "table_id": orders, "data": {"n": 4}}, {"type": "delete"}]}
        assert (await client.post("/v1/public/transactions", json=rolled)).status_code >= 400
        committed = {
            "operations": [{"type": "create", "table_id": orders, "data": {"n": n}} for n in range(5, 5 + TOGETHER)]
        }
        assert (await client.post("/v1/public/transactions", json=committed)).status_code == 200
    await app.row(orders, {"n": 0})
    rows = await until(lambda: _at_least(app, table, 4 + TOGETHER))
    assert sorted(row["payload"]["data"]["row"]["data"]["n"] for row in rows) == [0, 1, 2, 3, *range(5, 5 + TOGETHER)]
    assert {row["trigger"] for row in rows} == {"event"}
    assert {row["key"] for row in rows} == {row["payload"]["id"] for row in rows}


async def _at_least(app: App, table: str, number: int) -> list[dict[str, Any]]:
    rows = await seen(app, table)
    return rows if len(rows) >= number else []


async def test_a_call_is_not_given_up_because_the_database_is_away(functions: Functions):
    function_id = UUID(await functions.made("waits", "export default () => 1"))
    payload = CallPayload(
        function_id=function_id, trigger_id=uuid4(), trigger="event", idempotency_key="k", payload="{}"
    )
    async with proxied(functions.app.server) as (proxy, arguments):
        database = Database(arguments, size=2, statement_seconds=PATIENCE)
        services = Services(Settings(data_dir=str(functions.app.server.data_dir)), database)
        (kind,) = [one for one in services.features.get(FunctionsFeature).jobs if one.name == "functions.call"]
        job: Any = SimpleNamespace(app_id=UUID(functions.app.app_id), payload=payload)
        proxy.cut("from pilotis.functions")
        with pytest.raises(UnavailableError):
            await kind.run(job)
        assert proxy.cuts == 1
        # One that is deleted is, and only that.
        job.payload = msgspec.structs.replace(payload, function_id=uuid4())
        with pytest.raises(DiscardError):
            await kind.run(job)
        services.passwords.close()
        await database.close()


async def test_a_function_that_triggers_itself_ends(functions: Functions):
    app = functions.app
    table = await app.table({"n": "int"}, title="loop")
    source = (
        "export default async (event, ctx) => { await ctx.api.rows('loop').create({ n: event.data.row.data.n + 1 }) }"
    )
    function_id = await functions.made("loop", source)
    body = {"type": "event", "events": ["row.created"], "table_id": table}
    assert (await functions.console.post(f"{functions.base}/{function_id}/triggers", json=body)).status_code == 201
    await app.row(table, {"n": 0})
    rows = await until(lambda: _at_least(app, table, 7))
    assert sorted(row["n"] for row in rows) == list(range(7))
    assert "EVENT_LOOP" in await until(lambda: app.server.logs() if "EVENT_LOOP" in app.server.logs() else "")


async def test_a_schedule_calls_a_function(functions: Functions):
    table, function_id, made = await _made(functions, type="schedule", cron="@yearly")
    assert made.json()["next_run_at"][4:10] == "-01-01"
    await make_due(functions.app, made.json()["id"])
    rows = await until(lambda: _at_least(functions.app, table, 1))
    assert set(rows[0]["payload"]) == {"scheduled_for", "previous_run_at"}
    path = f"{functions.base}/{function_id}/triggers/{made.json()['id']}"
    changed = (await functions.console.patch(path, json={"is_active": False})).json()
    assert (changed["is_active"], changed["next_run_at"]) == (False, None)
    assert (await functions.console.delete(path)).status_code == 200
    assert_error(await functions.console.delete(path), 404, "TRIGGER_NOT_FOUND")


async def test_what_cannot_be_a_trigger_is_refused(functions: Functions):
    function_id = await functions.create("later")
    for body, code in [
        ({"type": "schedule"}, "VALIDATION_FAILED"),
        ({"type": "schedule", "cron": "every day"}, "INVALID_CRON"),
        ({"type": "schedule", "cron": "* * * * * *"}, "INVALID_CRON"),
        ({"type": "schedule", "cron": "0 0 31 2 *"}, "INVALID_CRON"),
        ({"type": "schedule", "cron": "@secondly"}, "INVALID_CRON"),
        ({"type": "schedule", "cron": "0 4 * * *", "timezone": "Mars/Olympus"}, "VALIDATION_FAILED"),
        ({"type": "event"}, "VALIDATION_FAILED"),
        ({"type": "event", "events": ["row.exploded"]}, "UNKNOWN_EVENT_TYPE"),
        ({"type": "event", "events": ["row.created"], "cron": "0 4 * * *"}, "VALIDATION_FAILED"),
    ]:
        answer = await functions.console.post(f"{functions.base}/{function_id}/triggers", json=body)
        assert_error(answer, 400, code)
    answer = await functions.console.post(
        f"{functions.base}/{function_id}/triggers", json={"type": "schedule", "cron": "* * * * * *"}
    )
    assert "minute, hour, day of the month, month and weekday" in answer.json()["message"]
    assert "there are 6" in answer.json()["message"]
    assert (await functions.console.get(f"{functions.base}/{function_id}/triggers")).json()["data"] == []


async def test_a_trigger_for_what_is_not_there_is_refused(functions: Functions, other_app: App):
    app = functions.app
    function_id = await functions.create("later")
    path = f"{functions.base}/{function_id}/triggers"
    foreign, table, missing = await other_app.table({"n": "int"}), await app.table({"n": "int"}), str(uuid4())
    for name, value, code in (
        ("table_id", missing, "TABLE_NOT_FOUND"),
        ("table_id", foreign, "TABLE_NOT_FOUND"),
        ("storage_id", missing, "STORAGE_NOT_FOUND"),
    ):
        body = {"type": "event", "events": ["row.created", "file.created"], name: value}
        assert_error(await functions.console.post(path, json=body), 404, code)
    async with owner_of(app).client(app) as console:
        files = (await console.post("/storages/files", json={"name": "files"})).json()["id"]
        site = (await console.post("/storages/webs", json={"name": "site"})).json()["id"]
    for storage_id in (files, site):
        body = {"type": "event", "events": ["file.created", "deployment.ready"], "storage_id": storage_id}
        assert (await functions.console.post(path, json=body)).status_code == 201
    made = await functions.console.post(path, json={"type": "event", "events": ["row.created"], "table_id": table})
    one = f"{path}/{made.json()['id']}"
    assert_error(await functions.console.patch(one, json={"table_id": foreign}), 404, "TABLE_NOT_FOUND")
    async with app.client() as client:
        assert (await client.delete(f"/v1/public/tables/{table}")).status_code == 200
    assert (await functions.console.patch(one, json={"is_active": False})).status_code == 200
    assert_error(await functions.console.patch(one, json={"is_active": True}), 404, "TABLE_NOT_FOUND")


async def test_a_call_by_a_trigger_that_fails_is_tried_again(functions: Functions):
    app = functions.app
    table = await app.table({"n": "int"}, title="tries")
    source = """
        export default async (event, ctx) => {
          await ctx.api.rows("seen").create({ payload: {}, trigger: String(ctx.attempt), key: ctx.idempotencyKey });
          if (ctx.attempt < 2) throw new Error("not yet");
        };"""
    kept = await app.table({"payload": "object", "trigger": "string", "key": "string"}, title="seen")
    function_id = await functions.made("retry", source)
    body = {"type": "event", "events": ["row.created"], "table_id": table}
    assert (await functions.console.post(f"{functions.base}/{function_id}/triggers", json=body)).status_code == 201
    await app.row(table, {"n": 1})
    rows = await until(lambda: _at_least(app, kept, 2))
    assert sorted(row["trigger"] for row in rows) == ["1", "2"]
    assert len({row["key"] for row in rows}) == 1


async def test_a_call_that_failed_permanently_is_listed_and_can_be_retried(functions: Functions):
    app = functions.app
    table = await app.table({"n": "int"}, title="causes")
    kept = await app.table({"payload": "object", "trigger": "string", "key": "string"}, title="seen")
    function_id = await functions.made("fails", "export default () => { throw new Error('no such vendor') }")
    triggers = f"{functions.base}/{function_id}/triggers"
    body = {"type": "event", "events": ["row.created"], "table_id": table}
    made, other = [(await functions.console.post(triggers, json=body)).json()["id"] for _ in range(2)]
    await functions.console.patch(f"{triggers}/{other}", json={"is_active": False})
    await app.row(table, {"n": 1})
    # Its attempts would take more than an hour.
    query = """
        update pilotis.jobs set state = 'dead', ended_at = now(), owner = null
        where subject = $1 and state = 'waiting' and error is not null returning 1
    """
    assert await until(lambda: run_sql(app.server, query, made))
    (failure,) = (await functions.console.get(f"{triggers}/{made}/failures")).json()["data"]
    assert failure["error"] == {"code": "FUNCTION_FAILED", "message": "FUNCTION_ERROR: no such vendor"}
    assert (await functions.console.get(f"{triggers}/{other}/failures")).json()["total_count"] == 0
    works = """export default async (event, ctx) => {
        await ctx.api.rows("seen").create({ payload: {}, trigger: "again", key: ctx.idempotencyKey });
    }"""
    assert (await functions.deploy(function_id, works)).status_code == 201
    path = f"failures/{failure['job_id']}/retry"
    assert_error(await functions.console.post(f"{triggers}/{other}/{path}"), 404, "JOB_NOT_FOUND")
    assert (await functions.console.post(f"{triggers}/{made}/{path}")).status_code == 200
    assert await until(lambda: _at_least(app, kept, 1))
    assert (await functions.console.get(f"{triggers}/{made}/failures")).json()["total_count"] == 0


STARTS = """
export default async (payload, ctx) => {
  const path = `/v1/apps/{app}/workflows/${payload.workflow}/execute`;
  const headers = { "Content-Type": "application/json" };
  const answer = await ctx.api.fetch(path, { method: "POST", headers, body: "{}" });
  if (answer.status !== 202) throw new Error(await answer.text());
};"""


async def test_what_a_request_leads_to_is_found_by_its_id(functions: Functions):
    """Request → function → workflow → function → row → webhook, and a function called by that event."""
    app = functions.app
    orders = await app.table({"n": "int"}, title="orders")
    _, collects, _ = await _made(functions, type="event", events=["row.created"], table_id=orders)
    saves = await functions.made(
        "save", "export default async (p, ctx) => { await ctx.api.rows('orders').create({ n: 1 }); }"
    )
    starts = await functions.made("start", STARTS, scopes=["workflows:execute"])
    flow = {"name": "flow", "steps": [{"id": "save", "step_type": "function", "function_id": saves}]}
    workflow_id = (await functions.console.post(f"/v1/apps/{app.app_id}/workflows", json=flow)).json()["id"]
    async with Receiver.listening() as receiver:
        hook = {"url": receiver.url("/hook"), "event_types": ["row.created"], "table_ids": [orders], "name": "orders"}
        hook_id = (await functions.console.post(f"/v1/apps/{app.app_id}/webhooks", json=hook)).json()["id"]
        async with app.client() as client:
            body = {"payload": {"workflow": workflow_id}}
            answer = await client.post(
                "/v1/public/functions/start/invoke", json=body, headers={"X-Request-Id": "first-01"}
            )
        assert answer.json()["success"], answer.text

        async def context() -> list[dict[str, Any]]:
            found = (await functions.console.get(f"/v1/apps/{app.app_id}/requests/first-01")).json()
            assert (found["request_id"], found["has_more"]) == ("first-01", False)
            entries: list[dict[str, Any]] = found["entries"]
            return entries if len([one for one in entries if one["status"] in SUCCEEDED]) == 5 else []

        found = {(one["kind"], str(one["target_id"])): one for one in await until(context)}
    called, stepped = found["function", starts], found["function", saves]
    ran, sent = found["workflow", workflow_id], found["delivery", hook_id]
    assert (called["name"], called["detail"], called["is_failed"]) == ("start", "invoke", False)
    assert (ran["name"], ran["detail"], ran["parent_id"]) == ("flow", "function", None)
    assert (stepped["detail"], stepped["parent_id"]) == ("workflow", ran["id"])
    assert found["function", collects]["detail"] == "event"
    assert (sent["name"], sent["detail"], sent["code"]) == ("orders", "row.created", None)
    assert all(one["duration_ms"] > 0 for one in found.values())
    delivery = (await functions.console.get(f"/v1/apps/{app.app_id}/webhooks/{hook_id}/logs")).json()["data"][0]
    assert (delivery["id"], delivery["request_id"]) == (sent["id"], "first-01")
    path = f"/v1/apps/{app.app_id}/workflows/{workflow_id}/executions/{ran['id']}"
    assert (await functions.console.get(path)).json()["request_id"] == "first-01"


async def test_a_failed_call_is_found_by_its_function_and_no_other_app_finds_it(functions: Functions, other_app: App):
    function_id = await functions.made("fails", "export default () => { throw new Error('no'); }")
    await functions.made("other", "export default () => 1")
    async with functions.app.client() as client:
        headers = {"X-Request-Id": "second-02"}
        await client.post("/v1/public/functions/fails/invoke", json={}, headers=headers)
        too_long = {"timeout": 1e9}
        assert_error(
            await client.post("/v1/public/functions/fails/invoke", json=too_long, headers=headers),
            400,
            "VALIDATION_FAILED",
        )
        await client.post("/v1/public/functions/other/invoke", json=too_long)

    async def context() -> list[dict[str, Any]]:
        answer = await functions.console.get(f"/v1/apps/{functions.app.app_id}/requests/second-02")
        # A call that takes long is in the log of requests as well.
        entries = [one for one in answer.json()["entries"] if (one["kind"], one["status"]) != ("request", "200")]
        return entries if len(entries) == 2 else []

    call, refused = await until(context)
    assert (call["kind"], call["status"], call["code"], call["is_failed"]) == (
        "function",
        "error",
        "FUNCTION_ERROR",
        True,
    )
    assert (refused["kind"], refused["status"], refused["target_id"]) == ("request", "400", function_id)
    assert refused["name"] == "POST /v1/public/functions/:function_id/invoke"
    async with owner_of(functions.app).client(functions.app) as console:
        logged = (await console.get("/requests", params={"function_id": function_id})).json()["data"]
    assert {entry["function_id"] for entry in logged} == {function_id}
    async with owner_of(other_app).client(other_app) as console:
        assert (await console.get("/requests/second-02")).json()["entries"] == []
