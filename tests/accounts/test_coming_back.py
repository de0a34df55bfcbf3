"""A member that has deleted its account may come back for some days, where its app wants that."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import httpx
import pytest

from pilotis.db.pool import Database
from pilotis.settings import Settings
from tests import databases
from tests.accounts.authenticator import enrolled
from tests.accounts.test_personal_data import unzipped
from tests.accounts.test_sign_in_codes import CHALLENGE, PAGE, exchange
from tests.backstage import run_sql
from tests.console import owner_of
from tests.mail.world import MEMBERS, PASSWORD, account, call, mails, post, sign_in, sign_up, verified
from tests.rows.index_world import make_services
from tests.support import App, assert_error
from tests.waiting import PATIENCE

ADA = "ada@example.com"
OVERDUE = "update pilotis.members set deletes_at = now() - interval '1 second' where app_id = $1 and member_id = $2"


@pytest.fixture
async def services(app: App) -> AsyncIterator[Any]:
    database = Database(databases.address(app.server.data_dir), size=4, statement_seconds=PATIENCE)
    yield make_services(Settings(data_dir=str(app.server.data_dir)), database)
    await database.close()


async def delete_due(services: Any) -> None:
    """Do what the periodic task does."""
    assert "members.delete_due" in {task.name for task in services.periodic()}
    connection = await services.database.dedicated(name="test", statement_seconds=PATIENCE)
    try:
        await services.members.delete_due(connection)
    finally:
        await connection.close()


async def delete_account(app: App, token: str, **body: Any) -> httpx.Response:
    async with app.client(token) as client:
        return await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD, **body})


async def leave(app: App, member: dict[str, Any], days: int = 14) -> str:
    """Let a member delete its account, and return when that is to be."""
    await call(app, "PATCH", "/account-settings", json={"deletion_grace_days": days})
    left = await delete_account(app, member["access_token"])
    assert (left.status_code, left.json()["message"]) == (200, "Account will be deleted."), left.text
    return left.json()["deletes_at"]


async def is_refused(app: App, path: str, token: str) -> bool:
    async with app.client(token) as client:
        for answer in (await client.get(path), await client.post(path, json={"data": {}})):
            assert_error(answer, 403, "DELETION_PENDING")
        assert_error(await client.get("/v1/account/oauth/connections"), 403, "DELETION_PENDING")
    return True


class TestMember:
    async def test_it_is_out_and_comes_back_with_what_it_had(self, app: App):
        table = await app.table({"n": "number"})
        path = f"/v1/public/tables/{table}/data"
        ada = await verified(app, "ada", ADA)
        async with app.client(ada["access_token"]) as client:
            assert (await client.post(path, json={"data": {"n": 1}})).status_code == 201
        deletes_at = await leave(app, ada)
        assert (
            timedelta(days=13, hours=23)
            < datetime.fromisoformat(deletes_at) - datetime.now(UTC)
            < timedelta(days=14, minutes=1)
        )
        async with app.client(ada["access_token"]) as client:
            assert_error(await client.get(path), 401, "INVALID_TOKEN")
        assert_error(await post(app, "/signup", {"login_id": "ada", "password": PASSWORD}), 409, "LOGIN_ID_TAKEN")
        # A wrong password learns nothing.
        assert_error(await sign_in(app, "ada", "wrong horse"), 401, "INVALID_CREDENTIALS")
        back = (await sign_in(app, "ada", PASSWORD)).json()
        assert await is_refused(app, path, back["access_token"])
        async with app.client(back["refresh_token"]) as client:
            renewed = (await client.post("/v1/auth/re-issue")).json()
        assert await is_refused(app, path, renewed["access_token"])
        own = await account(app, renewed["access_token"])
        assert (own["is_active"], own["deletes_at"]) == (False, deletes_at)
        # Once more changes nothing, and does not wait longer.
        again = await delete_account(app, renewed["access_token"])
        assert again.json()["deletes_at"] == deletes_at
        restored = await post(app, "/me/restore", None, renewed["access_token"])
        assert restored.status_code == 200, restored.text
        assert (restored.json()["is_active"], restored.json()["deletes_at"]) == (True, None)
        assert_error(await post(app, "/me/restore", None, renewed["access_token"]), 409, "NO_DELETION_PENDING")
        async with app.client(renewed["access_token"]) as client:
            assert [row["data"]["n"] for row in (await client.get(path)).json()["data"]] == [1]
        async with app.client((await sign_in(app, "ada", PASSWORD)).json()["access_token"]) as client:
            assert (await client.post(path, json={"data": {"n": 2}})).status_code == 201

    async def test_it_takes_its_data_along(self, app: App):
        deletes_at = await leave(app, await sign_up(app, "ada"))
        token = (await sign_in(app, "ada", PASSWORD)).json()["access_token"]
        ticket = (await post(app, "/me/export", None, token)).json()
        found = unzipped(await post(app, "/export/download", {"token": ticket["token"]}))
        told = datetime.fromisoformat(json.loads(found["account.json"])["deletes_at"])
        assert abs(told - datetime.fromisoformat(deletes_at)) < timedelta(seconds=1)

    async def test_a_page_that_took_over_the_sign_in_before_waits_too(self, app: App):
        table = await app.table({})
        await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": [PAGE]})
        ada = await sign_up(app, "ada")
        taken = {"redirect_uri": PAGE, "code_challenge": CHALLENGE}
        to = (await post(app, "/me/sign-in-code", taken, ada["access_token"])).json()["redirect_to"]
        await leave(app, ada)
        begun = await exchange(app, parse_qs(urlsplit(to).query)["code"][0])
        assert begun.status_code == 200, begun.text
        assert await is_refused(app, f"/v1/public/tables/{table}/data", begun.json()["access_token"])

    async def test_who_leaves_and_comes_back_at_once_is_in_one_state(self, app: App):
        """Sixteen that leave and come back: each is answered at once, and either all of it holds or nothing."""
        table = await app.table({})
        ada = await sign_up(app, "ada")
        await leave(app, ada)
        token = (await sign_in(app, "ada", PASSWORD)).json()["access_token"]
        keeps = {"is_active": True}
        async with app.client(token) as client, owner_of(app).client(app) as console:
            asked = [client.post(f"{MEMBERS}/me/restore") for _ in range(8)]
            asked += [client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD}) for _ in range(4)]
            asked += [console.patch(f"/members/{ada['member_id']}", json=keeps) for _ in range(4)]
            async with asyncio.timeout(PATIENCE):
                answers = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert set(answers) <= {200, 401, 403, 409}, answers
        shown = await call(app, "GET", f"/members/{ada['member_id']}")
        assert shown["is_active"] == (shown["deletes_at"] is None)
        again = (await sign_in(app, "ada", PASSWORD)).json()["access_token"]
        async with app.client(again) as client:
            works = (await client.get(f"/v1/public/tables/{table}/data")).status_code
        assert works == (200 if shown["is_active"] else 403)

    async def test_a_second_factor_is_asked_for_first(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
        ada = await sign_up(app, "ada")
        await enrolled(app, ada["access_token"])
        await leave(app, ada)
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")

    async def test_a_mail_tells_the_way_back_which_a_mailed_code_goes_too(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
        ada = await verified(app, "ada", ADA)
        await leave(app, ada, 30)
        (mail,) = await mails(app, 1, purpose="account_deletion")
        assert (mail["recipient"], mail["link"]) == (ADA, f"{app.server.url}/account/{app.app_id}/sign-in")
        assert "30 days" in mail["text"]
        asked = (await post(app, "/email-sign-in", {"email": ADA})).json()
        (code,) = [one["code"] for one in await mails(app, 1, purpose="sign_in")]
        entered = await post(app, "/email-sign-in/confirm", {"code": code, "ticket": asked["ticket"]})
        assert entered.status_code == 200, entered.text
        token = entered.json()["access_token"]
        # No page of the app takes over such a session.
        taken = {
            "redirect_uri": "https://app.example/",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        }
        await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": ["https://app.example/"]})
        assert_error(await post(app, "/me/sign-in-code", taken, token), 403, "DELETION_PENDING")
        assert (await post(app, "/me/restore", None, token)).status_code == 200
        assert (await post(app, "/me/sign-in-code", taken, token)).status_code == 200

    async def test_who_cannot_sign_in_again_is_gone_at_once(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"deletion_grace_days": 14})
        async with app.client() as client:
            guest = (await client.post(MEMBERS)).json()
        async with app.client(guest["access_token"]) as client:
            left = await client.request("DELETE", f"{MEMBERS}/me")
        assert left.json() == {"message": "Account deleted.", "id": guest["member_id"], "deletes_at": None}
        async with owner_of(app).client(app) as client:
            assert_error(await client.get(f"/members/{guest['member_id']}"), 404, "MEMBER_NOT_FOUND")


class TestAppSide:
    async def test_it_sees_the_time_and_keeps_an_account_by_activating_it(self, app: App):
        table = await app.table({})
        ada = await sign_up(app, "ada")
        deletes_at = await leave(app, ada)
        path = f"/members/{ada['member_id']}"
        shown = await call(app, "GET", path)
        assert (shown["is_active"], shown["deletes_at"]) == (False, deletes_at)
        back = (await sign_in(app, "ada", PASSWORD)).json()
        kept = await call(app, "PATCH", path, json={"is_active": True})
        assert (kept["is_active"], kept["deletes_at"]) == (True, None)
        async with app.client(back["access_token"]) as client:
            assert (await client.get(f"/v1/public/tables/{table}/data")).status_code == 200

    async def test_a_ban_holds_and_a_deactivated_member_has_no_way_back(self, app: App):
        ada, bob = await sign_up(app, "ada"), await sign_up(app, "bob")
        await leave(app, ada)
        banned = {"banned_until": "2999-01-01T00:00:00Z"}
        await call(app, "PATCH", f"/members/{ada['member_id']}", json=banned)
        assert_error(await sign_in(app, "ada", PASSWORD), 403, "MEMBER_BANNED")
        await call(app, "PATCH", f"/members/{bob['member_id']}", json={"is_active": False})
        assert_error(await sign_in(app, "bob", PASSWORD), 403, "MEMBER_INACTIVE")

    @pytest.mark.parametrize("days", [-1, 91, 1.5, "14", None])
    async def test_days_are_from_0_to_90(self, app: App, days: Any):
        async with owner_of(app).client(app) as client:
            answer = await client.patch("/account-settings", json={"deletion_grace_days": days})
            assert_error(answer, 400, "VALIDATION_FAILED")


class TestEnd:
    async def test_who_stays_away_is_deleted_and_what_it_chose_is_done(self, app: App, other_app: App, services: Any):
        table = await app.table({"n": "number"})
        await call(app, "PATCH", "/account-settings", json={"on_member_delete": "ask", "deletion_grace_days": 14})
        ada, eve, bob = await verified(app, "ada", ADA), await sign_up(app, "eve"), await sign_up(other_app, "bob")
        async with app.client(ada["access_token"]) as client:
            assert (await client.post(f"/v1/public/tables/{table}/data", json={"data": {"n": 1}})).status_code == 201
        assert_error(await delete_account(app, ada["access_token"]), 400, "VALIDATION_FAILED")
        for member in (ada, eve):
            assert (await delete_account(app, member["access_token"], data="anonymise")).status_code == 200
        await leave(other_app, bob)
        # By then the app has changed its mind, which is not the member's.
        await call(app, "PATCH", "/account-settings", json={"on_member_delete": "keep", "deletion_grace_days": 0})
        for one, member in ((app, ada), (other_app, bob)):
            await run_sql(app.server, OVERDUE, UUID(one.app_id), member["member_id"])
        await delete_due(services)
        left = {one["login_id"] for one in (await call(app, "GET", "/members"))["data"]}
        assert (left, (await call(other_app, "GET", "/members"))["total_count"]) == ({"eve"}, 0)
        assert len(await mails(app, 1, purpose="account_deleted")) == 1
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "INVALID_CREDENTIALS")
        creators = "select count(*) from pilotis.jobs where app_id = $1 and payload::text like '%' || $2 || '%'"
        rows = f"select count(*) from app_{app.app_id.replace('-', '')}.t_{table.replace('-', '')} where __creator = $1"
        # The job that takes the creator away waits, or has done so.
        waits = await run_sql(app.server, creators, UUID(app.app_id), ada["member_id"])
        assert waits or await run_sql(app.server, rows, ada["member_id"]) == 0

    async def test_an_app_that_is_deleted_holds_up_no_other(self, app: App, other_app: App, services: Any):
        ada, bob = await sign_up(app, "ada"), await sign_up(other_app, "bob")
        for one, member in ((app, ada), (other_app, bob)):
            await leave(one, member)
            await run_sql(app.server, OVERDUE, UUID(one.app_id), member["member_id"])
        async with owner_of(app).client() as client:
            assert (await client.delete(f"/apps/{app.app_id}")).status_code == 200
        await delete_due(services)
        assert (await call(other_app, "GET", "/members"))["total_count"] == 0
        left = "select count(*) from pilotis.members where app_id = $1"
        assert await run_sql(app.server, left, UUID(app.app_id)) == 1

    async def test_whom_an_older_node_has_activated_is_not_deleted(self, app: App, services: Any):
        ada = await sign_up(app, "ada")
        await leave(app, ada)
        await run_sql(app.server, OVERDUE, UUID(app.app_id), ada["member_id"])
        await run_sql(app.server, "update pilotis.members set is_active = true where member_id = $1", ada["member_id"])
        await delete_due(services)
        assert (await call(app, "GET", "/members"))["total_count"] == 1


async def test_every_session_ends_and_the_trail_and_the_webhooks_tell(app: App):
    ada = await sign_up(app, "ada")
    second = (await sign_in(app, "ada", PASSWORD)).json()
    await leave(app, ada)
    for token in (ada["access_token"], second["access_token"]):
        async with app.client(token) as client:
            assert_error(await client.get(f"{MEMBERS}/me"), 401, "INVALID_TOKEN")
    back = (await sign_in(app, "ada", PASSWORD)).json()
    assert (await post(app, "/me/restore", None, back["access_token"])).status_code == 200
    trail = [entry["action"] for entry in (await call(app, "GET", "/audit-log"))["data"]]
    assert [one for one in trail if one.startswith("member.")] == ["member.restore", "member.schedule_deletion"]
