"""Identical concurrent queries share an answer that is never older than their request."""

import asyncio

import pytest

from pilotis.db import batching
from pilotis.db.batching import SingleFlight
from pilotis.kit.errors import UnavailableError


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
        """Complete the current query, and let all callers receive its answer."""
        self._gates[-1].set()
        await settled()


async def settled() -> None:
    """Let all that can go on do so; it takes turns of the loop, not time."""
    for _ in range(100):
        await asyncio.sleep(0)


async def asking(flight: SingleFlight[int], source: Source, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(flight.run("q", source)) for _ in range(count)]
    await settled()
    return tasks


async def test_who_asks_meanwhile_shares_the_next_answer() -> None:
    flight, source = SingleFlight[int](), Source()
    first = await asking(flight, source, 1)
    second = await asking(flight, source, 5)
    assert source.asked == 1
    await source.go()
    third = await asking(flight, source, 2)
    await source.go()
    assert [task.result() for task in first + second] == [1, 2, 2, 2, 2, 2]
    await source.go()
    assert all(isinstance(task.exception(), ValueError) for task in third)
    assert not flight._flights


async def test_one_that_is_cancelled_takes_nobody_along() -> None:
    flight, source = SingleFlight[int](), Source()
    first = await asking(flight, source, 1)
    second = await asking(flight, source, 2)
    first[0].cancel()
    await settled()
    second[0].cancel()
    await source.go()
    assert await second[1] == 2
    with pytest.raises(asyncio.CancelledError):
        await first[0]
    assert not flight._flights


async def test_different_questions_are_asked_apart() -> None:
    flight, source = SingleFlight[int](), Source()
    tasks = [asyncio.create_task(flight.run(number, source)) for number in range(2)]
    await settled()
    assert source.asked == 2
    for gate in source._gates:
        gate.set()
    assert await asyncio.gather(*tasks) == [1, 2]


async def test_who_waits_for_a_run_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(batching, "MAX_WAITING", 2)
    flight, source = SingleFlight[int](), Source()
    first = await asking(flight, source, 1)
    waiting = [asyncio.create_task(flight.run("q", source)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="Too many"):
        await flight.run("q", source)
    for task in waiting:
        with pytest.raises(UnavailableError, match="busy"):
            await task
    await source.go()
    assert first[0].result() == 1
    assert source.asked == 1


async def test_who_was_served_in_time_may_wait_for_a_slow_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "WAIT_SECONDS", 1)
    flight, source = SingleFlight[int](), Source()
    first = await asking(flight, source, 1)
    second = await asking(flight, source, 1)
    await source.go()
    await asyncio.sleep(1.2)
    await source.go()
    assert [first[0].result(), second[0].result()] == [1, 2]


async def test_where_two_may_run_at_once_nobody_waits_for_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHARE_SECONDS", 0.0)
    flight, source = SingleFlight[int](runs=2), Source()
    first = await asking(flight, source, 1)
    second = await asking(flight, source, 3)
    third = await asking(flight, source, 1)
    # Not a third at once: it begins when one of the two has ended.
    assert source.asked == 2
    await source.go()
    assert [task.result() for task in second] == [2, 2, 2]
    assert source.asked == 3
    await source.go()
    assert isinstance(third[0].exception(), ValueError)
    source._gates[0].set()
    assert await first[0] == 1
    assert not flight._flights


async def test_a_run_that_ends_in_time_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHARE_SECONDS", 0.05)
    flight, source = SingleFlight[int](runs=2), Source()
    first = await asking(flight, source, 1)
    second = asyncio.create_task(flight.run("q", source))
    await asyncio.sleep(0)
    await source.go()
    third = await asking(flight, source, 1)
    await asyncio.sleep(batching.SHARE_SECONDS * 2)
    # The second began when the first ended, so that only the third's time has come, and two run.
    assert source.asked == 3
    source._gates[1].set()
    assert [first[0].result(), await second] == [1, 2]
    await source.go()
    assert isinstance(third[0].exception(), ValueError)
    assert not flight._flights


async def test_nothing_is_asked_for_callers_who_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHARE_SECONDS", 0.02)
    flight, source = SingleFlight[int](runs=2), Source()
    first = await asking(flight, source, 1)
    second = asyncio.create_task(flight.run("q", source))
    await asyncio.sleep(0)
    second.cancel()
    await source.go()
    await asyncio.sleep(batching.SHARE_SECONDS * 2)
    assert first[0].result() == source.asked == 1
    assert not flight._flights
