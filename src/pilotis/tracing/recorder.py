"""Decides which requests are traced, and records spans.

The id of a traced request *is* the `traceparent` of its span, unless the client has chosen an id. So everything that
keeps the id of a request, such as events, executions of functions and workflows, leads later work to the trace, also
on other nodes.
"""

from __future__ import annotations

import functools
import random
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pilotis.kit import origin, spans
from pilotis.kit.errors import PilotisError
from pilotis.kit.spans import Attribute, Kind

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_SAMPLED = 1
MAX_PER_SECOND = 50
"""How many traces a process begins or goes on with in a second.

Each costs about 0.15 ms of the processor, half of that for its export, and anybody may ask for one."""
MAX_STATEMENTS = 200
"""How many statements of a span are recorded: an import has thousands."""
MAX_BLOBS = 200
"""How many reads and writes of the object store are recorded of a span: a site has thousands of files."""
_MAX_OPEN = 10_000
_MAX_ENDED = 4_096
_KINDS: Mapping[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_NOT_RECORDED = nullcontext(spans.Span())
C = TypeVar("C", bound=Callable[..., object])


class Active(spans.Span):
    """A span that is being recorded."""

    def __init__(self, recorded: trace.Span) -> None:
        self.recorded = recorded
        self.context = recorded.get_span_context()
        self.traceparent = traceparent_of(self.context)
        self.is_open = True
        self.statements = 0
        self.blobs = 0
        self.request_id = self.traceparent
        """The id of the request whose span it is."""

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute."""
        self.recorded.set_attribute(name, value)

    def fail(self, code: str) -> None:
        """Say that the work has failed."""
        self.recorded.set_status(Status(StatusCode.ERROR))
        self.recorded.set_attribute("error.type", code)

    @contextmanager
    def being_worked_for(self) -> Iterator[None]:
        """Work for it in a block of this task."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def end(self) -> None:
        """End it now."""
        self.is_open = False
        if self.statements > MAX_STATEMENTS:
            self.set("pilotis.statements", self.statements)
        if self.blobs > MAX_BLOBS:
            self.set("pilotis.blobs", self.blobs)
        self.recorded.end()


CURRENT: ContextVar[Active | None] = ContextVar("span", default=None)
"""What the task works for. A task that outlives it, as that of a batch, has one that is no longer open."""


class Recorder:
    """Records the spans of one process by a tracer; `ratio` of the requests without a parent are traced."""

    def __init__(self, tracer: trace.Tracer, ratio: float) -> None:
        self._tracer = tracer
        self.ratio = ratio
        self._open: OrderedDict[str, Active] = OrderedDict()
        self._ended: OrderedDict[str, SpanContext] = OrderedDict()
        self._second = 0
        self._begun = 0

    def request(self, method: str, traceparent: bytes | None, given_id: bytes | None) -> Active | None:
        """Begin the span of a request, or return None if it is not traced.

        Of a request that has a `traceparent` its caller decides (W3C Trace Context, section 3.2.2.5.1), as long as
        there are no more than `MAX_PER_SECOND`. `given_id` is the id that the client has chosen.
        """
        if traceparent is None and random.random() >= self.ratio:  # noqa: S311
            return None
        return self.chosen(method, traceparent, given_id)

    def chosen(self, method: str, traceparent: bytes | None, given_id: bytes | None) -> Active | None:
        """Begin the span of a request that has a `traceparent` or was drawn; None if it is not traced all the same.

        One whose `traceparent` is invalid is as one without.
        """
        parent = None if traceparent is None else context_of(traceparent.decode("latin-1"))
        if parent is None:
            if traceparent is not None and random.random() >= self.ratio:  # noqa: S311
                return None
        elif not parent.trace_flags & _SAMPLED:
            return None
        if not self._has_budget():
            return None
        active = self._begin(method, parent, SpanKind.SERVER, {"http.request.method": method})
        if given_id is not None:
            active.request_id = given_id.decode("latin-1")
            active.set("pilotis.request_id", active.request_id)
        if active.request_id in self._open:
            # Another request has the same id, and what is done for it could not be told from this one's.
            return None
        self._open[active.request_id] = active
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)
        return active

    def open(self, request_id: str) -> Active | None:
        """Return the span of a request that is being answered."""
        return self._open.get(request_id)

    @property
    def is_idle(self) -> bool:
        """Whether no traced request is being answered."""
        return not self._open

    def discard(self, active: Active) -> None:
        """Forget the span of a request, which another one replaces."""
        self._open.pop(active.request_id, None)
        active.is_open = False

    def answered(self, active: Active, name: str, status: int, error: str | None) -> None:
        """End the span of a request."""
        if self._open.pop(active.request_id, None) is None:
            return
        active.recorded.update_name(name)
        active.set("http.response.status_code", status)
        if status >= 500:
            active.fail(error or str(status))
        active.end()
        if active.request_id != active.traceparent:
            self._ended[active.request_id] = active.context
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)

    def span(
        self, name: str, attributes: Mapping[str, Attribute], *, kind: Kind, request_id: str | None, is_root: bool
    ) -> AbstractContextManager[spans.Span]:
        """Record a block: see `pilotis.kit.spans.span`."""
        # Work in the background may run in a task that began inside another request than the one that led to it.
        parent = self._known(request_id, is_alone=is_root)
        if parent is None:
            parent = _carried_by(request_id or origin.current())
            is_drawn = parent is not None or (is_root and random.random() < self.ratio)  # noqa: S311
            # Also of what an id says: a client may have chosen that.
            if not is_drawn or not self._has_budget():
                return _NOT_RECORDED
        return self._recorded(self._begin(name, parent, _KINDS[kind], attributes))

    def bound(self, call: C) -> C:
        """Return a function that works for the span in which this was called."""
        active = current()
        if active is None:
            return call

        @functools.wraps(call)
        async def run(*arguments: Any, **named: Any) -> Any:
            with active.being_worked_for():
                return await cast("Any", call)(*arguments, **named)

        return cast("C", run)

    def carried(self) -> str | None:
        """Return the `traceparent` of what is being worked for."""
        parent = self._known(None) or _carried_by(origin.current())
        return None if parent is None else traceparent_of(parent)

    def ended(
        self, name: str, parent: Active, seconds: float, attributes: Mapping[str, Attribute], kind: Kind = "internal"
    ) -> None:
        """Record work that has just ended."""
        end = time.time_ns()
        recorded = self._tracer.start_span(
            name,
            _within(parent.context),
            _KINDS[kind],
            attributes,
            start_time=end - int(seconds * 1e9),
            record_exception=False,
            set_status_on_exception=False,
        )
        recorded.end(end)

    def _begin(
        self, name: str, parent: SpanContext | None, kind: SpanKind, attributes: Mapping[str, Attribute]
    ) -> Active:
        recorded = self._tracer.start_span(
            name, _within(parent), kind, attributes, record_exception=False, set_status_on_exception=False
        )
        return Active(recorded)

    @contextmanager
    def _recorded(self, active: Active) -> Iterator[spans.Span]:
        try:
            with active.being_worked_for():
                yield active
        except Exception as error:
            active.fail(error.code if isinstance(error, PilotisError) else type(error).__name__)
            raise
        finally:
            active.end()

    def _known(self, request_id: str | None, *, is_alone: bool = False) -> SpanContext | None:
        """Return the span of this process that work belongs to: the present one, or that of a request."""
        if (active := current()) is not None and not (is_alone and request_id):
            return active.context
        request_id = request_id or origin.current()
        if request_id is None:
            return None
        found = self._open.get(request_id)
        return self._ended.get(request_id) if found is None else found.context

    def _has_budget(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._begun = second, 0
        self._begun += 1
        return self._begun <= MAX_PER_SECOND


def current() -> Active | None:
    """Return what this task works for, if that has not ended."""
    active = CURRENT.get()
    return active if active is not None and active.is_open else None


def context_of(traceparent: str) -> SpanContext | None:
    """Return what a `traceparent` names; None if it is invalid (W3C Trace Context, section 3.2.2)."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN:
        return None
    return SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=TraceFlags(int(found[3], 16)))


def _carried_by(request_id: str | None) -> SpanContext | None:
    parent = None if request_id is None else context_of(request_id)
    return parent if parent is not None and parent.trace_flags & _SAMPLED else None


def traceparent_of(context: SpanContext) -> str:
    """Return the `traceparent` of a span that is recorded."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def _within(parent: SpanContext | None) -> Any:
    from opentelemetry.context import Context

    # Never the context of OpenTelemetry's own, which this process does not keep.
    return Context() if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
