"""Rows that are made with a member: in its transaction, by every way in, or there is no member."""

import asyncio
from typing import Any

import pytest

from tests.accounts.test_hooks import bind
from tests.accounts.test_imports import imported
from tests.console import client_of, owner_of, second_node
from tests.functions.support import Functions
from tests.mail.world import MEMBERS, PASSWORD, call, mails, post, sign_up
from tests.support import App, assert_error

PROFILES = {
    "member": {"type": "string", "required": True},
    "username": {"type": "string", "required": True, "min_length": 3, "unique": True},
    "age": {"type": "int"},
    "shown_as": {"type": "string"},
}
SPACES = {
    "owner": {"type": "string"},
    "profile": {"type": "uuid", "references": {"table": "profiles"}},
    "home": {"type": "boolean"},
}
ON_SIGN_UP: list[dict[str, Any]] = [
    {
        "table": "profiles",
        "data": {
            "member": {"$member": "id"},
            "username": {"$input": "username", "label": "User name"},
            "age": {"$input": "age"},
            "shown_as": {"$member": "nickname"},
        },
    },
    {"table": "spaces", "data": {"owner": {"$member": "id"}, "profile": {"$ref": 0}, "home": True}},
]


async def rows(app: App, table: str) -> list[dict[str, Any]]:
    """What the app's team sees of a table."""
    async with owner_of(app).client() as client:
        client.headers["X-App-Id"] = app.app_id
        answer = await client.get(f"/public/tables/{table}/data", params={"limit": 100})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def refused(app: App, on_sign_up: Any) -> dict[str, Any]:
    async with owner_of(app).client(app) as client:
        answer = await client.patch("/account-settings", json={"on_sign_up": on_sign_up})
    return assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]


async def registering(app: App, login_id: str, token: str | None = None, **profile: Any) -> Any:
    return await post(app, "/signup", {"login_id": login_id, "password": PASSWORD, "profile": profile}, token)


async def number(app: App) -> int:
    return (await call(app, "GET", "/members"))["total_count"]


@pytest.fixture
async def tables(app: App) -> dict[str, str]:
    """The tables of profiles and of spaces, with rows for each member, which nobody but it may see."""
    made = {"profiles": await app.table(PROFILES, "Creator", "profiles")}
    made["spaces"] = await app.table(SPACES, "Creator", "spaces")
    await call(app, "PATCH", "/account-settings", json={"on_sign_up": ON_SIGN_UP})
    return made


class TestSignUp:
    async def test_the_rows_are_the_members_and_a_taken_name_makes_no_member(self, app: App, tables: dict[str, str]):
        answer = await registering(app, "ada", username="ada", age=36)
        assert answer.status_code == 201, answer.text
        ada = answer.json()
        (profile,), (space,) = await rows(app, "profiles"), await rows(app, "spaces")
        assert profile["data"] == {"member": ada["member_id"], "username": "ada", "age": 36}
        assert space["data"] == {"owner": ada["member_id"], "profile": profile["id"], "home": True}
        async with app.client(ada["access_token"]) as client:
            own = (await client.get(f"/v1/public/tables/{tables['profiles']}/data")).json()
        assert [row["id"] for row in own["data"]] == [profile["id"]]
        taken = assert_error(await registering(app, "bob", username="ada"), 409, "UNIQUE_VIOLATION")
        assert [detail["field"] for detail in taken["details"]] == ["profile.username"]
        assert (await number(app), len(await rows(app, "spaces"))) == (1, 1)
        # Neither the login_id nor anything else is used up by that.
        assert (await registering(app, "bob", username="bob")).status_code == 201

    @pytest.mark.parametrize(
        ("profile", "field"),
        [
            ({}, "profile.username"),
            ({"username": "ad"}, "profile.username"),
            ({"username": 5}, "profile.username"),
            ({"username": {"$member": "id"}}, "profile.username"),
            ({"username": None}, "profile.username"),
            ({"username": "ada", "age": "old"}, "profile.age"),
            ({"username": "ada", "member": "other"}, "profile.member"),
            ({"username": "ada", "is_admin": True}, "profile.is_admin"),
            ({"username": "x" * 5000}, "profile"),
        ],
        ids=lambda value: str(value)[:60],
    )
    async def test_what_does_not_fit_makes_no_member(
        self, app: App, tables: dict[str, str], profile: dict[str, Any], field: str
    ):
        answer = assert_error(await registering(app, "ada", **profile), 400, "VALIDATION_FAILED")
        assert answer["details"][0]["field"] == field
        assert (await number(app), await rows(app, "profiles")) == (0, [])

    async def test_twenty_at_once_with_one_name_on_two_nodes_make_one_member(self, app: App, tables: dict[str, str]):
        async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": app.public_key}) as other:
            body = {"password": PASSWORD, "profile": {"username": "ada"}}
            here = [post(app, "/signup", body | {"login_id": f"here{one}"}) for one in range(10)]
            there = [other.post(f"{MEMBERS}/signup", json=body | {"login_id": f"there{one}"}) for one in range(10)]
            answers = await asyncio.gather(*here, *there)
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
        assert (await number(app), len(await rows(app, "profiles")), len(await rows(app, "spaces"))) == (1, 1, 1)

    async def test_an_app_without_rows_takes_no_profile(self, app: App):
        assert_error(await registering(app, "ada", username="ada"), 400, "VALIDATION_FAILED")
        assert (await registering(app, "ada")).status_code == 201


class TestOtherWays:
    async def test_a_guest_that_upgrades_gets_what_is_missing(self, app: App, tables: dict[str, str]):
        carts = await app.table({"member": {"type": "string"}}, "Creator", "carts")
        cart = {"table": carts, "data": {"member": {"$member": "id"}}, "guests": True}
        await call(app, "PATCH", "/account-settings", json={"on_sign_up": [cart, *_after(ON_SIGN_UP, 1)]})
        guest = await app.guest()
        ((before),) = await rows(app, "carts")
        assert (before["data"], await rows(app, "profiles")) == ({"member": guest["member_id"]}, [])
        token = guest["access_token"]
        assert_error(await registering(app, "gus", token), 400, "VALIDATION_FAILED")
        assert (await registering(app, "gus", token, username="gus")).status_code == 201
        (profile,) = await rows(app, "profiles")
        assert (profile["data"]["member"], await rows(app, "carts")) == (guest["member_id"], [before])
        assert (await registering(app, "ada", username="ada")).status_code == 201
        assert len(await rows(app, "carts")) == 2

    async def test_a_row_that_a_guest_has_deleted_is_made_again(self, app: App):
        carts = await app.table({"member": {"type": "string"}}, "Creator", "carts")
        orders = {"cart": {"type": "uuid", "required": True, "references": {"table": "carts"}}}
        await app.table(orders, "Creator", "orders")
        made = [
            {"table": "carts", "data": {"member": {"$member": "id"}}, "guests": True},
            {"table": "orders", "data": {"cart": {"$ref": 0}}},
        ]
        await call(app, "PATCH", "/account-settings", json={"on_sign_up": made})
        guest = await app.guest()
        (cart,) = await rows(app, "carts")
        async with app.client(guest["access_token"]) as client:
            assert (await client.delete(f"/v1/public/tables/{carts}/data/{cart['id']}")).status_code == 200
        answer = await registering(app, "ada", guest["access_token"])
        assert answer.status_code == 201, answer.text
        (cart,), (order,) = await rows(app, "carts"), await rows(app, "orders")
        assert (cart["data"], order["data"]) == ({"member": guest["member_id"]}, {"cart": cart["id"]})

    async def test_a_code_of_a_mail_serves_again_with_another_name(self, app: App, tables: dict[str, str]):
        await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
        await registering(app, "ada", username="ada")
        asked = (await post(app, "/email-sign-in", {"email": "bob@example.com"})).json()
        (mail,) = await mails(app, 1)
        given = {"ticket": asked["ticket"], "code": mail["code"]}
        confirm = "/email-sign-in/confirm"
        # As often as the member needs: five wrong codes are too many, five taken names are not.
        for _ in range(5):
            assert_error(await post(app, confirm, given), 400, "VALIDATION_FAILED")
        assert_error(await post(app, confirm, {**given, "profile": {"username": "ada"}}), 409, "UNIQUE_VIOLATION")
        assert await number(app) == 1
        answer = await post(app, confirm, {**given, "profile": {"username": "bob"}})
        assert answer.status_code == 201, answer.text
        assert (await rows(app, "profiles"))[-1]["data"]["username"] == "bob"

    async def test_the_apps_own_side_and_imports_make_them_too(self, app: App, tables: dict[str, str]):
        async with owner_of(app).client(app) as client:
            new = {"login_id": "eve", "password": PASSWORD}
            assert_error(await client.post("/members", json=new), 400, "VALIDATION_FAILED")
            made = await client.post("/members", json={**new, "nickname": "Eve", "profile": {"username": "eve"}})
            assert made.status_code == 201, made.text
        lines = [
            {"login_id": f"old{one}", "profile": {"username": name}} for one, name in enumerate(("old", "eve", "ol"))
        ]
        done = await imported(app, *lines)
        assert (done["created"], [(one["line"], one["code"]) for one in done["rejected"]]) == (
            1,
            [(2, "UNIQUE_VIOLATION"), (3, "TOO_SHORT")],
        )
        assert [row["data"].get("shown_as") for row in await rows(app, "profiles")] == ["Eve", None]

    async def test_a_hook_adds_rows(self, app: App, tables: dict[str, str], functions: Functions):
        code = """export default (asked) => ({ rows: [{ table: "spaces", data: asked.nickname === "odd"
            ? { floor: 1 } : { owner: { $member: "id" }, profile: { $ref: 0 } } }] });"""
        await bind(app, before_sign_up=await functions.made("hook", code))
        assert (await registering(app, "ada", username="ada")).status_code == 201
        (profile,) = await rows(app, "profiles")
        spaces = [row["data"] for row in await rows(app, "spaces")]
        assert [space["profile"] for space in spaces] == [profile["id"]] * 2
        body = {"login_id": "bob", "password": PASSWORD, "nickname": "odd", "profile": {"username": "bob"}}
        assert_error(await post(app, "/signup", body), 400, "UNKNOWN_COLUMN")
        assert await number(app) == 1

    async def test_settings_that_change_and_a_table_that_goes_meanwhile_stop_no_sign_up(
        self, app: App, tables: dict[str, str], functions: Functions
    ):
        code = "export default async () => { await new Promise((done) => setTimeout(done, 1000)); return {}; }"
        await bind(app, before_sign_up=await functions.made("hook", code))
        # It has read the settings, and waits for the hook.
        signing_up = asyncio.create_task(registering(app, "ada", username="ada"))
        await asyncio.sleep(0.3)
        await call(app, "PATCH", "/account-settings", json={"on_sign_up": ON_SIGN_UP[:1]})
        async with owner_of(app).client() as client:
            client.headers["X-App-Id"] = app.app_id
            assert (await client.delete(f"/public/tables/{tables['spaces']}")).status_code == 200
        answer = await signing_up
        assert answer.status_code == 201, answer.text
        assert [row["data"]["username"] for row in await rows(app, "profiles")] == ["ada"]


def _after(on_sign_up: list[dict[str, Any]], by: int) -> list[dict[str, Any]]:
    """The rows where `by` others come before."""
    return [
        {
            **row,
            "data": {
                name: {"$ref": value["$ref"] + by} if isinstance(value, dict) and "$ref" in value else value
                for name, value in row["data"].items()
            },
        }
        for row in on_sign_up
    ]


class TestSettings:
    async def test_pages_learn_what_to_ask_for_and_nothing_else(self, app: App, tables: dict[str, str]):
        settings = await call(app, "GET", "/account-settings")
        assert settings["on_sign_up"] == [{"guests": False, **row} for row in ON_SIGN_UP]
        async with app.client() as client:
            public = (await client.get("/v1/public/account-settings")).json()
        assert public["sign_up_fields"] == settings["sign_up_fields"]
        assert public["sign_up_fields"] == [
            {"name": "username", "label": "User name", "type": "string", "is_required": True},
            {"name": "age", "label": "age", "type": "int", "is_required": False},
        ]
        assert "on_sign_up" not in public

    @pytest.mark.parametrize(
        ("row", "code"),
        [
            ({"table": "none", "data": {}}, "TABLE_NOT_FOUND"),
            ({"table": "spaces", "data": {"floor": 1}}, "UNKNOWN_COLUMN"),
            ({"table": "spaces", "data": {"home": "yes"}}, "INVALID_TYPE"),
            ({"table": "spaces", "data": {"home": {"$member": "id"}}}, "INVALID_TYPE"),
            ({"table": "spaces", "data": {"owner": {"$member": "password_hash"}}}, "UNKNOWN_FACT"),
            ({"table": "spaces", "data": {"owner": {"$inc": 1}}}, "UNKNOWN_OPERATOR"),
            ({"table": "spaces", "data": {"owner": {"$input": "A b"}}}, "INVALID_NAME"),
            ({"table": "spaces", "data": {"profile": {"$ref": 0}}}, "INVALID_REFERENCE"),
            ({"table": "spaces", "data": {"profile": {"$input": "it"}}}, "INVALID_TYPE"),
            ({"table": "profiles", "data": {"member": {"$member": "id"}}}, "REQUIRED"),
            (
                {"table": "profiles", "data": {"member": {"$member": "id"}, "username": {"$member": "email"}}},
                "REQUIRED",
            ),
            (
                {
                    "table": "profiles",
                    "data": {"member": {"$member": "id"}, "username": {"$input": "n"}},
                    "guests": True,
                },
                "REQUIRED",
            ),
        ],
        ids=lambda value: str(value)[:60],
    )
    async def test_a_row_that_its_table_cannot_have_is_refused(
        self, app: App, tables: dict[str, str], row: dict[str, Any], code: str
    ):
        assert (await refused(app, [row]))["code"] == code

    async def test_the_tables_are_closed_and_a_change_that_would_stop_sign_ups_is_refused(
        self, app: App, tables: dict[str, str]
    ):
        path = f"/v1/public/tables/{tables['profiles']}"
        async with app.client() as client:
            assert_error(await client.delete(path), 403, "SCHEMA_LOCKED")
            new = {"name": "extra", "data_type": "string"}
            assert_error(await client.post(f"{path}/columns", json=new), 403, "SCHEMA_LOCKED")
        async with owner_of(app).client() as client:
            client.headers["X-App-Id"] = app.app_id
            path = path.removeprefix("/v1")
            spaces = f"/public/tables/{tables['spaces']}"
            assert_error(await client.delete(spaces), 409, "USED_ON_SIGN_UP")
            assert_error(
                await client.patch(spaces, json={"title": "rooms", "schema": SPACES, "access_level": "Creator"}),
                409,
                "USED_ON_SIGN_UP",
            )
            assert_error(await client.delete(f"{path}/columns/age"), 409, "USED_ON_SIGN_UP")
            cast = await client.patch(f"{path}/columns/age", json={"data_type": "string"})
            assert_error(cast, 409, "USED_ON_SIGN_UP")
            required = {"name": "motto", "data_type": "string", "is_required": True}
            assert_error(await client.post(f"{path}/columns", json=required), 409, "USED_ON_SIGN_UP")
            answer = await client.post(f"{path}/columns", json={**required, "default_value": "none yet"})
            assert answer.status_code == 201, answer.text
        assert (await registering(app, "ada", username="ada")).status_code == 201
        await call(app, "PATCH", "/account-settings", json={"on_sign_up": []})
        async with owner_of(app).client() as client:
            client.headers["X-App-Id"] = app.app_id
            assert (await client.delete(spaces)).status_code == 200
        assert (await sign_up(app, "bob"))["member_id"]

    async def test_another_node_makes_the_rows_of_a_table_that_has_just_changed(self, app: App, tables: dict[str, str]):
        async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": app.public_key}) as other:
            body = {"login_id": "ada", "password": PASSWORD, "profile": {"username": "ada"}}
            assert (await other.post(f"{MEMBERS}/signup", json=body)).status_code == 201
            async with owner_of(app).client() as client:
                client.headers["X-App-Id"] = app.app_id
                new = {"name": "motto", "data_type": "string", "default_value": "hello"}
                answer = await client.post(f"/public/tables/{tables['profiles']}/columns", json=new)
                assert answer.status_code == 201, answer.text
            body = {"login_id": "bob", "password": PASSWORD, "profile": {"username": "bob"}}
            answer = await other.post(f"{MEMBERS}/signup", json=body)
            assert answer.status_code == 201, answer.text
        assert [row["data"].get("motto") for row in await rows(app, "profiles")] == [None, "hello"]
