"""Those who ask the same at once share an answer that is never older than their question."""

import asyncio

import pytest

from pilotis.db.merging import Sharing


class Source:
    """Counts how often it is asked; each answer takes until `go` is called."""

    def __init__(self) -> None:
        self.asked = 0
        self._gates: list[asyncio.Event] = []

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        gate = asyncio.Event()
        self._gates.append(gate)
        await gate.wait()
        if number == 3:
            raise ValueError
        return number

    async def go(self) -> None:
        """Let the answer in hand be given, and everybody take it."""
        self._gates[-1].set()
        await settled()


async def settled() -> None:
    """Let all that can go on do so; it takes turns of the loop, not time."""
    for _ in range(100):
        await asyncio.sleep(0)


async def asking(sharing: Sharing[int], source: Source, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(sharing.run("q", source)) for _ in range(count)]
    await settled()
    return tasks


async def test_who_asks_meanwhile_shares_the_next_answer() -> None:
    sharing, source = Sharing[int](), Source()
    first = await asking(sharing, source, 1)
    second = await asking(sharing, source, 5)
    assert source.asked == 1
    await source.go()
    third = await asking(sharing, source, 2)
    await source.go()
    assert [task.result() for task in first + second] == [1, 2, 2, 2, 2, 2]
    await source.go()
    assert all(isinstance(task.exception(), ValueError) for task in third)
    assert not sharing._waiting


async def test_one_that_is_cancelled_takes_nobody_along() -> None:
    sharing, source = Sharing[int](), Source()
    first = await asking(sharing, source, 1)
    second = await asking(sharing, source, 2)
    first[0].cancel()
    await settled()
    second[0].cancel()
    await source.go()
    assert await second[1] == 2
    with pytest.raises(asyncio.CancelledError):
        await first[0]
    assert not sharing._waiting


async def test_different_questions_are_asked_apart() -> None:
    sharing, source = Sharing[int](), Source()
    tasks = [asyncio.create_task(sharing.run(number, source)) for number in range(2)]
    await settled()
    assert source.asked == 2
    for gate in source._gates:
        gate.set()
    assert await asyncio.gather(*tasks) == [1, 2]
