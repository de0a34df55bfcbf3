"""A request that loses against another one runs again, unless it has already done something."""

import asyncpg
import pytest

from pilotis.http.api.repeating import ContendedError, repeated
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import ConflictError
from tests.backstage import run_sql
from tests.services import stale_node
from tests.support import Server


async def test_what_loses_runs_again_and_what_always_loses_is_told():
    lost: list[Exception] = [asyncpg.DeadlockDetectedError(), asyncpg.SerializationError(), ContendedError()]
    runs = 0

    async def run() -> int:
        nonlocal runs
        runs += 1
        if lost:
            raise lost.pop()
        return runs

    assert await repeated(run) == 4
    lost.extend(asyncpg.DeadlockDetectedError() for _ in range(100))
    with pytest.raises(ContendedError):
        await repeated(run)
    assert runs == 9
    lost[:] = [asyncpg.UniqueViolationError() for _ in range(100)]
    with pytest.raises(ConflictError):
        await repeated(run)


async def test_what_had_an_effect_does_not_run_again():
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        took_effect()
        raise asyncpg.DeadlockDetectedError

    with pytest.raises(ContendedError):
        await repeated(run)
    assert runs == 1


async def test_reads_and_what_was_rolled_back_are_no_effects(server: Server):
    """A committed transaction is one, and so is a single statement that writes."""
    await run_sql(server, "create table if not exists public.effects (id int primary key)")
    async with stale_node(server) as node:
        database, runs = node.database, 0

        async def read() -> int:
            nonlocal runs
            runs += 1
            await database.fetchval("select 1")
            async with database.transaction() as connection:
                await connection.execute("insert into public.effects values (1)")
                if runs < 3:
                    raise asyncpg.DeadlockDetectedError
            return runs

        assert await repeated(read) == 3
        for statement in ("insert into public.effects values (2)", "insert into public.effects values (3)"):
            is_one = statement.endswith("(2)")

            async def write(text: str = statement, *, is_single: bool = is_one) -> None:
                if is_single:
                    await database.execute(text)
                else:
                    async with database.transaction() as connection:
                        await connection.execute(text)
                raise asyncpg.SerializationError

            with pytest.raises(ContendedError):
                await repeated(write)
    assert await run_sql(server, "select count(*) from public.effects") == 3
    await run_sql(server, "drop table public.effects")
