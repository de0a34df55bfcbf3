"""`db.merging.Mergers`: items of one key run together, those of different keys do not wait for each other."""

import asyncio
from collections.abc import Sequence

import pytest

from pilotis.db.merging import Mergers


async def test_items_of_one_key_run_together_and_keys_are_forgotten():
    batches: list[list[int]] = []

    async def run(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await asyncio.sleep(0)
        return [item * 10 for item in items]

    mergers: Mergers[str, int, int] = Mergers(run)
    results = await asyncio.gather(*(mergers.submit("a", number) for number in range(20)))
    assert results == [number * 10 for number in range(20)]
    assert len(batches) < 20
    assert sorted(number for batch in batches for number in batch) == list(range(20))
    assert not mergers._mergers


async def test_keys_do_not_wait_for_each_other():
    gate = asyncio.Event()

    async def run(items: Sequence[str]) -> Sequence[str]:
        if "slow" in items:
            await gate.wait()
        return items

    mergers: Mergers[str, str, str] = Mergers(run)
    # As many as there are lanes for one key, and more that wait for them.
    slow = [asyncio.create_task(mergers.submit("a", "slow")) for _ in range(5)]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await mergers.submit("b", "quick") == "quick"
    assert not any(task.done() for task in slow)
    gate.set()
    assert await asyncio.gather(*slow) == ["slow"] * 5
    assert not mergers._mergers


async def test_an_error_reaches_everybody_and_leaves_nothing():
    async def run(items: Sequence[int]) -> Sequence[int]:
        raise LookupError

    mergers: Mergers[str, int, int] = Mergers(run)
    tasks = [asyncio.create_task(mergers.submit("a", number)) for number in range(5)]
    for task in tasks:
        with pytest.raises(LookupError):
            await task
    assert not mergers._mergers
