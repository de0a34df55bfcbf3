"""What needs attention in an app, as shown by the console's badges."""

from pilotis.kit.ids import uuid7
from tests.acceptance.test_dead_jobs import dead
from tests.console import database_of, owner_of
from tests.support import App, Server

WEBHOOK = {"url": "http://localhost:9/hooks", "event_types": ["row.created"]}


async def test_what_fails_runs_and_is_open_is_counted(app: App, server: Server):
    async with owner_of(app).client(app) as console:
        assert (await console.patch("", json={"schema_locked": True})).status_code == 200

        async def attention() -> dict[str, int]:
            answer = await console.get("/attention")
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert await attention() == {
            "running": 0,
            "failing": 0,
            "dead_jobs": 0,
            "exposure": 0,
            "archives": 0,
            "quotas": 0,
        }
        assert (await console.patch("", json={"schema_locked": False})).status_code == 200
        await dead(server, app)
        webhooks = [(await console.post("/webhooks", json=WEBHOOK)).json()["id"] for _ in range(4)]
        workflow = (await console.post("/workflows", json={"name": "nightly"})).json()["id"]
        async with database_of(server) as connection:
            for webhook in webhooks[:2]:
                await connection.execute(
                    "insert into pilotis.webhook_health (app_id, webhook_id, failing_since) values ($1, $2, now()) "
                    "on conflict (app_id, webhook_id) do update set failing_since = now()",
                    app.app_id,
                    webhook,
                )
            await connection.execute(
                "update pilotis.webhooks set is_active = false, disabled_reason = 'GONE' where webhook_id = $1",
                webhooks[2],
            )
            # A disabled one needs no attention.
            await connection.execute("update pilotis.webhooks set is_active = false where webhook_id = $1", webhooks[1])
            for status in ("pending", "running", "failed"):
                await connection.execute(
                    "insert into pilotis.workflow_executions (app_id, execution_id, workflow_id, version, status, "
                    "trigger, trigger_type, input, run_at, timeout_seconds) "
                    "values ($1, $2, $3, 1, $4, '{}', 'manual', '{}', now() + interval '1 hour', 60)",
                    app.app_id,
                    uuid7(),
                    workflow,
                    status,
                )
        assert await attention() == {
            "running": 2,
            "failing": 2,
            "dead_jobs": 1,
            "exposure": 1,
            "archives": 0,
            "quotas": 0,
        }
