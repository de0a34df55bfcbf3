"""Shares: no more turns at once than a tenant has, none lost, none waited for without end."""

import asyncio

import pytest

from pilotis.db.shares import Share
from pilotis.kit.errors import UnavailableError
from tests.waiting import PATIENCE


async def test_no_more_than_its_turns_at_once_and_first_come_first_served():
    share, holding, most, order = Share(3, 5), 0, 0, []

    async def use(number: int) -> None:
        nonlocal holding, most
        async with share:
            holding += 1
            most = max(most, holding)
            order.append(number)
            await asyncio.sleep(0.001)
            holding -= 1

    await asyncio.gather(*(use(number) for number in range(50)))
    assert most == 3
    assert order == list(range(50))


async def test_waiting_ends_with_a_clear_error():
    share = Share(1, 0.05)
    async with share:
        with pytest.raises(UnavailableError):
            async with share:
                pass
    async with share:
        pass


async def test_a_cancelled_waiter_loses_no_turn():
    share = Share(1, 5)

    async def use() -> None:
        async with share:
            await asyncio.sleep(0)

    for rounds in range(20):
        async with share:
            waiting = [asyncio.create_task(use()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[rounds % 3].cancel()
        waiting[(rounds + 1) % 3].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(PATIENCE), share:
        pass
