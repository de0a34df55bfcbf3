"""Work that a process owns and does not run, whatever was lost between its claim and its result, is run again."""

import asyncio
from typing import Any

import pytest

from pilotis.db.pool import Database
from pilotis.jobs import node
from pilotis.jobs.kinds import Job, JobKind
from pilotis.kit.ids import uuid7
from tests.database_proxy import DatabaseProxy
from tests.jobs.laning import TABLES as LANE_TABLES
from tests.jobs.laning import add, laned
from tests.jobs.nodes import Cluster, empty, forever
from tests.waiting import until

CLAIM, FINISH = "update pilotis.jobs x", "delete from pilotis.jobs j using done"


def counted(runs: list[int], **options: Any) -> JobKind[int]:
    async def run(job: Job[int]) -> None:
        runs.append(job.payload)

    return JobKind(name="test", queue="light", payload=int, run=run, **options)


@pytest.mark.parametrize("key", [None, "only one at a time"])
async def test_a_claim_whose_answer_is_lost_is_repeated(
    unsteady: Cluster, proxy: DatabaseProxy, database: Database, key: str | None
):
    """A keyed job would otherwise block its key on every node."""
    runs: list[int] = []
    kind = counted(runs)
    member = await unsteady.member(kind)
    proxy.cut(CLAIM)
    await member.enqueue(kind, 1, key=key)
    await until(lambda: empty(database))
    assert proxy.cuts == 1
    assert runs == [1]
    await member.enqueue(kind, 2, key=key)
    await until(lambda: runs == [1, 2])


async def test_work_in_progress_is_not_cancelled_by_the_release_of_what_was_lost(
    unsteady: Cluster, proxy: DatabaseProxy, database: Database
):
    """The process releases exactly what it does not run."""
    starts, may_end = list[int](), asyncio.Event()

    async def run(job: Job[int]) -> None:
        starts.append(job.payload)
        if job.payload == 1:
            await may_end.wait()

    kind = JobKind(name="test", queue="light", payload=int, run=run)
    member = await unsteady.member(kind)
    await member.enqueue(kind, 1, uuid7())
    await until(lambda: starts)
    proxy.cut(CLAIM)
    await member.enqueue(kind, 2, uuid7())
    await until(lambda: starts == [1, 2])
    assert proxy.cuts == 1
    may_end.set()
    await until(lambda: empty(database))
    assert starts == [1, 2]


async def test_a_result_whose_answer_is_lost_is_stored(unsteady: Cluster, proxy: DatabaseProxy, database: Database):
    runs: list[int] = []
    kind = counted(runs)
    member = await unsteady.member(kind)
    proxy.cut(FINISH)
    await member.enqueue(kind, 1)
    await until(lambda: empty(database))
    assert proxy.cuts == 1
    assert runs == [1]


FAILURES = {"a statement that takes too long": "57014", "a full disk": "53100"}


@pytest.mark.parametrize("code", FAILURES.values(), ids=FAILURES)
@pytest.mark.without_citus("a trigger makes the statement fail")
async def test_a_result_that_cannot_be_stored_is_stored_later(cluster: Cluster, database: Database, code: str):
    """One full disk must not stop a periodic task until a restart."""
    runs: list[int] = []
    kind = counted(runs)
    member = await cluster.member(kind)
    await failing(database, "before delete", code)
    await member.enqueue(kind, 1, key="periodic")
    await until(lambda: runs)
    await member.enqueue(kind, 2, key="other")
    await until(lambda: len(runs) == 2)
    await database.execute("drop trigger failing on pilotis.jobs")
    await until(lambda: empty(database))
    assert runs == [1, 2]


@pytest.mark.without_citus("a trigger makes the statement fail")
async def test_a_job_of_an_unknown_kind_costs_the_others_of_its_claim_nothing(cluster: Cluster, database: Database):
    runs: list[int] = []
    kind, unknown = counted(runs), JobKind(name="unknown", queue="light", payload=int, run=forever)
    await failing(database, "before update", "53100", "new.state = 'waiting'")
    member = await cluster.member(kind, serves=frozenset())
    for number, each in enumerate([unknown, kind, kind]):
        async with database.transaction() as connection:
            await member.jobs.enqueue(connection, each, uuid7(), number)
    await cluster.member(kind, slot=1)
    await until(lambda: empty(database, "kind = 'test'"))
    assert sorted(runs) == [1, 2]
    await database.execute("drop trigger failing on pilotis.jobs")
    await until(lambda: database.fetchval("select state = 'waiting' and owner is null from pilotis.jobs"))


async def test_an_error_that_postgresql_cannot_store_ends_its_job(cluster: Cluster, database: Database):
    async def run(_: Job[int]) -> None:
        raise ValueError("\x00 and \udc80")

    kind = JobKind(name="test", queue="light", payload=int, run=run, gaps=())
    member = await cluster.member(kind)
    await member.enqueue(kind, 1)
    await until(lambda: database.fetchval("select state = 'dead' from pilotis.jobs"))
    assert await database.fetchval("select error->>'message' from pilotis.jobs") == "ValueError:  and ?"


async def test_a_lane_whose_claim_is_lost_is_held_again(unsteady: Cluster, proxy: DatabaseProxy, database: Database):
    await database.execute(LANE_TABLES)
    await laned(unsteady)
    proxy.cut("update pilotis.lanes x")
    async with database.transaction() as connection:
        await add(connection, uuid7(), uuid7(), 1)
    await until(lambda: database.fetchval("select exists (select from worked)"))
    assert proxy.cuts == 1
    await until(lambda: database.fetchval("select bool_and(owner is null) from pilotis.lanes"))


@pytest.mark.without_citus("a trigger keeps what was reported")
async def test_what_is_owned_and_not_run_is_found_reported_and_released(cluster: Cluster, database: Database):
    """Whatever the cause, even one that nobody has thought of."""
    await database.execute(
        """
        create table told (strays int);
        create function tell() returns trigger language plpgsql as
            $$ begin insert into told values (new.strays); return new; end $$;
        create trigger tell after update of strays on pilotis.nodes for each row execute function tell();
        """
    )
    runs: list[int] = []
    kind = counted(runs)
    member = await cluster.member(kind, audit_seconds=0.2)
    async with database.transaction() as connection:
        await member.jobs.enqueue(connection, kind, None, 1, key="orphan")
        await connection.execute(
            "update pilotis.jobs set state = 'running', owner = $1, fence = fence + 1", member.background.node.id
        )
    await until(lambda: empty(database))
    assert runs == [1]
    await until(lambda: database.fetchval("select count(*) = 1 from told where strays = 0"))
    assert await database.fetchval("select max(strays) from told") == 1
    assert member.background.strays() == (0, 0.0)


async def test_the_operator_is_told_of_work_that_is_owned_and_not_run(cluster: Cluster, database: Database):
    await cluster.member()
    async with database.connection() as connection:
        assert await node.report(connection) == []
        await connection.execute("update pilotis.nodes set strays = 3, strays_since = '2026-11-24 10:00Z'")
        ((sentence, _),) = await node.report(connection)
    assert "has owned 3 items of work since 2026-11-24T10:00:00.000Z and does not run them." in sentence


async def test_work_that_runs_is_no_stray(cluster: Cluster, database: Database):
    """However often it is looked for."""
    kind = JobKind(name="test", queue="light", payload=int, run=forever)
    member = await cluster.member(kind, audit_seconds=0.1)
    await member.enqueue(kind, 1)
    await until(lambda: database.fetchval("select state = 'running' from pilotis.jobs"))
    fence = await database.fetchval("select fence from pilotis.jobs")
    await asyncio.sleep(1.5)
    assert member.background.strays() == (0, 0.0)
    assert await database.fetchval("select fence from pilotis.jobs where state = 'running'") == fence


async def failing(database: Database, when: str, code: str, condition: str = "true") -> None:
    """Make statements on jobs fail with an error code of PostgreSQL."""
    await database.execute(
        f"""
        create function fail() returns trigger language plpgsql as
            $$ begin raise exception 'failing' using errcode = '{code}'; end $$;
        create trigger failing {when} on pilotis.jobs for each row when ({condition}) execute function fail();
        """
    )
