"""Agent steps, section 9 of the notes on workflows, against a server that speaks the protocol and follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.functions.support import Functions
from tests.receiver import Received, Receiver
from tests.support import App, assert_error
from tests.workflows.support import Workflows

PATH = "/v1/chat/completions"
KEY = "sk-the-key-of-the-app"
STOCK = "export default ({ product }, ctx) => ({ product, stock: 7, caller: ctx.caller.type, key: ctx.idempotencyKey })"
NOBODY = "export default () => { throw new Error('nobody may call this') }"


class Model:
    """Answers with what a script says, one entry a request; the last one stays."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.script: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        receiver.answers[PATH] = self._answer

    @property
    def url(self) -> str:
        return self.receiver.url("/v1")

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        self.asked.append(json.loads(request.body))
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(entry, bytes):
            writer.write(entry)
            return
        status, body = entry if isinstance(entry, tuple) else (200, entry)
        text = json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nRetry-After: 0\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)


def said(content: str | None, *calls: tuple[str, str, Any], reason: str = "stop", tokens: int = 10) -> dict[str, Any]:
    """An answer of a model; calls are (id, name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for call_id, name, given in calls
        ]
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}


@pytest.fixture
async def model(app: App, workflows: Workflows) -> AsyncIterator[Model]:
    async with Receiver.listening() as receiver:
        made = Model(receiver)
        answer = await put(workflows, base_url=made.url, api_key=KEY, default_model="small")
        assert answer.status_code == 200, answer.text
        yield made


async def put(workflows: Workflows, **fields: Any) -> httpx.Response:
    return await workflows.console.put(f"/v1/apps/{workflows.app.app_id}/ai-provider", json=fields)


def agent(**config: Any) -> list[dict[str, Any]]:
    return [{"step_type": "agent", "id": "ask", "config": config}]


async def failed(workflows: Workflows, steps: list[dict[str, Any]], name: str = "flow") -> dict[str, str]:
    """Run a workflow that fails, and return its error."""
    execution = await workflows.ran(steps, {}, name=name)
    assert execution["status"] == "failed", execution
    return execution["error"]


async def test_an_agent_answers_through_a_function(functions: Functions, workflows: Workflows, model: Model):
    await functions.made("stock", STOCK)
    await functions.made("nobody", NOBODY)
    schema = {"type": "object", "properties": {"product": {"type": "string"}}, "required": ["product"]}
    steps = agent(
        system_prompt="Answer in one word.",
        prompt="How many {{ $.input.product }} are there?",
        tools=[{"function_id": "stock", "description": "The stock.", "parameters": schema}],
        temperature=0,
    )
    model.script = [
        said(None, ("call_a", "stock", {"product": "tea"}), ("call_b", "nobody", {}), ("call_c", "stock", "{not json")),
        said(None, ("call_d", "stock", {"product": 3})),
        said("Seven."),
    ]
    execution = await workflows.ran(steps, {"product": "tea {{ $.input }}"})
    assert execution["status"] == "completed", execution
    output = execution["output"]
    assert output["output"] == "Seven."
    assert (output["turns"], output["tool_calls"]) == (3, 4)
    assert output["usage"] == {"prompt_tokens": 30, "completion_tokens": 3, "cost": None}
    first = model.asked[0]
    assert (first["model"], first["temperature"]) == ("small", 0)
    assert first["messages"] == [
        {"role": "system", "content": "Answer in one word."},
        # What comes out of a template is never read as one.
        {"role": "user", "content": "How many tea {{ $.input }} are there?"},
    ]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["stock"]
    assert first["tools"][0]["function"]["parameters"] == schema
    results = {m["tool_call_id"]: json.loads(m["content"]) for m in model.asked[-1]["messages"] if m["role"] == "tool"}
    key = f"{execution['id']}:ask:call_a"
    assert results["call_a"] == {"product": "tea", "stock": 7, "caller": "workflow", "key": key}
    # Neither a function that is not in the list, nor arguments that do not fit, reach a function.
    assert results["call_b"] == {"error": "There is no tool of this name."}
    assert "JSON" in results["call_c"]["error"]
    assert "do not fit" in results["call_d"]["error"]
    calls = (await functions.console.get(f"{functions.base}")).json()["data"]
    assert {one["name"] for one in calls} == {"stock", "nobody"}
    stream = f"{workflows.base}/{execution['workflow_id']}/executions/{execution['id']}/stream?last_event_id=0"
    told = (await workflows.console.get(stream)).text
    assert told.count("event: agent.message\n") == 3
    assert told.count("event: agent.tool_call\n") == told.count("event: agent.tool_result\n") == 4
    assert KEY not in told
    path = f"{workflows.base}/{execution['workflow_id']}/executions/{execution['id']}/timeline"
    spans = (await workflows.console.get(path)).json()["spans"]
    (whole,) = [one for one in spans if one["kind"] == "wait"]
    assert (whole["step_id"], whole["parent_id"]) == ("ask", None)
    parts = [one for one in spans if one is not whole]
    assert {one["parent_id"] for one in parts} == {"ask"}
    assert [one["label"] for one in parts if one["kind"] == "agent_turn"] == ["turn 1", "turn 2", "turn 3"]
    tools = sorted((one["label"], one["status"]) for one in parts if one["kind"] == "tool")
    assert tools == [("nobody", "failed"), ("stock", "completed"), ("stock", "failed"), ("stock", "failed")]
    assert all(whole["started_at"] <= one["started_at"] <= one["finished_at"] <= whole["finished_at"] for one in parts)


async def test_an_answer_that_does_not_fit_its_schema_is_repaired_once(workflows: Workflows, model: Model):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    model.script = [said("seven"), said('{"n": 7}')]
    execution = await workflows.ran(agent(output_schema=schema), {"q": 1})
    assert execution["output"]["output"] == {"n": 7}
    assert model.asked[0]["response_format"]["json_schema"]["schema"] == schema
    assert model.asked[0]["messages"] == [{"role": "user", "content": '{"q":1}'}]
    assert "does not fit the schema" in model.asked[1]["messages"][-1]["content"]
    model.script = [said('{"n": "7"}')]
    assert (await failed(workflows, agent(output_schema=schema), "invalid"))["code"] == "AGENT_OUTPUT_INVALID"
    assert len(model.asked) == 4


async def test_turns_calls_and_tokens_are_bounded(functions: Functions, workflows: Workflows, model: Model):
    await functions.made("stock", STOCK)
    tools = [{"function_id": "stock"}]
    model.script = [said(None, ("again", "stock", {"product": "x"}))]
    assert (await failed(workflows, agent(tools=tools, max_turns=3)))["code"] == "AGENT_MAX_TURNS"
    assert len(model.asked) == 3
    model.asked.clear()
    model.script = [said(None, ("again", "stock", {}), tokens=40)]
    error = await failed(workflows, agent(tools=tools, max_tokens=100), "tokens")
    assert error["code"] == "AGENT_BUDGET_EXCEEDED"
    assert [one["max_tokens"] for one in model.asked] == [100, 59, 18]
    many = [(f"c{at}", "none", {}) for at in range(30)]
    model.script = [said(None, *many)]
    assert (await failed(workflows, agent(tools=tools), "calls"))["code"] == "AGENT_BUDGET_EXCEEDED"
    await put(workflows, base_url=model.url, default_model="small", prices={"small": {"input": 1e5, "output": 0}})
    model.script = [said(None, ("again", "stock", {}))]
    model.asked.clear()
    assert (await failed(workflows, agent(tools=tools, max_cost=1.5), "cost"))["code"] == "AGENT_BUDGET_EXCEEDED"
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (said("cut", reason="length"), "AGENT_TRUNCATED"),
        (said(None, reason="content_filter"), "AGENT_REFUSED"),
        ({"choices": []}, "AGENT_PROVIDER_FAILED"),
        ([], "AGENT_PROVIDER_FAILED"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope", "AGENT_PROVIDER_FAILED"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "AGENT_PROVIDER_FAILED"),
        ((401, {"error": f"the key {KEY} is wrong"}), "AGENT_PROVIDER_FAILED"),
    ],
)
async def test_what_a_provider_may_do_wrong(workflows: Workflows, model: Model, answer: Any, code: str):
    model.script = [answer]
    error = await failed(workflows, agent())
    assert error["code"] == code
    assert error["step_id"] == "ask"
    assert KEY not in error["message"]
    assert len(error["message"]) < 600
    assert len(model.asked) == 1


async def test_a_busy_provider_is_asked_again(workflows: Workflows, model: Model):
    model.script = [(429, {}), (503, {}), (500, {}), said("done")]
    execution = await workflows.ran(agent(), {})
    assert execution["output"]["output"] == "done"
    assert len(model.asked) == 4


async def test_an_endless_answer_is_cut_off(workflows: Workflows, model: Model):
    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    model.receiver.answers[PATH] = endless
    error = await failed(workflows, agent())
    assert error["code"] == "AGENT_PROVIDER_FAILED"
    assert "bytes" in error["message"]


async def test_a_try_after_a_failure_goes_on_with_the_conversation(
    functions: Functions, workflows: Workflows, model: Model
):
    await functions.made("stock", STOCK)
    model.script = [said(None, ("call_a", "stock", {"product": "tea"})), (400, {"error": "odd"}), said("Seven.")]
    steps = agent(tools=[{"function_id": "stock"}])
    steps[0] |= {"retry_count": 1, "retry_delay": 10}
    execution = await workflows.ran(steps, {})
    assert execution["status"] == "completed", execution
    # The answer before the failure was paid once.
    assert [len(asked["messages"]) for asked in model.asked] == [1, 3, 3]
    assert execution["output"]["turns"] == 2


async def test_a_cancelled_agent_leaves_the_provider(workflows: Workflows, model: Model):
    begun = asyncio.Event()

    async def slow(_: Received, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await asyncio.sleep(600)

    model.receiver.answers[PATH] = slow
    workflow_id = await workflows.made(agent())
    execution_id = await workflows.start(workflow_id, {})
    await begun.wait()
    path = f"{workflows.base}/{workflow_id}/executions/{execution_id}/cancel"
    assert (await workflows.console.post(path)).status_code == 200
    assert (await workflows.reached(workflow_id, execution_id))["status"] == "cancelled"


async def test_without_a_provider_the_step_fails(workflows: Workflows):
    assert (await failed(workflows, agent(model="small")))["code"] == "AGENT_PROVIDER_NOT_CONFIGURED"


async def test_the_key_is_never_shown_and_never_follows_the_address(workflows: Workflows, model: Model):
    path = f"/v1/apps/{workflows.app.app_id}/ai-provider"
    shown = {"base_url": model.url, "has_api_key": True, "default_model": "small", "header_names": [], "prices": {}}
    assert (await workflows.console.get(path)).json() == shown
    same = await put(workflows, base_url=model.url, headers={"X-Team": "orders-secret"})
    assert same.json() == shown | {"default_model": None, "header_names": ["X-Team"]}
    assert "orders-secret" not in same.text
    # Whoever changes the address must bring a key: otherwise the one that is stored could be sent anywhere.
    other = await put(workflows, base_url=model.receiver.url("/other"))
    assert other.json()["has_api_key"] is False
    for wrong in (
        "ftp://example.com/v1",
        "http://169.254.169.254/v1",
        "https://10.0.0.1/v1",
        "http://user:a@127.0.0.1/",
    ):
        assert_error(await put(workflows, base_url=wrong), 400, "VALIDATION_FAILED")
    assert_error(await put(workflows, base_url=model.url, api_key="a\r\nX: b"), 400, "VALIDATION_FAILED")
    assert (await workflows.console.delete(path)).status_code == 200
    assert (await workflows.console.get(path)).json()["base_url"] is None


async def test_configurations_are_checked(functions: Functions, workflows: Workflows):
    await functions.made("stock", STOCK)
    for config, field in (
        ({"tools": [{"function_id": "none"}]}, "steps[0].config.tools[0].function_id"),
        ({"tools": [{"function_id": "stock"}] * 2}, "steps[0].config.tools[1].name"),
        ({"output_schema": {"type": 3}}, "steps[0].config.output_schema"),
        ({"output_schema": {"$ref": "http://127.0.0.1:1/x"}}, "steps[0].config.output_schema"),
        ({"tools": [{"function_id": "stock", "parameters": {"type": []}}]}, "steps[0].config.tools[0].parameters"),
        ({"prompt": "{{ $.secrets.key }}"}, "steps[0].config.prompt"),
        ({"max_turns": 26}, "steps[0].config.max_turns"),
        ({"max_tokens": 0}, "steps[0].config.max_tokens"),
        ({"endpoint": "x"}, "steps[0].config.endpoint"),
    ):
        answer = await workflows.console.post(workflows.base, json={"name": "flow", "steps": agent(**config)})
        details = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
        assert field in [detail["field"] for detail in details], answer.text
