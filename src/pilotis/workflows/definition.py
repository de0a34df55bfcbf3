"""Definitions: normalises the definition in a request, and finds its errors. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from pilotis.jobs.schedules import cron_of, next_run
from pilotis.kit import json
from pilotis.kit.errors import Detail, PilotisError, ValidationError, invalid
from pilotis.workflows import mapping
from pilotis.workflows.agent import check_schema
from pilotis.workflows.conditions import compile_condition, paths_of
from pilotis.workflows.paths import InvalidPathError, parse
from pilotis.workflows.types import AgentConfig, NewWorkflow, Step

MAX_STEPS = 100
MAX_DEPTH = 3
MAX_MAPPING_BYTES = 16 * 1024
MAX_DEFINITION_BYTES = 256 * 1024


Decoded = TypeVar("Decoded")


class Errors:
    """What is wrong with a definition, in the order in which it is found."""

    def __init__(self) -> None:
        self.found: list[Detail] = []

    def add(self, field: str, sentence: str, code: str) -> None:
        """Add an error about a field; the message begins with its name."""
        self.found.append(Detail(field, code, f"{field}: {sentence}"))

    @contextmanager
    def collected(self) -> Generator[None]:
        """Add the errors that the block raises."""
        try:
            yield
        except PilotisError as error:
            self.found += error.details or [Detail("", error.code, error.text)]


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


def read(body: Mapping[str, Any]) -> tuple[NewWorkflow, list[Detail]]:
    """Return the definition of a request, and all that does not decode in it.

    What does not decode is left out: a step by a merge with its id, so that others may name it, a field by its default.
    """
    found: list[Detail] = []
    steps = body.get("steps")
    whole = dict(body)
    if isinstance(steps, list):
        whole["steps"] = [_readable(step, f"steps[{at}]", found) for at, step in enumerate(steps)]
    while True:
        try:
            return _converted(whole, NewWorkflow), found
        except PilotisError as error:
            if not error.details:
                raise
            found += error.details
            name = error.details[0].field.partition(".")[0].partition("[")[0]
            if name == "name":
                whole["name"] = "unnamed"
            elif name not in whole:
                raise
            else:
                del whole[name]


def _readable(step: Any, place: str, found: list[Detail]) -> Any:
    """Return a step that decodes, after the errors of what does not, in it and in the steps of its branches."""
    if not isinstance(step, dict):
        found.append(Detail(place, "INVALID_VALUE", f"{place}: an object is expected."))
        return {"step_type": "merge"}
    alone = dict(step)
    branches = step.get("branches")
    if isinstance(branches, list):
        alone["branches"] = [
            branch
            | {"steps": [_readable(one, f"{place}.branches[{n}].steps[{at}]", found) for at, one in enumerate(inner)]}
            if isinstance(branch, dict) and isinstance(inner := branch.get("steps"), list)
            else branch
            for n, branch in enumerate(branches)
        ]
    try:
        _converted(alone, Step)
    except PilotisError as error:
        error.within(place)
        found += error.details
        known = isinstance(step.get("id"), str) and {"id": step["id"]}
        return _decodes({"step_type": "merge"} | (known or {})) or {"step_type": "merge"}
    return alone


def _decodes(step: dict[str, Any]) -> dict[str, Any] | None:
    try:
        _converted(step, Step)
    except PilotisError:
        return None
    return step


def _converted(value: Any, kind: type[Decoded]) -> Decoded:
    decoded: Decoded = json.decode(json.encode(value), json.decoder(kind))
    return decoded


def check(new: NewWorkflow) -> list[Detail]:
    """Return all errors of a normalised definition."""
    errors = Errors()
    placed = list(walk(new.steps))
    if len(placed) > MAX_STEPS:
        return [Detail("steps", "TOO_MANY_STEPS", f"steps: at most {MAX_STEPS} are allowed, nested ones included.")]
    seen: set[str] = set()
    for one in placed:
        if one.step.id in seen:
            errors.add(f"{one.place}.id", f"another step has the id {one.step.id}.", "DUPLICATE_STEP_ID")
        seen.add(one.step.id)
    for one in placed:
        _check_step(one, seen, errors)
    if len(json.encode(new)) > MAX_DEFINITION_BYTES:
        errors.add("steps", f"a definition has at most {MAX_DEFINITION_BYTES} bytes.", "DEFINITION_TOO_LARGE")
    return errors.found


def require_valid(details: Sequence[Detail]) -> None:
    """Raise a `ValidationError` with the details, if there are any."""
    if details:
        raise ValidationError(details[0].message, details=list(details))


def schedule_of(new: NewWorkflow, after: datetime) -> str | None:
    """Return the schedule's cron expression of five fields; None without a schedule.

    Raises a 400 error about it, also for dates that do not exist, or about the time zone.
    """
    if new.schedule_timezone is not None:
        with _schedule_errors():
            next_run("0 0 1 1 *", new.schedule_timezone, after)
    if new.schedule_cron is None:
        return None
    with _schedule_errors():
        return cron_of(new.schedule_cron, new.schedule_timezone, after)


def next_runs(cron: str, timezone: str | None, after: datetime, number: int) -> list[datetime]:
    """Return the next times of a schedule."""
    found: list[datetime] = []
    while len(found) < number and (following := next_run(cron, timezone, found[-1] if found else after)):
        found.append(following)
    return found


@contextmanager
def _schedule_errors() -> Generator[None]:
    """Name the definition's fields in errors about a schedule."""
    try:
        yield
    except PilotisError as error:
        field = error.details[0].field if error.details else ""
        code = "INVALID_CRON" if field == "cron" else "INVALID_TIMEZONE"
        raise invalid(f"schedule_{field}", f"schedule_{field}: {error.text}", code) from None


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


def _check_step(one: Placed, ids: Set[str], errors: Errors) -> None:
    step, place = one.step, one.place
    if one.depth > MAX_DEPTH:
        errors.add(place, f"steps are nested at most {MAX_DEPTH} deep.", "TOO_DEEP")
    for name, types in _ONLY.items():
        if getattr(step, name) is not None and step.step_type not in types:
            errors.add(f"{place}.{name}", f"a {step.step_type} step has none.", "NOT_APPLICABLE")
    if step.input_mapping is not None:
        _check_mapping(step.input_mapping, f"{place}.input_mapping", ids, errors)
    if step.condition is not None:
        _check_condition(step.condition, f"{place}.condition", ids, errors)
    _CHECKS[step.step_type](one, ids, errors)


def _check_condition(condition: dict[str, Any], place: str, ids: Set[str], errors: Errors) -> None:
    with errors.collected():
        compile_condition(condition, place)
        for path in paths_of(condition):
            _check_path(path, f"{place}.{path[:100]}", ids, errors)


def _check_mapping(value: dict[str, Any], place: str, ids: Set[str], errors: Errors) -> None:
    if len(json.encode(value)) > MAX_MAPPING_BYTES:
        errors.add(place, f"a mapping has at most {MAX_MAPPING_BYTES} bytes.", "INVALID_MAPPING")
        return
    for field, path in mapping.places(value, place):
        _check_path(path, field, ids, errors)


def _check_path(path: str, place: str, ids: Set[str], errors: Errors, code: str = "INVALID_MAPPING") -> None:
    """Find out whether a path can be read, and whether the step that it names exists."""
    try:
        parts = parse(path)
    except InvalidPathError as error:
        errors.found.append(Detail(place, code, str(error)))
        return
    if parts[0] == "steps" and str(parts[1]).partition("[")[0] not in ids:
        errors.add(place, f"there is no step {parts[1]}.", "UNKNOWN_STEP")


def _function(one: Placed, _ids: Set[str], errors: Errors) -> None:
    if one.step.function_id is None:
        field = f"{one.place}.function_id"
        errors.found.append(Detail(field, "REQUIRED", f"{field} is required."))


def _condition(one: Placed, ids: Set[str], errors: Errors) -> None:
    step, place = one.step, one.place
    mapped = (step.input_mapping or {}).get("condition")
    if step.condition is None and step.function_id is None and mapped is None:
        errors.add(f"{place}.condition", "a condition or a function_id is required.", "REQUIRED")
    elif step.condition is None and step.function_id is None:
        with errors.collected():
            condition_of(mapped, f"{place}.input_mapping.condition")
            if isinstance(mapped, dict):
                _check_condition(mapped, f"{place}.input_mapping.condition", ids, errors)
    siblings = {other.id for other in one.siblings}
    later = [other.id for other in in_order(one.siblings)]
    later = later[later.index(step.id) + 1 :]
    for name in ("on_true", "on_false"):
        for at, step_id in enumerate(getattr(step, name) or ()):
            field = f"{place}.{name}[{at}]"
            if step_id not in ids:
                errors.add(field, f"there is no step {step_id}.", "UNKNOWN_STEP")
            elif step_id not in later:
                where = "further on" if step_id in siblings else "of the same list"
                errors.add(field, f"only steps {where} can be named.", "JUMP")


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


def _parallel(one: Placed, ids: Set[str], errors: Errors) -> None:
    step, place = one.step, one.place
    if step.branches is not None and (step.items is not None or step.function_id is not None):
        errors.add(f"{place}.branches", "branches or items, not both.", "NOT_APPLICABLE")
    elif (step.items is None) != (step.function_id is None):
        missing = "items" if step.items is None else "function_id"
        errors.add(f"{place}.{missing}", "items and function_id belong together.", "REQUIRED")
    if step.items is not None:
        _check_path(step.items, f"{place}.items", ids, errors)
    names = [branch.id for branch in step.branches or ()]
    if len(set(names)) < len(names):
        errors.add(f"{place}.branches", "two branches have the same id.", "DUPLICATE_BRANCH_ID")
    if any(not branch.steps for branch in step.branches or ()):
        errors.add(f"{place}.branches", "a branch needs a step.", "REQUIRED")


def _merge(one: Placed, ids: Set[str], errors: Errors) -> None:
    before: set[str] = set()
    for other in in_order(one.siblings):
        if other is one.step:
            break
        before |= {placed.step.id for placed in walk([other])}
    for at, step_id in enumerate(one.step.sources or ()):
        if step_id not in before:
            known = "is not before the merge" if step_id in ids else "does not exist"
            errors.add(f"{one.place}.sources[{at}]", f"the step {step_id} {known}.", "UNKNOWN_STEP")


def _agent(one: Placed, ids: Set[str], errors: Errors) -> None:
    config, place = one.step.config or AgentConfig(), f"{one.place}.config"
    if config.prompt is not None:
        for field, path in mapping.places(f" {config.prompt}", f"{place}.prompt"):
            _check_path(path, field, ids, errors)
    if config.output_schema is not None and (wrong := check_schema(config.output_schema)):
        errors.add(f"{place}.output_schema", wrong, "INVALID_SCHEMA")
    names = set()
    for at, tool in enumerate(config.tools):
        field = f"{place}.tools[{at}]"
        if tool.name and tool.name in names:
            errors.add(f"{field}.name", "another tool has this name.", "DUPLICATE_TOOL")
        names.add(tool.name)
        if tool.parameters is not None and (wrong := check_schema(tool.parameters)):
            errors.add(f"{field}.parameters", wrong, "INVALID_SCHEMA")


_CHECKS = {"function": _function, "condition": _condition, "parallel": _parallel, "merge": _merge, "agent": _agent}


def decode(text: str) -> NewWorkflow:
    """Return a stored definition."""
    return json.decode(text.encode(), json.decoder(NewWorkflow))  # type: ignore[no-any-return]


def as_json(new: NewWorkflow) -> str:
    """Return a definition as it is stored."""
    return json.encode(new).decode()
