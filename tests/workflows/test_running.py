"""Workflows, section 6: what each kind of step does."""

import pytest

from tests.functions.support import Functions
from tests.security.test_objects import KEYS
from tests.workflows.support import Workflows, statuses

DOUBLE = "export default (payload) => ({ n: payload.n * 2 })"


async def test_a_function_a_condition_and_a_merge(functions: Functions, workflows: Workflows):
    await functions.made("double", DOUBLE)
    at_least_ten = {"$.previous.n": {"$gte": 10}}
    mapping = {"large": "$.steps.large.output.n", "first": "$.steps.double.output.n"}
    steps = [
        {"step_type": "function", "id": "double", "function_id": "double"},
        {"step_type": "condition", "condition": at_least_ten, "on_true": ["large"], "on_false": ["small"]},
        {"step_type": "function", "id": "large", "function_id": "double"},
        {"step_type": "function", "id": "small", "function_id": "double"},
        {"step_type": "merge", "input_mapping": mapping},
    ]
    execution = await workflows.ran(steps, {"n": 5})
    assert execution["status"] == "completed", execution
    assert execution["output"] == {"large": 20, "first": 10}
    assert statuses(execution) == {
        "double": "completed", "step_2": "completed", "large": "completed", "small": "skipped", "step_5": "completed"
    }  # fmt: skip
    assert execution["progress"] == {"completed": 5, "total": 5}
    assert execution["trigger"]["type"] == "manual"


async def test_a_result_that_cannot_be_stored_fails_its_step(functions: Functions, workflows: Workflows):
    await functions.made("zero", "export default () => ({ text: 'a\\u0000b' })")
    execution = await workflows.ran([{"step_type": "function", "function_id": "zero"}])
    assert (execution["status"], execution["error"]["code"]) == ("failed", "STEP_FAILED")
    assert "U+0000" in execution["error"]["message"]


@pytest.mark.advisory("GHSA-93vw-8fm5-p2jf", "GHSA-xprv-wvh7-qqqx")
@pytest.mark.parametrize(
    ("runtime", "echo"),
    [
        ("javascript", "export default (payload) => ({ ...payload, text: `${{}.isAdmin}` })"),
        ("python", "handler = lambda payload, ctx: {**payload, 'text': 'undefined'}"),
    ],
    ids=["javascript", "python"],
)
async def test_hostile_keys_in_an_answer_of_a_function_are_data_for_the_next_step(
    functions: Functions, workflows: Workflows, runtime: str, echo: str
):
    await functions.made("echo", echo, runtime)
    hostile = {key: {key: {"isAdmin": True}} for key in KEYS}
    steps = [
        {"step_type": "function", "id": "first", "function_id": "echo"},
        {
            "step_type": "function",
            "id": "second",
            "function_id": "echo",
            "input_mapping": {"a": "$.steps.first.output.a"},
        },
        {"step_type": "merge", "input_mapping": {"found": "$.previous"}},
    ]
    execution = await workflows.ran(steps, {"a": hostile})
    assert execution["status"] == "completed", execution
    assert execution["output"] == {"found": {"a": hostile, "text": "undefined"}}
    assert await functions.value("echo", {"a": 1}) == {"a": 1, "text": "undefined"}


async def test_parallel_steps_run_at_once_and_a_merge_waits_for_them(functions: Functions, workflows: Workflows):
    await functions.made("double", DOUBLE)
    # Each of the two waits until the other one has begun.
    meets = """
    export default async ({ own, other }, ctx) => {
      await ctx.api.rows("begun").create({ name: own });
      for (;;) {
        const found = (await ctx.api.rows("begun").query({ where: { name: other } })).data;
        if (found.length) return { own };
        await new Promise((done) => setTimeout(done, 20));
      }
    }
    """
    await functions.app.table({"name": "string"}, title="begun")
    await functions.made("meets", meets, timeout_seconds=60)
    pair = [
        {"step_type": "function", "id": own, "function_id": "meets", "input_mapping": {"own": own, "other": other}}
        for own, other in (("left", "right"), ("right", "left"))
    ]
    merge = {"step_type": "merge", "id": "both", "input_mapping": {"who": "$.steps.left.output.own"}}
    after = {"step_type": "function", "id": "after", "function_id": "double", "input_mapping": {"n": 4}}
    execution = await workflows.ran([*pair, merge, after], execution_type="parallel")
    assert execution["status"] == "completed", execution
    assert execution["output"] == {
        "left": {"own": "left"}, "right": {"own": "right"}, "both": {"who": "left"}, "after": {"n": 8}
    }  # fmt: skip
    times = {one["step_id"]: (one["started_at"], one["finished_at"]) for one in execution["steps"]}
    assert times["both"][0] >= max(times["left"][1], times["right"][1])
    assert execution["progress"] == {"completed": 4, "total": 4}


@pytest.mark.parametrize(("score", "ran"), [(0.9, ["check", "pass", "publish"]), (0.2, ["check", "pass"])])
async def test_a_conditional_workflow_ends_at_a_false_condition(workflows: Workflows, score: float, ran: list[str]):
    steps = [
        {"step_type": "merge", "id": "check", "input_mapping": {"score": "$.input.score"}},
        {"step_type": "condition", "id": "pass", "condition": {"$.previous.score": {"$gte": 0.8}}},
        {"step_type": "merge", "id": "publish", "input_mapping": {"published": True}},
    ]
    execution = await workflows.ran(steps, {"score": score}, execution_type="conditional")
    assert (execution["status"], execution["failed_steps"]) == ("completed", 0)
    assert [one for one, status in statuses(execution).items() if status == "completed"] == ran
    assert statuses(execution).get("publish") == ("completed" if "publish" in ran else "skipped")
    assert execution["progress"]["completed"] == 3
    # In a sequential one the same condition, which names no steps, has no effect.
    execution = await workflows.ran(steps, {"score": score}, name="in order")
    assert execution["output"] == {"published": True}


async def test_a_group_starts_before_its_steps_and_ends_after_them(functions: Functions, workflows: Workflows):
    await functions.made("double", DOUBLE)
    call = {"step_type": "function", "function_id": "double", "input_mapping": {"n": 1}}
    inner = {"step_type": "parallel", "id": "inner", "branches": [{"id": "only", "steps": [call | {"id": "deep"}]}]}
    outer = {
        "step_type": "parallel",
        "id": "outer",
        "branches": [{"id": "one", "steps": [inner]}, {"id": "two", "steps": [call | {"id": "flat"}]}],
    }
    execution = await workflows.ran([outer])
    assert execution["output"] == {"one": {"only": {"n": 2}}, "two": {"n": 2}}
    found = {one["step_id"]: one for one in execution["steps"]}
    assert {name: one["parent_id"] for name, one in found.items()} == {
        "outer": None, "inner": "outer", "deep": "inner", "flat": "outer"
    }  # fmt: skip
    for group, part in (("outer", "inner"), ("outer", "flat"), ("inner", "deep")):
        assert found[group]["started_at"] <= found[part]["started_at"]
        assert found[part]["finished_at"] <= found[group]["finished_at"]
        assert found[group]["started_at"] < found[group]["finished_at"]
        assert found[group]["duration"] > 0


async def test_merges_by_their_mode(workflows: Workflows):
    given = [
        {"step_type": "merge", "id": "a", "input_mapping": {"x": {"one": 1, "gone": 1}}},
        {"step_type": "merge", "id": "b", "input_mapping": {"x": {"two": 2, "gone": None}}},
    ]
    wanted = {
        "object": {"a": {"x": {"one": 1, "gone": 1}}, "b": {"x": {"two": 2, "gone": None}}},
        "array": [{"x": {"one": 1, "gone": 1}}, {"x": {"two": 2, "gone": None}}],
        "deep": {"x": {"one": 1, "two": 2}},
    }
    for mode, output in wanted.items():
        merge = {"step_type": "merge", "id": "all", "sources": ["a", "b"], "mode": mode}
        assert (await workflows.ran([*given, merge], name=mode))["output"] == output


async def test_a_time_line_shows_tries_waits_and_groups(functions: Functions, workflows: Workflows):
    await functions.made("fails", "export default () => { throw new Error('no') }")
    steps = [
        {"step_type": "condition", "id": "is", "condition": {}},
        {"step_type": "function", "id": "a", "function_id": "fails", "retry_count": 1, "retry_delay": 1},
    ]
    execution = await workflows.ran(steps, name="lined")
    path = f"{workflows.base}/{execution['workflow_id']}/executions/{execution['id']}/timeline"
    spans = (await workflows.console.get(path)).json()["spans"]
    assert [(one["step_id"], one["kind"], one["try"], one["status"]) for one in spans] == [
        ("is", "condition", 1, "completed"),
        ("a", "function", 1, "failed"),
        ("a", "wait", 1, "completed"),
        ("a", "function", 2, "failed"),
    ]
    for one in spans:
        assert one["queued_at"] <= one["started_at"] <= one["finished_at"], one
