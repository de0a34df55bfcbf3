"""Workflows, sections 3, 5 and 6: errors, retries, time, cancellation, places, schedules, and a process that dies."""

import asyncio
from itertools import pairwise
from typing import Any
from uuid import UUID

import httpx

from tests.backstage import run_sql
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.support import App, assert_error
from tests.waiting import until
from tests.webhooks.world import create, events
from tests.workflows.support import Workflows, statuses

FAILS = "export default () => { throw new Error('no') }"
SLEEPS = "export default () => new Promise(done => setTimeout(done, 60_000))"
ECHO = "export default (payload) => payload"


def call(function_id: str, **fields: Any) -> dict[str, Any]:
    return {"step_type": "function", "function_id": function_id, **fields}


async def test_a_step_is_tried_again_and_then_the_execution(functions: Functions, workflows: Workflows):
    await functions.made("fails", FAILS)
    steps = [call("fails", id="a", retry_count=2, retry_delay=1), call("fails", id="b")]
    execution = await workflows.ran(steps, max_retries=1)
    assert (execution["status"], execution["attempt"]) == ("failed", 2)
    assert execution["error"] == {"code": "STEP_FAILED", "message": "no", "step_id": "a"}
    assert [(one["attempt"], one["try"], one["status"]) for one in execution["steps"]] == [
        (attempt, number, "failed") for attempt in (1, 2) for number in (1, 2, 3)
    ]


async def test_after_an_error_the_execution_may_go_on(functions: Functions, workflows: Workflows):
    await functions.made("fails", FAILS)
    merge = {"step_type": "merge", "input_mapping": {"was": "$.steps.a.status", "input": "$.previous"}}
    execution = await workflows.ran([call("fails", id="a", on_error="continue"), merge], {"n": 1})
    assert (execution["status"], execution["failed_steps"]) == ("completed", 1)
    assert execution["output"] == {"was": "failed", "input": {"n": 1}}


async def test_items_and_branches_run_at_once(functions: Functions, workflows: Workflows):
    await functions.made("echo", ECHO)
    items = {"step_type": "parallel", "id": "each", "function_id": "echo", "items": "$.input.list"}
    branches = {
        "step_type": "parallel",
        "branches": [
            {"id": "left", "steps": [call("echo", id="l", input_mapping={"side": "left"})]},
            {"id": "right", "steps": [call("echo", id="r", input_mapping={"sum": "{{ $.input.a }}-$"})]},
        ],
    }
    execution = await workflows.ran([items, branches], {"list": ["x", "y", "z"], "a": 1})
    assert execution["status"] == "completed", execution
    assert execution["output"] == {"left": {"side": "left"}, "right": {"sum": "1-$"}}
    each = [one for one in execution["steps"] if one["step_id"] == "each"][-1]
    assert each["output"] == [{"item": item, "index": at} for at, item in enumerate("xyz")]
    assert {one["parent_id"] for one in execution["steps"] if one["step_id"].startswith("each[")} == {"each"}


async def test_a_running_function_is_cancelled(functions: Functions, workflows: Workflows):
    await functions.made("sleeps", SLEEPS, timeout_seconds=120)
    workflow_id = await workflows.made([call("sleeps", id="a")])
    execution_id = await workflows.start(workflow_id)

    async def begun() -> bool:
        return statuses(await workflows.read(workflow_id, execution_id)).get("a") == "running"

    await until(begun)
    path = f"{workflows.base}/{workflow_id}/executions/{execution_id}/cancel"
    answer = await workflows.console.post(path)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled"), answer.text
    assert statuses(answer.json()) == {"a": "cancelled"}
    assert_error(await workflows.console.post(path), 409, "EXECUTION_FINISHED")


async def test_an_execution_that_never_began_is_told_as_cancelled(functions: Functions, workflows: Workflows):
    await functions.made("sleeps", SLEEPS, timeout_seconds=120)
    workflow_id = await workflows.made([call("sleeps", id="a")], max_concurrency=1)
    running = await workflows.start(workflow_id)

    async def begun() -> bool:
        return statuses(await workflows.read(workflow_id, running)).get("a") == "running"

    await until(begun)
    waiting = await workflows.start(workflow_id)
    path = f"{workflows.base}/{workflow_id}/executions"
    async with Receiver.listening() as receiver:
        await create(functions.app, receiver.url(), ["workflow.cancelled"])
        answer = await workflows.console.post(f"{path}/{waiting}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled"), answer.text
        await until(lambda: receiver.received)
        assert (await workflows.console.post(f"{path}/{running}/cancel")).status_code == 200
        await until(lambda: len(receiver.received) == 2)
        heard = events(receiver)
        assert [event["data"]["execution_id"] for event in heard] == [waiting, running]
        assert [(event["data"]["status"], event["data"]["error"]) for event in heard] == [("cancelled", None)] * 2
        assert [event["subject"] for event in heard] == [
            f"workflows/{workflow_id}/executions/{execution_id}" for execution_id in (waiting, running)
        ]


async def test_an_event_says_how_and_why_an_execution_ended(functions: Functions, workflows: Workflows):
    await functions.made("fails", FAILS)
    async with Receiver.listening() as receiver:
        await create(functions.app, receiver.url(), ["workflow.*"])
        execution = await workflows.ran([call("fails", id="a")])
        await until(lambda: len(receiver.received) == 2)
        started, failed = sorted(events(receiver), key=lambda event: event["type"], reverse=True)
    place = {"workflow_id": execution["workflow_id"], "execution_id": execution["id"]}
    expected = {**place, "trigger": "manual", "attempt": 1}
    assert started["data"] == {**expected, "status": "running", "error": None}
    error = {"code": "STEP_FAILED", "message": "no", "step_id": "a"}
    assert failed["data"] == {**expected, "status": "failed", "error": error}
    assert failed["subject"] == f"workflows/{place['workflow_id']}/executions/{place['execution_id']}"


async def test_an_execution_is_cancelled_while_it_waits_for_its_next_try(functions: Functions, workflows: Workflows):
    await functions.made("fails", FAILS)
    workflow_id = await workflows.made([call("fails", id="a", retry_count=1, retry_delay=60_000)])
    execution_id = await workflows.start(workflow_id)

    async def waits() -> bool:
        execution = await workflows.read(workflow_id, execution_id)
        return execution["status"] == "pending" and statuses(execution) == {"a": "failed"}

    await until(waits)
    answer = await workflows.console.post(f"{workflows.base}/{workflow_id}/executions/{execution_id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled"), answer.text
    assert [one["try"] for one in answer.json()["steps"]] == [1]


async def test_an_execution_does_not_wait_for_a_try_after_its_time_limit(functions: Functions, workflows: Workflows):
    await functions.made("fails", FAILS)
    steps = [call("fails", id="a", retry_count=1, retry_delay=60_000)]
    execution = await workflows.ran(steps, timeout_seconds=1)
    assert (execution["status"], execution["error"]["code"]) == ("timeout", "EXECUTION_TIMEOUT")
    assert [one["try"] for one in execution["steps"]] == [1]
    # It is due at its limit, and not when the next try would have been.
    assert execution["duration"] < 30_000


async def test_time_limits_of_a_step_and_of_an_execution(functions: Functions, workflows: Workflows):
    await functions.made("sleeps", SLEEPS, timeout_seconds=120)
    execution = await workflows.ran([call("sleeps", id="a", timeout_seconds=0.2)], name="one")
    assert (execution["status"], execution["error"]["code"]) == ("failed", "STEP_TIMEOUT")
    assert statuses(execution) == {"a": "timeout"}
    await functions.made("short", SLEEPS, timeout_seconds=1)
    execution = await workflows.ran([call("short", id="a")], name="two", timeout_seconds=60)
    assert (execution["status"], execution["error"]["code"]) == ("failed", "STEP_TIMEOUT")


async def test_the_time_limit_of_an_execution_is_no_failure_of_its_step(functions: Functions, workflows: Workflows):
    """Whichever is noticed first: nothing is tried again, neither the step nor the execution."""
    await functions.made("sleeps", SLEEPS, timeout_seconds=120)
    steps = [call("sleeps", id="a", retry_count=3, retry_delay=1)]
    workflow_id = await workflows.made(steps, timeout_seconds=0.3, max_retries=3)
    started = [await workflows.start(workflow_id) for _ in range(10)]
    for execution_id in started:
        execution = await workflows.reached(workflow_id, execution_id)
        assert (execution["status"], execution["error"]["code"]) == ("timeout", "EXECUTION_TIMEOUT")
        assert execution["attempt"] == 1
        assert [one["try"] for one in execution["steps"]] in ([1], [])


async def test_twenty_equal_requests_start_one_execution(workflows: Workflows):
    workflow_id = await workflows.made([])
    headers = {"Idempotency-Key": "nightly"}
    answers = await asyncio.gather(*(workflows.execute(workflow_id, {"n": 1}, **headers) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["execution_id"] for answer in answers}) == 1
    assert_error(await workflows.execute(workflow_id, {"n": 2}, **headers), 409, "IDEMPOTENCY_KEY_REUSED")
    listed = (await workflows.console.get(f"{workflows.base}/{workflow_id}/executions")).json()
    assert listed["total_count"] == 1


async def test_a_repeated_replay_starts_one_execution(app: App, workflows: Workflows):
    workflow_id = await workflows.made([])
    path = f"{workflows.base}/{workflow_id}/executions"
    first = await workflows.start(workflow_id)
    await workflows.reached(workflow_id, first)
    headers = {"Idempotency-Key": "replay-once"}

    async def replay(version: str = "current") -> httpx.Response:
        return await workflows.console.post(f"{path}/{first}/replay", json={"version": version}, headers=headers)

    answers = await asyncio.gather(*(replay() for _ in range(5)))
    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["execution_id"] for answer in answers} == {answers[0].json()["execution_id"]}
    assert_error(await replay("same"), 409, "IDEMPOTENCY_KEY_REUSED")
    # The process dies between the start and its answer.
    lost = "update pilotis.idempotency_keys set status = null, reply = null where app_id = $1"
    await run_sql(app.server, lost, UUID(app.app_id))
    assert (await replay()).json() == answers[0].json()
    assert (await workflows.console.get(path)).json()["total_count"] == 2


async def test_one_place_is_never_taken_twice(functions: Functions, workflows: Workflows):
    await functions.made("naps", "export default () => new Promise(done => setTimeout(done, 20))")
    workflow_id = await workflows.made([call("naps", id="a")], max_concurrency=1)
    started = await asyncio.gather(*(workflows.start(workflow_id) for _ in range(20)))
    ended = [await workflows.reached(workflow_id, one) for one in started]
    assert {one["status"] for one in ended} == {"completed"}
    times = sorted((one["started_at"], one["finished_at"]) for one in ended)
    assert all(before[1] <= after[0] for before, after in pairwise(times)), times


async def test_a_schedule_starts_an_execution_once_a_slot(app: App, workflows: Workflows):
    workflow_id = await workflows.made([], schedule_cron="* * * * *", schedule_timezone="Europe/Vienna")
    await run_sql(
        app.server,
        "update pilotis.schedules set next_run_at = date_trunc('minute', now()) where schedule_id = $1",
        workflow_id,
    )

    async def fired() -> list[Any]:
        return (await workflows.console.get(f"{workflows.base}/{workflow_id}/executions")).json()["data"]

    (first, *_) = await until(fired)
    assert first["trigger"]["type"] == "schedule"
    assert first["trigger"]["scheduled_for"].endswith(":00.000Z")
    slots = [one["trigger"]["scheduled_for"] for one in await fired()]
    assert len(set(slots)) == len(slots)


async def test_a_definition_that_cannot_be_saved(workflows: Workflows):
    cases = [
        ([{"step_type": "merge", "config": {}}], "steps[0].config", "NOT_APPLICABLE"),
        ([call("nothing")], "steps[0].function_id", "UNKNOWN_FUNCTION"),
        ([{"step_type": "function"}], "steps[0].function_id", "REQUIRED"),
        ([{"step_type": "merge", "id": "a"}, {"step_type": "merge", "id": "a"}], "steps[1].id", "DUPLICATE_STEP_ID"),
        ([{"step_type": "merge", "retry_count": 6}], "steps[0].retry_count", "INVALID_VALUE"),
        ([{"step_type": "merge", "trigger": "x"}], "steps[0].trigger", "UNKNOWN_FIELD"),
        (
            [{"step_type": "merge", "id": "a"}, {"step_type": "condition", "condition": {}, "on_true": ["a"]}],
            "steps[1].on_true[0]",
            "JUMP",
        ),
    ]  # fmt: skip
    for steps, field, code in cases:
        answer = await workflows.console.post(workflows.base, json={"name": "x", "steps": steps})
        assert answer.json()["details"][0] | {"message": ""} == {"field": field, "code": code, "message": ""}
    for cron in ("", "* * * * * *", "0 0 31 2 *", "every day", "99 * * * *"):
        answer = await workflows.console.post(workflows.base, json={"name": "x", "schedule_cron": cron})
        (detail,) = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
        assert (detail["field"], detail["code"]) == ("schedule_cron", "INVALID_CRON")
    assert_error(await workflows.console.post(workflows.base, json={"name": ""}), 400, "VALIDATION_FAILED")
    await workflows.made([], name="taken")
    assert_error(await workflows.console.post(workflows.base, json={"name": "taken"}), 409, "WORKFLOW_NAME_TAKEN")


async def test_all_errors_of_a_definition_are_told_at_once(workflows: Workflows):
    """By `/validate` and by saving alike, whether they concern the form, other steps, functions or the schedule."""
    unreadable = {"step_type": "merge", "id": "bad", "retry_count": 6, "on_error": "x"}
    branch = {"id": "left", "steps": [{"step_type": "merge", "order": "first"}, {"step_type": "function"}]}
    steps: list[Any] = [
        {"step_type": "merge", "id": "a", "input_mapping": {"x": ["$.steps.b.output", "{{ $.nowhere }}"]}},
        unreadable,
        {"step_type": "merge", "id": "a", "config": {}, "sources": ["bad", "gone"], "items": "$.input"},
        {"step_type": "parallel", "branches": [branch]},
        {"step_type": "condition", "condition": {"$.steps.c.status": "failed"}, "on_true": ["gone", "a"]},
        call("nothing", input_mapping={"x": "$.steps.bad.output"}),
        "no step",
    ]
    body = {"name": "x", "steps": steps, "schedule_cron": "* * * * * *", "max_retries": 99, "colour": "red"}
    expected = {
        ("steps[0].input_mapping.x[0]", "UNKNOWN_STEP"),
        ("steps[0].input_mapping.x[1]", "INVALID_MAPPING"),
        ("steps[1].retry_count", "INVALID_VALUE"),
        ("steps[2].id", "DUPLICATE_STEP_ID"),
        ("steps[2].config", "NOT_APPLICABLE"),
        ("steps[2].items", "NOT_APPLICABLE"),
        ("steps[2].sources[1]", "UNKNOWN_STEP"),
        ("steps[3].branches[0].steps[0].order", "INVALID_VALUE"),
        ("steps[3].branches[0].steps[1].function_id", "REQUIRED"),
        ("steps[4].condition.$.steps.c.status", "UNKNOWN_STEP"),
        ("steps[4].on_true[0]", "UNKNOWN_STEP"),
        ("steps[4].on_true[1]", "JUMP"),
        ("steps[5].function_id", "UNKNOWN_FUNCTION"),
        ("steps[6]", "INVALID_VALUE"),
        ("schedule_cron", "INVALID_CRON"),
        ("max_retries", "INVALID_VALUE"),
        ("colour", "UNKNOWN_FIELD"),
    }
    validation = (await workflows.console.post(f"{workflows.base}/validate", json=body)).json()
    assert {(one["field"], one["code"]) for one in validation["errors"]} >= expected
    workflow_id = await workflows.made([], name="there")
    for answer in (
        await workflows.console.post(workflows.base, json=body),
        await workflows.console.put(f"{workflows.base}/{workflow_id}", json=body),
    ):
        assert_error(answer, 400, "VALIDATION_FAILED")
        assert answer.json()["details"] == validation["errors"]


async def test_a_step_run_says_which_version_of_its_function_ran(functions: Functions, workflows: Workflows):
    function_id = await functions.made("echo", ECHO)
    await functions.deploy(function_id, {"index.js": ECHO + "\n"})
    for fixed, ran in (({}, 2), ({"function_version": 1}, 1)):
        execution = await workflows.ran([call("echo", id="a", **fixed)], name=f"flow {ran}")
        assert [one["function_version"] for one in execution["steps"]] == [ran]


async def test_a_version_is_for_what_began_under_it(workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge", "input_mapping": {"v": 1}}])
    path = f"{workflows.base}/{workflow_id}"
    steps = [{"step_type": "merge", "input_mapping": {"v": 2}}]
    first = await workflows.start(workflow_id)
    assert (await workflows.console.put(path, json={"name": "flow", "steps": steps})).json()["version"] == 2
    assert (await workflows.reached(workflow_id, first))["output"] == {"v": 1}
    replayed = await workflows.console.post(f"{path}/executions/{first}/replay", json={"version": "current"})
    assert (await workflows.reached(workflow_id, replayed.json()["execution_id"]))["output"] == {"v": 2}
    old = (await workflows.console.get(f"{path}/versions/1")).json()
    assert (old["version"], old["steps"][0]["input_mapping"]) == (1, {"v": 1})
    assert_error(await workflows.console.get(f"{path}/versions/3"), 404, "VERSION_NOT_FOUND")
    assert (await workflows.console.delete(path)).status_code == 200
    assert_error(await workflows.console.get(f"{path}/executions/{first}"), 404, "WORKFLOW_NOT_FOUND")
    await workflows.made([], name="flow")


async def test_a_definition_is_replaced_while_a_hundred_executions_wait(functions: Functions, workflows: Workflows):
    """What began ends under its definition, retries included, but calls a function as it is then."""
    function_id = await functions.made("speaks", FAILS)
    says = {"step_type": "merge", "input_mapping": {"version": 1, "code": "$.previous.code"}}
    speaks = call("speaks", id="speaks", retry_count=1, retry_delay=60_000)
    workflow_id = await workflows.made([speaks, says])
    path = f"{workflows.base}/{workflow_id}"
    started = await asyncio.gather(*(workflows.start(workflow_id) for _ in range(100)))
    waiting = """
        select count(*) = 100 from pilotis.workflow_executions x
        join pilotis.workflow_steps s using (app_id, execution_id)
        where x.workflow_id = $1 and x.status = 'pending' and s.retry_at is not null
    """
    await until(lambda: run_sql(functions.app.server, waiting, workflow_id))
    steps = [{"step_type": "merge", "input_mapping": {"version": 2}}]
    assert (await workflows.console.put(path, json={"name": "flow", "steps": steps})).json()["version"] == 2
    assert (await functions.deploy(function_id, "export default () => ({ code: 2 })")).status_code == 201
    later = await workflows.reached(workflow_id, await workflows.start(workflow_id))
    assert (later["workflow_version"], later["output"]) == (2, {"version": 2})
    due = """
        with waiting as (
            update pilotis.workflow_executions set run_at = clock_timestamp()
            where workflow_id = $1 and status = 'pending' returning app_id, execution_id
        )
        update pilotis.workflow_steps s set retry_at = clock_timestamp() from waiting w
        where s.app_id = w.app_id and s.execution_id = w.execution_id
    """
    await run_sql(functions.app.server, due, workflow_id)
    for one in started:
        ended = await workflows.reached(workflow_id, one)
        assert (ended["workflow_version"], ended["output"]) == (1, {"version": 1, "code": 2}), ended
        assert [step["status"] for step in ended["steps"]] == ["failed", "completed", "completed"]


async def test_an_inactive_workflow_is_not_started(workflows: Workflows):
    workflow_id = await workflows.made([], is_active=False)
    assert_error(await workflows.execute(workflow_id), 409, "WORKFLOW_INACTIVE")


async def test_an_app_with_much_work_does_not_delay_another(functions: Functions, other_app: App):
    theirs, few, many = Functions(other_app), Workflows(functions.app), Workflows(other_app)
    await functions.made("echo", ECHO)
    await theirs.made("sleeps", SLEEPS, timeout_seconds=120)
    quick, busy = await few.made([call("echo", id="a")]), await many.made([call("sleeps", id="a")])
    try:
        # More than this process has slots, so some stay pending until the first of them have slept.
        for _ in range(6):
            await asyncio.gather(*(many.start(busy) for _ in range(20)))
        execution = await few.reached(quick, await few.start(quick))
        assert execution["status"] == "completed", execution
        path = f"{many.base}/{busy}/executions?status=pending"
        assert (await many.console.get(path)).json()["total_count"] > 0
    finally:
        path = f"{many.base}/{busy}"
        assert (await many.console.delete(path)).status_code == 200
        for one in (theirs, few, many):
            await one.console.aclose()
