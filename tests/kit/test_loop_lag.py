"""The lag of the event loop is what a blocking call makes of it."""

import asyncio
import time

from pilotis.kit.loop_lag import LoopLag
from tests.waiting import until


async def test_a_blocked_loop_is_late():
    lag = LoopLag(period=0.01)
    lag.start()

    async def counted() -> bool:
        return sum(lag.histogram.buckets) >= 3

    try:
        await until(counted)
        before = lag.histogram.sums[0]
        time.sleep(0.3)  # noqa: ASYNC251 - that is what it is about
        await asyncio.sleep(0.02)
    finally:
        lag.stop()
    assert lag.histogram.sums[0] - before > 0.25
    count = sum(lag.histogram.buckets)
    await asyncio.sleep(0.05)
    assert sum(lag.histogram.buckets) == count, "it has ended"
