"""Owners have archives made at set times; the newest are kept, and nothing else of the app's archives goes."""

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.archive.shop import PASSPHRASE, Shop
from tests.archive.test_routes import console_client, downloaded, imported, written
from tests.backstage import run_sql
from tests.conftest import new_app
from tests.support import App, Server, assert_error
from tests.waiting import until


@pytest.fixture(scope="module")
async def shop(server: Server, console: dict[str, str]) -> Shop:
    return await Shop(new_app(server, console)).fill()


def path(app: App) -> str:
    return f"/v1/apps/{app.app_id}/archive-schedule"


async def scheduled(app: App, **body: Any) -> dict[str, Any]:
    async with console_client(app) as client:
        answer = await client.put(path(app), json={"cron": "30 2 * * *", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def fire(app: App) -> dict[str, Any]:
    """Let the time of the schedule come, and return the archive once it has ended."""
    before = {one["id"] for one in await archives(app)}
    due = "update pilotis.schedules set next_run_at = now() where app_id = $1 and schedule_id = $1"
    await run_sql(app.server, due, app.app_id)
    await run_sql(app.server, "select pg_notify('pilotis', 'work:archives')")

    async def made() -> dict[str, Any] | None:
        new = [one for one in await archives(app) if one["id"] not in before and one["status"] != "pending"]
        return new[0] if new else None

    return await until(made)


async def archives(app: App) -> list[dict[str, Any]]:
    async with console_client(app) as client:
        return (await client.get(f"/v1/apps/{app.app_id}/archives")).json()["data"]


async def test_archives_are_made_when_they_are_due_and_the_newest_are_kept(shop: Shop):
    app = shop.app
    own = await written(app, with_secrets=False)
    set_to = await scheduled(app, timezone="Asia/Seoul", keep=2, passphrase=PASSPHRASE)
    assert (set_to["keep"], set_to["has_passphrase"], set_to["last_run_at"]) == (2, True, None)
    assert set_to["next_run_at"].endswith("T17:30:00.000Z")
    made = [await fire(app) for _ in range(3)]
    assert [(one["status"], one["is_scheduled"], one["has_passphrase"]) for one in made] == [
        ("completed", True, True)
    ] * 3
    # The oldest went, and neither the other one nor its place did.
    assert {one["id"] for one in await archives(app)} == {made[2]["id"], made[1]["id"], own["id"]}
    due = "select count(*) from pilotis.pending_deletions where key = $1"
    assert await run_sql(app.server, due, f"blobs/{app.app_id}/{made[0]['id']}") == 1
    got = await downloaded(app, made[2]["id"])
    assert (await imported(app, got.content, passphrase=PASSPHRASE))["status"] == "completed"
    async with console_client(app) as client:
        read = (await client.get(path(app))).json()
    assert read["last_run_at"] is not None
    stored = await run_sql(app.server, "select passphrase from pilotis.archive_schedules where app_id = $1", app.app_id)
    assert PASSPHRASE.encode() not in stored
    # A passphrase that is not given stays; with null there is none, and the app has secrets.
    assert (await scheduled(app, keep=2))["has_passphrase"] is True
    assert (await scheduled(app, keep=2, passphrase=None))["has_passphrase"] is False
    failed = [await fire(app) for _ in range(3)]
    assert {one["status"] for one in failed} == {"failed"}
    assert "Give a passphrase" in failed[0]["error"]
    async with console_client(app) as client:
        attention = (await client.get(f"/v1/apps/{app.app_id}/attention")).json()
    assert attention["archives"] == 2
    # However often it fails, what was completed stays.
    left = {one["id"] for one in await archives(app)}
    assert left == {made[2]["id"], made[1]["id"], own["id"], failed[2]["id"], failed[1]["id"]}
    await scheduled(app, keep=2, with_secrets=False)
    last = await fire(app)
    assert (last["status"], last["with_secrets"]) == ("completed", False)
    left = left - {made[1]["id"]} | {last["id"]}
    async with console_client(app) as client:
        assert (await client.get(f"/v1/apps/{app.app_id}/attention")).json()["archives"] == 0
        gone = await client.delete(path(app))
        assert gone.status_code == 200, gone.text
        assert_error(await client.get(path(app)), 404, "ARCHIVE_SCHEDULE_NOT_FOUND")
        assert_error(await client.delete(path(app)), 404, "ARCHIVE_SCHEDULE_NOT_FOUND")
    assert {one["id"] for one in await archives(app)} == left
    left_over = "select count(*) from pilotis.schedules where kind = 'archive' and app_id = $1"
    assert await run_sql(app.server, left_over, UUID(app.app_id)) == 0


async def test_an_archive_that_is_still_written_is_not_begun_twice(app: App):
    await scheduled(app)
    asked = """
        insert into pilotis.app_archives (app_id, archive_id, has_passphrase, with_secrets)
        values ($1, gen_random_uuid(), false, false)
    """
    await run_sql(app.server, asked, app.app_id)
    due = "update pilotis.schedules set next_run_at = now() where app_id = $1 and schedule_id = $1"
    await run_sql(app.server, due, app.app_id)
    await run_sql(app.server, "select pg_notify('pilotis', 'work:archives')")
    passed = "select last_run_at is not null from pilotis.schedules where app_id = $1 and schedule_id = $1"
    await until(lambda: run_sql(app.server, passed, app.app_id))
    assert len(await archives(app)) == 1
    async with console_client(app) as client:
        await client.delete(path(app))


async def test_a_deleted_app_has_no_archives_made(server: Server, console: dict[str, str]):
    app = new_app(server, console)
    await scheduled(app)
    async with console_client(app) as client:
        assert (await client.delete(f"/v1/apps/{app.app_id}")).status_code == 200
    due = "update pilotis.schedules set next_run_at = now() where app_id = $1 and schedule_id = $1"
    await run_sql(app.server, due, app.app_id)
    await run_sql(app.server, "select pg_notify('pilotis', 'work:archives')")
    passed = "select count(*) = 0 from pilotis.schedules where app_id = $1 and next_run_at <= now()"
    await until(lambda: run_sql(app.server, passed, app.app_id))
    assert await run_sql(app.server, "select count(*) from pilotis.app_archives where app_id = $1", app.app_id) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cron": "* * * * *"}, "cron"),
        ({"cron": "*/5 2 * * *"}, "cron"),
        ({"cron": "0,30 * * * *"}, "cron"),
        ({"cron": "every night"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "@daily", "timezone": "Mars/Base"}, "timezone"),
        ({"cron": "@daily", "keep": 0}, "keep"),
        ({"cron": "@daily", "keep": 8}, "keep"),
        ({"cron": "@daily", "passphrase": "short"}, "passphrase"),
    ],
)
async def test_a_schedule_that_cannot_be_kept_is_refused(app: App, body: dict[str, Any], field: str):
    async with console_client(app) as client:
        answer = await client.put(path(app), json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["details"][0]["field"] == field
        assert_error(await client.get(path(app)), 404, "ARCHIVE_SCHEDULE_NOT_FOUND")


async def test_one_schedule_remains_of_several_requests_at_once(app: App):
    async with console_client(app) as client:
        answers: list[httpx.Response] = await asyncio.gather(
            *(client.put(path(app), json={"cron": f"0 {hour} * * *", "keep": 1 + hour}) for hour in range(5))
        )
        assert {answer.status_code for answer in answers} == {200}
        read = (await client.get(path(app))).json()
        query = "select array[s.cron, a.cron] from pilotis.schedules s join pilotis.archive_schedules a using (app_id)"
        crons = await run_sql(app.server, f"{query} where s.app_id = $1 and s.kind = 'archive'", app.app_id)
        assert crons == [read["cron"], read["cron"]]
        assert read["keep"] == 1 + int(read["cron"].split()[1])
        assert (await client.delete(path(app))).status_code == 200
