"""What a webhook listens to by a prefix of types."""

from typing import Any

import pytest

from tests.receiver import Receiver
from tests.support import App, assert_error
from tests.webhooks.world import console, create, events, received

ALL = ["team.created", "team.member.added", "team.member.updated", "team.member.removed", "team.deleted"]


async def use(app: App) -> None:
    """Make a team, and all that happens to its members."""
    ada = await app.member("ada")
    member = {"roles": ["editor"]}
    async with console(app) as owner:
        team = (await owner.post("/teams", json={"name": "Crew"})).json()["team_id"]
        path = f"/teams/{team}/members/{ada['member_id']}"
        for body in (member, {"roles": ["editor", "cook"]}):
            assert (await owner.put(path, json=body)).is_success
        assert (await owner.delete(path)).is_success
        assert (await owner.delete(f"/teams/{team}")).is_success


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["team.*"], ALL),
        (["team.member.*"], ALL[1:4]),
        (["team.member.added", "team.deleted"], ["team.member.added", "team.deleted"]),
    ],
)
async def test_teams_are_told_by_each_prefix_of_their_types(
    app: App, receiver: Receiver, patterns: list[str], expected: list[str]
):
    await create(app, receiver.url(), patterns)
    await use(app)
    await received(receiver, len(expected))
    # A later event of all targets comes last: nothing else was on its way.
    await create(app, receiver.url("/last"), ["member.*"])
    await app.member("eve")
    await received(receiver, len(expected) + 1)
    told: list[dict[str, Any]] = events(receiver)
    assert sorted(event["type"] for event in told) == sorted([*expected, "member.created"])
    added = [event for event in told if event["type"] == "team.member.added"]
    assert [event["data"]["roles"] for event in added] == [["editor"]]


async def test_a_prefix_of_no_type_is_refused(app: App):
    async with console(app) as owner:
        for wrong in ("team.member", "team.memb.*", "team.member.added.*", "team*", ".*", "team.*.added"):
            body = {"url": "https://example.com/hooks", "event_types": [wrong]}
            assert_error(await owner.post("/webhooks", json=body), 400, "UNKNOWN_EVENT_TYPE")
