"""Workflows, section 8: streams of one execution, and of all executions of a workflow."""

import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from tests.backstage import run_sql
from tests.functions.support import Functions
from tests.support import App, assert_error
from tests.workflows.support import Workflows

MERGE = [{"step_type": "merge", "id": "sum", "input_mapping": {"n": "$.input.n"}}]


async def events(workflows: Workflows, path: str, **query: Any) -> AsyncGenerator[tuple[str, str | None, Any]]:
    """The events of a stream: type, id and data."""
    async with workflows.console.stream("GET", f"{workflows.base}/{path}", params=query) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


async def test_a_stream_of_an_execution_goes_on_after_any_event(workflows: Workflows):
    workflow_id = await workflows.made(MERGE)
    execution_id = await workflows.start(workflow_id, {"n": 7})
    await workflows.reached(workflow_id, execution_id)
    path = f"{workflow_id}/executions/{execution_id}/stream"
    whole = [event async for event in events(workflows, path, last_event_id=0)]
    assert [name for name, _, _ in whole] == [
        "execution.created", "execution.started", "step.completed", "execution.completed", "end"
    ]  # fmt: skip
    assert [id_ for _, id_, _ in whole] == ["1", "2", "3", "4", None]
    assert whole[2][2]["step"]["output"] == {"n": 7}
    assert whole[3][2]["output"] == {"n": 7}
    assert whole[-1][2] == {"status": "completed"}
    for seen in range(1, 4):
        assert [event async for event in events(workflows, path, last_event_id=seen)] == whole[seen:]
    fresh = [event async for event in events(workflows, path)]
    assert [name for name, _, _ in fresh] == ["snapshot", "end"]
    assert (fresh[0][1], fresh[0][2]["status"], fresh[0][2]["steps"][0]["step_id"]) == ("4", "completed", "sum")
    beyond = [event async for event in events(workflows, path, last_event_id=99)]
    assert [name for name, _, _ in beyond] == ["reset", "snapshot", "end"]


@pytest.mark.parametrize("wrong", ["-1", "x", str(2**63), "1.5", ""])
async def test_an_id_that_is_none(workflows: Workflows, wrong: str):
    workflow_id = await workflows.made(MERGE)
    execution_id = await workflows.start(workflow_id, {"n": 7})
    for path in (f"{execution_id}/stream", "stream"):
        answer = await workflows.console.get(
            f"{workflows.base}/{workflow_id}/executions/{path}", headers={"Last-Event-ID": wrong}
        )
        assert_error(answer, 400, "VALIDATION_FAILED")


async def test_a_stream_of_a_workflow_tells_of_executions_without_their_data(workflows: Workflows):
    workflow_id = await workflows.made(MERGE)
    stream = events(workflows, f"{workflow_id}/executions/stream")
    name, _, data = await anext(stream)
    assert (name, data) == ("snapshot", {"executions": []})
    execution_id = await workflows.start(workflow_id, {"n": 7})
    found = [await anext(stream) for _ in range(4)]
    assert [name for name, _, _ in found] == [
        "execution.created", "execution.started", "step.completed", "execution.completed"
    ]  # fmt: skip
    assert {data["execution_id"] for _, _, data in found} == {execution_id}
    assert found[2][2]["step"]["output"] is None
    assert found[3][2]["output"] is None
    await stream.aclose()
    again = events(workflows, f"{workflow_id}/executions/stream", last_event_id=found[1][1])
    repeated = [await anext(again) for _ in range(4)]
    assert found[2:] == [one for one in repeated if one[2]["seq"] > 2]
    await again.aclose()


async def test_a_stream_that_is_cut_a_hundred_times_misses_and_repeats_nothing(
    app: App, functions: Functions, workflows: Workflows
):
    """The parts, joined by the last id that each has seen, are the rows."""
    await functions.made("says", "export default (p) => { console.log(p.index); return p; }")
    each = {"step_type": "parallel", "id": "each", "function_id": "says", "items": "$.input.list"}
    workflow_id = await workflows.made([each])
    execution_id = await workflows.start(workflow_id, {"list": list(range(70))})
    path, choice = f"{workflow_id}/executions/{execution_id}/stream", random.Random(13)
    joined: list[tuple[int, str]] = []
    cuts = 0
    while not joined or joined[-1][1] != "execution.completed":
        last = joined[-1][0] if joined else 0
        wanted = choice.randint(1, 3)
        async with aclosing(events(workflows, path, last_event_id=last)) as stream:
            async for name, event_id, data in stream:
                assert event_id is not None, name
                joined.append((int(event_id), name))
                assert data["seq"] == joined[-1][0]
                wanted -= 1
                if not wanted or name == "execution.completed":
                    break
        cuts += 1
    assert cuts >= 100
    statement = "select json_agg(json_build_array(seq, type) order by seq) from pilotis.workflow_events"
    rows = json.loads(await run_sql(app.server, f"{statement} where execution_id = $1", execution_id))
    assert joined == [(seq, name) for seq, name in rows]
    assert [seq for seq, _ in joined] == list(range(1, len(joined) + 1))
