"""Each checker finds the flaw that it is for, and nothing in a history without it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.checkers.bank import Increment, check_bank, check_counter
from tests.cluster.checkers.deliveries import Delivery, check_deliveries
from tests.cluster.checkers.history import Finding, Outcome, Span, Write, as_of
from tests.cluster.checkers.registers import MAX_OPERATIONS, Access, check_register
from tests.cluster.checkers.schemas import ColumnWrite, SchemaChange, check_schema
from tests.cluster.checkers.sessions import Use, check_limit, check_refreshes, check_sessions
from tests.cluster.checkers.sets import check_set
from tests.cluster.checkers.states import Deployment, check_counts, check_files, check_live, check_site
from tests.cluster.checkers.work import Effect, StepEvent, check_jobs, check_lanes, check_slots, check_workflow

YES, NO, MAYBE = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def reads(value: Any, began: float, ended: float) -> Access:
    return Access("read", Span(began, ended), value)


def writes(value: Any, expected: Any, began: float, ended: float, outcome: Outcome = YES) -> Access:
    return Access("write", Span(began, ended), value, expected, outcome)


def events(*kinds: str) -> list[StepEvent]:
    """Events one second after the other, such as `step.completed a`."""
    split = [(*kind.split(" "), None)[:2] for kind in kinds]
    return [StepEvent(number, kind, step, float(number)) for number, (kind, step) in enumerate(split, 1)]


RAN = ("step.started a", "step.completed a", "step.started b", "step.completed b", "execution.completed")
GROUP = [Write(1, MAYBE, "g"), Write(2, MAYBE, "g")]
OLD, NEW = {"/": b"1", "/a": b"1"}, {"/": b"2", "/a": b"2"}
SITE = [Deployment(Span(0, 1), OLD, YES), Deployment(Span(5, 6), NEW, YES)]
SCHEMAS = [
    SchemaChange(Span(0, 0), frozenset("ab")),
    SchemaChange(Span(5, 6), frozenset("a")),
    SchemaChange(Span(9, 10), frozenset("ab")),
]
SENT = Delivery("m1", "row", b"{}", signed=True)

GOOD: dict[str, Callable[[], list[Finding]]] = {
    "set": lambda: check_set([Write(1, YES), Write(2, NO), Write(3, MAYBE), Write(4, MAYBE), *GROUP[:0]], [1, 3]),
    "set, a whole group": lambda: check_set(GROUP, [1, 2]),
    "set, none of a group": lambda: check_set(GROUP, []),
    "register": lambda: check_register([writes(1, 0, 0, 2), reads(0, 1, 3), reads(1, 4, 5), writes(2, 0, 6, 7, NO)], 0),
    "register, an unknown write takes effect late": lambda: check_register(
        [writes(1, 0, 0, 1, MAYBE), reads(0, 2, 3), reads(1, 4, 5), writes(2, 1, 6, 7)], 0
    ),
    "register, an unknown write takes no effect": lambda: check_register(
        [writes(1, 0, 0, 1, MAYBE), writes(2, 0, 2, 3), reads(2, 4, 5)], 0
    ),
    "bank": lambda: check_bank([{"a": 50, "b": 50}, {"a": 30, "b": 70}], 100),
    "counter": lambda: check_counter(
        [Increment(Span(0, 1), 1, YES), Increment(Span(2, 3), 1, MAYBE), Increment(Span(4, 5), 1, NO)],
        [(Span(1.5, 1.6), 1), (Span(6, 7), 1), (Span(6, 7), 2)],
    ),
    "session": lambda: check_sessions(
        {"s": Span(2, 3)}, [Use("s", Span(0, 1), True), Use("s", Span(2.5, 4), True), Use("s", Span(4, 5), False)]
    ),
    "refresh": lambda: check_refreshes([("a", "b"), ("a", "b"), ("b", "c")]),
    "limit": lambda: check_limit([0, 1, 2, 61, 62], 3, 60),
    "schema": lambda: check_schema(
        SCHEMAS,
        [
            ColumnWrite(Span(1, 2), frozenset("ab"), YES),
            ColumnWrite(Span(4, 7), frozenset("ab"), YES),
            ColumnWrite(Span(7, 8), frozenset("ab"), NO),
            ColumnWrite(Span(11, 12), frozenset("ab"), YES),
        ],
        [frozenset("ab")],
    ),
    "jobs": lambda: check_jobs({1: YES, 2: NO, 3: MAYBE}, [Effect(1, 1)]),
    "slots": lambda: check_slots([("w", 1), ("w", 2), ("v", 1)]),
    "lanes": lambda: check_lanes([("a", Span(0, 1)), ("a", Span(1, 2)), ("b", Span(0, 2))]),
    "workflow": lambda: check_workflow("x", events(*RAN), ["a", "b"], {"a": 1}),
    "deliveries": lambda: check_deliveries({"row": YES, "other": NO}, [SENT, SENT]),
    "live rows": lambda: check_live({"1": "a"}, {"1": "a"}),
    "counts": lambda: check_counts({"t": 2}, {"t": 2}),
    "files": lambda: check_files({"f": ("aa", YES), "g": ("bb", NO), "h": ("cc", MAYBE)}, {"f": "aa", "g": None}),
    "sites": lambda: check_site(SITE, [(Span(2, 3), OLD), (Span(4, 5.5), NEW), (Span(7, 8), NEW)]),
}
FLAWED: dict[str, Callable[[], list[Finding]]] = {
    "an acknowledged element is lost": lambda: check_set([Write(1, YES)], []),
    "a refused element is there": lambda: check_set([Write(1, NO)], [1]),
    "an unknown element is there twice": lambda: check_set([Write(1, MAYBE)], [1, 1]),
    "an element is from nowhere": lambda: check_set([], [1]),
    "a group is half there": lambda: check_set(GROUP, [1]),
    "two writes of the same state succeed": lambda: check_register([writes(1, 0, 0, 3), writes(2, 0, 1, 4)], 0),
    "a read is stale": lambda: check_register([writes(1, 0, 0, 1), reads(0, 2, 3)], 0),
    "an acknowledged write is lost": lambda: check_register([writes(1, 0, 0, 1), reads(1, 2, 3), reads(0, 4, 5)], 0),
    "a refused write found what it expected": lambda: check_register([writes(1, 0, 0, 1, NO)], 0),
    "a refused write took effect": lambda: check_register([writes(1, 9, 0, 1, NO), reads(1, 2, 3)], 0),
    "an unknown write takes effect before it begins": lambda: check_register(
        [reads(1, 0, 1), writes(1, 0, 2, 3, MAYBE)], 0
    ),
    "an unknown write comes and goes": lambda: check_register(
        [writes(1, 0, 0, 1, MAYBE), reads(1, 2, 3), reads(0, 4, 5)], 0
    ),
    "money appears": lambda: check_bank([{"a": 50, "b": 51}], 100),
    "a counter lost an increment": lambda: check_counter([Increment(Span(0, 1), 1, YES)], [(Span(2, 3), 0)]),
    "a counter was increased twice": lambda: check_counter([Increment(Span(0, 1), 1, MAYBE)], [(Span(2, 3), 2)]),
    "a refused increment counts": lambda: check_counter([Increment(Span(0, 1), 1, NO)], [(Span(2, 3), 1)]),
    "an ended session goes on": lambda: check_sessions({"s": Span(2, 3)}, [Use("s", Span(3.1, 4), True)]),
    "a refresh token has two successors": lambda: check_refreshes([("a", "b"), ("a", "c")]),
    "more pass than the limit": lambda: check_limit([0, 1, 2, 59], 3, 60),
    "a dropped column is written": lambda: check_schema(SCHEMAS, [ColumnWrite(Span(7, 8), frozenset("b"), YES)]),
    "a column of the schema is refused": lambda: check_schema(SCHEMAS, [ColumnWrite(Span(1, 2), frozenset("b"), NO)]),
    "a row keeps a dropped column": lambda: check_schema(SCHEMAS[:2], [], [frozenset("b")]),
    "an accepted job is lost": lambda: check_jobs({1: YES}, []),
    "a job is done twice": lambda: check_jobs({1: YES}, [Effect(1, 1), Effect(1, 2)]),
    "a job is done under a lost lease": lambda: check_jobs({1: YES}, [Effect(1, 2), Effect(1, 1)]),
    "a refused job is done": lambda: check_jobs({1: NO}, [Effect(1, 1)]),
    "a slot runs twice": lambda: check_slots([("w", 1), ("w", 1)]),
    "a lane has two holders": lambda: check_lanes([("a", Span(0, 2)), ("a", Span(1, 3))]),
    "a step completes twice": lambda: check_workflow("x", events(*RAN[:2], *RAN[1:]), ["a", "b"]),
    "a step is left out": lambda: check_workflow("x", events(*RAN[:2], RAN[-1]), ["a", "b"]),
    "steps are out of order": lambda: check_workflow("x", events(*RAN), ["b", "a"]),
    "a timer is early": lambda: check_workflow("x", events(*RAN), ["a", "b"], {"a": 1.5}),
    "an execution never ends": lambda: check_workflow("x", events(*RAN[:-1]), ["a", "b"]),
    "an event is missing": lambda: check_workflow("x", events(*RAN)[1:], ["a", "b"]),
    "a delivery is lost": lambda: check_deliveries({"row": YES}, []),
    "a delivery of what was not committed": lambda: check_deliveries({"row": NO}, [SENT]),
    "an event has two ids": lambda: check_deliveries({"row": YES}, [SENT, SENT._replace(message="m2")]),
    "an id has two bodies": lambda: check_deliveries({"row": YES}, [SENT, SENT._replace(body=b"[]")]),
    "a delivery is not signed": lambda: check_deliveries({"row": YES}, [SENT._replace(signed=False)]),
    "a row is not shown": lambda: check_live({}, {"1": "a"}),
    "a row is shown that is gone": lambda: check_live({"1": "a"}, {}),
    "a row is shown as it was": lambda: check_live({"1": "a"}, {"1": "b"}),
    "a total is wrong": lambda: check_counts({"t": 1}, {"t": 2}),
    "a file is lost": lambda: check_files({"f": ("aa", YES)}, {}),
    "a file has other bytes": lambda: check_files({"f": ("aa", MAYBE)}, {"f": "ab"}),
    "a refused file is there": lambda: check_files({"f": ("aa", NO)}, {"f": "aa"}),
    "a visit sees half a deployment": lambda: check_site(SITE, [(Span(5, 7), {"/": b"1", "/a": b"2"})]),
    "a visit sees a deployment that was replaced": lambda: check_site(SITE, [(Span(7, 8), OLD)]),
    "a visit sees a deployment before it began": lambda: check_site(SITE, [(Span(2, 3), NEW)]),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_a_history_without_a_flaw(name: str):
    assert GOOD[name]() == []


@pytest.mark.parametrize("name", FLAWED)
def test_the_flaw_is_found(name: str):
    assert FLAWED[name]()


def test_what_is_known_of_writes_at_a_moment():
    spans = {"before": Span(0, 1), "during": Span(1, 3), "after": Span(3, 4)}
    at = {name: [write.outcome for write in as_of([Write(1, YES, None, span)], 2)] for name, span in spans.items()}
    assert at == {"before": [YES], "during": [MAYBE], "after": [NO]}
    assert as_of([Write(1, NO, None, spans["during"])], 2)[0].outcome is NO


def test_a_long_history_of_a_register_is_checked_within_its_limit():
    """Four clients at a time, a third of the writes unknown: the search stays small."""
    accesses, value = [], 0
    for number in range(MAX_OPERATIONS // 2):
        at = float(number)
        outcome = MAYBE if number % 3 == 0 else YES
        accesses.append(writes(number + 1, value, at, at + 0.5, outcome))
        value = number + 1
        accesses.append(reads(value, at + 0.2, at + 3.2))
    assert check_register(accesses, 0) == []
    assert check_register([*accesses[:-1], reads(3, 500.0, 501.0)], 0)
    with pytest.raises(ValueError, match="too long"):
        check_register([*accesses, reads(value, 900, 901)], 0)
