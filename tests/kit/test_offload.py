"""Which thread does work whose duration depends on a request's size."""

import asyncio
import threading

from pilotis.kit.offload import INLINE_BYTES, offload

LARGE = 10 * 1024 * 1024


async def test_little_work_is_done_at_once():
    assert await offload(INLINE_BYTES, threading.get_ident) == threading.get_ident()


async def test_work_of_milliseconds_waits_for_none_of_seconds_and_competes_with_none_of_its_kind():
    release = threading.Event()
    large = [asyncio.create_task(offload(LARGE, release.wait)) for _ in range(3)]
    try:
        async with asyncio.timeout(30):
            found = await asyncio.gather(*(offload(INLINE_BYTES + 1, threading.get_ident) for _ in range(8)))
        assert len(set(found)) == 1
        assert threading.get_ident() not in found
        assert not any(task.done() for task in large)
    finally:
        release.set()
        await asyncio.gather(*large)


async def test_two_large_pieces_of_work_are_done_at_the_same_time():
    meet = threading.Barrier(2, timeout=30)
    await asyncio.gather(offload(LARGE, meet.wait), offload(LARGE, meet.wait))
