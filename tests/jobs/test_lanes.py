"""Lanes: one process at a time works for a target, fairly over apps, and no work is overlooked or done twice."""

import asyncio
import random
import signal
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.jobs import lanes
from pilotis.jobs.kinds import LeaseLostError
from pilotis.jobs.lanes import Lane, LaneSource, add_work
from pilotis.kit.ids import uuid7
from tests.jobs.laning import TABLES, add, laned
from tests.jobs.nodes import Cluster
from tests.waiting import until

LEASE_SECONDS = 3.0


@pytest.fixture(autouse=True)
async def tables(database: Database) -> None:
    await database.execute(TABLES)


async def add_one(database: Database, app_id: UUID, target_id: UUID, number: int, **options: Any) -> None:
    async with database.transaction() as connection:
        await add(connection, app_id, target_id, number, **options)


async def idle(database: Database) -> bool:
    """Whether no work is left and no lane is held."""
    return bool(
        await database.fetchval(
            "select not exists (select from work) and not exists (select from pilotis.lanes where owner is not null)"
        )
    )


async def the_lane(database: Database) -> Record:
    return await database.fetchrow("select *, due_at > now() as is_later from pilotis.lanes")


async def test_work_is_done_and_the_lane_returned(cluster: Cluster, database: Database):
    _, workshop = await laned(cluster)
    for number in range(12):
        await add_one(database, UUID(int=1), UUID(int=2), number)
    await until(lambda: idle(database))
    assert [row["number"] for row in await database.fetch("select number from worked order by place")] == [*range(12)]
    lane = await the_lane(database)
    assert lane["due_at"] is None
    assert lane["work_seq"] == 12
    assert workshop.most == 1


async def test_work_waits_for_its_time(cluster: Cluster, database: Database):
    await laned(cluster)
    now = await database.fetchval("select clock_timestamp()")
    target = UUID(int=2)
    await add_one(database, UUID(int=1), target, 1, due_at=now + timedelta(hours=1))
    await add_one(database, UUID(int=1), target, 2, due_at=now + timedelta(seconds=0.8))
    await until(lambda: database.fetchval("select exists (select from worked)"))
    assert await database.fetchval("select clock_timestamp()") >= now + timedelta(seconds=0.8)
    await until(lambda: database.fetchval("select owner is null from pilotis.lanes"))
    assert await database.fetchval("select array_agg(number) from worked") == [2]
    assert (await the_lane(database))["due_at"] == now + timedelta(hours=1)


async def test_work_that_is_due_earlier_makes_the_lane_due_earlier(database: Database):
    now = await database.fetchval("select clock_timestamp()")
    for hours in (3, 1, 2):
        await add_one(database, UUID(int=1), UUID(int=2), hours, due_at=now + timedelta(hours=hours))
    assert (await the_lane(database))["due_at"] == now + timedelta(hours=1)


async def test_one_call_may_name_a_target_twice(database: Database):
    async with database.transaction() as connection:
        await add_work(connection, "test", [(UUID(int=1), UUID(int=2))] * 3)
        await add_work(connection, "test", [])
    assert (await the_lane(database))["work_seq"] == 1


async def test_an_app_with_many_lanes_leaves_slots_to_others(cluster: Cluster, database: Database):
    go_on = asyncio.Event()

    async def wait(_: Lane) -> None:
        await go_on.wait()

    busy, others = uuid7(), [uuid7(), uuid7()]
    async with database.transaction() as connection:
        for number in range(100):
            await add(connection, busy, uuid7(), number)
        for number, app_id in enumerate(others):
            await add(connection, app_id, uuid7(), number)
    _, workshop = await laned(cluster, wait, slots={"deliveries": 4})
    await until(lambda: len(workshop.holds) == 4)
    assert Counter(lane.app_id for lane in workshop.holds) == {busy: 2, others[0]: 1, others[1]: 1}
    go_on.set()
    await until(lambda: idle(database))
    assert await database.fetchval("select count(*) from worked") == 102


async def test_kinds_of_lanes_are_apart(cluster: Cluster, database: Database):
    """Two kinds may have lanes for the same target; a source takes and releases its own alone."""
    target = (UUID(int=1), UUID(int=2))
    async with database.transaction() as connection:
        await add_work(connection, "other", [target])
        await add_work(connection, "test", [target])
    member, _ = await laned(cluster, slots={"deliveries": 1})
    await until(lambda: database.fetchval("select due_at is null from pilotis.lanes where kind = 'test'"))
    await member.background.stop(1)
    other = await database.fetchrow(
        "select owner, fence, due_at <= now() as is_due from pilotis.lanes where kind = 'other'"
    )
    assert tuple(other) == (None, 0, True)


async def test_fifty_writers_while_two_nodes_hold_and_return_lanes(cluster: Cluster, database: Database):
    """Nothing is overlooked, nothing done twice, and no lane is held by both nodes."""

    async def alone(lane: Lane) -> None:
        # The database says whether another holder is there: both nodes write the same row.
        await database.execute("insert into holding values ($1)", lane.target_id)
        await asyncio.sleep(chance.uniform(0, 0.01))
        await database.execute("delete from holding where target_id = $1", lane.target_id)

    chance = random.Random(11)
    targets = [(uuid7(), uuid7()) for _ in range(5)]
    workshops = [(await laned(cluster, alone, seconds=0, slot=slot))[1] for slot in range(2)]

    async def write(writer: int) -> None:
        for number in range(20):
            app_id, target_id = chance.choice(targets)
            await add_one(database, app_id, target_id, writer * 20 + number)
            if number % 5 == 0:
                for member in cluster.members:
                    member.background.wake("deliveries")

    await asyncio.gather(*(write(writer) for writer in range(50)))
    await until(lambda: idle(database))
    numbers = [row["number"] for row in await database.fetch("select number from worked")]
    assert sorted(numbers) == [*range(1000)]
    assert max(workshop.most for workshop in workshops) == 1


async def test_work_added_while_the_lane_is_returned_is_read(cluster: Cluster, database: Database):
    """The holder has seen no work; some is added before it releases the lane: it is notified, and keeps the lane."""
    given: list[bool] = []
    target = UUID(int=2)

    async def hold(lane: Lane) -> None:
        await add_one(database, UUID(int=1), target, 2)
        given.append(await workshop.lanes.return_lane(lane, None))
        given.append(await workshop.lanes.return_lane(lane, None))

    await add_one(database, UUID(int=1), target, 1)
    _, workshop = await laned(cluster, hold=hold)
    await until(lambda: len(given) == 2)
    assert given == [False, True]
    assert (await the_lane(database))["due_at"] is None


async def test_giving_back_waits_for_work_whose_transaction_is_open(cluster: Cluster, database: Database):
    begun, added, given = asyncio.Event(), asyncio.Event(), []
    target = UUID(int=2)

    async def hold(lane: Lane) -> None:
        begun.set()
        await added.wait()
        given.append(await workshop.lanes.return_lane(lane, None))
        if not given[-1]:
            given.append(await workshop.lanes.return_lane(lane, None))

    await add_one(database, UUID(int=1), target, 1)
    _, workshop = await laned(cluster, hold=hold)
    await begun.wait()
    async with database.transaction() as connection:
        await add(connection, UUID(int=1), target, 2)
        added.set()
        waits = (
            "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%is_returned%')"
        )
        await until(lambda: database.fetchval(waits))
        assert given == []
    await until(lambda: given)
    assert given[0] is False


async def test_looking_again_notes_what_was_added(cluster: Cluster, database: Database):
    given: list[bool] = []

    async def hold(lane: Lane) -> None:
        await add_one(database, UUID(int=1), UUID(int=2), 2)
        await workshop.lanes.refresh_work_seq(lane)
        given.append(await workshop.lanes.return_lane(lane, None))

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    _, workshop = await laned(cluster, hold=hold)
    await until(lambda: given)
    assert given == [True]


async def test_a_lane_that_rests_is_not_made_due_by_new_work(cluster: Cluster, database: Database):
    """The holder's failures and its rest are kept, over new work and over an orderly stop of its process."""
    now = await database.fetchval("select clock_timestamp()")
    rest = now + timedelta(hours=1)
    given: list[bool] = []

    async def hold(lane: Lane) -> None:
        lane.failures, lane.open_at = lane.failures + 3, rest
        given.append(await workshop.lanes.return_lane(lane, rest))

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    member, workshop = await laned(cluster, hold=hold)
    await until(lambda: given)
    await add_one(database, UUID(int=1), UUID(int=2), 2)
    await member.background.stop(1)
    lane = await the_lane(database)
    assert (lane["failures"], lane["open_at"], lane["due_at"], lane["work_seq"]) == (3, rest, rest, 2)


@pytest.mark.parametrize("how", ["raises", "forgets"])
async def test_a_holder_that_fails_gives_its_lane_back_for_later(cluster: Cluster, database: Database, how: str):
    holds: list[int] = []

    async def hold(lane: Lane) -> None:
        holds.append(lane.fence)
        if len(holds) < 3:
            if how == "raises":
                raise ValueError("broken")
            return
        await workshop.lanes.return_lane(lane, None)

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    _, workshop = await laned(cluster, hold=hold)
    await until(lambda: len(holds) == 3)
    assert holds == [1, 2, 3]
    await until(lambda: database.fetchval("select owner is null and due_at is null from pilotis.lanes"))


async def test_a_holder_that_fails_leaves_its_lane_to_its_rest(cluster: Cluster, database: Database):
    await add_one(database, UUID(int=1), UUID(int=2), 1)
    rest = await database.fetchval("select clock_timestamp() + interval '1 hour'")

    async def hold(_: Lane) -> None:
        await database.execute("update pilotis.lanes set open_at = $1", rest)
        raise ValueError("broken")

    await laned(cluster, hold=hold)
    await until(lambda: database.fetchval("select owner is null and due_at = open_at from pilotis.lanes"))


async def lost(call: Any) -> bool:
    try:
        await call
    except LeaseLostError:
        return True
    return False


@pytest.mark.parametrize("how", ["taken over", "removed"])
async def test_a_holder_that_lost_its_lane_writes_nothing(cluster: Cluster, database: Database, how: str):
    begun, taken, outcomes = asyncio.Event(), asyncio.Event(), []

    async def hold(lane: Lane) -> None:
        begun.set()
        await taken.wait()
        async with database.transaction() as connection:
            outcomes.append(await lost(workshop.lanes.lock_held(connection, lane)))
        outcomes.append(await lost(workshop.lanes.refresh_work_seq(lane)))
        outcomes.append(await lost(workshop.lanes.return_lane(lane, None)))

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    member, workshop = await laned(cluster, hold=hold)
    await begun.wait()
    async with database.transaction() as connection:
        if how == "removed":
            await lanes.remove(connection, "test", UUID(int=1), UUID(int=2))
        else:
            await workshop.lanes.release(connection, member.background.node.id, lost=True)
            await connection.execute("update pilotis.lanes set due_at = now() + interval '1 hour'")
    taken.set()
    await until(lambda: len(outcomes) == 3)
    assert outcomes == [True, True, True]
    if how == "taken over":
        lane = await the_lane(database)
        assert (lane["owner"], lane["fence"], lane["is_later"]) == (None, 2, True)


async def test_an_orderly_stop_gives_lanes_back_at_once(cluster: Cluster, database: Database):
    async def hang(_: Lane) -> None:
        await asyncio.Event().wait()

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    member, workshop = await laned(cluster, hang)
    await until(lambda: workshop.holds)
    await member.background.stop(0.05)
    lane = await the_lane(database)
    assert (lane["owner"], lane["fence"], lane["is_later"]) == (None, 1, False)


async def test_a_dead_node_claims_no_lane(database: Database):
    async def hold(_: Lane) -> None:
        raise AssertionError

    await add_one(database, UUID(int=1), UUID(int=2), 1)
    source = LaneSource("test", database, hold, lease_seconds=12.0)
    assert await source.claim(uuid7(), 5, []) == []


async def test_lanes_survive_kills_and_pauses(cluster: Cluster, database: Database):
    """Three processes, some killed, some asleep past their lease: all work done once, none by an earlier holder."""
    name = await database.fetchval("select current_database()")
    await database.execute(f"alter database {name} set synchronous_commit = off")
    targets = [(uuid7(), uuid7()) for _ in range(20)]
    count = 2_000
    async with database.transaction() as connection:
        for number in range(count):
            await add(connection, *targets[number % 20], number)
    nodes = [cluster.program(str(LEASE_SECONDS), str(slot)) for slot in range(3)]
    chance = random.Random(5)
    for disturbance in range(6):
        await asyncio.sleep(chance.uniform(0.2, 0.6))
        victim = disturbance % 3
        if disturbance % 2:
            nodes[victim].kill()
            nodes[victim] = cluster.program(str(LEASE_SECONDS), str(victim))
        else:
            nodes[victim].send_signal(signal.SIGSTOP)
            asyncio.get_running_loop().call_later(LEASE_SECONDS * 2, nodes[victim].send_signal, signal.SIGCONT)
    await until(lambda: idle(database))
    rows = await database.fetch("select target_id, number, fence from worked order by place")
    assert sorted(row["number"] for row in rows) == [*range(count)]
    for _, target_id in targets:
        fences = [row["fence"] for row in rows if row["target_id"] == target_id]
        assert all(earlier <= later for earlier, later in pairwise(fences)), "written by an earlier holder"
