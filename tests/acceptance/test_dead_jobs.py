"""Console: background jobs of an app that have failed permanently."""

from typing import Any

import httpx
import pytest

from pilotis.kit.ids import uuid7
from tests.console import owner_of
from tests.database import connection_to
from tests.support import App, Server, assert_error


@pytest.fixture
async def client(app: App) -> Any:
    async with owner_of(app).client(app) as client:
        yield client


async def dead(server: Server, app: App, kind: str = "functions.call", error: str = "null", state: str = "dead") -> str:
    """Insert a job in a queue that no server processes, so that it stays as a retry leaves it."""
    job_id = str(uuid7())
    async with connection_to(server) as connection:
        await connection.execute(
            """
            insert into pilotis.jobs (app_id, job_id, queue, kind, subject, payload, state, run_at, attempts, error,
                ended_at)
            values ($1, $2, 'nobody', $3, 'about', '{}', $4, now() + interval '1 hour', 6, nullif($5::jsonb, 'null'),
                now())
            """,
            app.app_id,
            job_id,
            kind,
            state,
            error,
        )
    return job_id


async def state(server: Server, job_id: str) -> tuple[Any, ...] | None:
    async with connection_to(server) as connection:
        row = await connection.fetchrow(
            "select state, attempts, run_at <= now() from pilotis.jobs where job_id = $1", job_id
        )
    return row and tuple(row)


async def actions(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    entries = (await client.get("/audit-log", params={"action": "job"})).json()["data"]
    return [(entry["action"], entry["target"]) for entry in entries]


async def test_dead_jobs_are_listed_newest_first_by_kind(server: Server, app: App, other_app: App, client: Any):
    timeout = '{"code": "TIMEOUT", "message": "The job exceeded its time limit."}'
    first = await dead(server, app, error=timeout)
    second = await dead(server, app, "webhooks.x")
    await dead(server, app, state="waiting")
    await dead(server, other_app)
    answer = (await client.get("/dead-jobs")).json()
    assert [job["job_id"] for job in answer["data"]] == [second, first]
    assert answer["total_count"] == 2
    found = (await client.get("/dead-jobs", params={"kind": "functions.call"})).json()["data"]
    assert [job["job_id"] for job in found] == [first]
    assert found[0]["error"] == {"code": "TIMEOUT", "message": "The job exceeded its time limit."}
    assert (found[0]["subject"], found[0]["attempts"]) == ("about", 6)


async def test_an_unexpected_error_keeps_its_words_from_the_console(server: Server, app: App, client: Any):
    await dead(server, app, error='{"code": "ERROR", "message": "OSError: /secret/place"}')
    text = (await client.get("/dead-jobs")).text
    assert "secret" not in text
    assert '"ERROR"' in text


async def test_a_dead_job_is_retried_and_logged(server: Server, app: App, client: Any):
    job_id = await dead(server, app)
    answer = await client.post(f"/dead-jobs/{job_id}/retry")
    assert (answer.status_code, answer.json()["id"]) == (200, job_id)
    assert await state(server, job_id) == ("waiting", 0, True)
    assert await actions(client) == [("job.retry", job_id)]
    assert_error(await client.post(f"/dead-jobs/{job_id}/retry"), 404, "JOB_NOT_FOUND")


async def test_all_dead_jobs_of_a_kind_are_retried(server: Server, app: App, other_app: App, client: Any):
    mine = [await dead(server, app) for _ in range(3)]
    others = [await dead(server, app, "another"), await dead(server, other_app)]
    answer = await client.post("/dead-jobs/retry", json={"kind": "functions.call"})
    assert answer.json()["retried"] == 3
    assert [await state(server, job_id) for job_id in others] == [("dead", 6, False)] * 2
    for job_id in mine:
        assert await state(server, job_id) == ("waiting", 0, True)
    assert (await client.post("/dead-jobs/retry", json={})).json()["retried"] == 1
    assert await actions(client) == [("job.retry_all", None), ("job.retry_all", "functions.call")]


async def test_a_dead_job_is_deleted_and_a_live_one_is_not(server: Server, app: App, other_app: App, client: Any):
    job_id, live, foreign = (
        await dead(server, app),
        await dead(server, app, state="waiting"),
        await dead(server, other_app),
    )
    assert (await client.delete(f"/dead-jobs/{job_id}")).status_code == 200
    assert await state(server, job_id) is None
    for other in (job_id, live, foreign):
        assert_error(await client.delete(f"/dead-jobs/{other}"), 404, "JOB_NOT_FOUND")
        assert_error(await client.post(f"/dead-jobs/{other}/retry"), 404, "JOB_NOT_FOUND")
    assert await actions(client) == [("job.delete", job_id)]
