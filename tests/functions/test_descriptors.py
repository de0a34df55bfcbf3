"""A sandbox whose start is cancelled, at any moment, closes its own descriptors, each of them once."""

import asyncio
import gc
import os

import psutil
import uvloop

from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.sandbox import Sandbox

STEPS = 12
"""More than a start has before it waits for the process."""
FILES = 64


def test_start_that_is_cancelled() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # The first one also opens what the loop keeps.
        runner.run(_cancelled_after(STEPS))
        for steps in range(STEPS):
            before = psutil.Process().num_fds()
            runner.run(_cancelled_after(steps))
            assert psutil.Process().num_fds() == before
            # What the start has closed is what these get.
            opened = [os.open("/", os.O_RDONLY) for _ in range(FILES)]
            gc.collect()
            for descriptor in opened:
                os.close(descriptor)


async def _cancelled_after(steps: int) -> None:
    sandbox = Sandbox(Isolation.OWN_CODE, Runtime.PYTHON, 128, os.geteuid())
    starting = asyncio.ensure_future(sandbox.start())
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    sandbox.kill()
    await sandbox.ended()
    # Handles of uvloop are closed in its next round.
    await asyncio.sleep(0)
