"""Jobs: done once they are due, in the transaction's own fate, retried, kept when dead, one at a time under a key."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from pilotis.db.pool import Database
from pilotis.jobs import schedules, store, tasks
from pilotis.jobs.kinds import SERVER, DiscardError, Job, JobKind
from pilotis.kit.ids import uuid7
from tests.jobs.nodes import Cluster, empty, periodic
from tests.waiting import PATIENCE, until


class Recorder:
    """Runs jobs by writing down their payloads; `behave` is what it does besides."""

    def __init__(self, behave: Any = None) -> None:
        self.ran: list[Any] = []
        self.running = 0
        self.most = 0
        self.behave = behave

    async def run(self, job: Job[Any]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            self.ran.append(job.payload)
            if self.behave:
                await self.behave(job)
        finally:
            self.running -= 1


def kind(recorder: Recorder, name: str = "test", **options: Any) -> JobKind[int]:
    return JobKind(
        name=name, **{"queue": "light", "payload": int, "run": recorder.run, "gaps": (0.05, 0.05), **options}
    )


async def test_a_job_runs_once_its_transaction_has_committed(cluster: Cluster, database: Database):
    recorder = Recorder()
    test = kind(recorder)
    member = await cluster.member(test)
    async with member.database.transaction() as connection:
        await member.jobs.enqueue(connection, test, None, 7)
        await asyncio.sleep(0.3)
        assert recorder.ran == []
    await until(lambda: empty(database))
    assert recorder.ran == [7]


async def test_many_jobs_are_enqueued_by_one_statement(cluster: Cluster, database: Database):
    recorder = Recorder()
    test = kind(recorder)
    member = await cluster.member(test, serves=frozenset({"none"}))
    apps = [None, uuid7()]
    async with member.database.transaction() as connection:
        ids = await member.jobs.enqueue_all(
            connection, test, [(apps[number % 2], number, f"about {number}") for number in range(4)], depth=2
        )
        assert await member.jobs.enqueue_all(connection, test, []) == []
    rows = await database.fetch("select app_id, job_id, subject, depth, payload from pilotis.jobs order by payload")
    assert [row["job_id"] for row in rows] == ids
    assert [row["app_id"] for row in rows] == [UUID(int=0), apps[1]] * 2
    assert [(row["subject"], row["depth"]) for row in rows] == [(f"about {number}", 2) for number in range(4)]
    await cluster.member(test, slot=1)
    await until(lambda: empty(database))
    assert sorted(recorder.ran) == [0, 1, 2, 3]


async def test_a_job_of_a_transaction_that_rolls_back_never_runs(cluster: Cluster, database: Database):
    recorder = Recorder()
    test = kind(recorder)
    member = await cluster.member(test)

    async def fail() -> None:
        async with member.database.transaction() as connection:
            await member.jobs.enqueue(connection, test, None, 7)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await member.enqueue(test, 8)
    await until(lambda: empty(database))
    assert recorder.ran == [8]


async def test_a_job_waits_for_its_time(cluster: Cluster, database: Database):
    started: list[datetime] = []

    async def note(_: Job[int]) -> None:
        started.append(await database.fetchval("select clock_timestamp()"))

    recorder = Recorder(note)
    test = kind(recorder)
    member = await cluster.member(test)
    due = await database.fetchval("select clock_timestamp() + interval '0.8 s'")
    await member.enqueue(test, 1, run_at=due)
    await member.enqueue(test, 2, run_at=due + timedelta(hours=1))
    await until(lambda: empty(database, "payload = '1'"))
    assert recorder.ran == [1]
    assert started[0] >= due


@pytest.mark.advisory("PocketBase #7762")
async def test_a_failed_job_is_tried_again_and_dies_when_the_gaps_are_used_up(cluster: Cluster, database: Database):
    async def fail(job: Job[int]) -> None:
        raise ValueError(f"attempt {job.attempt}")

    recorder = Recorder(fail)
    member = await cluster.member(kind(recorder))
    await member.enqueue(member.jobs.kinds["test"], 1)
    await until(lambda: empty(database, "state <> 'dead'"))
    assert recorder.ran == [1, 1, 1]
    row = await database.fetchrow("select attempts, error->>'message' as message, ended_at from pilotis.jobs")
    assert row["attempts"] == 3
    assert row["message"] == "ValueError: attempt 3"
    assert row["ended_at"] is not None


async def test_a_discarded_job_is_dead_at_once(cluster: Cluster, database: Database):
    async def discard(_: Job[int]) -> None:
        raise DiscardError("It is of no use.")

    recorder = Recorder(discard)
    member = await cluster.member(kind(recorder))
    await member.enqueue(member.jobs.kinds["test"], 1)
    await until(lambda: empty(database, "state <> 'dead'"))
    assert recorder.ran == [1]


async def test_an_attempt_that_takes_too_long_is_cancelled(cluster: Cluster, database: Database):
    async def hang(_: Job[int]) -> None:
        await asyncio.sleep(PATIENCE)

    recorder = Recorder(hang)
    member = await cluster.member(kind(recorder, seconds=0.1, gaps=()))
    await member.enqueue(member.jobs.kinds["test"], 1)
    await until(lambda: empty(database, "state <> 'dead'"))
    assert await database.fetchval("select error->>'code' from pilotis.jobs") == "TIMEOUT"


async def test_a_dead_job_can_be_tried_again(cluster: Cluster, database: Database):
    outcomes = [DiscardError("no"), None]

    async def behave(_: Job[int]) -> None:
        if error := outcomes.pop(0):
            raise error

    recorder = Recorder(behave)
    member = await cluster.member(kind(recorder))
    job_id = await member.enqueue(member.jobs.kinds["test"], 1, uuid7())
    await until(lambda: empty(database, "state <> 'dead'"))
    async with database.transaction() as connection:
        assert await store.revive(connection, uuid7(), job_id) is None, "another app's job"
        assert await store.revive(connection, None, job_id)
    member.background.wake("light")
    await until(lambda: empty(database))
    assert recorder.ran == [1, 1]


async def test_an_equal_key_is_one_job_and_goes_round_once_more(cluster: Cluster, database: Database):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Job[int]) -> None:
        begun.set()
        await go_on.wait()

    recorder = Recorder(wait)
    test = kind(recorder)
    member = await cluster.member(test)
    first = await member.enqueue(test, 1, key="one")
    await begun.wait()
    for number in (2, 3):
        assert await member.enqueue(test, number, key="one") == first
    assert await member.enqueue(test, 9, key="two") != first
    await until(lambda: len(recorder.ran) == 2)
    go_on.set()
    await until(lambda: empty(database))
    assert recorder.ran == [1, 9, 3], "the newer payload runs once more"


async def test_a_key_that_does_not_run_again_is_left_alone_while_it_runs(cluster: Cluster, database: Database):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Job[int]) -> None:
        begun.set()
        await go_on.wait()

    recorder = Recorder(wait)
    test = kind(recorder)
    member = await cluster.member(test)
    await member.enqueue(test, 1, key="one")
    await begun.wait()
    await member.enqueue(test, 2, key="one", again=False)
    go_on.set()
    await until(lambda: empty(database))
    assert recorder.ran == [1]


async def test_the_end_of_a_job_is_part_of_its_own_transaction(cluster: Cluster, database: Database):
    await database.execute("create table effects (number int)")

    async def act(job: Job[int]) -> None:
        async with job.transaction() as connection:
            await connection.execute("insert into effects values ($1)", job.payload)
            await job.finish(connection)
            if job.attempt == 1:
                raise ValueError("after the end")

    recorder = Recorder(act)
    member = await cluster.member(kind(recorder))
    await member.enqueue(member.jobs.kinds["test"], 5)
    await until(lambda: empty(database))
    assert recorder.ran == [5, 5]
    assert await database.fetchval("select count(*) from effects") == 1


async def test_an_unknown_kind_goes_back_for_a_node_that_knows_it(cluster: Cluster, database: Database):
    old = await cluster.member(kind(Recorder(), "old"))
    await store.enqueue(database, UUID(int=0), uuid7(), "light", "new", None, None, "1", 0, None, True)
    old.background.wake("light")
    await until(lambda: empty(database, "run_at < now()"))
    row = await database.fetchrow("select state, attempts, run_at > now() + interval '50 s' as later from pilotis.jobs")
    assert tuple(row) == ("waiting", 0, True)


async def test_a_payload_of_another_shape_is_dead(cluster: Cluster, database: Database):
    member = await cluster.member(kind(Recorder()))
    await store.enqueue(database, UUID(int=0), uuid7(), "light", "test", None, None, '"x"', 0, None, True)
    member.background.wake("light")
    await until(lambda: empty(database, "state <> 'dead'"))


async def test_an_app_with_much_work_leaves_slots_to_others(cluster: Cluster, database: Database):
    go_on = asyncio.Event()

    async def wait(_: Job[int]) -> None:
        await go_on.wait()

    recorder = Recorder(wait)
    test = kind(recorder)
    busy, others = uuid7(), [uuid7() for _ in range(2)]
    async with database.transaction() as connection:
        for _ in range(100):
            await store.enqueue(connection, busy, uuid7(), "light", "test", None, None, "0", 0, None, True)
        for number, app_id in enumerate(others, start=1):
            await store.enqueue(connection, app_id, uuid7(), "light", "test", None, None, str(number), 0, None, True)
    await cluster.member(test, slots={"light": 4})
    await until(lambda: len(recorder.ran) == 4)
    assert sorted(recorder.ran) == [0, 0, 1, 2]
    go_on.set()
    await until(lambda: empty(database))
    assert recorder.most == 4


async def test_an_orderly_stop_gives_work_back_without_counting_an_attempt(cluster: Cluster, database: Database):
    async def hang(_: Job[int]) -> None:
        await asyncio.sleep(PATIENCE)

    recorder = Recorder(hang)
    member = await cluster.member(kind(recorder))
    await member.enqueue(member.jobs.kinds["test"], 1)
    await until(lambda: bool(recorder.ran))
    await member.background.stop(0.05)
    row = await database.fetchrow("select state, owner, attempts from pilotis.jobs")
    assert tuple(row) == ("waiting", None, 0)
    assert await database.fetchval("select count(*) from pilotis.nodes") == 0


async def test_a_full_queue_is_told(cluster: Cluster, database: Database):
    member = await cluster.member(kind(Recorder()), max_waiting=3, serves=frozenset())
    app_id = uuid7()
    for number in range(3):
        async with database.connection() as connection:
            assert not await member.jobs.is_full(connection, app_id, "light")
        await member.enqueue(member.jobs.kinds["test"], number, app_id)
    async with database.connection() as connection:
        assert await member.jobs.is_full(connection, app_id, "light")
        assert not await member.jobs.is_full(connection, uuid7(), "light")


async def test_jobs_are_counted_by_one_process_of_a_server(cluster: Cluster, database: Database):
    recorder = Recorder()
    first = await cluster.member(kind(recorder), serves=frozenset({"none"}))
    second = await cluster.member(kind(recorder), serves=frozenset({"none"}), slot=1)
    for number in range(3):
        await first.enqueue(first.jobs.kinds["test"], number)
    await database.execute("update pilotis.jobs set state = 'dead', ended_at = now() where payload = '0'")
    counting = asyncio.create_task(first.background.counts.keep(0.05))
    expected = {("light", "test", "dead"): 1, ("light", "test", "waiting"): 2}
    await until(lambda: first.background.counts.jobs == expected)
    counting.cancel()
    assert second.background.counts.jobs == {}


async def test_dead_jobs_are_deleted_after_their_days(database: Database):
    for number, days in enumerate((1, 3, 13, 15)):
        await store.enqueue(database, UUID(int=0), uuid7(), "light", f"k{number % 2}", None, None, "1", 0, None, True)
        await database.execute(
            "update pilotis.jobs set state = 'dead', ended_at = now() - $1 * interval '1 day' where state <> 'dead'",
            days,
        )
    async with database.connection() as connection:
        assert await store.delete_dead(connection, ["k1"], [2], 100) == 2
    assert await database.fetchval("select count(*) from pilotis.jobs") == 2


async def test_schedules_of_purged_apps_are_deleted(database: Database):
    """The server's own have no app either, and stay."""
    app_id, purged = uuid7(), uuid7()
    async with database.connection() as connection:
        await connection.execute("insert into pilotis.apps (app_id, name) values ($1, 'shop')", app_id)
        for one in (app_id, purged, SERVER):
            await connection.execute(
                """
                insert into pilotis.schedules (app_id, schedule_id, kind, target_id, every_seconds)
                values ($1, $2, 'k', 't', 60)
                """,
                one,
                purged,
            )
        await schedules.delete_of_purged_apps(connection)
        left = await connection.fetch("select app_id from pilotis.schedules where schedule_id = $1", purged)
        await connection.execute("delete from pilotis.schedules; delete from pilotis.apps")
    assert {row["app_id"] for row in left} == {app_id, SERVER}


async def test_tasks_that_no_version_has_any_more_are_deleted(database: Database):
    """One that another version may have, which has been due for less than a day, stays."""
    async with database.connection() as connection:
        for name, hours in (("known", 100), ("former", 26), ("another", 24)):
            await connection.execute(
                """
                insert into pilotis.schedules (app_id, schedule_id, kind, target_id, every_seconds, next_run_at)
                values ($1, $2, $3, $4, 3600, now() - make_interval(hours => $5))
                """,
                SERVER,
                uuid7(),
                schedules.PERIODIC,
                name,
                hours,
            )
            await store.enqueue(database, SERVER, uuid7(), "light", name, name, None, "{}", 0, None, False)
        await tasks.delete_former_tasks(connection, ["known"])
        left = await connection.fetch("select target_id from pilotis.schedules where kind = 'periodic'")
        jobs = await connection.fetch("select kind from pilotis.jobs")
        await connection.execute("delete from pilotis.schedules; delete from pilotis.jobs")
    assert {name for (name,) in left} == {name for (name,) in jobs} == {"known", "another"}


async def test_a_task_is_fired_by_a_version_that_has_it(cluster: Cluster, database: Database):
    recorder = Recorder()
    await cluster.member(periodic=[periodic("both", 0.2, recorder.run)])
    await database.execute(
        """
        insert into pilotis.schedules (app_id, schedule_id, kind, target_id, every_seconds, next_run_at)
        values ($1, $2, $3, 'newer', 0.2, now())
        """,
        SERVER,
        uuid7(),
        schedules.PERIODIC,
    )
    await until(lambda: len(recorder.ran) > 3)
    assert not await database.fetchval("select last_run_at from pilotis.schedules where target_id = 'newer'")
