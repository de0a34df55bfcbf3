"""Who may have how many apps, the plan of new ones, and what their owners hear of quotas; on a server with SMTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pilotis.http.api.principals import Actor
from pilotis.plans.feature import PlansFeature
from pilotis.users.service import AppCreationNotAllowedError
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.console import ConsoleUser, owner_of, user_with
from tests.mail.smtp_server import SmtpServer
from tests.plans.test_plans import run
from tests.receiver import Receiver
from tests.services import stale_node
from tests.support import App, Server, assert_error
from tests.waiting import until
from tests.webhooks.world import create

LIMIT = 2
PLAN = "[limits]\ntables = 7\n[quotas]\nrequests = {limit = 10000, hard = false}\nmails = 1000\n"


@pytest.fixture(scope="module")
async def smtp() -> AsyncIterator[SmtpServer]:
    async with SmtpServer().listening() as listening:
        yield listening


@pytest.fixture(scope="module")
async def owned(tmp_path_factory: pytest.TempPathFactory, smtp: SmtpServer) -> AsyncIterator[App]:
    """An app on a server that limits apps, and has a plan for new ones."""
    environment = {
        "PILOTIS_SMTP_URL": smtp.url(),
        "PILOTIS_MAIL_FROM": "mail@test.invalid",
        "PILOTIS_OUTGOING_NETWORKS": "127.0.0.0/8",
        "PILOTIS_APPS_PER_USER": str(LIMIT),
        "PILOTIS_DEFAULT_PLAN": "usual",
    }
    server = Server(tmp_path_factory.mktemp("policy") / "data", environment=environment)
    await asyncio.to_thread(server.start)
    try:
        # The plan does not exist yet: an app of before has none.
        yield await asyncio.to_thread(lambda: new_app(server, first_console_user(server)))
    finally:
        await asyncio.to_thread(server.stop)
    server.assert_no_failure()


async def new_user(owned: App) -> ConsoleUser:
    return await user_with(owned, "editor")


async def make(user: ConsoleUser) -> Any:
    async with user.client() as client:
        return await client.post("/apps", json={"name": "mine"})


async def set_usual(owned: App, folder: Path) -> None:
    file = folder / "usual.toml"
    file.write_text(PLAN)
    await asyncio.to_thread(run, owned, "plan", "set", "usual", str(file))


async def plan_of(app: App) -> Any:
    return await run_sql(app.server, "select plan from pilotis.apps where app_id = $1", app.app_id)


async def test_a_new_app_has_the_default_plan_if_there_is_one(owned: App, tmp_path: Path):
    assert await plan_of(owned) is None
    await set_usual(owned, tmp_path)
    user = await new_user(owned)
    made = (await make(user)).json()
    async with user.client() as client:
        limits = (await client.get(f"/apps/{made['app_id']}/limits")).json()["limits"]
    assert limits["tables"]["value"] == 7
    plan = "select array[plan, plan_limits::text] from pilotis.apps where app_id = $1"
    assert await run_sql(owned.server, plan, made["app_id"]) == ["usual", '{"tables": 7}']


async def test_nobody_owns_more_apps_than_the_server_allows_also_by_restoring_one(owned: App):
    user = await new_user(owned)
    answers = await asyncio.gather(*[make(user) for _ in range(LIMIT + 2)])
    assert sorted(answer.status_code for answer in answers) == [*[201] * LIMIT, 403, 403]
    first = next(answer.json()["app_id"] for answer in answers if answer.status_code == 201)
    assert "own 2 apps" in assert_error(await make(user), 403, "APP_CREATION_NOT_ALLOWED")["message"]
    async with user.client() as client:
        assert (await client.delete(f"/apps/{first}")).status_code == 200
        second = (await make(user)).json()["app_id"]
        assert_error(await client.post(f"/apps/{first}/restore"), 403, "APP_CREATION_NOT_ALLOWED")
        assert (await client.delete(f"/apps/{second}")).status_code == 200
        assert (await client.post(f"/apps/{first}/restore")).status_code == 200


async def test_app_creation_is_left_to_operators(owned: App):
    user = UUID((await new_user(owned)).user_id)
    async with stale_node(owned.server, app_creation="operators") as services:
        with pytest.raises(AppCreationNotAllowedError):
            await services.apps.create("mine", user, Actor("console_user", str(user), None))
        made = await services.apps.create("theirs", user)
    assert await run_sql(owned.server, "select name from pilotis.apps where app_id = $1", made.app_id) == "theirs"


async def test_owners_get_mails_and_the_app_events_of_a_quota_which_say_whether_it_is_hard(
    owned: App, smtp: SmtpServer, tmp_path: Path
):
    server = owned.server
    await set_usual(owned, tmp_path)
    await asyncio.to_thread(run, owned, "app", "plan", owned.app_id, "usual")
    app_id = UUID(owned.app_id)
    use = (
        "insert into pilotis.request_stats (app_id, hour, requests, client_errors, errors) values ($1,"
        " date_trunc('hour', now()), $2, 0, 0) on conflict (app_id, hour) do update set requests = excluded.requests"
    )
    mail = {"smtp_url": smtp.url(), "mail_from": "mail@test.invalid"}
    async with Receiver.listening() as receiver, stale_node(server, **mail) as services:
        plans = services.features.get(PlansFeature).plans

        async def judge() -> None:
            async with services.database.connection() as connection:
                await plans.judge(connection)

        await create(owned, receiver.url(), ["quota.*"])
        # Less than 80 %, which would be rounded to it.
        await run_sql(server, use, app_id, 7996)
        await judge()
        assert not await run_sql(server, "select count(*) from pilotis.quota_notices where app_id = $1", app_id)
        await run_sql(server, use, app_id, 10000)
        await judge()

        async def arrived() -> list[Any] | None:
            events = [json.loads(one.body) for one in receiver.received]
            mails = [one for one in smtp.taken if "requests" in one.part("plain")]
            return [events, mails] if len(events) == len(mails) == 2 else None

        events, mails = await until(arrived)
    assert {one["type"] for one in events} == {"quota.warning", "quota.exceeded"}
    assert {(one["data"]["used"], one["data"]["limit"], one["data"]["hard"]) for one in events} == {
        (10000, 10000, False)
    }
    assert {recipient for one in mails for recipient in one.recipients} == {owner_of(owned).email}
    # The quota is not hard: nothing is rejected.
    assert not any("store nothing" in one.part("plain") for one in mails)


async def test_an_app_stores_again_when_its_plan_has_no_quotas_any_more(owned: App, tmp_path: Path):
    server = owned.server
    file = tmp_path / "strict.toml"
    file.write_text("[quotas]\nrow_bytes = 0\n")
    await asyncio.to_thread(run, owned, "plan", "set", "strict", str(file))
    await asyncio.to_thread(run, owned, "app", "plan", owned.app_id, "strict")
    exceeded = "select exceeded ->> 'quota' from pilotis.apps where app_id = $1"
    assert await run_sql(server, exceeded, owned.app_id) == "row_bytes"
    file.write_text("[limits]\ntables = 50\n")
    await asyncio.to_thread(run, owned, "plan", "set", "strict", str(file))
    async with stale_node(server) as services, services.database.connection() as connection:
        await services.features.get(PlansFeature).plans.judge(connection)
    assert await run_sql(server, exceeded, owned.app_id) is None
