"""Waiting for a thread: whoever waits may be cancelled at any moment, and nothing is closed too early or never."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pilotis.kit.threads import finished


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def test_waits_for_the_thread_however_often_it_is_cancelled(threads: ThreadPoolExecutor) -> None:
    goes_on = threading.Event()
    waiting = asyncio.ensure_future(finished(threads.submit(goes_on.wait)))
    for _ in range(3):
        await asyncio.sleep(0.01)
        waiting.cancel()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    goes_on.set()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_undoes_what_nobody_waits_for(threads: ThreadPoolExecutor) -> None:
    goes_on, given = threading.Event(), list[bool]()
    waiting = asyncio.ensure_future(finished(threads.submit(goes_on.wait), undo=given.append))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    goes_on.set()
    await asyncio.wait([waiting])
    assert given == [True]


async def test_undoes_nothing_that_arrives_or_failed(threads: ThreadPoolExecutor) -> None:
    given = list[int]()
    assert await finished(threads.submit(int, "7"), undo=given.append) == 7
    with pytest.raises(ValueError, match="literal"):
        await finished(threads.submit(int, "x"), undo=given.append)
    goes_on = threading.Event()

    def fails() -> int:
        goes_on.wait()
        raise ValueError

    waiting = asyncio.ensure_future(finished(threads.submit(fails), undo=given.append))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    goes_on.set()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert given == []


async def test_work_that_has_not_begun_never_does(threads: ThreadPoolExecutor) -> None:
    goes_on, given = threading.Event(), list[bool]()
    first = threads.submit(goes_on.wait)
    waiting = asyncio.ensure_future(finished(threads.submit(goes_on.is_set), undo=given.append))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    goes_on.set()
    assert first.result()
    assert given == []
