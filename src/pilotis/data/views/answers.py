"""Cached answers of views, in one process: bounded by app, by view and in all. Pure."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple
from uuid import UUID

MAX_SETS = 100
"""Sets of parameters of one view."""
MAX_APP_BYTES = 10 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024


class Answer(NamedTuple):
    """The bytes of an answer, and when they were computed, on the clock of the cache."""

    body: bytes
    made: float


class _View:
    """The answers of one state of a view, the oldest first."""

    def __init__(self, state: Hashable) -> None:
        self.state = state
        self.answers: OrderedDict[Hashable, Answer] = OrderedDict()


class _App:
    def __init__(self) -> None:
        self.views: OrderedDict[UUID, _View] = OrderedDict()
        self.size = 0


class Answers:
    """Caches answers. What a view is, and the tables that it reads, are its `state`: of another there is none."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._apps: OrderedDict[UUID, _App] = OrderedDict()
        self._size = 0

    def now(self) -> float:
        """Return the time, in seconds."""
        return self._clock()

    def get(self, app_id: UUID, view_id: UUID, state: Hashable, key: Hashable, seconds: int) -> Answer | None:
        """Return an answer that is younger than so many seconds."""
        app = self._apps.get(app_id)
        view = None if app is None else app.views.get(view_id)
        answer = None if view is None or view.state != state else view.answers.get(key)
        if answer is None or self._clock() - answer.made >= seconds:
            return None
        self._apps.move_to_end(app_id)
        return answer

    def put(self, app_id: UUID, view_id: UUID, state: Hashable, key: Hashable, answer: Answer) -> None:
        """Cache an answer, in the place of the oldest ones beyond the bounds; one that is too large is not cached."""
        size = len(answer.body)
        if size > MAX_APP_BYTES:
            return
        app = self._apps.setdefault(app_id, _App())
        self._apps.move_to_end(app_id)
        view = app.views.get(view_id)
        if view is None or view.state != state:
            self._drop_view(app, view_id)
            view = app.views[view_id] = _View(state)
        app.views.move_to_end(view_id)
        self._drop(app, view, key)
        while len(view.answers) >= MAX_SETS:
            self._drop(app, view, next(iter(view.answers)))
        view.answers[key] = answer
        self._grow(app, size)
        while app.size > MAX_APP_BYTES:
            self._drop_oldest(app)
        while self._size > MAX_BYTES:
            oldest = next(iter(self._apps.values()))
            self._drop_oldest(oldest)
            if not oldest.views:
                self._apps.popitem(last=False)

    @property
    def size(self) -> int:
        """The bytes of all answers."""
        return self._size

    def _drop_oldest(self, app: _App) -> None:
        """Drop an answer of the view that has not had a new one for longest."""
        view_id, view = next(iter(app.views.items()))
        self._drop(app, view, next(iter(view.answers)))
        if not view.answers:
            del app.views[view_id]

    def _drop_view(self, app: _App, view_id: UUID) -> None:
        view = app.views.pop(view_id, None)
        for answer in () if view is None else view.answers.values():
            self._grow(app, -len(answer.body))

    def _drop(self, app: _App, view: _View, key: Hashable) -> None:
        answer = view.answers.pop(key, None)
        if answer is not None:
            self._grow(app, -len(answer.body))

    def _grow(self, app: _App, size: int) -> None:
        app.size += size
        self._size += size
