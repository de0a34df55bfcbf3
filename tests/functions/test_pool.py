"""The assignment of sandboxes under overload, with stand-ins for the processes."""

import asyncio
import contextlib
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pilotis.functions.runtime.call import Invocation, Outcome, Program
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.types import FunctionsOverloadedError, PoolSettings, QueueTimeoutError, Wanted
from pilotis.functions.runtime.users import UserBlock
from pilotis.kit.granting import granted
from pilotis.kit.ids import uuid7

SETTINGS = PoolSettings(sandboxes=4, ready_javascript=0, ready_python=0, idle_seconds=60, uid_base=0)


class Process:
    """A sandbox whose calls take a while, and which its time limit ends."""

    def __init__(self, seconds: float, spent: Counter[str]) -> None:
        self._spent = spent
        loop = asyncio.get_running_loop()
        self.runtime, self.memory_mb, self.user = Runtime.JAVASCRIPT, 128, 0
        self.is_dead = False
        self.calls = 0
        self.started_at = self.idle_since = loop.time()
        self._seconds = seconds

    @property
    def is_lost(self) -> bool:
        return self.is_dead

    async def load(self, _program: Program, _deadline: float) -> None:
        await asyncio.sleep(0)

    async def invoke(self, call: Invocation) -> Outcome:
        self.calls += 1
        left = call.deadline - asyncio.get_running_loop().time()
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, min(self._seconds, left)))
        spent = asyncio.get_running_loop().time() - begun
        self._spent["all"] += spent
        if left < self._seconds:
            self.is_dead = True
            return Outcome(status="timeout", error_code="FUNCTION_TIMEOUT")
        self._spent["success"] += spent
        return Outcome(status="success")

    def kill(self) -> None:
        self.is_dead = True

    def end(self, *_: str) -> None:
        self.kill()

    async def ended(self) -> None:
        pass

    def check(self) -> None:
        pass

    def is_busy_alone(self) -> bool:
        return False


class StubPool(Pool):
    """A pool whose sandboxes are `Process`es."""

    def __init__(self, seconds: float) -> None:
        super().__init__(SETTINGS)
        self.spent = Counter[str]()
        self._seconds = seconds

    async def _isolation(self, _wanted: Wanted) -> Isolation:
        return Isolation.PERMISSIONS

    async def _started(self, *_: Any) -> Any:
        await asyncio.sleep(0)
        return Process(self._seconds, self.spent)


async def program() -> Any:
    return SimpleNamespace(packages=None)


def wanted(at_once: int = 8) -> Wanted:
    return Wanted(
        key=(uuid7(), uuid7(), "1", 1),
        runtime=Runtime.JAVASCRIPT,
        memory_mb=128,
        at_once=at_once,
        waiting=1000,
        may_wait=True,
        per_version=8,
        load=program,
    )


def call(seconds: float) -> Any:
    return SimpleNamespace(deadline=asyncio.get_running_loop().time() + seconds)


async def test_a_grant_in_the_turn_of_the_deadline_is_not_lost():
    """In whichever order the two happen, the caller has the thing or it was never granted."""
    loop = asyncio.get_running_loop()
    had, given = 0, 0
    for _ in range(200):
        future: asyncio.Future[int] = loop.create_future()
        deadline = loop.time() + 0.002

        def grant(future: asyncio.Future[int] = future) -> None:
            nonlocal given
            if not future.done():
                given += 1
                future.set_result(1)

        loop.call_at(deadline + random.choice([-0.0001, 0, 0.0001]), grant)
        with contextlib.suppress(TimeoutError):
            had += await granted(future, deadline, TimeoutError, lambda _: None)
    assert had == given
    assert 0 < given < 200


async def test_what_a_cancelled_caller_was_granted_is_released():
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    returned: list[int] = []
    caller = asyncio.create_task(granted(future, loop.time() + 60, TimeoutError, returned.append))
    await asyncio.sleep(0)
    future.set_result(7)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert returned == [7]


def test_processes_of_one_machine_have_no_numeric_user_in_common():
    """Whatever their process ids: here they are equal."""
    blocks = [UserBlock(700_000) for _ in range(3)]
    users = [user for block in blocks for user in block.users]
    assert len(set(users)) == len(users)
    assert len(users) == 3 * 512
    for block in blocks:
        block.release()


async def test_one_app_has_half_of_the_sandboxes_at_most():
    """However many calls of it wait: another app's call finds one free."""
    pool = StubPool(0.05)
    ends: list[str] = []

    async def run(name: str, what: Wanted) -> None:
        await pool.run(what, call(60))
        ends.append(name)

    one = wanted(at_once=8)
    flood = [asyncio.create_task(run("flood", one)) for _ in range(12)]
    await asyncio.sleep(0.01)
    assert pool.counts()["busy"] == SETTINGS.sandboxes // 2
    await run("other", wanted())
    assert ends.index("other") <= SETTINGS.sandboxes
    await asyncio.gather(*flood)
    assert len(ends) == 13
    await pool.close()


@pytest.mark.alone
async def test_overload_leaves_no_sandbox_busy_and_serves_what_it_can():
    """Calls whose time limits are near their place in the queue: each may be granted in the turn in which it ends."""
    seconds = 0.02
    pool = StubPool(seconds)
    one = wanted(at_once=4)
    chance = random.Random(3)
    loop = asyncio.get_running_loop()
    begun, end = loop.time(), loop.time() + 2.0
    outcomes: list[str] = []

    async def client() -> None:
        while loop.time() < end:
            try:
                ran = await pool.run(one, call(chance.uniform(2.5 * seconds, 6 * seconds)))
                outcomes.append(ran.outcome.status)
            except (QueueTimeoutError, FunctionsOverloadedError):
                outcomes.append("late")

    await asyncio.gather(*(client() for _ in range(70)))
    taken = loop.time() - begun
    assert pool.unattended == 0
    assert pool.counts()["busy"] == 0
    assert outcomes.count("late") > 100
    # An app has half of the four sandboxes. On a busy machine each call takes longer, of which the sandboxes know.
    assert pool.spent["success"] > 0.8 * pool.spent["all"]
    assert pool.spent["all"] > 0.8 * 2 * taken
    for _ in range(8):
        assert (await pool.run(one, call(30))).outcome.status == "success"
    await pool.close()
