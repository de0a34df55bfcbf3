"""The events of functions."""

from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.waiting import until
from tests.webhooks.world import create, events

FAILING = "export default () => { throw new Error('no total'); };"


async def test_a_webhook_hears_of_deployed_versions(functions: Functions):
    async with Receiver.listening() as receiver:
        await create(functions.app, receiver.url(), ["function.deployed"])
        function_id = await functions.made("told", "export default () => 1;")
        assert (await functions.deploy(function_id, "export default () => 2;", activate=False)).status_code == 201
        for version in (2, 2, 1):
            answer = await functions.console.post(f"{functions.base}/{function_id}/versions/{version}/activate")
            assert answer.status_code == 200, answer.text
        await until(lambda: len(receiver.received) >= 3)
        heard = sorted(events(receiver), key=lambda event: event["id"])
        assert [event["data"]["version"] for event in heard] == [1, 2, 1]
        assert {event["type"] for event in heard} == {"function.deployed"}
        assert {event["data"]["function_id"] for event in heard} == {function_id}
        assert {event["subject"] for event in heard} == {f"functions/{function_id}"}
        assert {event["actor"]["kind"] for event in heard} == {"console_user"}


async def test_failures_of_a_function_are_one_event_a_minute(functions: Functions):
    async with Receiver.listening() as receiver:
        await create(functions.app, receiver.url(), ["function.failed", "row.created"])
        first = await functions.made("first", FAILING)
        second = await functions.made("second", FAILING)
        failed = [(await functions.result("first"))["execution_id"] for _ in range(3)]
        await until(lambda: receiver.received)
        (event,) = events(receiver)
        assert event["type"] == "function.failed"
        assert event["data"].pop("execution_id") in failed
        assert event["data"] == {
            "function_id": first,
            "version": 1,
            "error": "no total",
            "error_code": "FUNCTION_ERROR",
        }
        assert event["actor"] == {"kind": "function", "id": first}
        # More calls fail in each of the following seconds; another function has its own event.
        await functions.result("first")
        await functions.result("second")
        await until(lambda: len(receiver.received) >= 2)
        assert [event["data"]["function_id"] for event in events(receiver)] == [first, second]


async def test_events_about_a_function_do_not_call_it(functions: Functions):
    table = await functions.app.table({"about": "string"}, title="heard")
    source = """
        export default async (event, ctx) => {
          await ctx.api.rows("heard").create({ about: `${event.type} ${event.data.function_id}` });
          if (event.type === "function.failed") throw new Error("and so on");
        };"""
    watcher = await functions.made("watcher", source)
    body = {"type": "event", "events": ["function.*"]}
    assert (await functions.console.post(f"{functions.base}/{watcher}/triggers", json=body)).status_code == 201
    assert (await functions.deploy(watcher, source)).status_code == 201
    other = await functions.made("other", FAILING)
    await functions.result("other")

    async def heard() -> list[str] | None:
        async with functions.app.client() as client:
            rows = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
        about = [row["data"]["about"] for row in rows]
        return about if len(about) > 1 else None

    assert set(await until(heard)) == {f"function.deployed {other}", f"function.failed {other}"}
