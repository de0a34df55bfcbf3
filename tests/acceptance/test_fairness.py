"""Two apps whose requests hold every connection they can get leave room to a third, in files and members as in rows."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx

from tests.acceptance.test_files import storage, upload
from tests.conftest import new_app
from tests.services import connected
from tests.support import App
from tests.waiting import until

POOL = 10
_WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'pilotis' and wait_event_type = 'Lock'
"""


async def test_a_third_app_signs_in_and_uploads_beside_two_that_hold_what_they_can(app: App):
    """One app's folders and another's sign-ins wait for a lock, three times as many as there are connections."""
    folders, members, third = app, new_app(app.server, app.console), new_app(app.server, app.console)
    base, own = await storage(folders), await storage(third)
    member = await members.member("ada")
    await third.member("eve")
    async with AsyncExitStack() as stack:
        blocker = await stack.enter_async_context(connected(app.server))
        watcher = await stack.enter_async_context(connected(app.server))
        clients = [await stack.enter_async_context(one.client()) for one in (folders, members, third)]
        # What each app needs at first is cached now.
        await upload(clients[2], own, b"first", file_name="first")
        locks = blocker.transaction()
        await locks.start()
        await blocker.execute("select from pilotis.file_storages where storage_id = $1 for update", base.split("/")[-1])
        await blocker.execute(
            "select from pilotis.members where app_id = $1 and member_id = $2 for update",
            members.app_id,
            member["member_id"],
        )
        attacks = [
            asyncio.create_task(attack)
            for number in range(3 * POOL)
            for attack in (
                clients[0].post(f"{base}/folders", json={"name": f"folder {number}"}),
                sign_in(clients[1], "ada"),
            )
        ]
        try:
            await until(lambda: _waits(watcher, POOL - 1))
            for number in range(5):
                assert (await sign_in(clients[2], "eve")).status_code == 200
                await upload(clients[2], own, b"bytes", file_name=f"file {number}")
                made = await clients[2].post(f"{own}/folders", json={"name": f"folder {number}"})
                assert made.status_code == 201, made.text
        finally:
            await locks.rollback()
            answers = await asyncio.gather(*attacks)
        # Sign-ins with one name have a limit as well.
        assert {answer.status_code for answer in answers} <= {200, 201, 429, 503}


async def sign_in(client: httpx.AsyncClient, login_id: str) -> httpx.Response:
    body = {"login_id": login_id, "password": "correct horse"}
    return await client.post("/v1/public/app-members/signin", json=body)


async def _waits(watcher: Any, number: int) -> bool:
    return await watcher.fetchval(_WAITING) >= number
