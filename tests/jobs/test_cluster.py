"""Several nodes on one database: work is done once, also when nodes are killed, sleep past their lease or vanish."""

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from pilotis.db import connections
from pilotis.db.pool import Database
from pilotis.jobs import node as node_module
from pilotis.jobs import store
from pilotis.jobs.kinds import Job, JobKind, LeaseLostError
from pilotis.kit.ids import uuid7
from tests.database_proxy import DatabaseProxy
from tests.jobs.nodes import Cluster, empty, forever
from tests.waiting import PATIENCE, until
from tests.whole import times

LEASE_SECONDS = 3.0
# Where a process is killed, nothing but the end of its lease is waited for.
SHORT_LEASE_SECONDS = 1.0
TABLES = """
    create table done (number int not null, fence bigint not null, attempt int not null, at timestamptz default now());
    create table fired (slot timestamptz not null, target text not null, at timestamptz default now());
"""


async def enqueue_numbers(database: Database, count: int, seconds: float = 0) -> None:
    """Put jobs into the queue that the program of `tests/jobs/program.py` does, for ten apps."""
    apps = [uuid7() for _ in range(10)]
    async with database.transaction() as connection:
        await connection.executemany(
            """
            insert into pilotis.jobs (app_id, job_id, queue, kind, payload, run_at)
            values ($1, $2, 'light', 'test.number', jsonb_build_object('number', $3::int, 'seconds', $4::float8), now())
            """,
            [(apps[number % 10], uuid7(), number, seconds) for number in range(count)],
        )


async def test_thousands_of_jobs_survive_kills_pauses_and_lost_answers(
    unsteady: Cluster, database: Database, proxy: DatabaseProxy
):
    """Each is done exactly once, and nothing is written under a lease that was lost."""
    await database.execute(TABLES)
    # No machine fails here, only processes; a busy disk would be all that is measured.
    name = await database.fetchval("select current_database()")
    await database.execute(f"alter database {name} set synchronous_commit = off")
    count = times(1_000, whole=10_000)
    await enqueue_numbers(database, count, seconds=0.01)
    nodes = [await started(unsteady, proxy, slot) for slot in range(3)]
    chance = random.Random(7)
    disturbances = 0
    while not await empty(database) and disturbances < 6:
        await asyncio.sleep(chance.uniform(0.3, 0.8))
        victim = disturbances % 3
        if disturbances % 2:
            nodes[victim].kill()
            nodes[victim] = await started(unsteady, proxy, victim)
        else:
            nodes[victim].send_signal(signal.SIGSTOP)
            asyncio.get_running_loop().call_later(LEASE_SECONDS * 2, nodes[victim].send_signal, signal.SIGCONT)
        disturbances += 1
    await until(lambda: empty(database), 5 * PATIENCE)
    print(f"{proxy.cuts} answers lost")
    assert proxy.cuts
    rows = await database.fetch("select number, fence from done")
    counts = Counter(row["number"] for row in rows)
    assert set(counts) == set(range(count))
    assert not [number for number, times in counts.items() if times > 1], "done twice"


async def started(cluster: Cluster, proxy: DatabaseProxy, slot: int) -> subprocess.Popen[str]:
    """Start a program, which may lose answers once it is there."""
    proxy.cut_chance = 0.0
    program = await asyncio.to_thread(cluster.program, str(LEASE_SECONDS), str(slot))
    proxy.cut_chance = 0.01
    return program


async def test_a_killed_node_is_taken_over_by_another(cluster: Cluster, database: Database):
    await database.execute(TABLES)
    await enqueue_numbers(database, 20, seconds=0.2)
    victim = cluster.program(str(SHORT_LEASE_SECONDS), "0")
    await until(lambda: database.fetchval("select exists (select from pilotis.jobs where state = 'running')"))
    victim.kill()
    cluster.program(str(SHORT_LEASE_SECONDS), "1")
    await until(lambda: empty(database))
    assert await database.fetchval("select count(distinct number) = 20 and count(*) = 20 from done")
    assert await database.fetchval("select count(*) from pilotis.nodes") == 1


async def test_who_was_not_in_contact_takes_nothing_over(cluster: Cluster, database: Database):
    """After the database was away every process has an expired lease, and the first to return would take all over."""
    member = await cluster.member(lease_seconds=PATIENCE)
    await database.execute(
        """
        insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until, ports)
        select $1, $1, 9, 'dead', version, now() - interval '1 hour', ports from pilotis.nodes
        """,
        uuid7(),
    )
    found = member.background.node
    assert await found.take_over_expired() == 0
    found._contact_since = node_module._clock() - PATIENCE
    await found.take_over_expired()
    # Its own heartbeat may have been first.
    assert await database.fetchval("select count(*) from pilotis.nodes where name = 'dead'") == 0


async def test_a_successor_in_the_same_slot_takes_over_at_once(cluster: Cluster, database: Database):
    server_id = uuid7()
    kind = JobKind(name="test", queue="light", payload=int, run=forever)
    first = await cluster.member(kind, server_id=server_id, slot=3, lease_seconds=PATIENCE)
    await first.enqueue(kind, 1)
    await until(lambda: database.fetchval("select state = 'running' from pilotis.jobs"))
    held_by = await database.fetchval("select owner from pilotis.jobs")
    # The supervisor has seen the predecessor end; one that lived would take the job back.
    assert first.background._beating is not None
    first.background._beating.cancel()
    await asyncio.wait([first.background._beating])
    second = await cluster.member(kind, server_id=server_id, slot=3, lease_seconds=PATIENCE)
    row = await database.fetchrow("select owner, losses from pilotis.jobs")
    assert row["owner"] != held_by
    assert row["losses"] == 1
    assert second.background.node.id != held_by


async def test_a_fenced_result_writes_nothing(cluster: Cluster, database: Database):
    """A holder whose job was taken over while it worked can neither commit its effect nor end the job."""
    await database.execute("create table effects (number int)")
    begun, taken, outcomes = asyncio.Event(), asyncio.Event(), []

    async def run(job: Job[int]) -> None:
        begun.set()
        await taken.wait()
        try:
            async with job.transaction() as connection:
                await connection.execute("insert into effects values (1)")
                await job.finish(connection)
        except LeaseLostError as error:
            outcomes.append(error)
            raise

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await cluster.member(kind)
    await member.enqueue(kind, 1)
    await begun.wait()
    async with database.transaction() as connection:
        await store.release(connection, member.background.node.id, "light", lost=True)
        await connection.execute("update pilotis.jobs set run_at = now() + interval '1 hour'")
    taken.set()
    await until(lambda: outcomes)
    assert await database.fetchval("select count(*) from effects") == 0
    assert await database.fetchval("select state from pilotis.jobs") == "waiting"


async def test_a_dead_node_claims_nothing(cluster: Cluster, database: Database):
    """A claim that comes late, after the process was taken over, takes no job."""
    kind = JobKind(name="test", queue="light", payload=int, run=forever)
    member = await cluster.member(kind, serves=frozenset())
    await member.enqueue(kind, 1)
    node_id = member.background.node.id
    assert await store.claim(database, uuid7(), "light", 5, [], uuid7(), 12.0) == []
    await database.execute("delete from pilotis.nodes where node_id = $1", node_id)
    assert await store.claim(database, node_id, "light", 5, [], uuid7(), 12.0) == []


async def test_a_job_that_kills_its_processes_is_dead_in_the_end(database: Database):
    await store.enqueue(database, uuid7(), uuid7(), "light", "test", None, None, "1", 0, None, True)
    for _ in range(store.MAX_LOSSES + 1):
        node_id = uuid7()
        await database.execute(
            """
            insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)
            values ($1, $1, 0, 'test', 'test', now() + interval '1 minute')
            """,
            node_id,
        )
        assert len(await store.claim(database, node_id, "light", 5, [], uuid7(), 12.0)) == 1
        async with database.transaction() as connection:
            await store.release(connection, node_id, "light", lost=True)
    row = await database.fetchrow("select state, error->>'code' as code from pilotis.jobs")
    assert tuple(row) == ("dead", "WORKER_LOST")


async def test_a_node_without_contact_drops_its_work(cluster: Cluster, database: Database):
    """It stops before its lease has run out, and gives back what it held when it is in contact again."""
    ended = asyncio.Event()
    starts = []

    async def run(_: Job[int]) -> None:
        starts.append(time.monotonic())
        try:
            await asyncio.sleep(PATIENCE if len(starts) == 1 else 0)
        finally:
            ended.set()

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await cluster.member(kind, lease_seconds=2.0)
    working = member.background.node._control

    class Silent:
        async def run(self, *_: Any) -> Any:
            raise OSError

    await member.enqueue(kind, 1)
    await until(lambda: starts)
    member.background.node._control = Silent()
    await ended.wait()
    assert not member.background.node.is_certain
    member.background.node._control = working
    await until(lambda: empty(database))
    assert len(starts) == 2


async def test_a_node_that_was_taken_over_ends_its_work(cluster: Cluster, database: Database):
    """It learns of it when it wakes up, joins again under another id, and works on."""
    ended = asyncio.Event()
    starts = []

    async def run(_: Job[int]) -> None:
        starts.append(time.monotonic())
        try:
            await asyncio.sleep(PATIENCE if len(starts) == 1 else 0)
        finally:
            ended.set()

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await cluster.member(kind)
    await member.enqueue(kind, 1)
    await until(lambda: starts)
    before = member.background.node.id
    async with database.transaction() as connection:
        await store.release(connection, before, "light", lost=True)
        await connection.execute("delete from pilotis.nodes")
    await ended.wait()
    await until(lambda: empty(database))
    assert member.background.node.id != before
    assert len(starts) == 2


async def test_work_that_ended_for_want_of_a_certain_lease_is_done_again(cluster: Cluster, database: Database):
    """The process still holds the lane, and no other will take it over: it releases the lane itself."""
    attempts = []

    async def run(job: Job[int]) -> None:
        attempts.append(job.attempt)
        if len(attempts) == 1:
            member.background.node._renewed_at = float("-inf")
        job.require_lease()

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await cluster.member(kind)
    await member.enqueue(kind, 1)
    await until(lambda: empty(database))
    assert attempts == [1, 1]


async def test_an_idle_node_claims_between_its_heartbeats(cluster: Cluster, database: Database):
    """It has not renewed its lease for long; the claim does."""
    done = asyncio.Event()

    async def run(_: Job[int]) -> None:
        done.set()

    class Silent:
        async def run(self, *_: Any) -> Any:
            raise OSError

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await cluster.member(kind, slot=1)
    member.background.node._control = Silent()
    member.background.node._renewed_at = float("-inf")
    await member.enqueue(kind, 1)
    await asyncio.wait_for(done.wait(), PATIENCE)
    await until(lambda: empty(database))


async def test_a_schedule_of_one_second_fires_once_a_slot_over_three_nodes(cluster: Cluster, database: Database):
    await database.execute(TABLES)
    await database.execute(
        """
        insert into pilotis.schedules (app_id, schedule_id, kind, target_id, every_seconds, next_run_at)
        values ($1, $1, 'test.tick', 'x', 1, now() + interval '2 s')
        """,
        uuid7(),
    )
    nodes = [cluster.program(str(SHORT_LEASE_SECONDS), str(slot)) for slot in range(3)]
    await until(lambda: database.fetchval("select count(*) >= 3 from fired"))
    nodes[0].kill()
    await until(lambda: database.fetchval("select max(slot) - min(slot) >= interval '20 s' from fired"))
    rows = await database.fetch("select slot, at from fired order by slot")
    slots = [row["slot"] for row in rows]
    assert len(set(slots)) == len(slots), "a slot fired twice"
    print(f"{len(slots)} runs")
    # A machine that is busy for longer than a second may make one slot of two; each still lies on the grid.
    assert all((slot - slots[0]) % timedelta(seconds=1) == timedelta(0) for slot in slots)


async def test_an_idle_server_costs_two_statements_a_second_at_most(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    statements: list[str] = []
    connect = connections.connect

    async def logged(*arguments: Any, **options: Any) -> Any:
        connection = await connect(*arguments, **options)
        connection.add_query_logger(lambda record: statements.append(record.query))
        return connection

    monkeypatch.setattr(connections, "connect", logged)
    for slot in range(8):
        await cluster.member(JobKind(name="test", queue="light", payload=int, run=forever), slot=slot)

    async def is_idle() -> bool:
        """Statements of starting count for nothing, nor does what a busy machine makes up for after a pause."""
        statements.clear()
        started = time.monotonic()
        await asyncio.sleep(10)
        rate = len(statements) / (time.monotonic() - started)
        print(f"{rate:.2f} statements a second: {Counter(text[:60] for text in statements)}")
        return 0 < rate <= 2.0

    await until(is_idle)


@pytest.mark.parametrize("lost", [True, False])
async def test_release_leaves_other_nodes_alone(database: Database, lost: bool):
    await store.enqueue(database, uuid7(), uuid7(), "light", "test", None, None, "1", 0, None, True)
    await database.execute("update pilotis.jobs set state = 'running', owner = $1", uuid7())
    async with database.transaction() as connection:
        await store.release(connection, uuid7(), "light", lost=lost)
    assert await database.fetchval("select state from pilotis.jobs") == "running"
