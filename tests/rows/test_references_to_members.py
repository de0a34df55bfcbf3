"""References to members over HTTP: who is named is there, what their deletion does, and their profiles."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.console import owner_of
from tests.rows.test_references import assert_missing, create, refers, total
from tests.rules.test_capabilities import findings
from tests.rules.test_rules import rows, save
from tests.support import App, assert_error
from tests.waiting import until

MEMBERS_ARE_HERE = pytest.mark.without_citus("members are on another node than the rows that would refer to them")


def of_member(on_delete: str | None = None, **more: Any) -> dict[str, Any]:
    reference = {"member": True} | ({} if on_delete is None else {"on_delete": on_delete})
    return {"type": "string", "references": reference, **more}


async def member(app: App) -> tuple[str, str]:
    """A new member's id and token."""
    made = await app.guest()
    return made["member_id"], made["access_token"]


async def deleted(app: App, member_id: str) -> None:
    async with owner_of(app).client(app) as console:
        answer = await console.delete(f"/members/{member_id}")
        assert answer.status_code == 200, answer.text


@pytest.mark.with_citus
async def test_on_citus_a_column_that_refers_to_members_is_refused(app: App):
    async with app.client() as client:
        body = {"title": "owned", "access_level": "Public", "schema": {"owner": of_member()}}
        refused = assert_error(await client.post("/v1/public/tables", json=body), 400, "VALIDATION_FAILED")
        assert refused["details"][0]["field"].endswith("owner.references.member")
        table = await app.table({"owner": "string"})
        column = f"/v1/public/tables/{table}/columns/owner"
        assert_error(await client.patch(column, json={"references": {"member": True}}), 400, "VALIDATION_FAILED")


@MEMBERS_ARE_HERE
async def test_every_way_to_write_asks_for_the_member(app: App):
    table = await app.table({"title": "string", "owner": of_member()})
    ada, token = await member(app)
    async with app.client() as client, app.client(token) as own, owner_of(app).client(app) as console:
        assert_missing(await client.post(rows(table), json={"data": {"owner": str(uuid4())}}), "data.owner")
        first = await create(own, table, title="x", owner=ada)
        await create(own, table, title="nobody's", owner=None)
        bulk = (await client.post(rows(table), json={"data": [{"owner": ada}, {"owner": "x"}]})).json()
        assert [(one["index"], one["code"]) for one in bulk["failed"]] == [(1, "REFERENCE_NOT_FOUND")]
        for value in ("x", {"$max": "zzz"}):
            change = await client.patch(f"{rows(table)}/{first}", json={"data": {"owner": value}})
            assert_missing(change, "data.owner")
        assert (await client.patch(f"{rows(table)}/{first}", json={"data": {"owner": ada}})).status_code == 200
        many = {"all": True, "data": {"owner": "x"}}
        assert_missing(await client.post(f"{rows(table)}/update-where", json=many), "data.owner")
        operations = [{"type": "create", "table_id": table, "data": {"owner": "x"}}]
        answer = await client.post("/v1/public/transactions", json={"operations": operations})
        assert_missing(answer, "operations[0].data.owner", failed_index=0)
        lines = f"title,owner\na,{ada}\nb,x\n"
        done = await console.post(f"/tables/{table}/import", content=lines, headers={"Content-Type": "text/csv"})
        assert (done.json()["created"], done.json()["rejected"]) == (1, 1)
        assert await total(client, table) == 4
        schema = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
        assert schema["owner"] == {"type": "string", "references": {"member": True, "on_delete": "keep"}}


@MEMBERS_ARE_HERE
async def test_a_member_of_another_app_is_none(app: App, other_app: App):
    table = await app.table({"owner": of_member()})
    stranger, _ = await member(other_app)
    async with app.client() as client:
        assert_missing(await client.post(rows(table), json={"data": {"owner": stranger}}), "data.owner")


@MEMBERS_ARE_HERE
async def test_a_column_with_values_becomes_a_reference_if_all_are_members(app: App):
    table = await app.table({"owner": "string"})
    ada, _ = await member(app)
    column = f"/v1/public/tables/{table}/columns/owner"
    async with app.client() as client:
        await create(client, table, owner=ada)
        wrong = await create(client, table, owner="x")
        change = {"references": {"member": True}}
        refused = assert_error(await client.patch(column, json=change), 409, "ROWS_DO_NOT_FIT")
        assert [one["field"] for one in refused["details"]] == [wrong]
        await client.delete(f"{rows(table)}/{wrong}")
        assert (await client.patch(column, json=change)).status_code == 200
        assert_missing(await client.post(rows(table), json={"data": {"owner": "x"}}), "data.owner")
        # From the trash column and table come back as they were.
        async with owner_of(app).client(app) as console:
            assert (await client.delete(column)).status_code == 200
            (dropped,) = (await console.get("/trash")).json()["columns"]
            restored = await console.post(f"/trash/tables/{table}/columns/{dropped['number']}/restore")
            assert restored.status_code == 200, restored.text
            assert_missing(await client.post(rows(table), json={"data": {"owner": "x"}}), "data.owner")
            assert (await client.delete(f"/v1/public/tables/{table}")).status_code == 200
            assert (await console.post(f"/trash/tables/{table}/restore")).status_code == 200
        assert_missing(await client.post(rows(table), json={"data": {"owner": "x"}}), "data.owner")
        assert (await client.patch(column, json={"references": None})).status_code == 200
        await create(client, table, owner="x")
        assert (await client.patch(column, json=change)).status_code == 409


@MEMBERS_ARE_HERE
async def test_rows_follow_a_deleted_member(app: App):
    suffix = uuid4().hex[:8]
    lists = await app.table({"owner": of_member("cascade")}, title=f"lists {suffix}")
    items = await app.table({"list": refers(f"lists {suffix}", "cascade")}, title=f"items {suffix}")
    tasks = await app.table({"assignee": of_member("set_null"), "n": "int"}, title=f"tasks {suffix}")
    notes = await app.table({"about": of_member("keep")}, title=f"notes {suffix}")
    held = await app.table({"owner": of_member("cascade")}, title=f"held {suffix}")
    holding = await app.table({"held": refers(f"held {suffix}")}, title=f"holding {suffix}")
    (ada, _), (eve, _) = await member(app), await member(app)
    async with app.client() as client:
        for owner in (ada, eve):
            made = await create(client, lists, owner=owner)
            await create(client, items, list=made)
            await create(client, tasks, assignee=owner, n=1)
            await create(client, notes, about=owner)
        stays = await create(client, held, owner=ada)
        await create(client, held, owner=ada)
        await create(client, holding, held=stays)
        await client.post(rows(tasks), json={"data": [{"assignee": ada, "n": 2}] * 600})
        await deleted(app, ada)

        async def left_of(table: str, **where: Any) -> int:
            return (await client.post(f"{rows(table)}/query", json={"where": where})).json()["total_count"]

        async def is_done() -> bool:
            ids = {"id": {"$isNull": False}}
            left = [await left_of(lists, owner=ada), await left_of(tasks, assignee=ada), await left_of(held, **ids)]
            return left == [0, 0, 1]

        await until(is_done)
        assert await total(client, lists) == await total(client, items) == 1
        assert await total(client, tasks) == 602
        # A row that another one holds stays, as it would if the app deleted it.
        assert [one["id"] for one in (await client.get(rows(held))).json()["data"]] == [stays]
        assert await left_of(notes, about=ada) == 1


async def profiles(app: App, key: list[str], **schema: Any) -> str:
    table = await app.table({"name": "string", **schema}, title=f"people {uuid4().hex[:8]}", unique=[{"columns": key}])
    async with owner_of(app).client(app) as console:
        name = "creator" if key == ["$creator"] else key[0]
        answer = await console.put("/profiles", json={"table": table, "key": name})
        assert answer.status_code == 200, answer.text
        assert answer.json()["table_id"] == (await console.get("/profiles")).json()["table_id"] == table
    return table


async def expanded(client: httpx.AsyncClient, table: str, *names: str) -> list[Any]:
    answer = await client.post(f"{rows(table)}/query", json={"expand": list(names)})
    assert answer.status_code == 200, answer.text
    return [
        {name: row and row["data"]["name"] for name, row in one["expanded"].items()} for one in answer.json()["data"]
    ]


@MEMBERS_ARE_HERE
async def test_profiles_are_shown_for_members(app: App):
    (ada, token), (eve, other) = await member(app), await member(app)
    tasks = await app.table({"assignee": of_member()}, title=f"tasks {uuid4().hex[:8]}")
    async with app.client() as client, app.client(token) as own, owner_of(app).client(app) as console:
        await create(own, tasks, assignee=eve)
        refused = await client.post(f"{rows(tasks)}/query", json={"expand": ["assignee"]})
        assert_error(refused, 400, "NO_PROFILES")
        people = await profiles(app, ["member"], member=of_member())
        await create(client, people, member=ada, name="Ada")
        await create(client, people, member=eve, name="Eve")
        assert await expanded(client, tasks, "assignee", "$creator") == [{"assignee": "Eve", "$creator": None}]
        # The app's own side sees who created a row; others if the rules say so.
        async with app.client(app.secret_key) as own_side:
            assert await expanded(own_side, tasks, "$creator") == [{"$creator": "Ada"}]
        one = await client.get(rows(tasks), params={"expand": "assignee"})
        assert one.json()["data"][0]["expanded"]["assignee"]["data"]["member"] == eve
        for read, seen in ((True, "Ada"), ({"$member": {}}, None), (None, None)):
            await save(app, tasks, {"read": True, "columns": {"$creator": {"read": read}}})
            assert await expanded(client, tasks, "$creator") == [{"$creator": seen}]
        async with app.client(other) as stranger:
            await save(app, tasks, {"read": True, "columns": {"$creator": {"read": {"$member": {}}}}})
            assert await expanded(stranger, tasks, "$creator") == [{"$creator": "Ada"}]
        # The profiles' own rules hold, and a hidden key leads nowhere.
        await save(app, people, {"read": {"name": "Eve"}})
        assert await expanded(client, tasks, "assignee") == [{"assignee": "Eve"}]
        await save(app, people, {"read": True, "columns": {"member": {"read": None}}})
        assert await expanded(client, tasks, "assignee") == [{"assignee": None}]
        for rule in ({"read": {"assignee": "x"}}, {"update": True}, {"read": True, "create": None}):
            answer = await console.put(
                f"/tables/{tasks}/rules", json={"rules": {"read": True, "columns": {"$creator": rule}}}
            )
            assert answer.status_code == 400, answer.text


@MEMBERS_ARE_HERE
async def test_profiles_by_their_creator_and_beyond_pairs(app: App):
    ada, token = await member(app)
    people = await profiles(app, ["$creator"])
    title = f"groups {uuid4().hex[:8]}"
    groups = await app.table({"name": "string"}, title=title)
    seats = await app.table({"group": refers(title), "member": of_member()}, title=f"seats {uuid4().hex[:8]}")
    async with app.client() as client, app.client(token) as own:
        await create(own, people, name="Ada")
        group = await create(client, groups, name="g")
        await create(client, seats, group=group, member=ada)
        seats_title = (await client.get(f"/v1/public/tables/{seats}")).json()["title"]
        asked = {"expand": {"members": {"through": f"{seats_title}.group", "to": "member"}}}
        (found,) = (await client.post(f"{rows(groups)}/query", json=asked)).json()["data"]
        assert [one["data"]["name"] for one in found["expanded"]["members"]] == ["Ada"]


async def test_the_table_of_profiles_is_kept(app: App):
    people = await profiles(app, ["member"], member="string")
    async with app.client() as client, owner_of(app).client(app) as console:
        assert_error(await client.delete(f"/v1/public/tables/{people}"), 403, "SCHEMA_LOCKED")
        assert_error(await console.delete(f"/tables/{people}/unique/member"), 409, "USED_AS_PROFILES")
        async with app.client(app.secret_key) as own_side:
            assert_error(await own_side.delete(f"/v1/public/tables/{people}"), 409, "USED_AS_PROFILES")
            for table, key, code in (
                (people, "none", "UNKNOWN_KEY"),
                (people, None, "VALIDATION_FAILED"),
                (str(uuid4()), "member", "TABLE_NOT_FOUND"),
            ):
                answer = await console.put("/profiles", json={"table": table, "key": key})
                body = assert_error(answer, 400, code if code != "TABLE_NOT_FOUND" else "VALIDATION_FAILED")
                assert code in {body["code"], body["details"][0]["code"]}
            assert (await console.put("/profiles", json={"table": None})).json()["table_id"] is None
            assert (await own_side.delete(f"/v1/public/tables/{people}")).status_code == 200


@MEMBERS_ARE_HERE
async def test_a_column_by_which_members_take_rows_along_is_told_of(app: App):
    table = await app.table({"title": "string", "owner": of_member("cascade")})
    signed_in, mine = {"$member": {}}, {"owner": {"$member": "id"}}
    for update, told in ((signed_in, True), (mine, False), (None, False)):
        await save(app, table, {"read": signed_in, "update": update, "delete": mine})
        assert ("CASCADE_BY_MEMBER" in {code for _, code, _ in await findings(app)}) is told
    await save(app, table, {"read": signed_in, "update": signed_in, "columns": {"owner": {"update": None}}})
    assert "CASCADE_BY_MEMBER" not in {code for _, code, _ in await findings(app)}
