"""The roles and claims of a member, which the app alone sets, and rules ask for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.accounts.authenticator import enrolled
from tests.accounts.test_gate import settings
from tests.console import the_log
from tests.rules.test_rules import EDITOR, listed, manager, rows, ruled
from tests.support import App, assert_error

ME = "/v1/public/app-members/me"
PROVED: dict[str, Any] = {"$member": {"level": 2}}
OF_TEAM: dict[str, Any] = {"team": {"$member": "claims.team"}}


async def test_a_role_and_a_claim_hold_from_the_next_request_on(app: App):
    rules = {"read": OF_TEAM, "create": EDITOR}
    table = await ruled(app, {"name": "string", "team": "string"}, rules)
    for team in ("red", "blue"):
        await app.row(table, {"name": team, "team": team}, app.secret_key)
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as member, manager(app) as side:
        new = {"data": {"name": "new", "team": "red"}}
        path = f"/members/{ada['member_id']}"
        assert_error(await member.get(rows(table)), 403, "RULE_DENIED")
        assert_error(await member.post(rows(table), json=new), 403, "RULE_DENIED")

        facts = {"roles": ["editor", "editor", "seller"], "claims": {"team": "red", "deep": {"x": [1.50]}}}
        changed = await side.patch(path, json=facts)
        assert changed.status_code == 200, changed.text
        given = {"roles": ["editor", "seller"], "claims": facts["claims"]}
        assert {name: changed.json()[name] for name in given} == given
        account = (await member.get(f"{ME}/account")).json()
        assert {name: account[name] for name in given} == given
        assert (account["login_id"], account["is_guest"]) == ("ada", False)
        assert set((await member.get(ME)).json()) == {"member_id", "nickname", "is_active", "custom_data"}
        assert await listed(member, table) == ["red"]
        assert (await member.post(rows(table), json=new)).status_code == 201

        await side.patch(path, json={"claims": {"team": "blue"}})
        assert await listed(member, table) == ["blue"]
        assert (await side.get(path)).json()["roles"] == given["roles"]
        await side.patch(path, json={"roles": []})
        assert_error(await member.post(rows(table), json=new), 403, "RULE_DENIED")
    logged = [entry for entry in await the_log(app) if entry["action"] == "member.update"]
    assert logged[-1]["details"] == given


async def test_texts_are_compared_in_any_case(app: App):
    rule = {"$member": {"claims.name": {"$istartsWith": "ÁDA"}}, "team": {"$ieq": {"$member": "claims.team"}}}
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": rule})
    for team in ("Réd", "red"):
        await app.row(table, {"name": team, "team": team}, app.secret_key)
    for name, seen in (("áda lovelace", ["Réd"]), ("eve", None)):
        member = await app.member(name)
        async with app.client(member["access_token"]) as caller, manager(app) as side:
            await side.patch(f"/members/{member['member_id']}", json={"claims": {"team": "RÉD", "name": name}})
            if seen is None:
                assert_error(await caller.get(rows(table)), 403, "RULE_DENIED")
            else:
                assert await listed(caller, table) == seen


async def test_only_the_app_sets_them(app: App):
    facts = {"roles": ["editor"], "claims": {"team": "red"}}
    ada = await app.member("ada")
    path = f"/v1/apps/{app.app_id}/members/{ada['member_id']}"
    async with app.client() as public, app.client(ada["access_token"]) as member:
        account = {"login_id": "eve", "password": "correct horse"}
        for name, value in facts.items():
            for answer in (
                await public.post("/v1/public/app-members/signup", json=account | {name: value}),
                await member.patch(ME, json={"nickname": "A", name: value}),
                await member.patch(f"{ME}/custom-data", json={"custom_data": {}, name: value}),
            ):
                assert_error(answer, 400, "VALIDATION_FAILED")
        assert (await member.patch(path, json=facts)).status_code == 401
        await member.patch(f"{ME}/custom-data", json={"custom_data": facts})
        own = (await member.get(f"{ME}/account")).json()
        assert (own["roles"], own["claims"], own["custom_data"]) == ([], {}, facts)
    async with manager(app) as side:
        made = await side.post("/members", json=account | facts)
        assert made.status_code == 201, made.text
        assert {name: made.json()[name] for name in facts} == facts
        listed_members = (await side.get("/members")).json()["data"]
        assert {one["login_id"]: one["roles"] for one in listed_members} == {"eve": ["editor"], "ada": []}


@pytest.mark.parametrize(
    "facts",
    [
        {"roles": ["Editor"]},
        {"roles": [""]},
        {"roles": ["editor\n"]},
        {"roles": ["x" * 65]},
        {"roles": [f"role{number}" for number in range(21)]},
        {"roles": None},
        {"roles": "editor"},
        {"claims": []},
        {"claims": None},
        {"claims": {"a": "x" * 4096}},
        {"claims": {"a": {"b": {"c": {"d": 1}}, "e": [[[]]]} | {"f": {"g": {"h": {}}}}}},
    ],
)
async def test_what_is_not_allowed(app: App, facts: dict[str, Any]):
    ada = await app.member("ada")
    async with manager(app) as side:
        for answer in (
            await side.patch(f"/members/{ada['member_id']}", json=facts),
            await side.post("/members", json={"login_id": "eve", "password": "correct horse"} | facts),
        ):
            error = assert_error(answer, 400, "VALIDATION_FAILED")
            assert error["details"][0]["field"].startswith(next(iter(facts)))
        assert (await side.get("/members")).json()["total_count"] == 1


async def test_a_second_factor_is_asked_for(app: App):
    await settings(app, second_factor="optional")
    table = await ruled(
        app, {"name": "string", "level": "int"}, {"read": {"level": {"$lte": {"$member": "level"}}}, "create": PROVED}
    )
    for level in (1, 2):
        await app.row(table, {"name": f"level {level}", "level": level}, app.secret_key)
    ada = await app.member("ada")
    new = {"data": {"name": "payout", "level": 1}}
    async with app.client(ada["access_token"]) as member, manager(app) as side:
        assert_error(await member.post(rows(table), json=new), 403, "RULE_DENIED")
        assert await listed(member, table) == ["level 1"]
        # The same token, from the moment on in which its session has two factors.
        await enrolled(app, ada["access_token"])
        assert (await member.post(rows(table), json=new)).status_code == 201
        assert await listed(member, table) == ["level 1", "level 2", "payout"]
        path = f"/tables/{table}/rules/test"
        for level, allowed in ((1, False), (2, True)):
            tried = await side.post(path, json={"action": "create", "as": {"level": level}, "data": new["data"]})
            assert tried.json()["allowed"] is allowed, tried.text
