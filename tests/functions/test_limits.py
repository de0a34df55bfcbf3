"""The limits of functions, each reached and exceeded by one."""

import asyncio
from typing import Any

import httpx
import pytest

from pilotis.functions.feature import FunctionsFeature
from tests.console import client_of, second_node, set_limits
from tests.functions.support import Functions
from tests.support import assert_error
from tests.waiting import PATIENCE, until

ONE = "export default () => 1;"


async def test_an_app_has_a_number_of_functions_versions_and_triggers(functions: Functions):
    await set_limits(functions.app, functions=2, function_versions=2, function_triggers=1)
    first = await functions.made("first", ONE)
    await functions.create("second")
    answer = await functions.console.post(functions.base, json={"name": "third", "runtime": "javascript"})
    assert_error(answer, 409, "LIMIT_REACHED")

    for _ in range(2):
        assert (await functions.deploy(first, ONE)).status_code == 201
    path = f"{functions.base}/{first}/versions"
    # The oldest of three versions is known, but neither its source is stored nor can it be activated.
    assert (await functions.console.get(f"{path}/1")).json()["status"] == "expired"
    assert_error(await functions.console.post(f"{path}/1/activate"), 409, "VERSION_NOT_READY")
    assert (await functions.console.post(f"{path}/2/activate")).status_code == 200

    trigger = {"type": "schedule", "cron": "0 4 * * *"}
    path = f"{functions.base}/{first}/triggers"
    assert (await functions.console.post(path, json=trigger)).status_code == 201
    assert_error(await functions.console.post(path, json=trigger), 409, "LIMIT_REACHED")


async def test_the_active_version_is_kept_however_old_it_is(functions: Functions):
    await set_limits(functions.app, function_versions=1)
    function_id = await functions.made("pinned", ONE)
    for _ in range(2):
        assert (await functions.deploy(function_id, ONE, activate=False)).status_code == 201
    assert (await functions.console.get(f"{functions.base}/{function_id}/versions/1")).json()["status"] == "ready"
    assert await functions.value("pinned") == 1


async def test_time_and_memory_have_an_upper_limit(functions: Functions):
    await set_limits(functions.app, function_seconds_max=2, function_memory_mb_max=64, function_memory_mb=64)
    for fields in ({"timeout_seconds": 2.5}, {"memory_mb": 65}):
        answer = await functions.console.post(functions.base, json={"name": "x", "runtime": "javascript", **fields})
        assert_error(answer, 400, "VALIDATION_FAILED")
    function_id = await functions.made("most", ONE, timeout_seconds=2, memory_mb=64)
    path = f"{functions.base}/{function_id}"
    assert_error(await functions.console.patch(path, json={"timeout_seconds": 3}), 400, "VALIDATION_FAILED")
    assert_error(await functions.call("most", {}, timeout=3), 400, "VALIDATION_FAILED")
    # A limit that is lowered later bounds what was permitted before.
    await set_limits(functions.app, function_seconds_max=1)
    assert (await functions.deploy(function_id, "export default () => { for (;;); }")).status_code == 201
    result = await functions.result("most")
    assert (result["status"], result["duration"] < 2000) == ("timeout", True)


async def test_source_has_a_size_and_a_number_of_files(functions: Functions):
    function_id = await functions.create("large")
    many = {f"file{number}.txt": "" for number in range(200)}
    assert_error(await functions.deploy(function_id, {"index.js": ONE, **many}), 413, "SOURCE_TOO_LARGE")
    many.popitem()
    assert (await functions.deploy(function_id, {"index.js": ONE, **many})).status_code == 201
    await set_limits(functions.app, function_source_bytes=1000)
    assert (await functions.deploy(function_id, ONE.ljust(1000))).status_code == 201
    assert_error(await functions.deploy(function_id, ONE.ljust(1001)), 413, "SOURCE_TOO_LARGE")


async def test_a_payload_has_a_size(functions: Functions):
    await functions.made("length", "export default ({ text }) => text.length;")
    most = 6 * 1024 * 1024 - len('{"text":""}')
    assert await functions.value("length", {"text": "x" * most}) == most
    assert_error(await functions.call("length", {"text": "x" * (most + 1)}), 413, "PAYLOAD_TOO_LARGE")


async def test_variables_have_a_number_a_size_and_a_size_in_all(functions: Functions):
    function_id = await functions.create("settings")
    path = f"{functions.base}/{function_id}/env"
    assert (await functions.console.put(f"{path}/LARGE", json={"value": "x" * 32_768})).status_code == 200
    assert_error(await functions.console.put(f"{path}/LARGER", json={"value": "x" * 32_769}), 400, "VALIDATION_FAILED")
    seven = {f"LARGE_{number}": "x" * 32_768 for number in range(7)}
    assert (await functions.console.patch(path, json={"set": seven, "delete": []})).status_code == 200
    assert_error(await functions.console.put(f"{path}/ONE_MORE", json={"value": "x"}), 409, "LIMIT_REACHED")
    rest = {f"SMALL_{number}": "" for number in range(92)}
    assert (await functions.console.patch(path, json={"set": rest, "delete": []})).status_code == 200
    assert_error(await functions.console.put(f"{path}/ONE_MORE", json={"value": ""}), 409, "LIMIT_REACHED")
    assert len((await functions.console.get(path)).json()["variables"]) == 100


async def test_calls_beyond_those_that_run_wait_and_beyond_those_get_429(functions: Functions):
    await set_limits(functions.app, function_at_once=1, function_waiting=1)
    await functions.made("holds", "export default ({ ms }) => new Promise((end) => setTimeout(() => end(ms), ms));")
    assert await functions.value("holds", {"ms": 0}) == 0
    calls = [asyncio.create_task(functions.call("holds", {"ms": 4000})) for _ in range(6)]
    answers = await asyncio.gather(*calls)
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 4
    for answer in refused:
        assert_error(answer, 429, "FUNCTION_BUSY")
        assert answer.headers["retry-after"]
    assert [answer.json()["result"] for answer in answers if answer.status_code == 200] == [4000, 4000]


async def test_a_function_that_calls_another_one_does_not_wait_for_a_place(functions: Functions):
    await set_limits(functions.app, function_at_once=1)
    await functions.made("inner", ONE)
    source = """
        export default async (payload, ctx) => {
          const began = Date.now();
          try { return await ctx.api.functions.invoke("inner", {}); }
          catch (error) { return [error.status, error.code, Date.now() - began < 5000]; }
        };"""
    await functions.made("outer", source, scopes=["functions:invoke"])
    assert await functions.value("outer") == [429, "FUNCTION_BUSY", True]
    await set_limits(functions.app, function_at_once=2)

    async def has_place() -> bool:
        result = (await functions.result("outer"))["result"]
        return isinstance(result, dict) and result["result"] == 1

    assert await until(has_place)


async def test_scopes_access_and_times_are_read_at_each_call_and_the_rest_makes_new_sandboxes(functions: Functions):
    source = """
        let calls = 0;
        export default async ({ ms }, ctx) => {
          if (ms) await new Promise((done) => setTimeout(done, ms));
          return [++calls, ctx.env.WORD ?? null, (await ctx.api.fetch("/v1/public/tables")).status];
        };"""
    function_id = await functions.made("reads", source)
    path = f"{functions.base}/{function_id}"

    async def change(**fields: Any) -> None:
        assert (await functions.console.patch(path, json=fields)).status_code == 200

    assert await functions.value("reads") == [1, None, 403]
    # The same sandbox, with other rights.
    await change(scopes=["tables:read"])
    assert await functions.value("reads") == [2, None, 200]
    await change(invoke_access="Secret")
    assert_error(await functions.call("reads"), 401, "SECRET_KEY_REQUIRED")
    await change(invoke_access="Public", description="of tables")
    assert await functions.value("reads") == [3, None, 200]
    await change(timeout_seconds=20)
    assert await functions.value("reads", {"ms": 1}) == [4, None, 200]
    # New sandboxes.
    assert (await functions.console.put(f"{path}/env/WORD", json={"value": "new"})).status_code == 200
    assert await functions.value("reads") == [1, "new", 200]
    await change(memory_mb=96)
    assert await functions.value("reads") == [1, "new", 200]
    await change(egress={"mode": "allowlist", "hosts": ["api.example.com"]})
    assert [(await functions.value("reads"))[0] for _ in range(2)] == [1, 2]
    await change(egress={"mode": "allowlist", "hosts": ["api.example.org"]})
    assert (await functions.value("reads"))[0] == 1
    # Its end is that of the sandbox.
    await change(timeout_seconds=1)
    result = await functions.result("reads", {"ms": 60_000})
    assert (result["status"], result["error_code"]) == ("timeout", "FUNCTION_TIMEOUT")
    # A new one may take longer to start than that.
    await change(timeout_seconds=20)
    assert (await functions.value("reads"))[0] == 1


async def test_memory_is_that_of_the_settings(functions: Functions):
    source = (
        "export default ({ mb }) => { const a = []; while (mb--) a.push(new Uint8Array(1 << 20).fill(1)); return 1 }"
    )
    function_id = await functions.made("takes", source, memory_mb=256)
    assert await functions.value("takes", {"mb": 200}) == 1
    path = f"{functions.base}/{function_id}"
    assert (await functions.console.patch(path, json={"memory_mb": 32})).status_code == 200
    assert (await functions.result("takes", {"mb": 200}))["error_code"] == "MEMORY_EXCEEDED"


RESULTS = {
    "javascript": "export default ({ text, times, more }) => text.repeat(times) + 'x'.repeat(more)",
    "python": "def handler(p, c): return p['text'] * p['times'] + 'x' * p['more']",
}


@pytest.mark.parametrize("text", ["x", "é", "漢", "\N{GRINNING FACE}"], ids=["1", "2", "3", "4"])
@pytest.mark.parametrize("runtime", RESULTS)
async def test_a_result_has_a_size_in_bytes(functions: Functions, runtime: str, text: str):
    await functions.made("returns", RESULTS[runtime], runtime)
    times, more = divmod(6 * 1024 * 1024 - len('""'), len(text.encode()))
    payload = {"text": text, "times": times, "more": more}
    assert await functions.value("returns", payload) == text * times + "x" * more
    # The second one has as many characters as the limit has bytes.
    for larger in (payload | {"more": more + 1}, payload | {"times": 6 * 1024 * 1024}):
        result = await functions.result("returns", larger)
        assert (result["error_code"], result["error"]) == ("RESULT_TOO_LARGE", "The result is larger than 6 MB.")
    assert await functions.value("returns", {"text": text, "times": 1, "more": 0}) == text


async def test_a_log_has_lines_of_a_length_a_number_and_a_size(functions: Functions):
    source = """
        export default ({ lines, length }) => { while (lines--) console.log("x".repeat(length)) };"""
    function_id = await functions.made("logs", source)

    async def logged(lines: int, length: int) -> list[int]:
        body = {"payload": {"lines": lines, "length": length}}
        found = (await functions.console.post(f"{functions.base}/{function_id}/invoke", json=body)).json()["logs"]
        return [len(line["message"]) for line in found]

    assert await logged(1000, 10) == await logged(1001, 10) == [10] * 1000
    assert await logged(1, 10_000) == await logged(1, 10_001) == [10_000]
    assert await logged(64, 1024) == await logged(65, 1024) == [1024] * 64


async def test_a_version_has_eight_sandboxes_and_further_calls_get_503(functions: Functions):
    app = functions.app
    gate = await app.table({"n": "int"}, title="gate")
    source = """
        export default async ({ wait }, ctx) => {
          while (wait && !(await ctx.api.rows("gate").query({ limit: 1 })).total_count)
            await new Promise((done) => setTimeout(done, 200));
          return ctx.version;
        };"""
    await functions.made("greet", source, timeout_seconds=300)
    await functions.made("other", ONE)
    headers = {"X-Public-Key": app.public_key}
    async with second_node(app.server, functions_sandboxes=32) as node, client_of(node, **headers) as client:
        client.timeout = PATIENCE

        async def call(name: str, **payload: Any) -> httpx.Response:
            return await client.post(f"/v1/public/functions/{name}/invoke", json={"payload": payload})

        def busy() -> int:
            return node.made.get(FunctionsFeature).calls.pool.by_runtime().get(("javascript", "busy"), 0)

        calls = [asyncio.create_task(call("greet", wait=True)) for _ in range(8)]
        assert await until(lambda: busy() == 8)
        answer = await call("greet")
        assert_error(answer, 503, "FUNCTIONS_OVERLOADED")
        assert answer.headers["retry-after"] == "1"
        assert busy() == 8
        assert (await call("other")).json()["result"] == 1
        await app.row(gate, {"n": 1})
        assert [one.json()["result"] for one in await asyncio.gather(*calls)] == [1] * 8
        assert (await call("greet")).json()["result"] == 1


async def test_calls_from_one_address_have_a_rate(functions: Functions):
    await functions.made("one", ONE)
    await set_limits(functions.app, invoke_per_minute=2)

    async def limited() -> httpx.Response | None:
        answer = await functions.call("one")
        return answer if answer.status_code == 429 else None

    first = await functions.call("one")
    assert (first.status_code, first.headers["ratelimit-limit"]) == (200, "2")
    answer = await until(limited)
    assert_error(answer, 429, "RATE_LIMITED")
    assert int(answer.headers["retry-after"]) <= 60
    await set_limits(functions.app, invoke_per_minute=None)
    assert await functions.value("one") == 1


async def test_a_call_without_a_payload_and_with_none(functions: Functions):
    await functions.made("echo", "export default (payload) => payload;")
    async with functions.app.client() as client:
        path = "/v1/public/functions/echo/invoke"
        empty = await client.post(path)
        assert (empty.status_code, empty.json()["result"]) == (200, {})
        assert_error(await client.post(path, json={"payload": None}), 400, "VALIDATION_FAILED")


async def test_a_call_whose_time_ends_while_it_loads_is_a_timeout(functions: Functions):
    """The function is not to blame, as `LOAD_FAILED` would say."""
    await functions.made("slow", "await new Promise((done) => setTimeout(done, 1500)); export default () => 1")
    result = await functions.result("slow", timeout=1)
    assert (result["status"], result["error_code"]) == ("timeout", "FUNCTION_TIMEOUT")
