"""Streams of members and keys: they end when the session or the key does, and there are only so many."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from uuid import UUID

import httpx
import pytest

from pilotis.kit.crypto import MasterKeyring, MasterKeys
from pilotis.kit.signing import TokenKind, TokenSigner
from tests.accounts.authenticator import enrolled
from tests.accounts.test_gate import settings as account_settings
from tests.background import run_task
from tests.backstage import claims_of, master_key
from tests.console import client_of, owner_of
from tests.database import connection_to, second_node
from tests.realtime.listening import Listener, TrueList, listening, refused
from tests.rules.test_rules import manager, ruled
from tests.support import App, assert_error, plain_client
from tests.waiting import until
from tests.whole import times


async def test_a_stream_ends_with_the_session(app: App):
    table = await app.table({"name": "string"}, access_level="AppMember")
    for way in ("sign out", "deactivate", "delete"):
        ada = await app.member(way)
        async with app.client(ada["access_token"]) as client, listening(client, {"id": "a", "table_id": table}) as told:
            async with manager(app) as side:
                if way == "sign out":
                    answer = await client.post("/v1/public/app-members/signout")
                elif way == "deactivate":
                    answer = await side.patch(f"/members/{ada['member_id']}", json={"is_active": False})
                else:
                    answer = await side.delete(f"/members/{ada['member_id']}")
            assert answer.is_success, answer.text
            await told.until(lambda events: bool(events), 5)
            ((event, data),) = await told.next()
            assert (event, data["reason"]) == ("bye", "session_ended"), way
            assert 1000 <= data["retry_ms"] <= 5000
            await told.until(lambda _: told.is_over)


async def test_a_stream_ends_with_its_token(app: App):
    table = await app.table({"name": "string"}, access_level="AppMember")
    ada = claims_of((await app.member("ada"))["access_token"])
    owner = claims_of(app.console["access_token"])
    asked = {"id": "a", "table_id": table}
    signer = TokenSigner(MasterKeyring(MasterKeys(master_key(app.server))))
    now = int(time.time())

    def brief(kind: TokenKind, claims: dict[str, str]) -> str:
        ids = {name: UUID(claims[name]) for name in ("app_id", "sid", "jti")}
        return signer.sign(kind, sub=claims["sub"], **ids, iat=now, exp=now + 4)

    async with (
        app.client(brief(TokenKind.MEMBER_ACCESS, ada)) as client,
        app.client(brief(TokenKind.CONSOLE_ACCESS, owner)) as console,
        listening(client, asked) as told,
        listening(console, asked) as of_owner,
    ):
        # Nothing asks about it: the minute in which credentials are checked again is not over.
        await told.until(lambda events: bool(events), 10)
        ((event, data),) = await told.next()
        assert (event, data["reason"]) == ("bye", "token_expired")
        assert time.time() >= now + 4
        # Another one ends when its credentials are checked, and for the same reason.
        async with owner_of(app).client(app) as manager:
            made = (await manager.post("/keys/public", json={"name": "page"})).json()
            assert (await manager.delete(f"/keys/public/{made['key_id']}")).status_code == 200
        await of_owner.until(lambda events: bool(events), 5)
        ((event, data),) = await of_owner.next()
        assert (event, data["reason"]) == ("bye", "token_expired")


async def test_a_stream_follows_the_factors_of_its_session(app: App):
    await account_settings(app, second_factor="optional")
    mine = {"level": {"$lte": {"$member": "level"}}}
    table = await ruled(app, {"name": "string", "level": "int"}, {"read": mine, "create": True})
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as client, listening(client, {"id": "a", "table_id": table}) as told:
        await app.row(table, {"name": "hidden", "level": 2}, app.secret_key)
        await app.row(table, {"name": "seen", "level": 1}, app.secret_key)
        assert (await told.change())[2] == {"name": "seen", "level": 1}
        await enrolled(app, ada["access_token"])
        assert await told.next() == [("reset", {"subscription": "a", "reason": "access"})]
        await app.row(table, {"name": "both", "level": 2}, app.secret_key)
        assert (await told.change())[2] == {"name": "both", "level": 2}
        # What else is learned of the member takes no factor away.
        async with manager(app) as side:
            answer = await side.patch(f"/members/{ada['member_id']}", json={"roles": ["editor"]})
            assert answer.status_code == 200, answer.text
        await told.until(lambda events: bool(events), 10)
        assert await told.next() == [("reset", {"subscription": "a", "reason": "access"})]
        await app.row(table, {"name": "still", "level": 2}, app.secret_key)
        assert (await told.change())[2] == {"name": "still", "level": 2}


async def test_a_member_has_so_many_streams(app: App):
    table = await app.table({"name": "string"})
    ada = await app.member("ada")
    async with owner_of(app).client(app) as console:
        answer = await console.patch("/limits", json={"member_live_streams": 2})
        assert answer.status_code == 200, answer.text
    async with app.client(ada["access_token"]) as client, app.client() as nobody:
        asked = {"id": "a", "table_id": table}
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(listening(client, asked))
            answer = await refused(client, asked)
            assert_error(answer, 429, "TOO_MANY_STREAMS")
            assert answer.headers["retry-after"] == "10"
            async with listening(nobody, asked):
                pass

        # What is closed is given back.
        async def opens() -> bool:
            async with client.stream("POST", "/v1/public/realtime", json={"subscriptions": [asked]}) as again:
                return again.status_code == 200

        await until(opens)


async def test_a_table_that_nobody_has_listened_to_for_an_hour_writes_no_log(app: App):
    table = await app.table({"name": "string"})
    async with app.client() as client, listening(client, {"id": "a", "table_id": table}):
        pass
    async with connection_to(app.server) as connection, second_node(app.server) as node:
        question = "select watched from pilotis.tables where app_id = $1 and table_id = $2"
        assert await connection.fetchval(question, app.app_id, table) is True
        await run_task(node, "realtime.disarm")
        assert await connection.fetchval(question, app.app_id, table) is True
        await connection.execute(
            "update pilotis.watches set until = now() - interval '2 hours' where app_id = $1", app.app_id
        )
        await run_task(node, "realtime.disarm")
        assert await connection.fetchval(question, app.app_id, table) is False
    await app.row(table, {"name": "as before"})


async def test_an_app_leaves_live_rows_to_members_or_turns_them_off(app: App):
    table = await app.table({"name": "string"}, title="open")
    other = await app.table({"name": "string"}, title="other")
    ada = await app.member("ada")

    async def settings(**body: object) -> None:
        async with owner_of(app).client(app) as console:
            answer = await console.put("/live-settings", json=body)
            assert answer.status_code == 200, answer.text
            assert (await console.get("/live-settings")).json() == answer.json()

    asked = {"id": "a", "table_id": table}
    async with app.client() as nobody, app.client(ada["access_token"]) as member, app.client(app.secret_key) as side:
        async with listening(nobody, asked) as told, listening(member, asked) as of_member:
            await settings(live="members", tables={"other": "off"})
            event = ("reset", {"subscription": "a", "reason": "access", "code": "MEMBER_TOKEN_REQUIRED"})
            assert await told.next() == [event]
            assert await of_member.next() == [("reset", {"subscription": "a", "reason": "access"})]
            await app.row(table, {"name": "x"})
            assert (await of_member.change())[2] == {"name": "x"}
            assert told.events == []
        assert_error(await refused(nobody, asked), 401, "MEMBER_TOKEN_REQUIRED")
        for client in (nobody, member):
            assert_error(await refused(client, {"id": "a", "table_id": other}), 403, "LIVE_OFF")
        async with listening(side, {"id": "a", "table_id": other}):
            pass
        await settings(live="off", tables={table: "public"})
        async with listening(nobody, asked):
            pass
        async with owner_of(app).client(app) as console:
            wrong = await console.put("/live-settings", json={"live": "public", "tables": {"none": "off"}})
            assert_error(wrong, 400, "VALIDATION_FAILED")
            assert_error(await console.put("/live-settings", json={"live": "all"}), 400, "VALIDATION_FAILED")


async def test_so_many_tables_of_an_app_begin_to_write_the_log_in_a_minute(app: App):
    tables = [await app.table({"name": "string"}) for _ in range(11)]
    async with app.client() as client:
        busy = []
        for table in tables:
            body = {"subscriptions": [{"id": "a", "table_id": table}]}
            async with client.stream("POST", "/v1/public/realtime", json=body) as answer:
                busy.append(answer.status_code)
        # A minute may begin in between.
        assert busy[:5] == [200] * 5
        async with listening(client, {"id": "a", "table_id": tables[0]}):
            pass


async def test_many_streams_that_begin_at_once_begin_the_log_once(app: App):
    table = await app.table({"name": "string"})
    async with app.client() as client, AsyncExitStack() as stack:

        async def open_one() -> Listener:
            return await stack.enter_async_context(listening(client, {"id": "a", "table_id": table}))

        opened = await asyncio.gather(*(open_one() for _ in range(40)))
        row = await app.row(table, {"name": "first"})
        for told in opened:
            # The first ones may be told that the table has changed, which is when its log began.
            await told.until(lambda events: any(data.get("row", {}).get("id") == row["id"] for _, data in events))


async def test_a_stream_ends_with_its_key(app: App):
    table = await app.table({"name": "string"})
    async with owner_of(app).client(app) as console:
        made = (await console.post("/keys/public", json={"name": "page"})).json()
        headers = {"X-Public-Key": made["key"]}
        async with (
            plain_client(app.server.url, **headers) as client,
            app.client() as other,
            listening(client, {"id": "a", "table_id": table}) as told,
            listening(other, {"id": "a", "table_id": table}) as goes_on,
        ):
            assert (await console.delete(f"/keys/public/{made['key_id']}")).status_code == 200
            await told.until(lambda events: bool(events), 10)
            ((event, data),) = await told.next()
            assert (event, data["reason"]) == ("bye", "session_ended")
            await app.row(table, {"name": "after"})
            assert (await goes_on.change())[2] == {"name": "after"}
            assert told.events == []


async def test_a_key_and_a_session_that_another_node_ends_end_their_streams(app: App):
    table = await app.table({"name": "string"})
    ada = await app.member("ada")
    asked = {"id": "a", "table_id": table}
    async with owner_of(app).client(app) as console:
        made = (await console.post("/keys/public", json={"name": "page"})).json()
    token = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with (
        second_node(app.server) as node,
        client_of(node, **token) as there,
        client_of(node, **{"X-Public-Key": app.public_key, "Authorization": f"Bearer {ada['access_token']}"}) as of_ada,
        plain_client(app.server.url, **{"X-Public-Key": made["key"]}) as client,
        app.client(ada["access_token"]) as member,
        listening(client, asked) as of_key,
        listening(member, asked) as of_member,
    ):
        answer = await there.delete(f"/v1/apps/{app.app_id}/keys/public/{made['key_id']}")
        assert answer.status_code == 200, answer.text
        answer = await of_ada.post("/v1/public/app-members/signout")
        assert answer.status_code == 200, answer.text
        for told in (of_key, of_member):
            await told.until(lambda events: any(event == "bye" for event, _ in events), 5)
            assert told.events[-1][1]["reason"] == "session_ended"
            assert len(told.events) == 1


@pytest.mark.parametrize("number", range(times(2, whole=20)))
async def test_what_is_written_after_ready_is_told_though_the_log_has_just_begun(app: App, number: int):
    table = await app.table({"n": "int"})
    is_over = asyncio.Event()
    written: list[str] = []

    async def write(client: httpx.AsyncClient) -> None:
        while not is_over.is_set():
            answer = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"n": number}})
            assert answer.status_code == 201, answer.text
            written.append(answer.json()["id"])

    async with app.client() as client, asyncio.TaskGroup() as group:
        for _ in range(times(10, whole=50)):
            group.create_task(write(client))
        await until(lambda: len(written) > 20)
        async with listening(client, {"id": "a", "table_id": table}) as told:
            true = TrueList(client, table)
            await true.read()
            after = len(written) + 50
            await until(lambda: len(written) > after)
            is_over.set()
            await true.until_true(told)
