"""A member gets all that the app has of it, once and alone, and what it has created may go with it."""

import gc
import io
import json
import zipfile
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.db.pool import Database
from pilotis.mail.feature import MailFeature
from pilotis.personal_data.service import ExportBusyError, ExportExpiredError, PersonalData
from pilotis.settings import Settings
from tests import databases
from tests.acceptance.test_files import storage as new_storage
from tests.acceptance.test_files import upload
from tests.accounts.test_factors import age
from tests.backstage import run_sql
from tests.console import owner_of
from tests.mail.world import MEMBERS, PASSWORD, call, mails, post, sign_in, sign_up, verified
from tests.rows.index_world import make_services
from tests.support import App, assert_error
from tests.waiting import PATIENCE, until

ROWS = 450
CREATORS_OF_FILES = """
    select coalesce(array_agg(distinct creator) filter (where creator is not null), '{}')
    from pilotis.files where app_id = $1
"""


@pytest.fixture
async def services(app: App) -> AsyncIterator[Any]:
    database = Database(databases.address(app.server.data_dir), size=4, statement_seconds=PATIENCE)
    yield make_services(Settings(data_dir=str(app.server.data_dir)), database)
    await database.close()


def unzipped(answer: httpx.Response) -> dict[str, bytes]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


async def furnished(app: App) -> tuple[dict[str, Any], str, str]:
    """A member with rows and a file, beside another's."""
    table, storage = await app.table({"n": "number"}, title="my notes/…"), await new_storage(app)
    ada, bob = await verified(app, "ada", "ada@example.com"), await sign_up(app, "bob")
    for member, number in ((ada, ROWS), (bob, 2)):
        async with app.client(member["access_token"]) as client:
            rows = [{"n": one} for one in range(number)]
            answer = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
            assert answer.status_code == 201, answer.text
            name = f"{member['member_id'][-4:]}.txt"
            await upload(client, storage, b"hello" * 1000, file_name=name, mime_type="text/plain")
    return ada, table, storage


class TestExport:
    async def test_it_has_the_account_the_rows_and_the_files_once(self, app: App):
        ada, _, _ = await furnished(app)
        ticket = (await post(app, "/me/export", None, ada["access_token"])).json()
        found = unzipped(await post(app, "/export/download", {"token": ticket["token"]}))
        (rows,) = [content for name, content in found.items() if name.startswith("rows/")]
        assert [json.loads(line)["data"]["n"] for line in rows.splitlines()].count(7) == 1
        assert len(rows.splitlines()) == ROWS
        ((name, file),) = [(name, content) for name, content in found.items() if name.startswith("files/")]
        assert (file, ada["member_id"][-4:] in name) == (b"hello" * 1000, True)
        own = json.loads(found["account.json"])
        assert (own["login_id"], own["email"], own["has_password"]) == ("ada", "ada@example.com", True)
        assert [mail["purpose"] for mail in own["mails"]] == ["verify_email"]
        assert (len(own["sessions"]), b"argon2" in found["account.json"], "README.txt" in found) == (1, False, True)
        # A20: neither twice, nor by a guess, nor elsewhere.
        assert_error(await post(app, "/export/download", {"token": ticket["token"]}), 401, "EXPORT_EXPIRED")

    async def test_a20_of_another_or_after_the_deletion_there_is_none(self, app: App, other_app: App):
        ada = await sign_up(app, "ada")
        ticket = (await post(app, "/me/export", None, ada["access_token"])).json()["token"]
        assert_error(await post(other_app, "/export/download", {"token": ticket}), 401, "EXPORT_EXPIRED")
        # A newer one replaces it.
        newer = (await post(app, "/me/export", None, ada["access_token"])).json()["token"]
        assert_error(await post(app, "/export/download", {"token": ticket}), 401, "EXPORT_EXPIRED")
        async with app.client(ada["access_token"]) as client:
            body = json.dumps({"password": PASSWORD})
            assert (await client.request("DELETE", f"{MEMBERS}/me", content=body)).status_code == 200
        assert_error(await post(app, "/export/download", {"token": newer}), 401, "EXPORT_EXPIRED")
        eve = await sign_up(other_app, "eve")
        async with owner_of(app).client(app) as client:
            assert_error(await client.get(f"/members/{eve['member_id']}/export"), 404, "MEMBER_NOT_FOUND")

    async def test_it_asks_for_a_fresh_session_and_five_times_a_day(self, app: App):
        ada = await sign_up(app, "ada")
        for _ in range(5):
            assert (await post(app, "/me/export", None, ada["access_token"])).status_code == 200
        assert_error(await post(app, "/me/export", None, ada["access_token"]), 403, "EXPORT_LIMIT")
        await age(app, ada)
        assert_error(await post(app, "/me/export", None, ada["access_token"]), 403, "REAUTHENTICATION_REQUIRED")

    async def test_an_export_that_must_wait_keeps_its_token_and_one_that_nobody_reads_its_place_not(
        self, app: App, services: Any
    ):
        data = PersonalData(
            services.database,
            services.apps,
            services.tables,
            services.rows,
            services.files,
            services.jobs,
            services.floor.rate_limits,
            services.members,
            services.features.get(MailFeature).mails,
            "",
        )
        info = await services.apps.by_id(UUID(app.app_id))
        tokens = []
        for name in ("ada", "bob"):
            member = await sign_up(app, name)
            tokens.append((await post(app, "/me/export", None, member["access_token"])).json()["token"])
        first = await data.download(info, tokens[0])
        with pytest.raises(ExportBusyError):
            await data.download(info, tokens[1])
        with pytest.raises(ExportBusyError):
            await data.archive(info, member["member_id"])
        # Its reader has gone before it read anything.
        del first
        gc.collect()
        await until(lambda: not data._running)
        with pytest.raises(ExportExpiredError):
            await data.download(info, tokens[0])
        with zipfile.ZipFile(
            io.BytesIO(b"".join([chunk async for chunk in await data.download(info, tokens[1])]))
        ) as z:
            assert json.loads(z.read("account.json"))["login_id"] == "bob"
        assert not data._running

    async def test_the_apps_team_gets_it_too(self, app: App):
        ada = await sign_up(app, "ada")
        async with owner_of(app).client(app) as client:
            found = unzipped(await client.get(f"/members/{ada['member_id']}/export"))
        assert json.loads(found["account.json"])["login_id"] == "ada"

    async def test_a_link_goes_by_mail_to_the_verified_address_alone(self, app: App, other_app: App):
        ada, bob = await verified(app, "ada", "ada@example.com"), await sign_up(app, "bob")
        refused = await post(app, "/me/export", {"by_mail": True}, bob["access_token"])
        assert_error(refused, 409, "MEMBER_HAS_NO_EMAIL")
        answer = await post(app, "/me/export", {"by_mail": True}, ada["access_token"])
        assert (answer.status_code, answer.json()["token"]) == (200, None)
        mail, _ = await mails(app, 2)
        assert (mail["purpose"], mail["recipient"], mail["code"]) == ("export_ready", "ada@example.com", None)
        page, _, token = mail["link"].partition("#")
        assert page == f"{app.server.url}/account/{app.app_id}/download"
        async with app.client() as client:
            assert (await client.get(page)).status_code == 200
        assert_error(await post(other_app, "/export/download", {"token": token}), 401, "EXPORT_EXPIRED")
        found = unzipped(await post(app, "/export/download", {"token": token}))
        assert json.loads(found["account.json"])["login_id"] == "ada"
        assert_error(await post(app, "/export/download", {"token": token}), 401, "EXPORT_EXPIRED")


class TestDeletion:
    async def remaining(self, app: App, table: str, storage: str) -> tuple[int, int]:
        async with app.client() as client:
            headers = {"Authorization": f"Bearer {app.secret_key}"}
            rows = (await client.get(f"/v1/public/tables/{table}/data", headers=headers)).json()["total_count"]
            files = (await client.get(f"{storage}/items", headers=headers)).json()["total_count"]
        return rows, files

    async def test_what_it_has_created_goes_where_the_app_says_so(self, app: App):
        ada, table, storage = await furnished(app)
        await call(app, "PATCH", "/account-settings", json={"on_member_delete": "delete"})
        async with app.client(ada["access_token"]) as client:
            chosen = await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD, "data": "keep"})
            assert_error(chosen, 400, "VALIDATION_FAILED")
            done = await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD})
            assert done.status_code == 200, done.text
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "INVALID_CREDENTIALS")

        async def is_gone() -> bool:
            return await self.remaining(app, table, storage) == (2, 1)

        assert await until(is_gone)

    async def test_the_member_or_the_team_chooses(self, app: App):
        ada, table, storage = await furnished(app)
        await call(app, "PATCH", "/account-settings", json={"on_member_delete": "ask"})
        async with app.client(ada["access_token"]) as client:
            undecided = await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD})
            assert_error(undecided, 400, "VALIDATION_FAILED")
            kept = await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD, "data": "keep"})
            assert kept.status_code == 200, kept.text
        assert await self.remaining(app, table, storage) == (ROWS + 2, 2)
        (bob,) = (await call(app, "GET", "/members"))["data"]
        await call(app, "DELETE", f"/members/{bob['member_id']}", params={"data": "delete"})

        async def is_gone() -> bool:
            return await self.remaining(app, table, storage) == (ROWS, 1)

        assert await until(is_gone)

    async def test_a_verified_address_is_told(self, app: App, other_app: App):
        ada = await verified(app, "ada", "ada@example.com")
        # Who has only claimed an address is told nothing, and an attempt with a wrong password neither.
        bob = await sign_up(app, "bob", "bob@example.com")
        for member, password in ((bob, PASSWORD), (ada, "wrong horse"), (ada, PASSWORD)):
            async with app.client(member["access_token"]) as client:
                await client.request("DELETE", f"{MEMBERS}/me", json={"password": password})
        eve = await verified(other_app, "eve", "eve@example.com")
        await call(other_app, "DELETE", f"/members/{eve['member_id']}")
        for one, address in ((app, "ada@example.com"), (other_app, "eve@example.com")):
            (mail,) = await mails(one, 1, purpose="account_deleted")
            assert (mail["recipient"], mail["link"], mail["code"]) == (address, None, None)
            assert "is deleted" in mail["text"]

    async def test_what_it_has_created_stays_without_its_name(self, app: App, other_app: App):
        ada, table, storage = await furnished(app)
        eve, foreign, _ = await furnished(other_app)
        await call(app, "PATCH", "/account-settings", json={"on_member_delete": "anonymise"})
        before = await self.created_by(app, table)
        assert before.count(ada["member_id"]) == ROWS
        async with app.client(ada["access_token"]) as client:
            done = await client.request("DELETE", f"{MEMBERS}/me", json={"password": PASSWORD})
            assert done.status_code == 200, done.text

        async def is_forgotten() -> bool:
            return ada["member_id"] not in await self.created_by(app, table)

        assert await until(is_forgotten)
        assert await self.remaining(app, table, storage) == (ROWS + 2, 2)
        after = await self.created_by(app, table)
        (bob,) = {one for one in before if one != ada["member_id"]}
        assert (after.count(None), after.count(bob)) == (ROWS, 2)

        async def are_files_forgotten() -> bool:
            return await run_sql(app.server, CREATORS_OF_FILES, UUID(app.app_id)) == [bob]

        assert await until(are_files_forgotten)
        assert (await self.created_by(other_app, foreign)).count(eve["member_id"]) == ROWS

    async def created_by(self, app: App, table: str) -> list[str | None]:
        async with app.client(Authorization=f"Bearer {app.secret_key}") as client:
            answer = await client.get(f"/v1/public/tables/{table}/data", params={"limit": 1000})
        assert answer.status_code == 200, answer.text
        return [row["created_by"] for row in answer.json()["data"]]

    async def test_a_job_that_was_cut_off_goes_on(self, app: App, services: Any):
        ada, table, _ = await furnished(app)
        info = await services.apps.by_id(UUID(app.app_id))
        assert await services.rows.forget_creator(info, UUID(table), ada["member_id"]) == ROWS
        assert await services.rows.forget_creator(info, UUID(table), ada["member_id"]) == 0
        # Some of it was done before; the rest is.
        await call(app, "DELETE", f"/members/{ada['member_id']}", params={"data": "anonymise"})

        async def are_files_forgotten() -> bool:
            return ada["member_id"] not in await run_sql(app.server, CREATORS_OF_FILES, UUID(app.app_id))

        assert await until(are_files_forgotten)
