"""Spans of what an object store reads and writes for traced work: which operation, how many bytes, never a key."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from pilotis.blobs.protocol import BlobInfo, BlobStore
from pilotis.tracing.recorder import MAX_BLOBS, Active, Recorder, current

_CALLS = ("put", "finish", "copy", "delete")
_STREAMS = ("open", "append")


def trace_blobs(recorder: Recorder, store: BlobStore) -> None:
    """Record the calls of this store: `put`, `finish`, `copy`, `delete`, and `open` and `append` to their end."""
    for name in _CALLS:
        setattr(store, name, _traced_call(recorder, name, getattr(store, name)))
    for name in _STREAMS:
        setattr(store, name, _traced_stream(recorder, name, getattr(store, name)))


def _traced_call(
    recorder: Recorder, name: str, call: Callable[..., Coroutine[Any, Any, Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(call)
    async def run(*arguments: Any, **named: Any) -> Any:
        active = current()
        if active is None:
            return await call(*arguments, **named)
        span = _Span(recorder, active, name)
        try:
            answer = await call(*arguments, **named)
            if isinstance(answer, BlobInfo):
                span.bytes = answer.size
            return answer
        except BaseException as error:
            span.error = type(error).__name__
            raise
        finally:
            span.end()

    return run


def _traced_stream(
    recorder: Recorder, name: str, call: Callable[..., AsyncGenerator[Any]]
) -> Callable[..., AsyncGenerator[Any]]:
    @functools.wraps(call)
    async def run(*arguments: Any, **named: Any) -> AsyncGenerator[Any]:
        active = current()
        async with aclosing(call(*arguments, **named)) as found:
            if active is None:
                async for one in found:
                    yield one
                return
            span = _Span(recorder, active, name)
            try:
                async for one in found:
                    if isinstance(one, bytes | bytearray | memoryview):
                        span.bytes = (span.bytes or 0) + len(one)
                    yield one
            except GeneratorExit:
                raise  # whoever reads has enough
            except BaseException as error:
                span.error = type(error).__name__
                raise
            finally:
                span.end()

    return run


class _Span:
    """A call that is being recorded."""

    def __init__(self, recorder: Recorder, active: Active, operation: str) -> None:
        self._recorder = recorder
        self._active = active
        self._operation = operation
        self._begun = time.perf_counter()
        self.bytes: int | None = None
        self.error: str | None = None

    def end(self) -> None:
        """Record it."""
        self._active.blobs += 1
        if self._active.blobs > MAX_BLOBS:
            return
        attributes: dict[str, str | int] = {"pilotis.blob.operation": self._operation}
        if self.bytes is not None:
            attributes["pilotis.blob.bytes"] = self.bytes
        if self.error is not None:
            attributes["error.type"] = self.error
        self._recorder.ended("blob", self._active, time.perf_counter() - self._begun, attributes, "client")
