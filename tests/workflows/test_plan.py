"""`plan` against a plain model: whatever the order in which calls end and however often a process starts again."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit import json
from pilotis.workflows.definition import check, normalise, walk
from pilotis.workflows.plan import FINAL, Context, State, count, plan
from pilotis.workflows.types import NewWorkflow

CALL = st.builds(
    lambda on_error, has_condition: {
        "step_type": "function",
        "function_id": "f",
        "on_error": on_error,
        **({"condition": {"$.input.n": {"$gte": 5}}} if has_condition else {}),
    },
    st.sampled_from(["stop", "continue"]),
    st.booleans(),
)
TEST = st.builds(lambda n: {"step_type": "condition", "condition": {"$.input.n": {"$gte": n}}}, st.integers(0, 9))
MERGE = st.builds(lambda mode: {"step_type": "merge", "mode": mode}, st.sampled_from(["object", "array", "deep"]))
ITEMS = st.just({"step_type": "parallel", "function_id": "f", "items": "$.input.items", "on_error": "continue"})
GROUP = st.just({"step_type": "parallel"})
FLAT = st.lists(st.one_of(CALL, TEST, MERGE, ITEMS, GROUP), min_size=1, max_size=6)


def branches(inside: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(inside, min_size=1, max_size=3)
    return lists.map(
        lambda found: {
            "step_type": "parallel",
            "branches": [{"id": f"b{at}", "steps": steps} for at, steps in enumerate(found)],
        }
    )


NESTED = st.lists(st.one_of(CALL, TEST, MERGE, GROUP, branches(FLAT)), min_size=1, max_size=5)
DEFINITIONS = st.builds(
    lambda type_, steps: {"name": "x", "execution_type": type_, "steps": steps},
    st.sampled_from(["sequential", "parallel", "conditional"]),
    NESTED,
)


def outcome(key: str, fails: set[str]) -> State:
    """What a call comes to: the same each time, as its idempotency key lets it be."""
    if key.partition("[")[0] in fails:
        return State("failed", error={"code": "STEP_FAILED", "message": "", "step_id": key})
    return State("completed", {"of": key})


@given(DEFINITIONS, st.integers(0, 9), st.integers(0, 12), st.data())
def test_every_order_and_every_crash_ends_in_the_same_way(
    given_: dict[str, Any], n: int, items: int, data: st.DataObject
):
    definition = msgspec.convert(given_, NewWorkflow)
    normalise(definition)
    assert check(definition) == []
    context = Context({"n": n, "items": list(range(items))}, {"type": "manual"})
    steps = {one.step.id: one.step for one in walk(definition.steps)}
    ids = [key for key, step in steps.items() if step.on_error == "continue"]
    fails = set(data.draw(st.lists(st.sampled_from(ids), unique=True))) if ids else set()

    def run(*, crashes: bool) -> tuple[Any, dict[str, Any]]:
        states: dict[str, State] = {}
        in_flight: list[str] = []
        for _ in range(2000):
            if crashes and data.draw(st.integers(0, 4)) == 0:
                # Another process reads what was stored; calls that ran begin again.
                states = json.decode(json.encode(states), json.decoder(dict[str, State]))
                in_flight = []
            found = plan(definition, context, states, in_flight)
            assert found.failed is None
            assert len(in_flight) + len(found.ready) <= 10
            assert not {one.key for one in found.ready} & set(in_flight)
            assert not {one.key for one in found.ready if one.key in states}
            if found.is_done:
                assert not in_flight
                assert not found.ready
                return found.output, msgspec.to_builtins(states)
            in_flight += [one.key for one in found.ready]
            assert in_flight, "nothing runs, and it has not ended"
            at = data.draw(st.integers(0, len(in_flight) - 1)) if crashes else 0
            key = in_flight.pop(at)
            states[key] = outcome(key, fails)
        raise AssertionError("it does not end")

    plain, crashed = run(crashes=False), run(crashes=True)
    assert plain == crashed
    states = plain[1]
    assert {key for key in steps if states[key]["status"] in FINAL} == set(steps)
    converted = {key: State(**value) for key, value in states.items()}
    assert count(definition, converted)[0] == len(steps)
