"""Events of members: emitted by the request that makes the change, and only if a target is registered."""

import asyncio
import re
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

from pilotis.db import connections
from pilotis.http.api.principals import SYSTEM, AppInfo, MemberInfo
from pilotis.members.events import MEMBER_CREATED
from tests.database import connect
from tests.events.listening import Recorder, target
from tests.services import Node, stale_node
from tests.support import App, Server, plain_client
from tests.waiting import until

SIGN_IN = "/v1/public/app-members/signin"
ME = "/v1/public/app-members/me"
ADA = {"login_id": "ada", "password": "correct horse"}
HOSTILE = '"},"x":[</script>\'\\\u2028 {0} %s $1 --'


async def heard(recorder: Recorder, node: Node, *types: str) -> list[dict[str, Any]]:
    """Wait until exactly these events have come, and return their data, which must fit the types' structs."""
    await until(lambda: len(recorder.events) >= len(types))
    # Hand-outs that overlap may end in another order than their events began in; ids rise.
    recorder.events.sort(key=lambda event: event.event_id)
    assert recorder.types() == list(types)
    for event in recorder.events:
        data = msgspec.json.decode(event.data, type=node.floor.events.catalogue.get(event.type).data)
        assert msgspec.json.decode(event.data) == msgspec.to_builtins(data), "more is told than the struct says"
    return recorder.data()


async def test_what_a_member_does_is_told(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["member.*"]))
    async with app.client() as client:
        body = {**ADA, "nickname": HOSTILE}
        member = (await client.post("/v1/public/app-members/signup", json=body)).json()
        signed_in = (await client.post(SIGN_IN, json=ADA)).json()
        assert (await client.post(SIGN_IN, json={**ADA, "password": "wrong horse"})).status_code == 401
    async with app.client(signed_in["access_token"]) as client:
        assert (await client.patch(ME, json={"nickname": HOSTILE * 2})).is_success
        assert (await client.patch(f"{ME}/custom-data", json={"custom_data": {"secret": "hush"}})).is_success
        assert (await client.post("/v1/public/app-members/signout")).is_success
    async with app.client(member["access_token"]) as client:
        deletion = await client.request("DELETE", ME, json={"password": ADA["password"]})
        assert deletion.is_success, deletion.text
    names = "created signed_in updated updated signed_out deleted"
    told = await heard(recorder, node, *(f"member.{name}" for name in names.split()))
    first = {"member_id": member["member_id"], "nickname": HOSTILE, "is_guest": False, "is_active": True}
    later = {**first, "nickname": HOSTILE * 2}
    assert [data["member"] for data in told] == [first, first, later, later, later, later]
    assert told[1]["method"] == "password"
    assert [data.get("changed") for data in told] == [None, None, ["nickname"], ["custom_data"], None, None]
    actors = [(event.actor_kind, event.actor_id) for event in recorder.events]
    assert actors == [("public", None)] + [("member", member["member_id"])] * 5
    assert {event.subject for event in recorder.events} == {f"members/{member['member_id']}"}
    assert {event.member_id for event in recorder.events} == {member["member_id"]}
    assert "hush" not in str(recorder.events)
    # As a word: the digits of an id may have it.
    assert not re.search(r"\bada\b", str(recorder.events))


async def test_a_guest_and_its_promotion_are_told_once_each(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["*"]))
    guest = await app.guest()
    async with app.client(guest["access_token"]) as client:
        assert (await client.post("/v1/public/app-members/signup", json=ADA)).status_code == 201
    created, promoted = await heard(recorder, node, "member.created", "member.promoted")
    assert created["member"]["is_guest"] is True
    assert promoted["member"] == {**created["member"], "is_guest": False}
    assert recorder.events[1].actor_id == guest["member_id"]


async def test_what_a_console_user_does_is_told_where_it_changes_anything(app: App, node: Node, recorder: Recorder):
    member = await app.member()
    await node.services.events.listen(target(app, ["member.*"]))
    path = f"/v1/apps/{app.app_id}/members/{member['member_id']}"
    async with plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}") as client:
        for change in ({"is_active": False}, {"is_active": False}, {"is_active": True}, {"nickname": "A"}, {}):
            assert (await client.patch(path, json=change)).is_success
        for change in ({"roles": ["editor"]}, {"roles": ["editor"]}, {"claims": {"secret": "hush"}, "nickname": "B"}):
            assert (await client.patch(path, json=change)).is_success
        for _ in range(2):
            assert (await client.post(f"{path}/sign-out-everywhere")).is_success
        assert (await client.delete(path)).is_success
    names = "deactivated activated updated updated updated signed_out deleted"
    told = await heard(recorder, node, *(f"member.{name}" for name in names.split()))
    assert [data["member"]["is_active"] for data in told] == [False, True, True, True, True, True, True]
    assert [data["changed"] for data in told[2:5]] == [["nickname"], ["roles"], ["nickname", "claims"]]
    assert "hush" not in str(recorder.events)
    assert {event.actor_kind for event in recorder.events} == {"console_user"}


async def test_a_change_that_fails_tells_nothing(app: App, node: Node, recorder: Recorder):
    await app.member()
    await node.services.events.listen(target(app, ["member.*"]))
    async with app.client() as client:
        taken = await client.post("/v1/public/app-members/signup", json=ADA)
        assert taken.status_code == 409
    await app.member("grace")
    assert len(await heard(recorder, node, "member.created")) == 1


async def test_another_app_hears_nothing(app: App, other_app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(other_app, ["*"]))
    member = await app.member()
    async with app.client() as client:
        await client.post(SIGN_IN, json=ADA)
    stranger = await other_app.member()
    told = await heard(recorder, node, "member.created")
    assert told[0]["member"]["member_id"] == stranger["member_id"] != member["member_id"]


async def test_sign_ins_at_once_are_told_once_each(app: App, node: Node, recorder: Recorder):
    await app.member()
    await node.services.events.listen(target(app, ["member.signed_in"]))
    async with app.client() as client:
        answers = await asyncio.gather(*(client.post(SIGN_IN, json=ADA) for _ in range(20)))
    done = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 429}
    await heard(recorder, node, *["member.signed_in"] * len(done))
    assert len({event.event_id for event in recorder.events}) == len(done)


async def test_depth_travels_with_an_event(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["member.created"]))
    app_id, example = UUID(app.app_id), MEMBER_CREATED.example
    async with node.database.transaction() as connection:
        emit = partial(node.services.events.emit, connection, app_id, MEMBER_CREATED, example)
        await emit(actor=SYSTEM, depth=3)
        await emit(actor=msgspec.structs.replace(SYSTEM, depth=2))
    await app.guest()
    await heard(recorder, node, *["member.created"] * 3)
    assert [(event.depth, event.actor_kind) for event in recorder.events] == [
        (3, "system"),
        (2, "system"),
        (0, "public"),
    ]


async def test_what_rolls_back_is_neither_written_nor_announced(app: App, node: Node, recorder: Recorder):

    events, app_id = node.services.events, UUID(app.app_id)
    await events.listen(target(app, ["member.created"]))
    announced: list[UUID] = []
    events.on_emitted(announced.append)

    async def emit(*, fails: bool) -> None:
        async with node.database.transaction() as connection:
            await events.emit(connection, app_id, MEMBER_CREATED, MEMBER_CREATED.example, actor=SYSTEM)
            assert announced == []
            if fails:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        await emit(fails=True)
    assert announced == []
    await emit(fails=False)
    assert announced == [app_id]
    assert await node.database.fetchval("select count(*) from pilotis.events where app_id = $1", app_id) == 1


class Counted:
    """Counts the statements of every pool that is made after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[str] = []
        connect_ = connections.connect

        async def logged(*arguments: Any, **options: Any) -> Any:
            connection = await connect_(*arguments, **options)
            connection.add_query_logger(lambda record: self.statements.append(record.query))
            return connection

        monkeypatch.setattr(connections, "connect", logged)


async def test_nothing_is_added_where_nobody_listens(app: App, server: Server, monkeypatch: pytest.MonkeyPatch):
    """Signing in and out, and changing oneself, are as many statements as before there were events."""

    member = await app.member()
    counted = Counted(monkeypatch)
    connection = await connect(server)
    async with stale_node(server) as services:
        info: AppInfo = await services.apps.by_id(UUID(app.app_id))
        claims = services.sessions.access_claims(member["access_token"], console=False)
        own = MemberInfo(member["member_id"], claims.sid, False)
        stored = await connection.fetchval(
            "select password_hash from pilotis.members where member_id = $1", member["member_id"]
        )
        emitted: list[UUID] = []
        services.events.on_emitted(emitted.append)

        async def statements(change: Any) -> int:
            await asyncio.sleep(0)
            counted.statements.clear()
            await change
            await asyncio.sleep(0)  # Loggers are called in the next turn of the loop.
            return len(counted.statements)

        signing_in = services.sessions.sign_in_member(
            info.app_id, own.member_id, "key", stored, info.limits, '[{"type":"member.signed_in"}]', None
        )
        assert await statements(signing_in) == 1
        assert await statements(services.members.merge_custom_data(info, own, {"a": 1})) == 1
        assert await statements(services.members.change_nickname(info, own, "A")) == 2
        assert await statements(services.members.sign_out(info, own)) == 1
        assert emitted == []
    assert await connection.fetchval("select count(*) from pilotis.events where app_id = $1", info.app_id) == 0
    await connection.close()
