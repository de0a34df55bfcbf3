"""Whether a request has done something that its repetition would do again.

A transaction that PostgreSQL rolls back because of others, for example to end a deadlock, has changed nothing. Its
request can run again from the start, unless it has already committed something, sent something, or read a stream.
"""

from __future__ import annotations

from contextvars import ContextVar, Token


class Effects:
    """What one run of a request has done so far; its tasks share it. What a run does, the one around it does too."""

    __slots__ = ("around", "exist")

    def __init__(self, around: Effects | None) -> None:
        self.around = around
        self.exist = False


_CURRENT: ContextVar[Effects | None] = ContextVar("effects", default=None)


def begin() -> tuple[Effects, Token[Effects | None]]:
    """Begin a run in this task and those that it starts; `end` takes the token."""
    effects = Effects(_CURRENT.get())
    return effects, _CURRENT.set(effects)


def end(token: Token[Effects | None]) -> None:
    """End the run."""
    _CURRENT.reset(token)


def took_effect() -> None:
    """Note that something was done, or may have been done, that cannot be undone."""
    effects = _CURRENT.get()
    while effects is not None and not effects.exist:
        effects.exist = True
        effects = effects.around
