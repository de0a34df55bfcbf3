"""Turns: one at a time for each key."""

import asyncio
import gc

import pytest

from pilotis.kit.turns import Turns


async def test_those_who_name_the_same_key_come_one_after_the_other():
    turns, inside, most = Turns(), 0, 0

    async def run(keys: list[str]) -> None:
        nonlocal inside, most
        async with turns.take(keys, 5):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    # Named in any order, and twice, nobody waits for another in a circle.
    await asyncio.gather(
        *(run(keys) for keys in (["a", "b"], ["b", "a", "b"], ["b", "c"], ["c", "b"]) for _ in "12345")
    )
    assert most == 1
    await asyncio.gather(run(["a"]), run(["b"]))
    assert most == 2
    gc.collect()
    assert not turns._locks, "locks that nobody has are kept"


async def test_who_waits_too_long_is_told_and_leaves_nothing_locked():
    turns = Turns()
    async with turns.take(["b"], 5):
        with pytest.raises(TimeoutError):
            async with turns.take(["a", "b"], 0.01):
                pytest.fail("two at once")
        async with turns.take(["a"], 0.01):
            pass
