"""Slots for attempts: never more than there are, nobody waits while one is free, and apps share them fairly."""

import asyncio
import random
from collections import Counter
from uuid import UUID

import pytest

from pilotis.webhooks.attempts import AttemptSlots

BUSY, QUIET = UUID(int=1), UUID(int=2)


async def settled() -> None:
    """Let every task go on as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def waiting(slots: AttemptSlots, *app_ids: UUID) -> tuple[list[asyncio.Task[None]], list[UUID]]:
    """Tasks that each acquire a slot, and a list of the apps that have got theirs."""
    served: list[UUID] = []

    async def wait(app_id: UUID) -> None:
        await slots.acquire(app_id)
        served.append(app_id)

    tasks = [asyncio.create_task(wait(app_id)) for app_id in app_ids]
    await settled()
    return tasks, served


async def test_the_last_quarter_is_for_apps_that_hold_less():
    slots = AttemptSlots(8)
    busy, served = await waiting(slots, *[BUSY] * 10)
    assert len(served) == 6
    _, others = await waiting(slots, QUIET, QUIET)
    assert others == [QUIET, QUIET]
    # Nothing is free now. What is returned fills the last quarter first, then goes to who holds the fewest.
    more, others = await waiting(slots, *[QUIET] * 4)
    for _ in range(3):
        assert others == []
        slots.release(BUSY)
        await settled()
    assert (others, len(served)) == ([QUIET], 6)
    slots.release(BUSY)
    await settled()
    assert (others, len(served)) == ([QUIET], 7)
    for app_id in [QUIET, BUSY] * 3:
        slots.release(app_id)
        await settled()
    await asyncio.gather(*busy, *more)


async def test_who_stops_waiting_leaves_the_slot_to_others():
    slots = AttemptSlots(4)
    for number in range(3):
        await slots.acquire(UUID(int=10 + number))
    await slots.acquire(BUSY)
    first, second = (asyncio.create_task(slots.acquire(app_id)) for app_id in (QUIET, BUSY))
    await settled()
    first.cancel()
    slots.release(BUSY)
    await asyncio.wait_for(second, 1)
    assert first.cancelled()
    # Also one that is cancelled in the moment in which it got the slot.
    third = asyncio.create_task(slots.acquire(QUIET))
    await settled()
    slots.release(BUSY)
    third.cancel()
    with pytest.raises(asyncio.CancelledError):
        await third
    await asyncio.wait_for(slots.acquire(BUSY), 1)


async def test_many_apps_at_random_never_hold_more_than_there_are():
    slots, chance = AttemptSlots(16), random.Random(3)
    held: Counter[UUID] = Counter()

    async def use(app_id: UUID) -> None:
        await slots.acquire(app_id)
        held[app_id] += 1
        try:
            assert held.total() <= 16
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        finally:
            held[app_id] -= 1
            slots.release(app_id)

    tasks = [asyncio.create_task(use(UUID(int=chance.randrange(5)))) for _ in range(2000)]
    for task in chance.sample(tasks, 300):
        asyncio.get_running_loop().call_later(chance.uniform(0, 0.02), task.cancel)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in done} <= {type(None), asyncio.CancelledError}
    # Every slot is back.
    for number in range(16):
        await asyncio.wait_for(slots.acquire(UUID(int=number)), 1)
