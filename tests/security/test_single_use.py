"""Single-use values: of many concurrent uses exactly one succeeds."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.db.pool import Database
from pilotis.kit.crypto import secret_hash
from pilotis.kit.ids import uuid7
from pilotis.security import single_use
from tests.services import address, connected
from tests.support import Server
from tests.waiting import PATIENCE, until

HOUR = timedelta(hours=1)


@pytest.fixture
async def database(server: Server):
    made = Database(address(server), size=25, statement_seconds=PATIENCE)
    yield made
    await made.close()


async def stored(database: Database, app_id, purpose="p", lifetime: timedelta | None = HOUR, **given) -> str:
    value = single_use.mint("x_", app_id)
    async with database.transaction() as connection:
        await single_use.put(connection, app_id, value, purpose, {"n": 1, "text": "é"}, lifetime, **given)
    return value.text


async def used(database: Database, app_id, text: str, purpose="p"):
    async with database.transaction() as connection:
        return await single_use.consume(connection, app_id, purpose, text)


@given(st.uuids())
def test_a_value_names_its_app_and_is_never_the_same(app_id):
    first, second = single_use.mint("ab_", app_id), single_use.mint("ab_", app_id)
    assert first.text.startswith("ab_")
    assert len(first.text) == 3 + 64
    assert single_use.app_of("ab_", first.text) == app_id
    assert first != second


@pytest.mark.parametrize(
    "text", ["", "ab_", "ab_!", "ab_é", "ab_" + "A" * 53, "ab_" + "A" * 65, "cd_" + "A" * 64, "A" * 64]
)
def test_what_is_no_value_names_no_app(text: str):
    assert single_use.app_of("ab_", text) is None


async def test_it_is_good_once_and_gives_its_data(database: Database):
    app_id = uuid7()
    text = await stored(database, app_id)
    assert await single_use.is_usable(database, app_id, "p", text)
    assert await used(database, app_id, text) == {"n": 1, "text": "é"}
    assert await used(database, app_id, text) is None
    assert not await single_use.is_usable(database, app_id, "p", text)


async def test_of_20_who_use_it_at_once_one_succeeds(database: Database):
    app_id = uuid7()
    text = await stored(database, app_id)
    found = await asyncio.gather(*(used(database, app_id, text) for _ in range(20)))
    assert sorted(map(bool, found)) == [False] * 19 + [True]


async def test_a_use_that_is_rolled_back_leaves_it_to_the_next(server: Server, database: Database):
    app_id = uuid7()
    text = await stored(database, app_id)
    async with connected(server) as first, connected(server) as watching:
        change = first.transaction()
        await change.start()
        assert await single_use.consume(first, app_id, "p", text) is not None
        second = asyncio.create_task(used(database, app_id, text))
        await until(lambda: somebody_waits_for(watching, first.get_server_pid()))
        await change.rollback()
        assert await second is not None


async def test_no_other_app_and_no_other_purpose_uses_it(database: Database):
    app_id = uuid7()
    text = await stored(database, app_id)
    assert await used(database, uuid7(), text) is None
    assert await used(database, app_id, text, "q") is None
    assert await used(database, app_id, text + "A") is None
    assert await used(database, app_id, text) is not None


async def test_time_and_a_newer_one_of_its_subject_make_it_useless(database: Database):
    app_id = uuid7()
    assert await used(database, app_id, await stored(database, app_id, lifetime=timedelta(0))) is None
    first = await stored(database, app_id, subject="s")
    other, second = await stored(database, app_id, subject="t"), await stored(database, app_id, subject="s")
    assert await used(database, app_id, first) is None
    assert await used(database, app_id, second) is not None
    assert await stored(database, app_id, subject="s")
    async with database.connection() as connection:
        await single_use.revoke(connection, app_id, "p", "t")
    assert await used(database, app_id, other) is None


async def test_one_without_a_lifetime_stays(database: Database):
    app_id = uuid7()
    value = single_use.mint("x_", app_id)
    async with database.connection() as connection:
        expires_at = await single_use.put(connection, app_id, value, "p", {}, None)
        assert expires_at.year == datetime.max.replace(tzinfo=UTC).year
        await single_use.delete_expired(connection)
    assert await used(database, app_id, value.text) == {}


async def test_expired_ones_are_deleted_after_a_day(database: Database, monkeypatch):
    monkeypatch.setattr(single_use, "_BATCH_SIZE", 2)
    app_id = uuid4()
    kept = await stored(database, app_id, lifetime=timedelta(hours=-23))
    for _ in range(5):
        await stored(database, app_id, lifetime=timedelta(hours=-25))
    async with database.connection() as connection:
        await single_use.delete_expired(connection)
        left = await connection.fetch("select hash from pilotis.single_use where app_id = $1", app_id)
    assert [row["hash"] for row in left] == [secret_hash(kept)]


async def somebody_waits_for(connection: asyncpg.Connection, process: int) -> bool:
    return bool(
        await connection.fetchval("select true from pg_stat_activity where $1 = any(pg_blocking_pids(pid))", process)
    )
