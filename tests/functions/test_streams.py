"""Functions, section 3: the live log."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pilotis.kit.ids import uuid7
from tests.backstage import run_sql
from tests.functions.support import Functions
from tests.support import App, assert_error
from tests.waiting import PATIENCE, until

SPEAKS = "export default ({ say }) => { console.warn(say); return say; };"


async def follow(
    functions: Functions, function_id: str, ready: asyncio.Event | None = None, **query: str
) -> AsyncGenerator[tuple[str, str | None, Any]]:
    """The events of a function's live log: type, id and data. Sets `ready` when the stream has begun."""
    url = f"{functions.base}/{function_id}/logs/stream"
    async with functions.console.stream("GET", url, params=query, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, await answer.aread()
        if ready:
            ready.set()
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


async def heard(functions: Functions, function_id: str, number: int, **query: str) -> list[tuple[str, str | None, Any]]:
    """The first events of a stream."""
    found = []
    async with aclosing(follow(functions, function_id, **query)) as events:
        while len(found) < number:
            found.append(await anext(events))
    return found


async def test_a_stream_tells_of_calls_with_their_lines(functions: Functions):
    function_id = await functions.made("speaks", SPEAKS)
    await functions.made("other", SPEAKS)
    before = await functions.result("speaks", {"say": "before"})
    # Its record is already written, so the stream does not contain it.
    executions = f"{functions.base}/{function_id}/executions"

    async def is_written() -> bool:
        return (await functions.console.get(executions)).json()["total_count"] == 1

    await until(is_written)
    ready = asyncio.Event()
    stream = follow(functions, function_id, ready)
    first = asyncio.ensure_future(anext(stream))
    await ready.wait()
    await functions.result("other", {"say": "elsewhere"})
    called = await functions.result("speaks", {"say": "hello"})
    event, _, line = await first
    assert (event, line["level"], line["message"], line["index"]) == ("log", "warn", "hello", 0)
    event, place, record = await anext(stream)
    assert (event, record["id"], record["status"]) == ("execution", called["execution_id"], "success")
    assert line["execution_id"] == record["id"] != before["execution_id"]
    await stream.aclose()
    # After a reconnection nothing is missing; what was just seen may come again.
    again = await functions.result("speaks", {"say": "again"})
    assert place
    found = await heard(functions, function_id, 4, last_event_id=place)
    assert [data["id"] for event, _, data in found if event == "execution"] == [record["id"], again["execution_id"]]


async def test_a_stream_that_missed_too_much_starts_over(functions: Functions):
    function_id = await functions.made("busy", SPEAKS)
    await run_sql(
        functions.app.server,
        """
        insert into pilotis.function_executions (app_id, function_id, execution_id, version, status, trigger,
            caller_type, duration, queue_ms, load_ms, cpu_ms, log_lines, log_dropped, started_at, finished_at)
        select $1::text::uuid, $2::text::uuid, gen_random_uuid(), 1, 'success', 'invoke', 'public', 1, 0, 0, 0, 0, 0,
            now(), now() from generate_series(1, 1001)
        """,
        functions.app.app_id,
        function_id,
    )
    assert await heard(functions, function_id, 1, last_event_id="1") == [("reset", None, {})]


async def test_who_may_not_read_the_log_gets_no_stream(functions: Functions, other_app: App):
    function_id = await functions.made("quiet", SPEAKS)
    url = f"{functions.base}/{function_id}/logs/stream"
    assert_error(await functions.console.get(url, params={"last_event_id": "x"}), 400, "VALIDATION_FAILED")
    missing = f"{functions.base}/{uuid7()}/logs/stream"
    assert_error(await functions.console.get(missing), 404, "FUNCTION_NOT_FOUND")
    others = Functions(other_app)
    assert_error(await others.console.get(f"{others.base}/{function_id}/logs/stream"), 404, "FUNCTION_NOT_FOUND")
    await others.console.aclose()
