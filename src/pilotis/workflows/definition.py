"""Definitions: normalises the definition in a request, and finds its errors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pilotis.jobs.schedules import next_run
from pilotis.kit import json
from pilotis.kit.errors import Detail, PilotisError, ValidationError, invalid
from pilotis.workflows import mapping
from pilotis.workflows.agent import check_schema
from pilotis.workflows.conditions import compile_condition
from pilotis.workflows.errors import InvalidWorkflowCronError
from pilotis.workflows.paths import InvalidPathError, parse
from pilotis.workflows.types import AgentConfig, NewWorkflow, Step

MAX_STEPS = 100
MAX_DEPTH = 3
MAX_MAPPING_BYTES = 16 * 1024
MAX_DEFINITION_BYTES = 256 * 1024
SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


class Placed(NamedTuple):
    """A step with its position in the request (`steps[2].branches[0].steps[1]`) and the step that contains it."""

    step: Step
    place: str
    parent: Step | None
    siblings: Sequence[Step]
    depth: int


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Return the steps of one list in execution order: by `order`, which defaults to the position, then by position."""
    return [step for _, step in sorted(enumerate(steps, 1), key=lambda pair: (order_of(pair[1], pair[0]), pair[0]))]


def order_of(step: Step, place: int) -> float:
    """Return a step's order."""
    return float(place) if step.order is None else step.order


def walk(steps: Sequence[Step], place: str = "steps", parent: Step | None = None, depth: int = 1) -> Iterator[Placed]:
    """Yield all steps in document order."""
    for at, step in enumerate(steps):
        here = f"{place}[{at}]"
        yield Placed(step, here, parent, steps, depth)
        for number, branch in enumerate(step.branches or ()):
            yield from walk(branch.steps, f"{here}.branches[{number}].steps", step, depth + 1)


def walk_in_order(steps: Sequence[Step]) -> Iterator[tuple[Step, float]]:
    """Yield all steps with their orders, those of each list as they run."""
    for place, step in enumerate(in_order(steps), 1):
        yield step, order_of(step, place)
        for branch in step.branches or ():
            yield from walk_in_order(branch.steps)


def normalise(new: NewWorkflow) -> None:
    """Give each step without an id the id `step_<number>`, counted in document order."""
    for number, placed in enumerate(walk(new.steps), 1):
        if not placed.step.id:
            placed.step.id = f"step_{number}"


def check(new: NewWorkflow) -> list[Detail]:
    """Return the errors of a normalised definition."""
    found: list[Detail] = []
    placed = list(walk(new.steps))
    if len(placed) > MAX_STEPS:
        return [Detail("steps", "TOO_MANY_STEPS", f"steps: at most {MAX_STEPS} are allowed, nested ones included.")]
    seen: dict[str, int] = {}
    for one in placed:
        if one.step.id in seen:
            message = f"{one.place}.id: another step has the id {one.step.id}."
            found.append(Detail(f"{one.place}.id", "DUPLICATE_STEP_ID", message))
        seen.setdefault(one.step.id, len(seen))
    for one in placed:
        try:
            _check_step(one, seen)
        except PilotisError as error:
            found.extend(error.details or ())
    if len(json.encode(new)) > MAX_DEFINITION_BYTES:
        message = f"steps: a definition has at most {MAX_DEFINITION_BYTES} bytes."
        found.append(Detail("steps", "DEFINITION_TOO_LARGE", message))
    return found


def require_valid(details: Sequence[Detail]) -> None:
    """Raise a `ValidationError` with the details, if there are any."""
    if details:
        raise ValidationError(details[0].message, details=list(details))


def schedule_of(new: NewWorkflow, after: datetime) -> str | None:
    """Return the schedule's cron expression of five fields; None without a schedule.

    Raises `InvalidWorkflowCronError`, also for dates that do not exist, and a 400 error about the time zone.
    """
    if new.schedule_timezone is not None:
        _next("0 0 1 1 *", new.schedule_timezone, after)
    if new.schedule_cron is None:
        return None
    cron = SHORTCUTS.get(new.schedule_cron.strip(), new.schedule_cron)
    if len(cron.split()) != 5:
        raise _cron("schedule_cron: five fields are expected, such as 30 2 * * *, or @daily.")
    if _next(cron, new.schedule_timezone, after) is None:
        raise _cron("schedule_cron: these dates never come.")
    return cron


def next_runs(cron: str, timezone: str | None, after: datetime, number: int) -> list[datetime]:
    """Return the next times of a schedule."""
    found: list[datetime] = []
    while len(found) < number and (following := next_run(cron, timezone, found[-1] if found else after)):
        found.append(following)
    return found


def _next(cron: str, timezone: str | None, after: datetime) -> datetime | None:
    try:
        return next_run(cron, timezone, after)
    except PilotisError as error:
        if error.details and error.details[0].field == "cron":
            raise _cron(error.details[0].message) from None
        raise invalid("schedule_timezone", str(error), "INVALID_TIMEZONE") from None


def _cron(message: str) -> InvalidWorkflowCronError:
    return InvalidWorkflowCronError(message, details=[Detail("schedule_cron", "INVALID_CRON", message)])


_ONLY: dict[str, set[str]] = {
    "function_id": {"function", "condition", "parallel"},
    "function_version": {"function", "condition", "parallel"},
    "on_true": {"condition"},
    "on_false": {"condition"},
    "branches": {"parallel"},
    "items": {"parallel"},
    "sources": {"merge"},
    "config": {"agent"},
}


def _check_step(one: Placed, ids: dict[str, int]) -> None:
    step, place = one.step, one.place
    if one.depth > MAX_DEPTH:
        raise invalid(place, f"{place}: steps are nested at most {MAX_DEPTH} deep.", "TOO_DEEP")
    for name, types in _ONLY.items():
        if getattr(step, name) is not None and step.step_type not in types:
            raise invalid(f"{place}.{name}", f"{place}.{name}: a {step.step_type} step has none.", "NOT_APPLICABLE")
    if step.input_mapping is not None:
        _check_mapping(step.input_mapping, f"{place}.input_mapping")
    if step.condition is not None:
        compile_condition(step.condition, f"{place}.condition")
    _CHECKS[step.step_type](one, ids)


def _check_mapping(value: dict[str, Any], place: str) -> None:
    if len(json.encode(value)) > MAX_MAPPING_BYTES:
        raise invalid(place, f"{place}: a mapping has at most {MAX_MAPPING_BYTES} bytes.", "INVALID_MAPPING")
    mapping.check(value, place)


def _function(one: Placed, _ids: dict[str, int]) -> None:
    if one.step.function_id is None:
        raise invalid(f"{one.place}.function_id", f"{one.place}.function_id is required.", "REQUIRED")


def _condition(one: Placed, ids: dict[str, int]) -> None:
    step, place = one.step, one.place
    mapped = (step.input_mapping or {}).get("condition")
    if step.condition is None and step.function_id is None and mapped is None:
        raise invalid(f"{place}.condition", f"{place}.condition: a condition or a function_id is required.", "REQUIRED")
    if step.condition is None and step.function_id is None:
        condition_of(mapped, f"{place}.input_mapping.condition")
    siblings = {other.id for other in one.siblings}
    later = [other.id for other in in_order(one.siblings)]
    later = later[later.index(step.id) + 1 :]
    for name in ("on_true", "on_false"):
        for at, step_id in enumerate(getattr(step, name) or ()):
            if step_id not in ids:
                field = f"{place}.{name}[{at}]"
                raise invalid(field, f"{field}: there is no step {step_id}.", "UNKNOWN_STEP")
            if step_id not in later:
                where = "further on" if step_id in siblings else "of the same list"
                raise invalid(f"{place}.{name}[{at}]", f"{place}.{name}: only steps {where} can be named.", "JUMP")


def condition_of(value: Any, place: str) -> Any:
    """Return the compiled `input_mapping.condition`: a `where`, or the text of a path."""
    if isinstance(value, dict):
        return compile_condition(value, place)
    try:
        if isinstance(value, str) and value.startswith("$"):
            parse(value)
            return value
    except InvalidPathError as error:
        raise invalid(place, str(error), "INVALID_CONDITION") from None
    raise invalid(place, f"{place}: an object or a path is expected.", "INVALID_CONDITION")


def _parallel(one: Placed, _ids: dict[str, int]) -> None:
    step, place = one.step, one.place
    if step.branches is not None and (step.items is not None or step.function_id is not None):
        raise invalid(f"{place}.branches", f"{place}: branches or items, not both.", "NOT_APPLICABLE")
    if (step.items is None) != (step.function_id is None):
        missing = "items" if step.items is None else "function_id"
        raise invalid(f"{place}.{missing}", f"{place}: items and function_id belong together.", "REQUIRED")
    if step.items is not None:
        try:
            parse(step.items)
        except InvalidPathError as error:
            raise invalid(f"{place}.items", str(error), "INVALID_MAPPING") from None
    names = [branch.id for branch in step.branches or ()]
    if len(set(names)) < len(names):
        raise invalid(f"{place}.branches", f"{place}.branches: two branches have the same id.", "DUPLICATE_BRANCH_ID")
    if any(not branch.steps for branch in step.branches or ()):
        raise invalid(f"{place}.branches", f"{place}.branches: a branch needs a step.", "REQUIRED")


def _merge(one: Placed, ids: dict[str, int]) -> None:
    before: set[str] = set()
    for other in in_order(one.siblings):
        if other is one.step:
            break
        before |= {placed.step.id for placed in walk([other])}
    for at, step_id in enumerate(one.step.sources or ()):
        if step_id not in before:
            field = f"{one.place}.sources[{at}]"
            known = "is not before the merge" if step_id in ids else "does not exist"
            raise invalid(field, f"{field}: the step {step_id} {known}.", "UNKNOWN_STEP")


def _agent(one: Placed, _ids: dict[str, int]) -> None:
    config, place = one.step.config or AgentConfig(), f"{one.place}.config"
    if config.prompt is not None:
        mapping.check(f" {config.prompt}", f"{place}.prompt")
    if config.output_schema is not None and (wrong := check_schema(config.output_schema)):
        raise invalid(f"{place}.output_schema", f"{place}.output_schema: {wrong}", "INVALID_SCHEMA")
    names = set()
    for at, tool in enumerate(config.tools):
        field = f"{place}.tools[{at}]"
        if tool.name and tool.name in names:
            raise invalid(f"{field}.name", f"{field}.name: another tool has this name.", "DUPLICATE_TOOL")
        names.add(tool.name)
        if tool.parameters is not None and (wrong := check_schema(tool.parameters)):
            raise invalid(f"{field}.parameters", f"{field}.parameters: {wrong}", "INVALID_SCHEMA")


_CHECKS = {"function": _function, "condition": _condition, "parallel": _parallel, "merge": _merge, "agent": _agent}


def decode(text: str) -> NewWorkflow:
    """Return a stored definition."""
    return json.decode(text.encode(), json.decoder(NewWorkflow))  # type: ignore[no-any-return]


def as_json(new: NewWorkflow) -> str:
    """Return a definition as it is stored."""
    return json.encode(new).decode()
