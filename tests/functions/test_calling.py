"""Functions, section 4: what a call answers."""

import asyncio
from typing import Any

import pytest

from tests.functions.support import Functions
from tests.support import App, assert_error
from tests.waiting import until

GREET = "export default (p: any) => `Hello, ${p.name}!`"
PYTHON_GREET = "handler = lambda p, ctx: f\"Hello, {p['name']}!\""
SOURCES = [
    ("javascript", {"index.ts": "export default (payload: {name: string}) => `Hello, ${payload.name}!`"}),
    ("javascript", {"index.mjs": "export const handler = async (p) => `Hello, ${p.name}!`"}),
    ("javascript", {"index.js": "export function main(p) { return `Hello, ${p.name}!` }"}),
    ("javascript", {"index.cjs": "module.exports = (p) => `Hello, ${p.name}!`"}),
    ("javascript", {"index.js": "module.exports = (p) => `Hello, ${p.name}!`"}),
    ("javascript", {"index.ts": "export { default } from './lib/greet.ts'", "lib/greet.ts": GREET}),
    ("python", {"main.py": "def handler(payload, ctx):\n    return f\"Hello, {payload['name']}!\""}),
    ("python", {"main.py": "async def main(payload, ctx):\n    return f\"Hello, {payload['name']}!\""}),
    ("python", {"main.py": "from lib.greet import handler", "lib/greet.py": PYTHON_GREET}),
]  # fmt: skip


@pytest.mark.parametrize(("runtime", "source"), SOURCES, ids=range(len(SOURCES)))
async def test_a_function_is_called_by_its_id_and_by_its_name(
    functions: Functions, runtime: str, source: dict[str, str]
):
    function_id = await functions.made("greet", source, runtime)
    for reference in (function_id, "greet"):
        result = await functions.result(reference, {"name": "Ada"})
        assert set(result) == {"success", "execution_id", "result", "duration", "status"}
        assert (result["success"], result["status"], result["result"]) == (True, "success", "Hello, Ada!")
        assert result["duration"] > 0


async def test_no_payload_is_an_empty_object_and_no_value_is_null(functions: Functions, app: App):
    await functions.made(
        "echo", "export default (payload) => payload.nothing ?? (payload.a === undefined ? payload : undefined)"
    )
    assert await functions.value("echo") == {}
    assert await functions.value("echo", {"a": 1}) is None
    async with app.client() as client:
        assert (await client.post("/v1/public/functions/echo/invoke")).json()["result"] == {}
    for payload in (None, 1, "text", [1]):
        async with app.client() as client:
            answer = await client.post("/v1/public/functions/echo/invoke", json={"payload": payload})
        assert_error(answer, 400, "VALIDATION_FAILED")


@pytest.mark.parametrize(
    ("runtime", "source"),
    [("javascript", "export default (p) => p"), ("python", "def handler(p, c): return p")],
    ids=["javascript", "python"],
)
async def test_any_character_is_a_value(functions: Functions, runtime: str, source: str):
    """Payloads are not stored, unlike rows, for which U+0000 is none."""
    function_id = await functions.made("echo", source, runtime)
    payload = {"zero": "a\0b", "\0": ["\0"]}
    assert (await functions.result("echo", payload))["result"] == payload
    answer = await functions.console.post(f"{functions.base}/{function_id}/invoke", json={"payload": payload})
    assert answer.json()["result"] == payload, answer.text


ENDS: list[tuple[str, str, str, str]] = [
    ("javascript", "export default () => { throw new Error('no such order') }", "FUNCTION_ERROR", "no such order"),
    ("javascript", "export default () => fetch('https://example.com')", "FUNCTION_ERROR", "has no egress, and cannot connect to \"example.com:443\"."),  # noqa: E501
    ("javascript", "export default () => import('zod' + '')", "FUNCTION_ERROR", "import it as npm:zod, or list it in package.json"),  # noqa: E501
    ("javascript", "export default () => Promise.reject('plain')", "FUNCTION_ERROR", "plain"),
    ("javascript", "export default () => { throw { get message() { throw 1 } } }", "FUNCTION_ERROR", "cannot be converted"),  # noqa: E501
    ("javascript", "export default () => { throw { toString() { throw 1 } } }", "FUNCTION_ERROR", "cannot be converted"),  # noqa: E501
    ("javascript", "export default () => { throw new Proxy({}, { getPrototypeOf() { throw 1 } }) }", "FUNCTION_ERROR", ""),  # noqa: E501
    ("javascript", "export default () => { throw Object.create(null) }", "FUNCTION_ERROR", "cannot be converted"),
    ("javascript", "export default () => ({ toJSON() { throw { get message() { throw 1 } } } })", "RESULT_NOT_JSON", ""),  # noqa: E501
    ("javascript", "export default () => Deno.exit(0)", "SANDBOX_ENDED", ""),
    ("javascript", "export default () => 10n", "RESULT_NOT_JSON", "BigInt"),
    ("javascript", "export default () => { const a = {}; a.a = a; return a }", "RESULT_NOT_JSON", "circular"),
    ("javascript", "export default () => { let a; for (let n = 0; n < 99; n++) a = [a]; return a }", "RESULT_NOT_JSON", "64"),  # noqa: E501
    ("javascript", "export default () => 'x'.repeat(7e6)", "RESULT_TOO_LARGE", "6 MB"),
    ("python", "def handler(p, c): raise ValueError('no such order')", "FUNCTION_ERROR", "no such order"),
    ("python", "class E(Exception):\n    def __str__(self): raise self\ndef handler(p, c): raise E()", "FUNCTION_ERROR", "E that cannot"),  # noqa: E501
    ("python", "import os\ndef handler(p, c): os._exit(0)", "SANDBOX_ENDED", ""),
    ("python", "def handler(p, c): return float('nan')", "RESULT_NOT_JSON", ""),
    ("python", "def handler(p, c): return object()", "RESULT_NOT_JSON", "object"),
    ("python", "def handler(p, c):\n    a = 1\n    for n in range(99): a = [a]\n    return a", "RESULT_NOT_JSON", "64"),
    ("python", "def handler(p, c): return 'x' * 7_000_000", "RESULT_TOO_LARGE", "6 MB"),
]  # fmt: skip


@pytest.mark.share(0.34)
@pytest.mark.parametrize(("runtime", "source", "code", "text"), ENDS, ids=range(len(ENDS)))
async def test_a_call_that_fails_says_how(functions: Functions, runtime: str, source: str, code: str, text: str):
    await functions.made("bad", source, runtime)
    for _ in range(2):  # whatever it did, the next call runs
        result = await functions.result("bad")
        assert set(result) == {"success", "execution_id", "result", "duration", "status", "error", "error_code"}
        assert (result["success"], result["status"], result["result"]) == (False, "error", None)
        assert result["error_code"] == code, result
        assert text in result["error"]


async def test_a_call_that_takes_too_long_times_out_and_the_next_one_succeeds(functions: Functions):
    await functions.made("slow", "export default async ({ loop }) => { while (loop); return 1 }")
    await functions.made("waits", "export default ({ wait }) => wait ? new Promise(() => {}) : 1")
    for name, payload in (("slow", {"loop": True}), ("waits", {"wait": True})):
        result = await functions.result(name, payload, timeout=0.5)
        assert (result["status"], result["error_code"]) == ("timeout", "FUNCTION_TIMEOUT")
        assert result["success"] is False
        assert await functions.value(name, {}) == 1
    assert_error(await functions.call("slow", {}, timeout=301), 400, "VALIDATION_FAILED")
    assert_error(await functions.call("slow", {}, timeout=0), 400, "VALIDATION_FAILED")


@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("javascript", "export default () => { const a = []; for (;;) a.push(new Array(100000).fill(1.5)) }"),
        ("javascript", "export default () => { const a = []; for (;;) a.push(new Uint8Array(5e7).fill(1)) }"),
        (
            "javascript",
            "export default () => { const m = new WebAssembly.Memory({ initial: 1 }); for (;;) m.grow(1000) }",
        ),
        ("python", "def handler(p, c):\n    a = []\n    while True: a.append(bytearray(10**7))"),
    ],
    ids=["heap", "buffers", "wasm", "bytearray"],
)
async def test_a_bomb_of_memory_ends_alone(functions: Functions, runtime: str, source: str):
    await functions.made("neighbour", "let calls = 0; export default () => ++calls")
    assert await functions.value("neighbour") == 1
    await functions.made("bomb", source, runtime)
    result = await functions.result("bomb", timeout=20)
    # A WebAssembly memory that cannot grow throws its own error.
    assert result["error_code"] in {"MEMORY_EXCEEDED", "FUNCTION_ERROR"}, result
    assert result["status"] == "error"
    assert await functions.value("neighbour") == 2


async def test_a_module_keeps_its_state_between_calls(functions: Functions):
    await functions.made("counter", "let n = 0; export default () => ++n")
    assert [await functions.value("counter") for _ in range(3)] == [1, 2, 3]


async def test_what_cannot_be_called_says_why(functions: Functions, app: App, other_app: App):
    function_id = await functions.create("later")
    assert_error(await functions.call("nothing"), 404, "FUNCTION_NOT_FOUND")
    assert_error(await functions.call("later"), 409, "FUNCTION_NOT_DEPLOYED")
    await functions.deploy(function_id, "export default () => 1")
    foreign = Functions(other_app)
    for reference in (function_id, "later"):
        assert_error(await foreign.call(reference), 404, "FUNCTION_NOT_FOUND")
    path = f"{functions.base}/{function_id}"
    await functions.console.patch(path, json={"is_active": False})
    assert_error(await functions.call("later"), 403, "FUNCTION_INACTIVE")
    console = (await functions.console.post(f"{path}/invoke", json={})).json()
    assert console["result"] == 1


async def test_who_may_call_is_the_functions_own_rule(functions: Functions, app: App):
    member = (await app.member())["access_token"]
    await functions.made("members", "export default (p, ctx) => ctx.caller", invoke_access="AppMember")
    await functions.made("secret", "export default (p, ctx) => ctx.caller", invoke_access="Secret")
    assert_error(await functions.call("members"), 401, "MEMBER_TOKEN_REQUIRED")
    assert_error(await functions.call("secret"), 401, "SECRET_KEY_REQUIRED")
    assert_error(await functions.call("secret", token=member), 401, "SECRET_KEY_REQUIRED")
    assert (await functions.call("members", token=member)).json()["result"]["type"] == "member"
    for name in ("members", "secret"):
        answer = await functions.call(name, token=app.secret_key)
        assert answer.json()["result"]["type"] == "secret_key"


async def test_the_context_has_what_is_promised_and_no_credential(functions: Functions, app: App):
    source = """
        export default (p, { api, asCaller, log, env, ...rest }) =>
            ({ ...rest, keys: [typeof api.fetch, asCaller !== null] })
    """
    function_id = await functions.made("context", source)
    member = await app.member()
    async with app.client(
        member["access_token"], Cookie="a=b", **{"X-Test": "1", "Idempotency-Key": "k" * 20}
    ) as client:
        answer = await client.post("/v1/public/functions/context/invoke", json={})
    context: dict[str, Any] = answer.json()["result"]
    assert context["headers"]["x-test"] == "1"
    assert {"authorization", "cookie", "x-public-key"}.isdisjoint(context["headers"])
    assert context["method"] == "POST"
    assert (context["functionId"], context["functionName"], context["appId"]) == (function_id, "context", app.app_id)
    assert (context["version"], context["attempt"], context["idempotencyKey"]) == (1, 1, "k" * 20)
    assert context["caller"] == {"type": "member", "id": member["member_id"]}
    assert context["trigger"] == {"type": "invoke"}
    assert context["executionId"] == answer.json()["execution_id"]
    assert context["keys"] == ["function", True]


async def test_a_client_that_leaves_ends_its_call(functions: Functions, app: App):
    await functions.made("slow", "export default ({ ms }) => new Promise((done) => setTimeout(() => done(1), ms))")
    async with app.client() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.post("/v1/public/functions/slow/invoke", json={"payload": {"ms": 20000}})
    assert await functions.value("slow", {"ms": 0}) == 1

    async def cancelled() -> bool:
        function_id = (await functions.console.get(f"{functions.base}?search=slow")).json()["data"][0]["id"]
        rows = (await functions.console.get(f"{functions.base}/{function_id}/executions?status=error")).json()["data"]
        return [row["error_code"] for row in rows] == ["CANCELLED"]

    assert await until(cancelled)
