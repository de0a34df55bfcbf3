"""KeyedLocks: one holder at a time for each key."""

import asyncio
import gc

import pytest

from pilotis.kit.keyed_locks import KeyedLocks


async def test_those_who_name_the_same_key_come_one_after_the_other():
    locks, inside, most = KeyedLocks(), 0, 0

    async def run(keys: list[str]) -> None:
        nonlocal inside, most
        async with locks.acquire(keys, 5):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    # In any order, and with repeated keys, there is no deadlock.
    await asyncio.gather(
        *(run(keys) for keys in (["a", "b"], ["b", "a", "b"], ["b", "c"], ["c", "b"]) for _ in "12345")
    )
    assert most == 1
    await asyncio.gather(run(["a"]), run(["b"]))
    assert most == 2
    gc.collect()
    assert not locks._locks, "locks that nobody has are kept"


async def test_who_waits_too_long_is_told_and_leaves_nothing_locked():
    locks = KeyedLocks()
    async with locks.acquire(["b"], 5):
        with pytest.raises(TimeoutError):
            async with locks.acquire(["a", "b"], 0.01):
                pytest.fail("two at once")
        async with locks.acquire(["a"], 0.01):
            pass
