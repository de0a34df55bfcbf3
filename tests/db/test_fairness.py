"""The pool is fair: no tenant takes it whole, of n that ask each gets its part, and queues are bounded."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND, OVERLOADED_SECONDS, Waiters
from pilotis.kit.errors import UnavailableError
from tests.services import address
from tests.support import Server
from tests.waiting import PATIENCE, until

SIZE = 8


@pytest.fixture
async def database(server: Server) -> AsyncIterator[Database]:
    made = Database(address(server), size=SIZE, statement_seconds=PATIENCE, max_waiters=50)
    yield made
    await made.close()


class Holders:
    """Blocks of tenants that hold their connection until they are ended."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.holding: Counter[str] = Counter()
        self.ended = 0
        self._ends: dict[str, list[asyncio.Event]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tenant: str, count: int) -> None:
        self._tasks += [asyncio.create_task(self._hold(tenant)) for _ in range(count)]

    async def _hold(self, tenant: str) -> None:
        async with self._database.connection(tenant, wait=PATIENCE):
            end = asyncio.Event()
            self._ends.setdefault(tenant, []).append(end)
            self.holding[tenant] += 1
            await end.wait()
            self.holding[tenant] -= 1
            self.ended += 1

    def end_one(self, tenant: str) -> None:
        self._ends[tenant].pop(0).set()

    async def wait_for(self, ended: int, holding: int) -> None:
        """Wait until so many blocks have ended and so many connections are held."""
        await until(lambda: self.ended >= ended and self.holding.total() >= holding)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def holders(database: Database) -> AsyncIterator[Holders]:
    made = Holders(database)
    yield made
    await made.end()


async def test_one_app_never_takes_the_whole_pool(database: Database, holders: Holders):
    holders.start("a", 3 * SIZE)
    await until(lambda: holders.holding["a"] >= SIZE // 2)
    assert await database.fetchval("select 1", tenant="b") == 1
    assert holders.holding["a"] == SIZE // 2


async def test_two_busy_apps_leave_a_connection_to_a_third(database: Database, holders: Holders):
    holders.start("a", 3 * SIZE)
    holders.start("b", 3 * SIZE)
    await until(lambda: holders.holding.total() >= SIZE - 1)
    for _ in range(20):
        assert await database.fetchval("select 1", tenant="c") == 1
    assert max(holders.holding.values()) == SIZE // 2
    assert holders.holding.total() == SIZE - 1


async def test_the_server_itself_may_take_what_is_left(database: Database, holders: Holders):
    holders.start("a", 3 * SIZE)
    async with database.connection(), database.connection(), database.connection(), database.connection():
        await until(lambda: holders.holding["a"] >= SIZE // 2 - 1)


async def test_of_three_apps_that_ask_each_gets_a_third(database: Database, holders: Holders):
    """However many requests of an app wait, and whichever arrived first."""
    for tenant in "abc":
        holders.start(tenant, 40)
        await asyncio.sleep(0)
    # One is left to a fourth later.
    await until(lambda: holders.holding.total() >= SIZE - 1)
    for ended in range(1, 21):
        holders.end_one(holders.holding.most_common(1)[0][0])
        await holders.wait_for(ended, SIZE - 1)
    assert sorted(holders.holding.values()) == [2, 2, 3]


async def test_apps_that_hold_equally_many_take_turns(server: Server):
    database = Database(address(server), size=1, statement_seconds=PATIENCE)
    order: list[str] = []

    async def use(tenant: str) -> None:
        async with database.connection(tenant, wait=PATIENCE):
            order.append(tenant)

    async with database.connection():
        tasks = [asyncio.create_task(use(tenant)) for tenant in "aaaabbbc"]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == list("abcababa")
    await database.close()


async def test_an_app_has_so_many_waiters_and_no_more(database: Database, holders: Holders):
    holders.start("a", SIZE // 2 + 50)
    await until(lambda: database.state().waiting == 50)
    with pytest.raises(UnavailableError, match="Too many requests wait"):
        await database.fetchval("select 1", tenant="a")
    assert await database.fetchval("select 1", tenant="b") == 1


async def test_who_gave_up_waiting_makes_room(database: Database, holders: Holders):
    holders.start("a", SIZE // 2)
    await until(lambda: holders.holding["a"] == SIZE // 2)
    tasks = [asyncio.create_task(database.fetchval("select 1", tenant="a")) for _ in range(50)]
    await until(lambda: database.state().waiting == 50)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(UnavailableError, match="busy"):
        async with database.connection("a", wait=0.01):
            pass
    holders.end_one("a")
    assert await database.fetchval("select 1", tenant="a") == 1


async def test_a_freed_connection_goes_to_whoever_holds_the_fewest():
    """Even if a tenant that holds more has waited longer."""
    waiters: Waiters[None] = Waiters(8, 10)
    callers = {tenant: asyncio.get_running_loop().create_future() for tenant in ("three", "two", "one")}
    for tenant, held in (("three", 3), ("two", 2), ("one", 1)):
        for _ in range(held):
            waiters.acquired(tenant)
        waiters.add(tenant, callers[tenant], 0.0)
    assert waiters.next(2, 0.0) == ("one", callers["one"])
    assert waiters.next(2, 0.0) == ("two", callers["two"])
    # The last free connection is for a tenant that holds none.
    assert waiters.next(1, 0.0) is None
    assert waiters.next(2, 0.0) == ("three", callers["three"])


class Simulation:
    """Callers of one tenant that come at given moments, of whom a connection serves so many a second."""

    def __init__(self, tenant: str, a_second: float) -> None:
        self._waiters: Waiters[None] = Waiters(8, 1_000)
        self._tenant = tenant
        self._seconds = 1 / a_second
        self._deadlines: dict[asyncio.Future[None], float] = {}
        self.came: dict[asyncio.Future[None], float] = {}
        self.waits: list[tuple[float, float]] = []
        """Of each that was served: when it came, and how long it waited."""

    def run(self, moments: list[float], end: float, away: tuple[float, float] = (0, 0)) -> None:
        serves = [n * self._seconds for n in range(int(end / self._seconds))]
        steps = [(at, True) for at in moments] + [(at, False) for at in serves if not away[0] < at < away[1]]
        for now, comes in sorted(steps):
            for caller, deadline in list(self._deadlines.items()):
                if caller.done() or deadline < now:
                    del self._deadlines[caller]
                    caller.cancel()
            if comes:
                caller = asyncio.get_running_loop().create_future()
                self.came[caller] = now
                is_overloaded = self._waiters.add(self._tenant, caller, now)
                self._deadlines[caller] = now + (OVERLOADED_SECONDS if is_overloaded else 5)
            elif served := self._waiters.next(1, now):
                served[1].set_result(None)
                self.waits.append((self.came[served[1]], now - self.came[served[1]]))
        for caller in self.came:
            # Refused by the queue: nobody else is there to look.
            if caller.done() and not caller.cancelled():
                caller.exception()


async def test_who_comes_last_is_served_first_where_more_come_than_are_served():
    one = Simulation("a", a_second=100)
    one.run([n / 500 for n in range(5_000)], end=11)
    assert max(wait for _, wait in one.waits) < 1
    assert max(wait for came, wait in one.waits if came > 1) <= OVERLOADED_SECONDS + 0.01
    # All that could be done was, while they came.
    assert sum(came + wait < 10 for came, wait in one.waits) >= 998
    # Once the queue is empty nothing is left of it: a burst is served whole again, in turn.
    before = len(one.waits)
    one.run([20.0] * 300 + [20 + n / 50 for n in range(100)], end=30)
    assert len(one.waits) - before == 400
    assert one.waits[before:] == sorted(one.waits[before:], key=lambda served: served[0])


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param([0.0] * 400 + [n / 50 for n in range(200)], id="a burst, and what comes beside it"),
        pytest.param([0.3 + n / 2000 for n in range(400)], id="a burst that takes a while"),
        pytest.param([n / 100 for n in range(1_000)], id="as many as are served"),
    ],
)
async def test_a_burst_is_no_overload(moments: list[float]):
    one = Simulation("a", a_second=100)
    one.run(moments, end=15)
    assert len(one.waits) == len(moments)
    assert one.waits == sorted(one.waits, key=lambda served: served[0])


async def test_a_database_that_is_away_for_a_while_is_no_overload():
    one = Simulation("a", a_second=100)
    one.run([n / 60 for n in range(600)], end=15, away=(2, 5))
    assert len(one.waits) == 600


async def test_work_in_the_background_is_served_in_turn():
    one = Simulation(BACKGROUND, a_second=100)
    one.run([n / 150 for n in range(600)], end=15)
    assert len(one.waits) == 600
    assert one.waits == sorted(one.waits, key=lambda served: served[0])
