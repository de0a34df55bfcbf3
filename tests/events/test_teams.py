"""Events of teams: told by the request that makes the change, once, and only where something changes."""

import asyncio

from tests.console import owner_of
from tests.events.listening import Recorder, target
from tests.events.test_members import heard
from tests.mail.world import MEMBERS, call, sign_up
from tests.services import Node
from tests.support import App

TEAMS = f"{MEMBERS}/teams"


async def test_what_happens_to_a_team_and_who_is_in_it_is_told(app: App, node: Node, recorder: Recorder):
    ada, bob = await sign_up(app, "ada"), await sign_up(app, "bob")
    await call(app, "PUT", "/team-settings", json={"members_create": True})
    await node.services.events.listen(target(app, ["team.*"]))
    async with app.client(ada["access_token"]) as client:
        body = {"name": "Night owls", "data": {"secret": "hush"}}
        team = (await client.post(TEAMS, json=body)).json()["team_id"]
        for change in ({"name": "Early birds", "slug": "birds"}, {"name": "Early birds"}, {}, {"data": {}}):
            assert (await client.patch(f"{TEAMS}/{team}", json=change)).is_success
        made = (
            await client.post(f"{TEAMS}/{team}/invitations", json={"link": True, "roles": ["reader"], "max_uses": 2})
        ).json()
    use = {"token": made["token"]}
    async with app.client(bob["access_token"]) as client:
        for _ in range(2):
            assert (await client.post(f"{MEMBERS}/invitations/accept", json=use)).is_success
        # What is refused is not told.
        assert (await client.delete(f"{TEAMS}/{team}")).status_code == 403
    own, other = (f"{TEAMS}/{team}/members/{one['member_id']}" for one in (ada, bob))
    async with app.client(ada["access_token"]) as client:
        for _ in range(2):
            assert (await client.patch(other, json={"roles": ["editor"]})).is_success
        assert (await client.delete(own)).status_code == 409
        assert (await client.delete(other)).is_success
        assert (await client.delete(f"{TEAMS}/{team}")).is_success
    names = "created member.added updated updated member.added member.updated member.removed deleted"
    told = await heard(recorder, node, *(f"team.{name}" for name in names.split()))
    first = {"team_id": team, "name": "Night owls", "slug": None}
    later = {**first, "name": "Early birds", "slug": "birds"}
    assert [data.get("team") for data in told] == [first, None, later, later, None, None, None, later]
    assert [data["changed"] for data in told[2:4]] == [["name", "slug"], ["data"]]
    members = [(data["member_id"], data["roles"]) for data in (told[1], *told[4:7])]
    ada_id, bob_id = ada["member_id"], bob["member_id"]
    assert members == [(ada_id, ["owner"]), (bob_id, ["reader"]), (bob_id, ["editor"]), (bob_id, ["editor"])]
    actors = [ada_id] * 4 + [bob_id] + [ada_id] * 3
    assert [(event.actor_kind, event.actor_id) for event in recorder.events] == [("member", one) for one in actors]
    assert {event.subject for event in recorder.events} == {f"teams/{team}"}
    assert "hush" not in str(recorder.events)
    assert made["token"] not in str(recorder.events)


async def test_what_the_app_does_is_told_and_to_itself_alone(app: App, other_app: App, node: Node, recorder: Recorder):
    ada = await sign_up(app, "ada")
    for one, types in ((app, ["team.member.added", "team.member.removed"]), (other_app, ["*"])):
        await node.services.events.listen(target(one, types))
    team = (await _created(app))["team_id"]
    path = f"/teams/{team}/members/{ada['member_id']}"
    # At once, and yet it is added once.
    await asyncio.gather(*(call(app, "PUT", path, json={"roles": ["editor", "editor"]}) for _ in range(3)))
    await call(app, "DELETE", path)
    await call(app, "DELETE", f"/teams/{team}")
    told = await heard(recorder, node, "team.member.added", "team.member.removed")
    assert told == [{"team_id": team, "member_id": ada["member_id"], "roles": ["editor"]}] * 2
    assert {(event.actor_kind, event.app_id.hex) for event in recorder.events} == {
        ("console_user", app.app_id.replace("-", ""))
    }


async def _created(app: App) -> dict[str, str]:
    async with owner_of(app).client(app) as console:
        answer = await console.post("/teams", json={"name": "Night owls"})
    assert answer.status_code == 201, answer.text
    return answer.json()
