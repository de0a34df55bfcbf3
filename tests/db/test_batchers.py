"""`db.batching.Batchers`: items of one key run together, those of different keys do not wait for each other."""

import asyncio
from collections.abc import Sequence

import pytest

from pilotis.db import batching
from pilotis.db.batching import Batcher, Batchers
from pilotis.kit.errors import UnavailableError


async def test_items_of_one_key_run_together_and_keys_are_forgotten():
    batches: list[list[int]] = []

    async def run(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await asyncio.sleep(0)
        return [item * 10 for item in items]

    batchers: Batchers[str, int, int] = Batchers(run)
    results = await asyncio.gather(*(batchers.submit("a", number) for number in range(20)))
    assert results == [number * 10 for number in range(20)]
    assert len(batches) < 20
    assert sorted(number for batch in batches for number in batch) == list(range(20))
    assert not batchers._batchers


async def test_keys_do_not_wait_for_each_other():
    gate = asyncio.Event()

    async def run(items: Sequence[str]) -> Sequence[str]:
        if "slow" in items:
            await gate.wait()
        return items

    batchers: Batchers[str, str, str] = Batchers(run)
    # As many as there are lanes for one key, and more that wait for them.
    slow = [asyncio.create_task(batchers.submit("a", "slow")) for _ in range(5)]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await batchers.submit("b", "quick") == "quick"
    assert not any(task.done() for task in slow)
    gate.set()
    assert await asyncio.gather(*slow) == ["slow"] * 5
    assert not batchers._batchers


async def test_an_error_reaches_everybody_and_leaves_nothing():
    async def run(items: Sequence[int]) -> Sequence[int]:
        raise LookupError

    batchers: Batchers[str, int, int] = Batchers(run)
    tasks = [asyncio.create_task(batchers.submit("a", number)) for number in range(5)]
    for task in tasks:
        with pytest.raises(LookupError):
            await task
    assert not batchers._batchers


async def test_a_batch_is_never_larger_and_no_more_run_side_by_side_than_is_said():
    sizes: list[int] = []
    running: list[int] = []
    gate = asyncio.Event()

    async def run(items: Sequence[int]) -> Sequence[int]:
        sizes.append(len(items))
        running.append(1)
        assert len(running) <= 3
        await gate.wait()
        running.pop()
        return items

    batcher: Batcher[int, int] = Batcher(run, max_batch=7, workers=3)
    tasks = [asyncio.create_task(batcher.submit(number)) for number in range(100)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*tasks) == list(range(100))
    assert max(sizes) == 7
    assert sum(sizes) == 100


async def test_a_full_queue_refuses_and_a_stuck_one_expires(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batching, "MAX_WAITING", 3)
    monkeypatch.setattr(batching, "WAIT_SECONDS", 0.05)
    seen: list[str] = []
    gate = asyncio.Event()

    async def run(items: Sequence[str]) -> Sequence[str]:
        seen.extend(items)
        await gate.wait()
        return items

    batcher: Batcher[str, str] = Batcher(run, workers=1)
    first = asyncio.create_task(batcher.submit("running"))
    await asyncio.sleep(0.01)
    waiting = [asyncio.create_task(batcher.submit("waiting")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="Too many"):
        await batcher.submit("refused")
    for task in waiting:
        with pytest.raises(UnavailableError, match="busy"):
            await task
    gate.set()
    assert await first == "running"
    assert await batcher.submit("later") == "later"
    assert seen == ["running", "later"]


async def test_an_item_of_a_cancelled_caller_is_not_run():
    seen: list[int] = []
    gate = asyncio.Event()

    async def run(items: Sequence[int]) -> Sequence[int]:
        seen.extend(items)
        await gate.wait()
        return items

    batcher: Batcher[int, int] = Batcher(run, workers=1)
    tasks = [asyncio.create_task(batcher.submit(0))]
    await asyncio.sleep(0.01)
    tasks += [asyncio.create_task(batcher.submit(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert seen == [0, 2]
