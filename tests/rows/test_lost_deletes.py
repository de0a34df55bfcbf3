"""A conditional delete whose connection is lost: it may have happened, and the answer says so."""

import asyncio

import pytest

from pilotis.data.rows.types import DeleteWhere
from pilotis.kit.errors import OutcomeUnknownError
from tests.waiting import until

CUT_OFF = "select count(pg_terminate_backend(pid)) from pg_stat_activity where $1::int = any(pg_blocking_pids(pid))"


@pytest.mark.without_citus("the delete waits for a lock on another node, where this node sees no blocking process")
async def test_a_conditional_delete_that_is_cut_off_has_an_unknown_outcome(world):
    table = (await world.table()).schema.physical
    request = DeleteWhere(where={"age": {"$gte": 0}})
    async with world.services.database.transaction() as blocker:
        await blocker.execute(f"select 1 from {table} for update")
        deleting = asyncio.create_task(world.services.rows.delete_where(world.principal, world.table_id, request))
        await until(lambda: world.services.database.fetchval(CUT_OFF, blocker.get_server_pid()))
        with pytest.raises(OutcomeUnknownError):
            await deleting
