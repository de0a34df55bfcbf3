"""Streams that wait for news, such as those of a workflow: a message says what has news, and they read it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID


class News:
    """Wakes the streams of this process: subscribe `told` and `missed` to `Topic.NEWS`."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def told(self, key: str) -> None:
        """Wake the streams of a message: an app's id, and the ids of what has news in it, separated by colons."""
        for part in key.split(":")[1:]:
            for changed in self._waiting.get(part, ()):
                changed.set()

    def missed(self) -> None:
        """Wake all streams: messages may have been lost."""
        for waiting in self._waiting.values():
            for changed in waiting:
                changed.set()

    @contextmanager
    def listen(self, of: UUID) -> Generator[asyncio.Event]:
        """Yield what is set whenever what has this id has news."""
        changed, key = asyncio.Event(), str(of)
        self._waiting.setdefault(key, set()).add(changed)
        try:
            yield changed
        finally:
            self._waiting[key].discard(changed)
            if not self._waiting[key]:
                del self._waiting[key]
