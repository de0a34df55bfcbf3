"""What an app does besides answering requests, counted by day for the console's overview."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pilotis.kit.ids import uuid7
from tests.console import database_of, owner_of
from tests.support import App, Server, assert_error

WEBHOOK = {"url": "http://localhost:9/hooks", "event_types": ["row.created"]}


async def test_calls_executions_deliveries_and_deployments_are_counted_by_day(app: App, other_app: App, server: Server):
    today = datetime.now(UTC).replace(hour=12)
    async with owner_of(app).client(app) as console:
        webhook = (await console.post("/webhooks", json=WEBHOOK)).json()["id"]
        workflow = (await console.post("/workflows", json={"name": "nightly"})).json()["id"]
        function = (await console.post("/functions", json={"name": "total", "runtime": "javascript"})).json()["id"]
        site = (await console.post("/storages/webs", json={"name": "shop"})).json()["id"]
        async with database_of(server) as connection:
            for days, failed in ((0, False), (0, True), (2, False), (90, False)):
                time = today - timedelta(days=days)
                await connection.execute(
                    "insert into pilotis.function_stats (app_id, function_id, minute, status, bucket, calls) "
                    "values ($1, $2, $3, $4, 7, 5)",
                    app.app_id, function, time, "timeout" if failed else "success",
                )  # fmt: skip
                await connection.execute(
                    "insert into pilotis.workflow_executions (app_id, execution_id, workflow_id, version, status, "
                    "trigger, trigger_type, input, timeout_seconds, created_at) "
                    "values ($1, $2, $3, 1, $4, '{}', 'manual', '{}', 60, $5)",
                    app.app_id, uuid7(), workflow, "failed" if failed else "completed", time,
                )  # fmt: skip
                for is_test in (False, True):
                    await connection.execute(
                        "insert into pilotis.deliveries (app_id, delivery_id, target_id, event_app_id, event_id, "
                        "event_type, state, finished_at, is_test) "
                        "values ($1, $2, $3, $1, $4, 'row.created', $5, $6, $7)",
                        app.app_id, uuid7(), webhook, uuid4(), "failed" if failed else "succeeded", time, is_test,
                    )  # fmt: skip
                await connection.execute(
                    "insert into pilotis.web_deployments (app_id, deployment_id, storage_id, status, source, "
                    "actor_kind, created_at) values ($1, $2, $3, $4, 'zip', 'console_user', $5)",
                    app.app_id, uuid7(), site, "failed" if failed else "ready", time,
                )  # fmt: skip
        answer = await console.get("/usage", params={"days": 3})
        assert answer.status_code == 200, answer.text
        usage = answer.json()
        assert_error(await console.get("/usage", params={"days": 61}), 400, "VALIDATION_FAILED")
    assert {name: usage[name] for name in ("sites", "functions", "workflows", "webhooks")} == dict.fromkeys(
        ("sites", "functions", "workflows", "webhooks"), 1
    )
    days = [(today - timedelta(days=ago)).date().isoformat() for ago in (2, 1, 0)]
    assert [day["date"] for day in usage["by_day"]] == days
    one = {"executions": 1, "deliveries": 1, "deployments": 1, "calls": 5}
    none = dict.fromkeys(one, 0)
    failed = {f"failed_{name}": count for name, count in one.items()}
    unfailed = {f"failed_{name}": 0 for name in one}
    assert [{k: v for k, v in day.items() if k != "date"} for day in usage["by_day"]] == [
        one | unfailed,
        none | unfailed,
        {name: 2 * count for name, count in one.items()} | failed,
    ]
    async with owner_of(other_app).client(other_app) as console:
        usage = (await console.get("/usage")).json()
    assert len(usage["by_day"]) == 30
    assert not any(count for day in usage["by_day"] for name, count in day.items() if name != "date")
