"""The plan: from a definition and the states of its steps to the next actions. Pure.

`plan` evaluates everything that needs no call (conditions, merges, skipped steps, complete groups) at once, and
returns these as instants, the calls that can start, and the end, if no step is left. It reads only the definition and
the states, so that a process continues where another one was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from pilotis.kit import json
from pilotis.workflows import mapping
from pilotis.workflows.conditions import compile_condition
from pilotis.workflows.definition import condition_of, in_order, walk, walk_in_order
from pilotis.workflows.paths import follow, parse
from pilotis.workflows.types import NewWorkflow, Step

Json = Any

MAX_CALLS = 10
"""The maximum number of concurrent calls of one execution."""
MAX_ITEMS = 1000
MAX_BYTES = 2**20
"""The largest input or output of a step, in bytes of compact JSON."""

FINAL = frozenset({"completed", "failed", "skipped"})


class State(msgspec.Struct):
    """The state of a step. After a `failed` one the execution continues.

    A group that has started is `running`; `input` contains its items.
    """

    status: Literal["running", "completed", "failed", "skipped"]
    output: Json = None
    error: dict[str, Any] | None = None
    input: Json = None


class Ready(NamedTuple):
    """A call that can start: `key` is the step's id, or `p[3]` for an item of the parallel step `p`."""

    key: str
    step: Step
    payload: Json


class Instant(NamedTuple):
    """A step that ended, or a group that started, without a call."""

    key: str
    step: Step
    state: State


class FaultError(Exception):
    """A step cannot be evaluated: `code` and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Failed(NamedTuple):
    """The step that ends the execution, and the reason."""

    key: str
    code: str
    message: str


class Plan(NamedTuple):
    """The next actions. With `failed` the execution fails; with `is_done` it is complete, with its `output`."""

    instants: Sequence[Instant]
    ready: Sequence[Ready]
    is_done: bool
    output: Json
    failed: Failed | None


class Context(NamedTuple):
    """The inputs of an execution."""

    input: Json
    trigger: Json


def plan(definition: NewWorkflow, context: Context, states: dict[str, State], in_flight: Sequence[str] = ()) -> Plan:
    """Return the next actions, and add the instants to `states`. `in_flight` are the keys of running calls."""
    planner = _Planner(context, states, frozenset(in_flight))
    try:
        flow = planner.top(definition)
    except _StoppedError as stopped:
        return Plan(planner.instants, (), is_done=False, output=None, failed=stopped.failed)
    return Plan(planner.instants, planner.ready, is_done=flow.is_done, output=flow.output, failed=None)


def first_call(definition: NewWorkflow) -> Step | None:
    """Return the function step with which every execution begins; None if another step comes first."""
    first = next(iter(in_order(definition.steps)), None)
    return first if first is not None and first.step_type == "function" and first.condition is None else None


def takes_request(definition: NewWorkflow, states: Mapping[str, State], key: str) -> bool:
    """Return whether a call is the first function step that is not skipped, which gets a trigger's request itself."""
    for step, _ in walk_in_order(definition.steps):
        if step.step_type == "function" and (step.id not in states or states[step.id].status != "skipped"):
            return step.id == key
    return False


def truth(value: Json) -> bool:
    """Return the truth of a value: false, null, 0 and the empty text are false."""
    return value is not None and value is not False and value != 0 and value != ""


def condition_output(result: Json) -> Json:
    """Return the output of a condition step whose function returned `result`: the truth of it or of its `condition`."""
    value = result["condition"] if isinstance(result, dict) and "condition" in result else result
    return {"result": truth(value)}


def count(definition: NewWorkflow, states: Mapping[str, State]) -> tuple[int, int]:
    """Return how many steps of the definition have ended, and how many of them failed."""
    ended = [states[one.step.id].status for one in walk(definition.steps) if one.step.id in states]
    return sum(status in FINAL for status in ended), sum(status == "failed" for status in ended)


class _StoppedError(Exception):
    def __init__(self, failed: Failed) -> None:
        super().__init__()
        self.failed = failed


class _Flow(NamedTuple):
    is_done: bool
    previous: Json
    output: Json


class _Group(NamedTuple):
    """Steps that run concurrently; `head` is the parallel step that started them, None at the top level."""

    head: Step | None
    members: list[Step]


class _Planner:
    def __init__(self, context: Context, states: dict[str, State], in_flight: frozenset[str]) -> None:
        self._context = context
        self._states = states
        self._in_flight = in_flight
        self._unchosen: set[str] = set()
        self.instants: list[Instant] = []
        self.ready: list[Ready] = []

    def top(self, definition: NewWorkflow) -> _Flow:
        steps = in_order(definition.steps)
        if definition.execution_type == "parallel":
            flow = self._units(_all_at_once(steps), self._context.input, is_conditional=False)
            found = {s.id: self._states[s.id] for s in steps if s.id in self._states}
            return flow._replace(output={key: one.output for key, one in found.items() if one.status != "skipped"})
        return self._sequence(steps, self._context.input, definition.execution_type == "conditional")

    def _sequence(self, steps: Sequence[Step], previous: Json, is_conditional: bool = False) -> _Flow:
        return self._units(_one_after_another(steps), previous, is_conditional=is_conditional)

    def _units(self, units: Sequence[Step | _Group], previous: Json, *, is_conditional: bool) -> _Flow:
        output: Json = None
        group: Sequence[Step] | None = None
        before: list[Step] = []
        for at, unit in enumerate(units):
            if isinstance(unit, _Group):
                if not self._group(unit, previous):
                    return _Flow(False, previous, None)
                members = [step for step in unit.members if self._states[step.id].status == "completed"]
                result = {step.id: self._states[step.id].output for step in members}
                if unit.head is None or self._states[unit.head.id].status == "completed":
                    previous = output = result
                group = unit.members
                before += unit.members
                continue
            sources = group if group is not None else before
            if not self._step(unit, previous, sources):
                return _Flow(False, previous, None)
            state = self._states[unit.id]
            if unit.step_type != "condition":
                before.append(unit)
            if unit.step_type == "merge":
                group = None
            if state.status == "skipped":
                continue
            output = state.output
            if state.status == "completed" and unit.step_type != "condition":
                previous = state.output
            if is_conditional and _ends(unit, state):
                self._skip_rest(units[at + 1 :])
                break
        return _Flow(True, previous, output)

    def _group(self, group: _Group, previous: Json) -> bool:
        """Advance the steps of a group; return whether all of them have ended."""
        head = group.head
        if head is not None:
            if self._is_left_out(head, previous):
                for step in group.members:
                    self._skip(step)
                return True
            self._begin(head, None)
        named = {name for step in group.members for name in _named(step)}
        is_done = True
        for step in group.members:
            if step.id in named and not self._is_decided(step, group.members):
                is_done = False
                continue
            is_done = self._step(step, previous, ()) and is_done
        if is_done and head is not None and self._states[head.id].status == "running":
            done = {s.id: self._states[s.id].output for s in group.members if self._states[s.id].status == "completed"}
            self._end(head.id, head, State("completed", done))
        return is_done

    def _is_decided(self, step: Step, members: Sequence[Step]) -> bool:
        """Return whether all conditions that name the step have ended."""
        return all(
            self._states[other.id].status in FINAL if other.id in self._states else False
            for other in members
            if step.id in _named(other)
        )

    def _step(self, step: Step, previous: Json, sources: Sequence[Step]) -> bool:
        """Advance one step; return whether it has ended."""
        state = self._states.get(step.id)
        if state is not None and state.status in FINAL:
            self._choose(step, state)
            return True
        try:
            if self._is_left_out(step, previous):
                return True
            is_done = _KINDS[step.step_type](self, step, previous, sources)
        except FaultError as fault:
            self._fail(step.id, step, fault)
            is_done = True
        if is_done:
            self._choose(step, self._states[step.id])
        return is_done

    def _is_left_out(self, step: Step, previous: Json) -> bool:
        """Skip a step that was not chosen, or whose own condition is false; return whether it is skipped."""
        state = self._states.get(step.id)
        if state is not None:
            return state.status == "skipped"
        if step.id in self._in_flight:
            return False
        if step.id in self._unchosen or (
            step.condition is not None
            and step.step_type != "condition"
            and not compile_condition(step.condition, "condition")(self._look(previous))
        ):
            self._skip(step)
            return True
        return False

    def _call(self, step: Step, previous: Json, _sources: Sequence[Step]) -> bool:
        if self._may_begin(step.id):
            self.ready.append(Ready(step.id, step, self._payload(step, previous)))
        return False

    def _agent(self, step: Step, previous: Json, _sources: Sequence[Step]) -> bool:
        if self._may_begin(step.id):
            template = step.config.prompt if step.config is not None else None
            if template is None:
                payload = self._payload(step, previous)
            else:
                payload = _bounded({"prompt": mapping.render(template, self._look(previous))})
            self.ready.append(Ready(step.id, step, payload))
        return False

    def _condition(self, step: Step, previous: Json, sources: Sequence[Step]) -> bool:
        look = self._look(previous)
        if step.condition is not None:
            result = compile_condition(step.condition, "condition")(look)
        elif step.function_id is not None:
            return self._call(step, previous, sources)
        else:
            found = condition_of((step.input_mapping or {}).get("condition"), "input_mapping.condition")
            result = truth(look(found)) if isinstance(found, str) else found(look)
        self._end(step.id, step, State("completed", {"result": result}))
        return True

    def _merge(self, step: Step, previous: Json, sources: Sequence[Step]) -> bool:
        if step.input_mapping is not None:
            output = mapping.apply(step.input_mapping, self._look(previous))
        else:
            ids = [source.id for source in sources] if step.sources is None else step.sources
            found = {one: self._states[one] for one in ids if one in self._states}
            outputs = {one: state.output for one, state in found.items() if state.status in {"completed", "failed"}}
            output = _MERGES[step.mode](outputs)
        self._end(step.id, step, State("completed", _bounded(output)))
        return True

    def _parallel(self, step: Step, previous: Json, _sources: Sequence[Step]) -> bool:
        if step.items is not None:
            return self._items(step, previous)
        self._begin(step, None)
        outputs, is_done = {}, True
        for branch in step.branches or ():
            flow = self._sequence(in_order(branch.steps), previous)
            outputs[branch.id] = flow.output
            is_done = flow.is_done and is_done
        if is_done:
            self._end(step.id, step, State("completed", _bounded(outputs)))
        return is_done

    def _items(self, step: Step, previous: Json) -> bool:
        if step.id not in self._states:
            items = self._look(previous)(step.items or "")
            if not isinstance(items, list):
                raise FaultError("MAPPING_FAILED", f"items: {step.items} is not a list.")
            if len(items) > MAX_ITEMS:
                raise FaultError("MAPPING_FAILED", f"items: {len(items)} items; at most {MAX_ITEMS} are allowed.")
            self._begin(step, _bounded(items))
        items = self._states[step.id].input
        outputs, is_done = [], True
        for at, item in enumerate(items):
            key = f"{step.id}[{at}]"
            state = self._states.get(key)
            if state is not None and state.status in FINAL:
                outputs.append(state.output)
                continue
            is_done = False
            if not self._has_room():
                break
            if self._may_begin(key):
                payload: Json = {"item": item, "index": at}
                if step.input_mapping is not None:
                    payload = mapping.apply(step.input_mapping, self._look(previous, payload))
                self.ready.append(Ready(key, step, _bounded(payload)))
        if is_done:
            self._end(step.id, step, State("completed", _bounded(outputs)))
        return is_done

    def _payload(self, step: Step, previous: Json) -> Json:
        if step.input_mapping is not None:
            return _bounded(mapping.apply(step.input_mapping, self._look(previous)))
        return _bounded(previous if isinstance(previous, dict) else {"value": previous})

    def _may_begin(self, key: str) -> bool:
        return key not in self._in_flight and self._has_room()

    def _has_room(self) -> bool:
        return len(self.ready) + len(self._in_flight) < MAX_CALLS

    def _look(self, previous: Json, more: Mapping[str, Json] | None = None) -> Callable[[str], Json]:
        def look(path: str) -> Json:
            root, *rest = parse(path)
            if root == "steps":
                state = self._states.get(str(rest[0]))
                return None if state is None else follow(getattr(state, str(rest[1])), tuple(rest[2:]))
            roots = {"input": self._context.input, "previous": previous, "trigger": self._context.trigger}
            return follow((roots | dict(more or {})).get(str(root)), tuple(rest))

        return look

    def _begin(self, step: Step, items: Json) -> None:
        if step.id not in self._states:
            self._end(step.id, step, State("running", input=items))

    def _end(self, key: str, step: Step, state: State) -> None:
        before = self._states.get(key)
        if before is not None and before.input is not None:
            state.input = before.input
        self._states[key] = state
        self.instants.append(Instant(key, step, state))

    def _fail(self, key: str, step: Step, fault: FaultError) -> None:
        error = {"code": fault.code, "message": str(fault), "step_id": key}
        self._end(key, step, State("failed", error=error))
        if step.on_error != "continue":
            raise _StoppedError(Failed(key, fault.code, str(fault)))

    def _choose(self, step: Step, state: State) -> None:
        """Mark the steps that a condition has not chosen."""
        if step.step_type != "condition":
            return
        on_true, on_false = set(step.on_true or ()), set(step.on_false or ())
        if state.status == "skipped":
            self._unchosen |= on_true | on_false
        elif isinstance(state.output, dict) and state.output.get("result"):
            self._unchosen |= on_false - on_true
        else:
            self._unchosen |= on_true - on_false

    def _skip(self, step: Step) -> None:
        """Skip a step, its nested steps, and the steps that it names."""
        for one in walk([step]):
            if one.step.id not in self._states:
                self._end(one.step.id, one.step, State("skipped"))
            self._choose(one.step, State("skipped"))

    def _skip_rest(self, units: Sequence[Step | _Group]) -> None:
        for unit in units:
            steps = [unit] if isinstance(unit, Step) else [*([unit.head] if unit.head else []), *unit.members]
            for step in steps:
                self._skip(step)


_KINDS: dict[str, Callable[[_Planner, Step, Json, Sequence[Step]], bool]] = {
    "function": _Planner._call,
    "agent": _Planner._agent,
    "condition": _Planner._condition,
    "merge": _Planner._merge,
    "parallel": _Planner._parallel,
}


def _one_after_another(steps: Sequence[Step]) -> list[Step | _Group]:
    """Return the units of a sequence: a parallel step without content starts a group up to the next merge."""
    units: list[Step | _Group] = []
    at = 0
    while at < len(steps):
        step = steps[at]
        at += 1
        if step.step_type != "parallel" or step.branches is not None or step.items is not None:
            units.append(step)
            continue
        members = []
        while at < len(steps) and steps[at].step_type != "merge":
            members.append(steps[at])
            at += 1
        units.append(_Group(step, members))
    return units


def _all_at_once(steps: Sequence[Step]) -> list[Step | _Group]:
    """Return the units of a parallel workflow: groups between its merges."""
    units: list[Step | _Group] = []
    for step in steps:
        if step.step_type == "merge":
            units.append(step)
        elif units and isinstance(units[-1], _Group):
            units[-1].members.append(step)
        else:
            units.append(_Group(None, [step]))
    return units


def _named(step: Step) -> set[str]:
    return {*(step.on_true or ()), *(step.on_false or ())}


def _ends(step: Step, state: State) -> bool:
    """Return whether a condition step ends a conditional workflow: it is false and names no steps."""
    if step.step_type != "condition" or step.on_true is not None or step.on_false is not None:
        return False
    return not (isinstance(state.output, dict) and state.output.get("result"))


def _bounded(value: Json) -> Json:
    if len(json.encode(value)) > MAX_BYTES:
        raise FaultError("OUTPUT_TOO_LARGE", f"The inputs and outputs of a step have at most {MAX_BYTES} bytes.")
    return value


def _deep(outputs: Mapping[str, Json]) -> Json:
    result: Json = {}
    for value in outputs.values():
        result = _patched(result, value)
    return result


def _patched(target: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _patched(result.get(name), value)
    return result


_MERGES: dict[str, Callable[[Mapping[str, Json]], Json]] = {
    "object": dict,
    "array": lambda outputs: list(outputs.values()),
    "deep": _deep,
}
