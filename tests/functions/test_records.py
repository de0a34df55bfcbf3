"""Functions, section 10: which calls are recorded, and that nothing a function says keeps others from it."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from pilotis.db.pool import Database
from pilotis.functions.records import FAILURES_PER_MINUTE, SUCCESSES_PER_MINUTE, Record, Records
from pilotis.functions.runtime.call import Outcome
from pilotis.functions.runtime.types import Ran
from pilotis.kit.errors import UnavailableError
from pilotis.kit.ids import uuid7
from tests.console import user_with
from tests.database_proxy import proxied
from tests.functions.support import Functions
from tests.support import App, assert_error
from tests.waiting import PATIENCE, until

CONCURRENT_CALLS = 8
MORE = 10
BAD = "export default ({ bad }) => { if (bad) throw new Error('broken') }"
FORGES = """
import sys
def handler(payload, ctx):
    sys.modules["__main__"].State.dropped = payload["dropped"]
    return 1
"""
NUL = {
    "javascript": "export default () => { console.log('log\\0'); throw new Error('error\\0') }",
    "python": "def handler(p, c):\n    print('log\\0')\n    raise ValueError('error\\0')",
}


async def _called(functions: Functions, name: str, payload: dict[str, Any], number: int) -> list[str]:
    """Call a function a number of times and return the ids of the executions."""
    ids: list[str] = []
    async with functions.app.client() as client:
        client.timeout = PATIENCE

        async def call_on() -> None:
            while len(ids) < number:
                ids.append("")
                at = len(ids) - 1
                answer = await client.post(f"/v1/public/functions/{name}/invoke", json={"payload": payload})
                assert answer.status_code == 200, answer.text
                ids[at] = answer.json()["execution_id"]

        await asyncio.gather(*(call_on() for _ in range(CONCURRENT_CALLS)))
    return ids


async def _stats(functions: Functions, function_id: str) -> dict[str, int]:
    buckets = (await functions.console.get(f"{functions.base}/{function_id}/stats")).json()["buckets"]
    return {name: sum(one[name] for one in buckets) for name in ("success", "error", "timeout")}


async def test_of_many_calls_in_a_minute_all_are_counted_and_some_recorded(functions: Functions):
    successes, failures = SUCCESSES_PER_MINUTE + MORE, FAILURES_PER_MINUTE + MORE
    for attempt in range(20):
        function_id = await functions.made(f"calls-{attempt}", BAD)
        begun = datetime.now(UTC)
        ids = await _called(functions, f"calls-{attempt}", {}, successes)
        await _called(functions, f"calls-{attempt}", {"bad": True}, failures)
        ended = datetime.now(UTC)
        # The numbers are those of a minute of the clock.
        if (begun.hour, begun.minute) == (ended.hour, ended.minute):
            break
    else:
        pytest.fail("The calls never fitted into a minute.")
    path = f"{functions.base}/{function_id}"
    # What the console calls is always recorded, and here the last record.
    last = (await functions.console.post(f"{path}/invoke", json={})).json()["execution_id"]

    async def is_recorded() -> bool:
        return (await functions.console.get(f"{path}/executions/{last}")).status_code == 200

    assert await until(is_recorded)
    for status, number in (("success", SUCCESSES_PER_MINUTE + 1), ("error", FAILURES_PER_MINUTE)):
        answer = await functions.console.get(f"{path}/executions", params={"status": status})
        assert answer.json()["total_count"] == number
    assert await _stats(functions, function_id) == {"success": successes + 1, "error": failures, "timeout": 0}
    codes = [(await functions.console.get(f"{path}/executions/{one}")).status_code for one in ids]
    assert codes.count(404) == MORE
    unknown = ids[codes.index(404)]
    assert_error(await functions.console.get(f"{path}/executions/{unknown}"), 404, "EXECUTION_NOT_FOUND")


async def test_no_number_that_a_function_forges_keeps_calls_from_being_recorded(functions: Functions, other_app: App):
    function_id = await functions.made("forges", FORGES, "python")
    neighbour = Functions(other_app)
    other_id = await neighbour.made("ones", "export default () => 1;")
    assert (await functions.result("forges", {"dropped": 2**31 - 1}))["success"]
    for dropped in (2**31, 2**63, 2**80):
        assert (await functions.result("forges", {"dropped": dropped}))["error_code"] == "SANDBOX_ENDED"
    await neighbour.value("ones")
    path, other_path = f"{functions.base}/{function_id}/executions", f"{neighbour.base}/{other_id}/executions"

    async def all_recorded() -> bool:
        counts = [(await functions.console.get(path)).json(), (await neighbour.console.get(other_path)).json()]
        return [one["total_count"] for one in counts] == [4, 1]

    assert await until(all_recorded)
    assert (await functions.console.get(path, params={"status": "success"})).json()["data"][0][
        "log_dropped"
    ] == 2**31 - 1
    await neighbour.console.aclose()


@pytest.mark.parametrize("runtime", NUL)
async def test_a_zero_byte_is_recorded_as_a_replacement_character(functions: Functions, runtime: str):
    function_id = await functions.made("zero", NUL[runtime], runtime)
    execution = (await functions.result("zero"))["execution_id"]
    path = f"{functions.base}/{function_id}/executions/{execution}"

    async def recorded() -> dict[str, Any] | None:
        answer = await functions.console.get(path)
        return answer.json() if answer.status_code == 200 else None

    found = await until(recorded, seconds=30)
    assert found["error"] == "error\N{REPLACEMENT CHARACTER}"
    assert found["logs"][0]["message"] == "log\N{REPLACEMENT CHARACTER}"
    assert "error\N{REPLACEMENT CHARACTER}" in found["logs"][-1]["message"]


async def test_a_viewer_reads_how_a_call_ended_and_nothing_that_it_said(functions: Functions):
    source = "export default () => { console.log('card 4111'); throw new Error('card 4111'); };"
    function_id = await functions.made("says", source)
    call = (await functions.result("says"))["execution_id"]
    path = f"{functions.base}/{function_id}"

    async def is_recorded() -> bool:
        return (await functions.console.get(f"{path}/executions/{call}")).status_code == 200

    assert await until(is_recorded)
    viewer = await user_with(functions.app, "viewer")
    async with viewer.client(functions.app) as viewers:
        path = f"/functions/{function_id}"
        found = (await viewers.get(f"{path}/executions/{call}")).json()
        assert (found["logs"], found["error"], found["error_code"]) == (None, None, "FUNCTION_ERROR")
        listed = await viewers.get(f"{path}/executions")
        assert "4111" not in listed.text
        assert_error(await viewers.get(f"{path}/logs"), 403, "ROLE_REQUIRED")


async def test_a_call_from_the_console_is_listed_as_soon_as_it_is_answered(functions: Functions):
    function_id = await functions.made("listed-at-once", "export default () => 1")
    path = f"{functions.base}/{function_id}"

    async def called() -> str:
        answer = await functions.console.post(f"{path}/invoke", json={})
        assert answer.status_code == 200, answer.text
        listed = (await functions.console.get(f"{path}/executions")).json()["data"]
        execution_id: str = answer.json()["execution_id"]
        assert execution_id in {one["id"] for one in listed}
        return execution_id

    calls = [await called() for _ in range(3)]
    calls += await asyncio.gather(*(called() for _ in range(CONCURRENT_CALLS)))
    assert await _stats(functions, function_id) == {"success": len(calls), "error": 0, "timeout": 0}


@pytest.mark.parametrize("statement", ["COMMIT", "insert into pilotis.function_stats"])
async def test_calls_are_counted_once_where_the_answer_to_a_write_is_lost(functions: Functions, statement: str):
    """Whether the transaction was committed or not."""
    name = f"counted-{statement[:6].strip().lower()}"
    function_id = await functions.made(name, "export default () => 1")
    row = Record(
        app_id=UUID(functions.app.app_id),
        function_id=UUID(function_id),
        runtime="javascript",
        execution_id=uuid7(),
        version="1",
        trigger="http",
        caller_type="public_key",
        caller_id=None,
        request_id=None,
        started_at=datetime.now(UTC),
    )
    async with proxied(functions.app.server) as (proxy, arguments):
        database = Database(arguments, size=2, statement_seconds=PATIENCE)
        events: Any = None
        records = Records(database, events, lambda *_: None, lambda *_: None)
        records.add(row, Ran(outcome=Outcome(status="success"), start="warm", queue_ms=0, load_ms=0))
        proxy.cut(statement)
        with pytest.raises(UnavailableError):
            await records.flush()
        assert proxy.cuts == 1
        records.add(row, Ran(outcome=Outcome(status="success"), start="warm", queue_ms=0, load_ms=0))

        async def flushed() -> bool:
            try:
                await records.flush()
            except UnavailableError:
                return False
            return True

        await until(flushed)
        await database.close()
    assert await _stats(functions, function_id) == {"success": 2, "error": 0, "timeout": 0}
