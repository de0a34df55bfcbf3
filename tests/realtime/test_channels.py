"""Channels: messages, who is present, and the rules about both."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.data.realtime.stream import LiveStream
from pilotis.http.api.principals import AppInfo, PublicClient
from pilotis.limits import Limits
from tests.console import client_of
from tests.database import second_node
from tests.functions.support import Functions
from tests.realtime.listening import Listener, deleted, listening, refused
from tests.rules.test_rules import manager
from tests.support import App, assert_error
from tests.waiting import until

ME: dict[str, Any] = {"$member": "id"}
SEATED = {"$exists": {"table": "seats", "where": {"room": {"$channel": "room"}, "member": ME}}}


async def declare(app: App, *channels: dict[str, Any]) -> httpx.Response:
    async with manager(app) as side:
        return await side.put("/channels", json={"channels": list(channels)})


def messages(name: str) -> str:
    return f"/v1/public/realtime/channels/{name}/messages"


def presence(name: str) -> str:
    return f"/v1/public/realtime/channels/{name}/presence"


async def sent(client: httpx.AsyncClient, name: str, event: str, payload: Any = None, **more: Any) -> list[str]:
    answer = await client.post(messages(name), json={"event": event, "payload": payload, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()["ids"]


async def test_messages_reach_those_who_may_listen_and_come_from_those_who_may_send(app: App):
    seats = await app.table({"room": "string", "member": "string"}, title="seats")
    room = {"pattern": "room:{room}", "listen": SEATED, "send": {"$use": "listen"}, "presence": True}
    news = {"pattern": "news", "listen": True, "send": None, "echo": True}
    answer = await declare(app, room, news)
    assert answer.status_code == 200, answer.text
    assert [one["listen"] for one in answer.json()["channels"]] == [SEATED, True]
    ada, ben = await app.member("ada"), await app.member("ben")
    for member in (ada, ben):
        await app.row(seats, {"room": "a", "member": member["member_id"]})
    async with (
        app.client(ada["access_token"]) as one,
        app.client(ben["access_token"]) as other,
        app.client() as nobody,
        app.client(app.secret_key) as side,
    ):
        asked = {"name": "room:a"}
        for client, name, status, code in (
            (nobody, "room:a", 401, "MEMBER_TOKEN_REQUIRED"),
            (one, "room:b", 403, "CHANNEL_DENIED"),
            (one, "none", 403, "CHANNEL_DENIED"),
            (nobody, "news", 403, "CHANNEL_DENIED"),
            (one, "room:a%0A", 403, "CHANNEL_DENIED"),
        ):
            assert_error(await client.post(messages(name), json={"event": "x"}), status, code)
        assert_error(
            await one.post("/v1/public/realtime", json={"channels": [{"name": "room:b"}]}), 403, "CHANNEL_DENIED"
        )
        async with listening(one, channels=[asked]) as first, listening(other, channels=[asked]) as second:
            for told in (first, second):
                ((event, data),) = await told.next()
                assert (event, data) == ("presence", {"channel": "room:a", "count": 0, "all": []})
            (message_id,) = await sent(one, "room:a", "move", {"x": 1.5}, stream=first.ready["stream"])
            ((event, data),) = await second.next()
            assert event == "message"
            assert data.pop("at").endswith("Z")
            assert data == {
                "channel": "room:a",
                "id": message_id,
                "event": "move",
                "payload": {"x": 1.5},
                "from": {"member_id": ada["member_id"]},
            }
            many = {"messages": [{"event": "a"}, {"event": "b", "payload": [1]}]}
            answer = await side.post(messages("room:a"), json=many)
            assert len(answer.json()["ids"]) == 2
            for told in (first, second):
                events = [(data["event"], data["payload"], data["from"]) for _, data in await told.next(2)]
                assert events == [("a", None, None), ("b", [1], None)]
            # Who loses the seat is told, and hears nothing any more.
            rows = (await side.post(f"/v1/public/tables/{seats}/data/query", json={})).json()["data"]
            (mine,) = [row for row in rows if row["data"]["member"] == ben["member_id"]]
            await deleted(app, seats, mine)
            ((event, data),) = await second.next()
            assert (event, data) == ("reset", {"channel": "room:a", "reason": "access", "code": "CHANNEL_DENIED"})
            await sent(one, "room:a", "secret")
            ((event, data),) = await first.next()
            assert data["event"] == "secret"
            assert second.events == []


async def test_presence_is_told_at_first_and_then_by_differences(app: App):
    await declare(app, {"pattern": "room:{room}", "listen": True, "send": True, "presence": True})
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as one, app.client() as other:
        mine = {"name": "room:a", "presence": {"state": {"at": 1}}}
        async with listening(one, channels=[mine]) as first:
            await first.until(lambda events: any(data["count"] == 1 for _, data in events))
            first.events.clear()
            async with listening(other, channels=[{"name": "room:a"}]) as second:
                ((_, data),) = await second.next()
                (entry,) = data["all"]
                assert (entry["member_id"], entry["state"]) == (ada["member_id"], {"at": 1})
                body = {"stream": first.ready["stream"], "state": {"at": 2}}
                assert_error(await other.put(presence("room:a"), json=body), 404, "STREAM_NOT_FOUND")
                answer = await one.put(presence("room:a"), json=body)
                assert answer.status_code == 200, answer.text
                ((_, data),) = await second.next()
                assert data == {
                    "channel": "room:a",
                    "count": 1,
                    "joined": [{"key": entry["key"], "member_id": ada["member_id"], "state": {"at": 2}}],
                    "left": [],
                }
                large = {"stream": first.ready["stream"], "state": {"at": "x" * 1100}}
                assert_error(await one.put(presence("room:a"), json=large), 400, "VALIDATION_FAILED")
                path = f"{presence('room:a')}?stream={first.ready['stream']}"
                assert (await one.delete(path)).status_code == 200
                ((_, data),) = await second.next()
                assert data == {"channel": "room:a", "count": 0, "joined": [], "left": [entry["key"]]}


async def test_a_stream_that_follows_another_is_present_in_its_place(app: App):
    await declare(app, {"pattern": "room:{room}", "listen": True, "presence": True})
    ada, bob = await app.member("ada"), await app.member("bob")

    async def present(follows: str | None, token: str, state: int = 1) -> tuple[Listener, AsyncExitStack]:
        stack = AsyncExitStack()
        client = await stack.enter_async_context(app.client(token))
        channels = [{"name": "room:a", "presence": {"state": {"at": state}}}]
        more = {} if follows is None else {"stream": follows}
        return await stack.enter_async_context(listening(client, channels=channels, **more)), stack

    async with app.client() as other, listening(other, channels=[{"name": "room:a"}]) as told:
        assert (await told.next())[0][1]["all"] == []
        first, closing = await present(None, ada["access_token"])
        ((_, data),) = await told.next()
        (entry,) = data["joined"]
        # The page is loaded again: nobody sees a difference, not even once the one before would have gone.
        await closing.aclose()
        second, closing = await present(first.ready["stream"], ada["access_token"])
        await asyncio.sleep(6)
        assert told.events == []
        # One more subscription: the new stream is opened while the one before is still there.
        third, closing_third = await present(second.ready["stream"], ada["access_token"], state=2)
        ((_, data),) = await told.next()
        assert data == {
            "channel": "room:a",
            "count": 1,
            "joined": [{"key": entry["key"], "member_id": ada["member_id"], "state": {"at": 2}}],
            "left": [],
        }
        await closing.aclose()
        # The secret of a stream is worth nothing to another member.
        _, closing_fourth = await present(third.ready["stream"], bob["access_token"])
        ((_, data),) = await told.next()
        assert (data["count"], data["left"]) == (2, [])
        await closing_fourth.aclose()
        await closing_third.aclose()
        await told.until(lambda events: [data["count"] for _, data in events][-1:] == [0])


async def test_channels_work_across_nodes(app: App):
    await declare(app, {"pattern": "room:{room}", "listen": True, "send": True, "presence": True})
    asked = [{"name": "room:a", "presence": {"state": {"n": 1}}}]
    async with (
        second_node(app.server) as node,
        app.client() as here,
        client_of(node, **{"X-Public-Key": app.public_key}) as there,
        listening(here, channels=asked) as told,
    ):

        async def has_heard() -> bool:
            # This node only hears of others now and then, and messages are told at most once.
            await sent(there, "room:a", "hello", "from afar")
            await asyncio.sleep(0.5)
            return any(data.get("payload") == "from afar" for _, data in told.events)

        await until(has_heard)
        body = {"stream": told.ready["stream"], "state": {"n": 2}}
        answer = await there.put(presence("room:a"), json=body)
        assert answer.status_code == 200, answer.text
        await told.until(
            lambda events: any(one["state"] == {"n": 2} for _, data in events for one in data.get("joined", []))
        )


async def test_too_many_messages_are_refused_and_the_stream_stays(app: App):
    await declare(app, {"pattern": "room:{room}", "listen": True, "send": True})
    async with app.client() as client, listening(client, channels=[{"name": "room:a"}]) as told:
        await told.next()
        many = {"messages": [{"event": "a"}] * 41, "stream": told.ready["stream"]}
        answer = await client.post(messages("room:a"), json=many)
        assert_error(answer, 429, "RATE_LIMITED")
        assert answer.headers["retry-after"] == "1"
        # A list counts as its messages, and by its bytes.
        heavy = {"messages": [{"event": "a", "payload": "x" * 200_000}] * 6, "stream": told.ready["stream"]}
        assert_error(await client.post(messages("room:a"), json=heavy), 429, "RATE_LIMITED")
        async with app.client(app.secret_key) as side:
            heavy = {"messages": [{"event": "a", "payload": "x" * 200_000}] * 22}
            assert_error(await side.post(messages("room:a"), json=heavy), 429, "RATE_LIMITED")
            heaviest = {"messages": [{"event": "a", "payload": "x" * 250_000}] * 44}
            assert (await side.post(messages("room:a"), json=heaviest)).status_code == 413
        large = {"event": "a", "payload": "x" * (256 * 1024)}
        assert (await client.post(messages("room:a"), json=large)).status_code == 413
        await sent(client, "room:a", "still here")
        ((_, data),) = await told.next()
        assert data["event"] == "still here"


def test_a_volatile_message_is_not_told_to_who_reads_too_slowly():
    class Slow:
        unsent = 100_000
        written = 0

        def write(self, data: bytes) -> bool:
            self.written += 1
            return True

        def close(self) -> None:
            raise AssertionError

    app = AppInfo(UUID(int=1), "x", 1, False, True, True, [], Limits())
    stream, slow = LiveStream(app, PublicClient(app), "", was_asked_to_resume=False), Slow()
    stream.open(slow)
    stream.begin(None)
    stream.flush()
    before = slow.written
    assert stream.push(b"event: message\n", volatile=True) is False
    assert stream.push(b"event: message\n") is True
    slow.unsent = 1000
    assert stream.push(b"event: message\n", volatile=True) is True
    assert slow.written == before + 2


@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("javascript", "export default (p, ctx) => ctx.api.channel('room:a').send('told', p)"),
        ("python", "async def handler(p, ctx):\n    return await ctx.api.channel('room:a').send('told', p)"),
    ],
)
async def test_functions_send(app: App, functions: Functions, runtime: str, source: str):
    await declare(app, {"pattern": "room:{room}", "listen": True})
    await functions.made("teller", source, runtime=runtime, scopes=["channels:send"])
    async with app.client() as client, listening(client, channels=[{"name": "room:a"}]) as told:
        await told.next()
        answer = await client.post("/v1/public/functions/teller/invoke", json={"payload": {"n": 1}})
        assert answer.json()["success"], answer.text
        ((_, data),) = await told.next()
        assert (data["event"], data["payload"], data["from"]) == ("told", {"n": 1}, None)


async def test_what_is_wrong_with_a_pattern_is_named(app: App):
    good = {"pattern": "room:{room}", "listen": True}
    cases: list[tuple[dict[str, Any], str]] = [
        ({**good, "pattern": "a b"}, "channels[1].pattern"),
        ({**good, "pattern": "{a}:{a}"}, "channels[1].pattern"),
        ({**good, "listen": {"name": "x"}}, "channels[1].listen"),
        ({**good, "send": {"$exists": {"table": "none", "where": {}}}}, "channels[1].send"),
        ({**good, "listen": {"$exists": {"table": "seats", "where": {"nme": 1}}}}, "channels[1].listen"),
    ]
    await app.table({"room": "string"}, title="seats")
    for wrong, place in cases:
        answer = await declare(app, good, wrong)
        assert answer.status_code == 400, (wrong, answer.text)
        fields = [detail["field"] for detail in json.loads(answer.content)["details"]]
        assert fields
        assert fields[0].startswith(place), (wrong, fields)
    answer = await declare(app, *[{**good, "pattern": f"a{n}"} for n in range(51)])
    assert_error(answer, 400, "VALIDATION_FAILED")
    async with app.client() as client:
        assert_error(await refused(client), 400, "VALIDATION_FAILED")
