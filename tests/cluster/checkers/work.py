"""Work: jobs and steps complete once, in their order, and a lane has one holder at a time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.cluster.checkers.history import Finding, Outcome, Span


class Effect(NamedTuple):
    """What a run of a job left behind: of which job, and under which fence."""

    job: Any
    fence: int


class StepEvent(NamedTuple):
    """An event of an execution, as it is stored: its number, its type, its step and its time in seconds."""

    number: int
    kind: str
    step: str | None
    at: float


def check_jobs(accepted: Mapping[Any, Outcome], effects: Iterable[Effect]) -> list[Finding]:
    """Check that each accepted job left one effect, a refused one none, and that no effect has an older fence."""
    by_job: dict[Any, list[int]] = defaultdict(list)
    for effect in effects:
        by_job[effect.job].append(effect.fence)
    findings = [
        Finding("jobs", f"job {job} was accepted and never done")
        for job, outcome in accepted.items()
        if outcome is Outcome.ACKNOWLEDGED and job not in by_job
    ]
    for job, fences in by_job.items():
        if accepted.get(job, Outcome.REFUSED) is Outcome.REFUSED:
            findings.append(Finding("jobs", f"job {job} was done and not accepted"))
        if len(fences) > 1:
            findings.append(Finding("jobs", f"job {job} was done {len(fences)} times"))
        if fences != sorted(fences):
            findings.append(Finding("jobs", f"job {job} has an effect of a lease that was lost: {fences}"))
    return findings


def check_slots(slots: Iterable[Any]) -> list[Finding]:
    """Check that each slot of a schedule ran once."""
    counts = Counter(slots)
    return [Finding("jobs", f"the slot {slot} ran {count} times") for slot, count in counts.items() if count > 1]


def check_lanes(holders: Iterable[tuple[Any, Span]]) -> list[Finding]:
    """Check that a lane with one place was never held by two at the same time."""
    by_lane: dict[Any, list[Span]] = defaultdict(list)
    for lane, span in holders:
        by_lane[lane].append(span)
    return [
        Finding("jobs", f"lane {lane} had two holders at {after.began:.3f}")
        for lane, spans in by_lane.items()
        for before, after in pairwise(sorted(spans))
        if after.began < before.ended
    ]


def check_workflow(
    execution: str,
    events: Iterable[StepEvent],
    steps: Sequence[str],
    waits: Mapping[str, float] | None = None,
    end: str = "execution.completed",
) -> list[Finding]:
    """Check the events of an execution whose steps run one after the other; `waits` has the seconds of timers.

    Its events have numbers without gaps, each step completes once and after the one before it, timers are not early,
    and it ends once, with the event `end`.
    """
    ordered = sorted(events)
    findings = []

    def found(text: str) -> None:
        findings.append(Finding("workflows", f"{execution}: {text}"))

    numbers = [event.number for event in ordered]
    if numbers != list(range(1, len(numbers) + 1)):
        found(f"its events are numbered {numbers}")
    completed = [event for event in ordered if event.kind == "step.completed"]
    counts = Counter(event.step for event in completed)
    for step in steps:
        if counts[step] != 1:
            found(f"step {step} completed {counts[step]} times")
    sequence = list(dict.fromkeys(event.step for event in completed))
    if sequence != [step for step in steps if step in sequence]:
        found(f"its steps completed in the order {sequence}")
    if sum(event.kind == end for event in ordered) != 1 or ordered[-1].kind != end:
        found(f"it did not end once with {end}")
    for step, seconds in (waits or {}).items():
        began = [event.at for event in ordered if event.step == step and event.kind == "step.started"]
        ended = [event.at for event in completed if event.step == step]
        if began and ended and ended[0] - min(began) < seconds:
            found(f"the timer {step} of {seconds} s ended after {ended[0] - min(began):.3f} s")
    return findings
