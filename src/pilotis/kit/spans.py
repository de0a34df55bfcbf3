"""Spans of work, for tracing: what the code tells of, and where nobody listens, nothing.

A process that exports traces sets a `Recorder` at its start (`pilotis.tracing`). Without one, `span` returns the same
empty object each time. Attributes are names, kinds, ids and counts: never a value of a statement, a secret, a token,
a mail address, the path of another server's URL, or anything that a member wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeVar

Attribute = str | int | float | bool
Kind = Literal["internal", "client", "producer", "consumer"]
C = TypeVar("C", bound=Callable[..., object])


class Span:
    """A piece of work that nobody records."""

    traceparent: str | None = None
    """The `traceparent` header for what the work sends (W3C Trace Context, section 3.2); None if it is not recorded."""

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute."""

    def fail(self, code: str) -> None:
        """Say that the work has failed, by a code or the type of an error, never by its message."""


class Recorder(Protocol):
    """Records spans."""

    def span(
        self, name: str, attributes: Mapping[str, Attribute], *, kind: Kind, request_id: str | None, is_root: bool
    ) -> AbstractContextManager[Span]:
        """Record a block; see the function `span`."""

    def bound(self, call: C) -> C:
        """Return a function that works for the span in which this was called."""

    def carried(self) -> str | None:
        """Return the `traceparent` of what is being worked for, to store with work for later; None without one."""


_NOTHING = nullcontext(Span())
_recorder: Recorder | None = None


def record_by(recorder: Recorder | None) -> None:
    """Record the spans of this process; None ends that."""
    global _recorder
    _recorder = recorder


def is_on() -> bool:
    """Whether anything records spans."""
    return _recorder is not None


def span(
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    kind: Kind = "internal",
    request_id: str | None = None,
    is_root: bool = False,
) -> AbstractContextManager[Span]:
    """Return a context manager for a piece of work, such as the call of a function.

    It belongs to the work that surrounds it in this task, else to the request of `request_id`, also to one that another
    process has answered, if that was traced. Without either it is not recorded, unless it `is_root`: then it begins a
    trace, as often as requests do.
    """
    if _recorder is None:
        return _NOTHING
    return _recorder.span(name, attributes, kind=kind, request_id=request_id, is_root=is_root)


def bound(call: C) -> C:
    """Return a function that another task calls, and which then works for the span of the present one."""
    return call if _recorder is None else _recorder.bound(call)


def carried() -> str | None:
    """Return the `traceparent` of what is being worked for, as an id to store with work for later; None without one."""
    return None if _recorder is None else _recorder.carried()
