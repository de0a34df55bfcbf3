"""Trigger URLs, section 7 of the notes on workflows: signatures, repeats, answers and attacks, by real requests."""

import asyncio
import hashlib
import hmac
import json
import time
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.kit.ids import uuid7
from pilotis.workflows import trigger_store
from tests.functions.support import Functions
from tests.services import connected
from tests.support import App, assert_error, plain_client
from tests.workflows.support import FINAL, Workflows

SECRET = "whsec_test"
# Stripe's scheme: HMAC-SHA-256 of `timestamp.body`.
VERIFY = """
import { createHmac, timingSafeEqual } from "node:crypto";
export default (body, ctx) => {
  const header = Object.fromEntries((ctx.headers["stripe-signature"] ?? "").split(",").map((part) => part.split("=")));
  if (Math.abs(Date.now() / 1000 - Number(header.t)) > 300) return { error: "The request is too old.", status: 401 };
  const wanted = createHmac("sha256", ctx.env.SIGNING_SECRET).update(`${header.t}.${ctx.rawBody}`).digest();
  const given = Buffer.from(header.v1 ?? "", "hex");
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) {
    return { error: "The signature does not match.", status: 401 };
  }
  return { ...JSON.parse(body), form: typeof body, method: ctx.method, key: ctx.idempotencyKey };
};
"""
PYTHON_VERIFY = """
import hashlib, hmac, json, time
def handler(body, ctx):
    header = dict(part.partition("=")[::2] for part in ctx.headers.get("stripe-signature", "").split(","))
    if abs(time.time() - float(header.get("t", 0))) > 300:
        return {"error": "The request is too old.", "status": 401}
    text = f"{header['t']}.{ctx.raw_body}"
    wanted = hmac.new(ctx.env["SIGNING_SECRET"].encode(), text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted, header.get("v1", "")):
        return {"error": "The signature does not match.", "status": 401}
    return {**json.loads(body), "form": "string" if type(body) is str else "", "key": ctx.idempotency_key}
"""
VERIFIERS = {"javascript": VERIFY, "python": PYTHON_VERIFY}
DOUBLE = "export default ({ total }) => ({ total: total * 2 })"
ECHO = """
export default (body, ctx) => ({ body, method: ctx.method, query: ctx.query, headers: ctx.headers,
  bytes: ctx.rawBodyBase64, trigger: ctx.trigger.type });
"""


def signed(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers of a sender."""
    moment = int(time.time() if at is None else at)
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={moment},v1={digest}", "Content-Type": "application/json"}


def event(name: str, total: int = 60) -> bytes:
    return json.dumps({"id": name, "total": total}).encode()


async def opened(workflows: Workflows, workflow_id: str, **settings: Any) -> str:
    """Give a workflow a trigger, and return its URL."""
    answer = await workflows.console.post(f"{workflows.base}/{workflow_id}/trigger", json=settings)
    assert answer.status_code == 201, answer.text
    return answer.json()["trigger_url"]


async def verifying(
    functions: Functions, workflows: Workflows, runtime: str = "javascript", **settings: Any
) -> tuple[str, str]:
    """A workflow whose first function verifies a signature, and its URL."""
    await functions.console.put(f"/v1/apps/{functions.app.app_id}/env/SIGNING_SECRET", json={"value": SECRET})
    await functions.made("verify", VERIFIERS[runtime], runtime)
    await functions.made("double", DOUBLE)
    steps = [
        {"step_type": "function", "id": "verify", "function_id": "verify"},
        {"step_type": "function", "id": "double", "function_id": "double"},
    ]
    workflow_id = await workflows.made(steps)
    return workflow_id, await opened(workflows, workflow_id, **settings)


async def sent(url: str, body: bytes = b"", method: str = "POST", **headers: str) -> httpx.Response:
    async with plain_client("") as client:
        return await client.request(method, url, content=body, headers=headers)


async def executions(workflows: Workflows, workflow_id: str) -> list[dict[str, Any]]:
    answer = await workflows.console.get(f"{workflows.base}/{workflow_id}/executions")
    return answer.json()["data"]


@pytest.mark.parametrize("runtime", VERIFIERS)
async def test_a_signed_request_starts_what_a_forged_or_late_one_does_not(
    functions: Functions, workflows: Workflows, runtime: str
):
    workflow_id, url = await verifying(functions, workflows, runtime, dedupe={"path": "$.id"})
    body = event("evt_1")
    answer = await sent(url, body, **signed(body))
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == "pending"
    execution = await workflows.reached(workflow_id, answer.json()["execution_id"])
    assert execution["status"] == "completed", execution
    assert execution["output"] == {"total": 120}
    assert execution["input"] == {"id": "evt_1", "total": 60}
    assert execution["trigger"]["type"] == "webhook"
    assert execution["trigger"]["delivery_id"] == "evt_1"
    assert "stripe-signature" not in execution["trigger"]["headers"]
    first = execution["steps"][0]
    assert (first["step_id"], first["status"], first["try"]) == ("verify", "completed", 1)
    assert first["output"]["form"] == "string"
    assert first["output"]["key"] == f"{execution['id']}:verify"
    assert first["function_execution_id"]
    assert execution["progress"] == {"completed": 2, "total": 2}

    again = await sent(url, body, **signed(body))
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert again.json()["execution_id"] == execution["id"]
    late, forged, other = event("evt_2"), event("evt_3"), event("evt_4")
    for made, headers in (
        (late, signed(late, time.time() - 3600)),
        (forged, signed(forged, secret="whsec_guessed")),
        (other, signed(event("evt_4", total=1))),
        # One byte, which the JSON does not show.
        (other + b" ", signed(other)),
    ):
        refused = assert_error(await sent(url, made, **headers), 401, "TRIGGER_REJECTED")
        assert refused["message"] in {"The request is too old.", "The signature does not match."}
    # What was rejected has not used its id up.
    accepted = await sent(url, forged, **signed(forged))
    assert accepted.status_code == 202, accepted.text
    await workflows.reached(workflow_id, accepted.json()["execution_id"])
    found = await executions(workflows, workflow_id)
    assert sorted(one["status"] for one in found) == ["completed"] * 2 + ["failed"] * 4
    failed = next(one for one in found if one["status"] == "failed")
    assert failed["error"]["code"] == "TRIGGER_REJECTED"
    assert failed["error"]["step_id"] == "verify"


async def test_of_twenty_equal_deliveries_one_runs(functions: Functions, workflows: Workflows):
    workflow_id, url = await verifying(functions, workflows)
    body = event("evt_1")
    headers = signed(body) | {"Webhook-Id": "msg_1"}
    answers = await asyncio.gather(*(sent(url, body, **headers) for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {200, 202, 409}, [answer.text for answer in answers]
    accepted = [answer for answer in answers if answer.status_code == 202]
    assert len(accepted) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert answer.headers["retry-after"] == "5"
            assert_error(answer, 409, "DELIVERY_IN_PROGRESS")
    assert [one["id"] for one in await executions(workflows, workflow_id)] == [accepted[0].json()["execution_id"]]
    # Without anything that names a delivery, each request is one of its own.
    unnamed = [await sent(url, body, **signed(body)) for _ in range(2)]
    assert len({answer.json()["execution_id"] for answer in unnamed}) == 2


async def test_a_challenge_is_answered_with_harmless_headers_alone(functions: Functions, workflows: Workflows):
    source = r"""
      export default (body, ctx) => ({ http_response: { status: 200, body: ctx.query.challenge, headers: {
        "Content-Type": "text/plain", "X-Hook": "yes", "X-Split": "a\r\nSet-Cookie: b=1", "Set-Cookie": "a=1",
        "Location": "https://attacker.example", "X-Request-Id": "forged", "Access-Control-Allow-Origin": "*",
        "x-a\r\nset-cookie": "c=1" } } });
    """
    await functions.made("challenge", source)
    workflow_id = await workflows.made([{"step_type": "function", "function_id": "challenge"}])
    url = await opened(workflows, workflow_id, methods=["GET", "POST"])
    answer = await sent(f"{url}?challenge=1158201444", method="GET")
    assert (answer.status_code, answer.text) == (200, "1158201444")
    assert answer.headers["x-hook"] == "yes"
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.headers["x-request-id"] != "forged"
    assert not {"set-cookie", "location", "x-split"} & answer.headers.keys()


async def test_an_answer_must_be_a_success(functions: Functions, workflows: Workflows):
    await functions.made("answer", "export default (body) => ({ http_response: JSON.parse(body) })")
    workflow_id = await workflows.made([{"step_type": "function", "function_id": "answer"}])
    url = await opened(workflows, workflow_id)
    for asked in (
        {"status": 302, "headers": {"location": "https://attacker.example"}},
        {"status": 500},
        {"status": "x"},
    ):
        answer = await sent(url, json.dumps(asked).encode())
        assert answer.status_code == 202
        assert answer.json()["execution_id"]
    made = await sent(url, json.dumps({"status": 201, "body": {"ok": True}}).encode())
    assert (made.status_code, made.json()) == (201, {"ok": True})


async def test_unknown_inactive_and_rotated_urls_are_one_404(app: App, workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    url = await opened(workflows, workflow_id)
    place = f"{workflows.base}/{workflow_id}/trigger"
    base, _, token = url.rpartition("/")
    assert token.startswith("wt_")
    assert len(token) == 46
    assert_error(await workflows.console.post(place, json={}), 409, "TRIGGER_EXISTS")
    assert (await workflows.console.get(place)).json()["trigger_url"] == url
    assert (await workflows.console.get(f"{workflows.base}/{workflow_id}")).json()["has_trigger"]
    told = []
    for guess in (token.swapcase(), token[:-1], f"wt_{'A' * 43}", "wt_", "x", token.upper(), "%00" * 10):
        told.append(await sent(f"{base}/{guess}", b"{}"))
    assert (await sent(url, b"{}")).status_code == 202

    await workflows.console.patch(place, json={"is_active": False})
    told.append(await sent(url, b"{}"))
    await workflows.console.patch(place, json={"is_active": True})
    rotated = (await workflows.console.post(f"{place}/rotate", json={"grace_seconds": 60})).json()
    assert rotated["previous_until"]
    assert rotated["trigger_url"] != url
    assert (await sent(url, b"{}")).status_code == (await sent(rotated["trigger_url"], b"{}")).status_code == 202
    newest = (await workflows.console.post(f"{place}/rotate", json={"grace_seconds": 0})).json()
    assert newest["previous_until"] is None
    told += [await sent(url, b"{}"), await sent(rotated["trigger_url"], b"{}")]
    assert (await sent(newest["trigger_url"], b"{}")).status_code == 202

    workflow = {"name": "flow", "steps": [{"step_type": "merge"}], "is_active": False}
    await workflows.console.put(f"{workflows.base}/{workflow_id}", json=workflow)
    told.append(await sent(newest["trigger_url"], b"{}"))
    await workflows.console.put(f"{workflows.base}/{workflow_id}", json=workflow | {"is_active": True})
    assert (await sent(newest["trigger_url"], b"{}")).status_code == 202
    await workflows.console.delete(f"{workflows.base}/{workflow_id}")
    told.append(await sent(newest["trigger_url"], b"{}"))
    errors = [assert_error(answer, 404, "TRIGGER_NOT_FOUND") for answer in told]
    assert len({error["message"] for error in errors}) == 1
    assert_error(await workflows.console.get(place), 404, "WORKFLOW_NOT_FOUND")


async def test_a_deleted_trigger_ends_at_once(workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    url = await opened(workflows, workflow_id)
    place = f"{workflows.base}/{workflow_id}/trigger"
    assert (await workflows.console.delete(place)).json() == {"message": "Trigger deleted.", "id": workflow_id}
    assert_error(await sent(url), 404, "TRIGGER_NOT_FOUND")
    assert_error(await workflows.console.delete(place), 404, "TRIGGER_NOT_FOUND")
    assert_error(await workflows.console.patch(place, json={"is_active": True}), 404, "TRIGGER_NOT_FOUND")
    assert_error(await workflows.console.post(f"{place}/rotate"), 404, "TRIGGER_NOT_FOUND")


async def test_methods_keys_and_sizes_are_checked(app: App, workflows: Workflows, other_app: App):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    url = await opened(workflows, workflow_id)
    for method in ("GET", "PUT", "HEAD"):
        answer = await sent(url, method=method)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), method
    assert (await sent(url, **{"X-Public-Key": app.public_key})).status_code == 202
    for key in (other_app.public_key, "pk_none"):
        assert_error(await sent(url, **{"X-Public-Key": key}), 401, "INVALID_PUBLIC_KEY")
    assert_error(await sent(url, b"x" * (2**20 + 1)), 413, "PAYLOAD_TOO_LARGE")
    # As JSON it is twice as long.
    assert_error(await sent(url, b'"' * 2**20), 413, "INPUT_TOO_LARGE")
    assert (await sent(url, b"x" * (2**20 - 100))).status_code == 202


async def test_any_body_becomes_an_input(workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge", "input_mapping": {"got": "$.input"}}])
    url = await opened(workflows, workflow_id)
    cases: list[tuple[bytes, dict[str, Any]]] = [
        (b"", {}),
        (b'{"a": [1, null]}', {"a": [1, None]}),
        (b"[1, 2]", {"raw": "[1, 2]"}),
        (b"a=1&b=2", {"raw": "a=1&b=2"}),
        (b'{"a":', {"raw": '{"a":'}),
        (b"\xff\x00", {"raw": "\ufffd\ufffd", "raw_base64": "/wA="}),
        (b'{"a": "\\u0000"}', {"raw": '{"a": "\\u0000"}'}),
        (b'{"a": 1e999}', {"raw": '{"a": 1e999}'}),
        (b"[" * 5000, {"raw": "[" * 5000}),
        (
            b'{"__proto__": {"x": 1}, "a": "$.input {{ $.input }}"}',
            {"__proto__": {"x": 1}, "a": "$.input {{ $.input }}"},
        ),
    ]
    for body, wanted in cases:
        answer = await sent(f"{url}?a=1&a=2&b=%00", body, Authorization="Basic x", Cookie="a=b")
        assert answer.status_code == 202, (body, answer.text)
        execution = await workflows.reached(workflow_id, answer.json()["execution_id"])
        assert execution["status"] == "completed", execution
        assert execution["input"] == wanted
        assert execution["output"] == {"got": wanted}
        assert execution["trigger"]["query"] == {"a": "2", "b": "\ufffd"}
        assert not {"authorization", "cookie"} & execution["trigger"]["headers"].keys()


async def test_one_request_at_a_time_holds_a_delivery(workflows: Workflows):
    """An equal request that arrives meanwhile does not take it over, unless the first has not been heard of."""
    app_id, workflow_id = UUID(workflows.app.app_id), UUID(await workflows.made([]))
    held = (app_id, workflow_id, b"equal")
    aged = "update pilotis.workflow_deliveries set lease_until = now() - interval '1 second' where delivery_hash = $1"
    async with connected(workflows.app.server) as connection:
        first, second, third = uuid7(), uuid7(), uuid7()
        assert await trigger_store.reserve(connection, *held, first)
        assert not await trigger_store.reserve(connection, *held, second)
        await connection.execute(aged, b"equal")
        assert await trigger_store.reserve(connection, *held, second)
        assert not await trigger_store.accept(connection, *held, first)
        assert await trigger_store.accept(connection, *held, second)
        await connection.execute(aged, b"equal")
        assert not await trigger_store.reserve(connection, *held, third)


async def test_no_function_gets_the_cookies_of_the_host(functions: Functions, workflows: Workflows):
    """They sign a browser in at the pages of other apps: neither the first function nor a stored request has them."""
    await functions.made("headers", "export default (payload, ctx) => ({ names: Object.keys(ctx.headers) })")
    workflow_id = await workflows.made([{"step_type": "function", "id": "see", "function_id": "headers"}])
    url = await opened(workflows, workflow_id)
    secrets = {"Cookie": "__Host-session=a", "Proxy-Authorization": "Basic x"}
    answer = await sent(url, b"{}", **secrets)
    execution = await workflows.reached(workflow_id, answer.json()["execution_id"])
    assert execution["status"] == "completed", execution
    stored = execution["trigger"]["headers"].keys()
    for names in (set(execution["output"]["names"]), set(stored)):
        assert "content-length" in names or "host" in names
        assert not {"cookie", "proxy-authorization"} & names


async def test_a_later_first_function_gets_the_request_too(functions: Functions, workflows: Workflows):
    await functions.console.put(f"/v1/apps/{functions.app.app_id}/env/SIGNING_SECRET", json={"value": SECRET})
    await functions.made("verify", VERIFY)
    await functions.made("echo", ECHO)
    steps = [
        {"step_type": "condition", "condition": {"$.input.total": {"$gte": 10}}, "on_true": ["verify"]},
        {"step_type": "function", "id": "skipped", "function_id": "echo", "condition": {"$.input.total": -1}},
        {"step_type": "function", "id": "verify", "function_id": "verify"},
        {"step_type": "function", "id": "echo", "function_id": "echo"},
    ]
    workflow_id = await workflows.made(steps)
    url = await opened(workflows, workflow_id)
    body = event("evt_1")
    good = await sent(url, body, **signed(body))
    forged = await sent(url, body, **signed(body, secret="guessed"))
    assert (good.status_code, forged.status_code) == (202, 202)
    execution = await workflows.reached(workflow_id, good.json()["execution_id"])
    assert execution["status"] == "completed", execution
    # Only one function gets the request itself.
    assert execution["output"]["body"]["form"] == "string"
    assert execution["output"]["trigger"] == "workflow"
    refused = await workflows.reached(workflow_id, forged.json()["execution_id"])
    assert (refused["status"], refused["error"]["code"]) == ("failed", "TRIGGER_REJECTED")


async def test_a_function_that_fails_is_tried_again_by_the_sender(functions: Functions, workflows: Workflows):
    await functions.made("fails", "export default () => { throw new Error('secret of ours') }")
    step = {"step_type": "function", "function_id": "fails", "retry_count": 3, "on_error": "continue"}
    workflow_id = await workflows.made([step])
    url = await opened(workflows, workflow_id)
    for _ in range(2):
        answer = await sent(url, b"{}", **{"Webhook-Id": "msg_1"})
        assert "secret of ours" not in answer.text
        assert_error(answer, 503, "FUNCTION_FAILED")
        assert answer.headers["retry-after"]
    await functions.made("slow", "export default () => new Promise((end) => setTimeout(end, 60000))")
    slow = await workflows.made([{"step_type": "function", "function_id": "slow", "timeout_seconds": 0.5}], name="slow")
    assert_error(await sent(await opened(workflows, slow), b"{}"), 503, "FUNCTION_TIMEOUT")
    assert await executions(workflows, workflow_id) == await executions(workflows, slow) == []


async def test_requests_for_one_url_are_limited(app: App, workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    url = await opened(workflows, workflow_id)
    changed = await workflows.console.patch(f"/v1/apps/{app.app_id}/limits", json={"trigger_per_minute": 3})
    assert changed.status_code == 200, changed.text
    answers = await asyncio.gather(*(sent(url, b"{}") for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 5
    limited = next(answer for answer in answers if answer.status_code == 429)
    assert_error(limited, 429, "RATE_LIMITED")
    assert limited.headers["retry-after"]


async def test_settings_are_checked(workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    place = f"{workflows.base}/{workflow_id}/trigger"
    for wrong in (
        {"dedupe": {"path": "id"}},
        {"dedupe": {"path": "$.a", "header": "x"}},
        {"dedupe": {"path": "$.a b"}},
        {"dedupe": {"header": "a: b"}},
        {"methods": []},
        {"methods": ["DELETE"]},
        {"is_active": None},
        {"token": "x"},
    ):
        assert_error(await workflows.console.post(place, json=wrong), 400, "VALIDATION_FAILED")
    assert_error(await workflows.console.get(place), 404, "TRIGGER_NOT_FOUND")
    made = await workflows.console.post(place, json={"dedupe": {"header": "X-GitHub-Delivery"}})
    assert made.json()["dedupe"] == {"header": "X-GitHub-Delivery"}
    for seconds in (-1, 604_801, 1.5):
        assert_error(
            await workflows.console.post(f"{place}/rotate", json={"grace_seconds": seconds}), 400, "VALIDATION_FAILED"
        )
    assert (await workflows.console.patch(place, json={"dedupe": None})).json()["dedupe"] is None


async def test_the_token_is_stored_encrypted_and_said_nowhere(app: App, workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    url = await opened(workflows, workflow_id)
    token = url.rpartition("/")[2]
    answer = await sent(url, b"{}")
    execution = await workflows.reached(workflow_id, answer.json()["execution_id"], *FINAL)
    audit = (await workflows.console.get(f"/v1/apps/{app.app_id}/audit-log")).text
    assert "workflow.trigger_create" in audit
    assert token not in audit + json.dumps(execution) + answer.text + str(answer.headers)
    assert token not in (await sent(url, method="GET")).text
