"""Teams: who may create and change them, invitations, the last owner, and what rules make of them."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.console import owner_of
from tests.mail.world import MEMBERS, call, mails, sign_up, token_of, verified
from tests.support import App, assert_error, plain_client

TEAMS = f"{MEMBERS}/teams"
INVITATIONS = f"{MEMBERS}/invitations"


async def ask(app: App, member: dict[str, Any], method: str, path: str, body: Any = None) -> httpx.Response:
    async with app.client(member["access_token"]) as client:
        return await client.request(method, path, json=body)


async def done(app: App, member: dict[str, Any], method: str, path: str, body: Any = None) -> Any:
    answer = await ask(app, member, method, path, body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


def _side(app: App) -> httpx.AsyncClient:
    """The app's own side, by its secret key."""
    return plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}")


async def _row(app: App, table: str, data: dict[str, Any]) -> None:
    async with app.client(app.secret_key) as side:
        assert (await side.post(f"/v1/public/tables/{table}/data", json={"data": data})).status_code == 201


async def team_of(app: App, owner: dict[str, Any], **more: Any) -> str:
    await call(app, "PUT", "/team-settings", json={"members_create": True})
    return str((await done(app, owner, "POST", TEAMS, {"name": "Night owls", **more}))["team_id"])


async def put(app: App, team: str, member: dict[str, Any], *roles: str) -> None:
    await call(app, "PUT", f"/teams/{team}/members/{member['member_id']}", json={"roles": list(roles)})


async def test_a_member_creates_a_team_if_the_app_lets_it_and_is_its_owner(app: App):
    ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve")
    refused = await ask(app, ada, "POST", TEAMS, {"name": "Night owls"})
    assert_error(refused, 403, "TEAM_CREATION_CLOSED")
    team = await team_of(app, ada, slug="night-owls", data={"colour": "green"})
    (own,) = (await done(app, ada, "GET", TEAMS))["teams"]
    assert (own["team_id"], own["roles"], own["member_count"]) == (team, ["owner"], 1)
    assert (own["slug"], own["data"], own["created_by"]) == ("night-owls", {"colour": "green"}, ada["member_id"])
    taken = await ask(app, eve, "POST", TEAMS, {"name": "Others", "slug": "night-owls"})
    assert_error(taken, 409, "SLUG_TAKEN")
    # Who is not in it learns nothing of it, and who is no owner changes nothing.
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/members"), ("GET", "/invitations")]:
        assert_error(await ask(app, eve, method, f"{TEAMS}/{team}{path}"), 404, "TEAM_NOT_FOUND")
    await put(app, team, eve, "editor")
    for method, path, body in [
        ("PATCH", "", {"name": "Mine"}),
        ("DELETE", "", None),
        ("PATCH", f"/members/{eve['member_id']}", {"roles": ["owner"]}),
        ("DELETE", f"/members/{ada['member_id']}", None),
        ("POST", "/invitations", {"link": True}),
        ("GET", "/invitations", None),
    ]:
        assert_error(await ask(app, eve, method, f"{TEAMS}/{team}{path}", body), 403, "TEAM_OWNER_REQUIRED")
    listed = (await done(app, eve, "GET", f"{TEAMS}/{team}/members"))["data"]
    assert [(one["member_id"], one["roles"]) for one in listed] == [
        (ada["member_id"], ["owner"]),
        (eve["member_id"], ["editor"]),
    ]
    changed = await done(app, ada, "PATCH", f"{TEAMS}/{team}", {"name": "Early birds", "slug": None})
    assert (changed["name"], changed["slug"], changed["data"]) == ("Early birds", None, {"colour": "green"})


async def test_a_link_brings_in_as_many_as_it_says_and_nobody_twice(app: App):
    ada = await sign_up(app, "ada")
    team = await team_of(app, ada)
    others = [await sign_up(app, f"other{number}") for number in range(4)]
    body = {"link": True, "roles": ["editor"], "max_uses": 2}
    invitation = await done(app, ada, "POST", f"{TEAMS}/{team}/invitations", body)
    token = {"token": invitation["token"]}
    async with app.client() as client:
        shown = (await client.get(f"{INVITATIONS}/{invitation['token']}")).json()
    assert (shown["team_id"], shown["name"], shown["roles"]) == (team, "Night owls", ["editor"])
    # Who is in it already uses nothing up.
    assert (await done(app, ada, "POST", f"{INVITATIONS}/accept", token))["roles"] == ["owner"]
    answers = await asyncio.gather(*(ask(app, one, "POST", f"{INVITATIONS}/accept", token) for one in others))
    assert sorted(one.status_code for one in answers) == [200, 200, 404, 404]
    assert (await done(app, ada, "GET", f"{TEAMS}/{team}"))["member_count"] == 3
    assert (await done(app, ada, "GET", f"{TEAMS}/{team}/invitations"))["invitations"] == []
    again = await done(app, ada, "POST", f"{TEAMS}/{team}/invitations", {"link": True})
    await done(app, ada, "DELETE", f"{TEAMS}/{team}/invitations/{again['team_invitation_id']}")
    loser = next(one for one, answer in zip(others, answers, strict=True) if answer.status_code == 404)
    gone = await ask(app, loser, "POST", f"{INVITATIONS}/accept", {"token": again["token"]})
    assert_error(gone, 404, "TEAM_INVITATION_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "email"),
        ({"link": True, "email": "a@example.com"}, "email"),
        ({"link": True, "roles": ["owner"]}, "roles"),
        ({"email": "a@example.com", "max_uses": 2}, "max_uses"),
        ({"email": "a@b@c"}, "email"),
    ],
)
async def test_an_invitation_that_is_none_is_refused(app: App, body: dict[str, Any], field: str):
    ada = await sign_up(app, "ada")
    team = await team_of(app, ada)
    error = assert_error(await ask(app, ada, "POST", f"{TEAMS}/{team}/invitations", body), 400, "VALIDATION_FAILED")
    assert error["details"][0]["field"].startswith(field)


async def test_a_mailed_invitation_is_for_the_member_with_that_address(app: App):
    bob = await verified(app, "bob", "Bob@example.com")
    ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve")
    team = await team_of(app, ada)
    body = {"email": "bob@example.com", "roles": ["editor"]}
    made = await done(app, ada, "POST", f"{TEAMS}/{team}/invitations", body)
    assert made["token"] is None
    (mail,) = await mails(app, 1, purpose="team_invitation")
    # Words of members do not go to addresses that may belong to anybody.
    assert "Night owls" not in mail["subject"] + mail["text"]
    token = {"token": token_of(mail)}
    refused = await ask(app, eve, "POST", f"{INVITATIONS}/accept", token)
    assert_error(refused, 403, "INVITATION_FOR_ANOTHER_ADDRESS")
    assert (await done(app, bob, "POST", f"{INVITATIONS}/accept", token))["roles"] == ["editor"]


async def test_the_last_owner_stays(app: App):
    ada, bob = await sign_up(app, "ada"), await sign_up(app, "bob")
    team = await team_of(app, ada)
    path = f"{TEAMS}/{team}/members"
    assert_error(await ask(app, ada, "DELETE", f"{path}/{ada['member_id']}"), 409, "TEAM_LAST_OWNER")
    demoted = await ask(app, ada, "PATCH", f"{path}/{ada['member_id']}", {"roles": ["editor"]})
    assert_error(demoted, 409, "TEAM_LAST_OWNER")
    await put(app, team, bob, "owner")
    # Two who remove each other at once: one is still there.
    answers = await asyncio.gather(
        ask(app, ada, "DELETE", f"{path}/{bob['member_id']}"), ask(app, bob, "DELETE", f"{path}/{ada['member_id']}")
    )
    assert sorted(one.status_code for one in answers) == [200, 404]
    listed = await call(app, "GET", f"/teams/{team}/members")
    assert [one["roles"] for one in listed["data"]] == [["owner"]]


async def test_rules_know_the_teams_of_a_member_from_its_next_request_on(app: App):
    ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve")
    team, other = await team_of(app, ada), await team_of(app, ada)
    table = await app.table({"team": "uuid", "text": "string"}, title="notes")
    mine = {"team": {"$in": {"$member": "teams"}}}
    rules = {
        "list": mine,
        "read": mine,
        "create": {"team": {"$in": {"$member": "teams.editor"}}},
        "update": {"$member": {"teams": {"$arrayContains": team}}},
    }
    await call(app, "PUT", f"/tables/{table}/rules", json={"rules": rules})
    for one in (team, other):
        await _row(app, table, {"team": one, "text": "hello"})
    rows = f"/v1/public/tables/{table}/data"

    async def seen(member: dict[str, Any]) -> int:
        return (await done(app, member, "GET", rows))["total_count"]

    assert (await seen(ada), await seen(eve)) == (2, 0)
    await put(app, team, eve, "guest")
    assert await seen(eve) == 1
    new = {"data": {"team": team, "text": "mine"}}
    assert_error(await ask(app, eve, "POST", rows, new), 403, "RULE_DENIED")
    await put(app, team, eve, "guest", "editor")
    assert (await ask(app, eve, "POST", rows, new)).status_code == 201
    assert await seen(eve) == 2
    await done(app, eve, "DELETE", f"{TEAMS}/{team}/members/{eve['member_id']}")
    assert await seen(eve) == 0
    await done(app, ada, "DELETE", f"{TEAMS}/{other}")
    assert await seen(ada) == 2
    # Nobody and who is in no team have an empty list, which no row is in.
    bad = {"rules": {"list": {"text": {"$member": "teams"}}}}
    async with app.client() as client:
        assert (await client.get(rows)).status_code == 401
    assert_error(await _rules(app, table, bad), 400, "OPERAND_TYPE")
    assert_error(
        await _rules(app, table, {"rules": {"list": {"team": {"$in": {"$member": "teams."}}}}}), 400, "INVALID_OPERAND"
    )


async def _rules(app: App, table: str, body: Any) -> httpx.Response:
    async with owner_of(app).client(app) as client:
        return await client.put(f"/tables/{table}/rules", json=body)


async def test_two_teams_that_take_a_member_at_once_are_both_known(app: App):
    ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve")
    teams = [await team_of(app, ada) for _ in range(6)]
    await asyncio.gather(*(put(app, team, eve, "editor") for team in teams))
    table = await app.table({"team": "uuid"}, title="notes")
    await call(
        app,
        "PUT",
        f"/tables/{table}/rules",
        json={"rules": {"list": {"team": {"$in": {"$member": "teams"}}}, "read": True}},
    )
    for team in teams:
        await _row(app, table, {"team": team})
    assert (await done(app, eve, "GET", f"/v1/public/tables/{table}/data"))["total_count"] == 6


async def test_the_app_manages_teams_at_once(app: App, other_app: App):
    ada = await sign_up(app, "ada")
    async with _side(app) as side:
        made = (await side.post("/teams", json={"name": "Crew", "slug": "crew"})).json()
        assert (made["created_by"], made["member_count"]) == (None, 0)
        path = f"/teams/{made['team_id']}"
        nobody = await side.put(f"{path}/members/nobody", json={"roles": []})
        assert_error(nobody, 404, "TEAM_MEMBER_NOT_FOUND")
        await side.put(f"{path}/members/{ada['member_id']}", json={"roles": ["captain"]})
        (own,) = (await side.get(f"/members/{ada['member_id']}/teams")).json()["teams"]
        assert own["roles"] == ["captain"]
        found = (await side.get("/teams", params={"search": "CRE"})).json()
        assert [one["team_id"] for one in found["data"]] == [made["team_id"]]
        assert (await side.get("/teams", params={"search": "zzz"})).json()["total_count"] == 0
        assert (await side.delete(path)).status_code == 200
        assert (await done(app, ada, "GET", TEAMS))["teams"] == []
    async with _side(other_app) as side:
        assert (await side.get("/teams")).json()["total_count"] == 0
