"""An agent step: a model is asked, calls the functions that it was given, and is asked again until it answers.

The conversation is saved after each answer and each result, so that a process that continues asks for at most one
answer twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from pilotis.kit import json
from pilotis.kit.errors import PilotisError
from pilotis.kit.metrics import Counter
from pilotis.workflows.ai_provider import AiProviders, Provider, ProviderFailedError
from pilotis.workflows.types import AgentConfig, AgentTool

MAX_CALLS_A_TURN = 16
MAX_CALLS = 50
MAX_STATE_BYTES = 2**20
MAX_RESULT_BYTES = 32 * 1024
_PARALLEL_CALLS = 4
_BYTES_A_TOKEN = 3

Json = Any


class AgentError(Exception):
    """The step fails: `code` and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Conversation(msgspec.Struct, kw_only=True):
    """The messages of a conversation, and its usage."""

    messages: list[dict[str, Any]]
    turns: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    is_repaired: bool = False

    @property
    def tokens(self) -> int:
        """The tokens used so far."""
        return self.prompt_tokens + self.completion_tokens

    def waiting(self) -> list[dict[str, Any]]:
        """Return the calls of the last answer that have no result yet."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message["role"] == "tool":
                answered.add(message["tool_call_id"])
            elif message["role"] == "assistant":
                return [call for call in message.get("tool_calls") or () if call["id"] not in answered]
            else:
                break
        return []


class Tools(NamedTuple):
    """What an agent needs of the step that runs it.

    `call` runs a function with JSON arguments under a call's id, and returns the JSON of its result or of its error.
    `save` stores the conversation with an event, and raises if the step is not this process's any more.
    """

    call: Callable[[AgentTool, str, bytes], Awaitable[Json]]
    save: Callable[[Conversation, str, dict[str, Any]], Awaitable[None]]


class Agent:
    """Runs agent steps. `tokens` counts what providers say they have used, by kind."""

    def __init__(self, providers: AiProviders, tokens: Counter) -> None:
        self._providers = providers
        self._tokens = tokens

    async def run(
        self, app_id: Any, config: AgentConfig, prompt: str, saved: Conversation | None, tools: Tools
    ) -> dict[str, Any]:
        """Return the step's output; raises `AgentError`."""
        provider = await self._providers.of(app_id)
        model = config.model or (provider.default_model if provider else None)
        if provider is None or model is None:
            raise AgentError("AGENT_PROVIDER_NOT_CONFIGURED", "The app has no AI provider, or no model was named.")
        talk = saved or Conversation(messages=_opening(config, prompt))
        while True:
            await self._calls(config, talk, tools)
            answer = talk.messages[-1]
            if answer["role"] == "assistant" and not answer.get("tool_calls"):
                found = _finished(config, talk, answer)
                if found is not None:
                    return found
            await self._turn(provider, model, config, talk, tools)

    async def _turn(
        self, provider: Provider, model: str, config: AgentConfig, talk: Conversation, tools: Tools
    ) -> None:
        """Ask the model once."""
        if talk.turns >= config.max_turns:
            raise AgentError("AGENT_MAX_TURNS", f"The agent did not finish in {config.max_turns} turns.")
        left = config.max_tokens - talk.tokens
        sent = len(json.encode(talk.messages))
        if left <= 0 or sent > MAX_STATE_BYTES:
            raise AgentError("AGENT_BUDGET_EXCEEDED", f"The agent has used its {config.max_tokens} tokens.")
        if config.max_cost is not None and talk.cost >= config.max_cost:
            raise AgentError("AGENT_BUDGET_EXCEEDED", f"The agent has used its cost of {config.max_cost}.")
        try:
            answer = await self._providers.complete(provider, _request(config, model, talk, left))
            message, reason = _message(answer, provider)
        except ProviderFailedError as error:
            raise AgentError("AGENT_PROVIDER_FAILED", str(error)) from None
        talk.turns += 1
        usage = self._count(provider, model, talk, answer.get("usage"), sent, len(json.encode(message)))
        if reason == "length":
            raise AgentError("AGENT_TRUNCATED", "The model's answer was cut off at its maximum length.")
        if reason == "content_filter" or message.get("refusal"):
            said = provider.masked(str(message.get("refusal") or "its content was filtered"))
            raise AgentError("AGENT_REFUSED", f"The model refused to answer: {said}")
        talk.messages.append(message)
        told = {"turn": talk.turns, "content": message.get("content"), "usage": usage}
        await tools.save(talk, "agent.message", told)

    async def _calls(self, config: AgentConfig, talk: Conversation, tools: Tools) -> None:
        """Run the calls that the last answer requests, at most four concurrently, and add their results."""
        waiting = talk.waiting()
        if not waiting:
            return
        places = asyncio.Semaphore(_PARALLEL_CALLS)
        by_name = {tool.name: tool for tool in config.tools}
        order = asyncio.Lock()

        async def one(number: int, call: dict[str, Any]) -> None:
            async with places:
                function = call["function"]
                tool = by_name.get(function["name"])
                told = {
                    "turn": talk.turns,
                    "call_id": call["id"],
                    "function_id": tool.function_id if tool else None,
                    "name": function["name"],
                    "arguments": function["arguments"],
                }
                async with order:
                    await tools.save(talk, "agent.tool_call", told)
                result = await self._result(tool, call, number, tools)
                text = json.encode(result)
                if len(text) > MAX_RESULT_BYTES:
                    text = text[:MAX_RESULT_BYTES] + "… (cut)".encode()
                async with order:
                    talk.calls += 1
                    content = text.decode(errors="ignore")
                    talk.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
                    is_error = isinstance(result, dict) and "error" in result
                    told = {"turn": talk.turns, "call_id": call["id"], "status": "error" if is_error else "success"}
                    await tools.save(talk, "agent.tool_result", told | {"output": result})

        if talk.calls + len(waiting) > MAX_CALLS:
            raise AgentError("AGENT_BUDGET_EXCEEDED", f"The agent asked for more than {MAX_CALLS} calls of functions.")
        try:
            async with asyncio.TaskGroup() as group:
                for number, call in enumerate(waiting):
                    group.create_task(one(number, call))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _result(self, tool: AgentTool | None, call: dict[str, Any], number: int, tools: Tools) -> Json:
        """Return the result of a call, or what is wrong with it, which the model gets to read."""
        if tool is None:
            return {"error": "There is no tool of this name."}
        if number >= MAX_CALLS_A_TURN:
            return {"error": f"At most {MAX_CALLS_A_TURN} calls are made in a turn."}
        try:
            arguments = json.decode(call["function"]["arguments"].encode() or b"{}")
        except (PilotisError, UnicodeEncodeError):
            return {"error": "The arguments are not valid JSON."}
        if wrong := schema_errors(tool.parameters, arguments):
            return {"error": f"The arguments do not fit the parameters: {wrong}"}
        return await tools.call(tool, call["id"], json.encode(arguments))

    def _count(
        self, provider: Provider, model: str, talk: Conversation, usage: Any, sent: int, received: int
    ) -> dict[str, int]:
        """Add what a turn has used: as the provider says, else estimated from the number of bytes."""
        found: dict[str, int] = {}
        for name, size in (("prompt_tokens", sent), ("completion_tokens", received)):
            said = usage.get(name) if isinstance(usage, dict) else None
            if not isinstance(said, int) or isinstance(said, bool) or not 0 <= said <= 10**9:
                said = -(-size // _BYTES_A_TOKEN)
            found[name] = said
            kind = name.partition("_")[0]
            self._tokens.add(kind, number=said)
        talk.prompt_tokens += found["prompt_tokens"]
        talk.completion_tokens += found["completion_tokens"]
        if price := provider.prices.get(model):
            cost = found["prompt_tokens"] * price.input + found["completion_tokens"] * price.output
            talk.cost = round(talk.cost + cost / 1_000_000, 9)
        return found


def check_schema(schema: Any) -> str | None:
    """Return what is wrong with a JSON Schema, or None. It may not refer to other documents."""
    try:
        _validator(schema)
    except ValueError as error:
        return str(error).splitlines()[0][:300]
    return None


def schema_errors(schema: dict[str, Any] | None, value: Json) -> str | None:
    """Return why a value does not fit a JSON Schema, or None."""
    if schema is None:
        return None if isinstance(value, dict) else "an object is expected"
    try:
        found = [
            f"{'.'.join(map(str, error.instance_path)) or 'the value'}: {error.message[:200]}"
            for error in itertools.islice(_validator(schema).iter_errors(value), 3)
        ]
    except ValueError as error:
        return str(error).splitlines()[0][:300]
    return "; ".join(found) or None


def _validator(schema: Any) -> Any:
    # Imported here, because it takes 4 MB that few servers need.
    import jsonschema_rs

    # The engine of patterns does not backtrack, and nothing is ever fetched.
    return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True)


def _opening(config: AgentConfig, prompt: str) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": config.system_prompt}] if config.system_prompt else []
    return [*system, {"role": "user", "content": prompt}]


def _request(config: AgentConfig, model: str, talk: Conversation, left: int) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": talk.messages, "max_tokens": left}
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters or {"type": "object"},
                },
            }
            for tool in config.tools
        ]
        if config.tool_choice != "auto" and talk.turns == 0:
            body["tool_choice"] = config.tool_choice
    if config.output_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": config.output_schema},
        }
    return body


def _message(answer: dict[str, Any], provider: Provider) -> tuple[dict[str, Any], str | None]:
    """Return the message of an answer as it is sent back, and why it ended; raises `ProviderFailedError`."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        said = provider.masked(json.encode(answer).decode())
        raise ProviderFailedError(f"The provider's answer has no message: {said}")
    content = message.get("content")
    found: dict[str, Any] = {"role": "assistant", "content": content if isinstance(content, str) else None}
    if isinstance(message.get("refusal"), str):
        found["refusal"] = message["refusal"]
    calls, seen = [], set[str]()
    asked = message.get("tool_calls")
    for at, call in enumerate(asked if isinstance(asked, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        call_id = call.get("id")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= 100 or call_id in seen:
            call_id = f"call_{at}"
        seen.add(call_id)
        name, arguments = function.get("name"), function.get("arguments")
        told = {
            "name": name[:64] if isinstance(name, str) else "",
            "arguments": arguments if isinstance(arguments, str) else json.encode(arguments).decode(),
        }
        calls.append({"id": call_id, "type": "function", "function": told})
    if calls:
        found["tool_calls"] = calls
    reason = choice.get("finish_reason")
    return found, reason if isinstance(reason, str) else None


def _finished(config: AgentConfig, talk: Conversation, answer: dict[str, Any]) -> dict[str, Any] | None:
    """Return the output of a conversation that has come to its end; None after asking for a valid answer once."""
    output: Json = answer.get("content") or ""
    if config.output_schema is not None:
        try:
            output = json.decode(output.encode())
            wrong = schema_errors(config.output_schema, output)
        except (PilotisError, UnicodeEncodeError):
            wrong = "it is not valid JSON"
        if wrong is not None:
            if talk.is_repaired:
                raise AgentError("AGENT_OUTPUT_INVALID", f"The model's answer does not fit output_schema: {wrong}")
            talk.is_repaired = True
            said = f"Your answer does not fit the schema: {wrong}. Answer again, with valid JSON alone."
            talk.messages.append({"role": "user", "content": said})
            return None
    usage = {
        "prompt_tokens": talk.prompt_tokens,
        "completion_tokens": talk.completion_tokens,
        "cost": talk.cost or None,
    }
    return {"output": output, "turns": talk.turns, "tool_calls": talk.calls, "usage": usage}
