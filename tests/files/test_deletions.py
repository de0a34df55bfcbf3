"""Deleting the bytes of deleted files: one that cannot be deleted waits alone, and nothing in use is ever deleted."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from pilotis.files.records import PendingDeletion
from pilotis.files.uploads import store as upload_store
from pilotis.kit.ids import uuid7
from tests.acceptance.test_files import PNG, storage, upload
from tests.acceptance.test_storages import mark_for_deletion, stored
from tests.background import run_task
from tests.database import connection_to, second_node
from tests.services import Node
from tests.support import App

IMPOSSIBLE = "blobs/ä"
WAITING = "select attempts, due_at - now() as pause from pilotis.pending_deletions where app_id = $1 and key = $2"


@pytest.fixture
async def node(app: App) -> AsyncIterator[Node]:
    async with second_node(app.server) as made:
        yield made


@pytest.fixture
async def connection(app: App) -> AsyncIterator[asyncpg.Connection]:
    async with connection_to(app.server) as made:
        yield made


async def clean(node: Node) -> None:
    """Run the task once, when the shared server is not at it by itself."""
    await run_task(node, "blobs.delete")


async def deleted_files(app: App, count: int) -> None:
    base = await storage(app)
    async with app.client() as client:
        for number in range(count):
            item = await upload(client, base, PNG, file_name=f"{number}.png")
            assert (await client.delete(f"{base}/items/{item['id']}")).status_code == 200
    await mark_for_deletion(app)


async def test_a_blob_that_cannot_be_deleted_waits_alone_with_growing_pauses(
    app: App, node: Node, connection: asyncpg.Connection
):
    app_id = UUID(app.app_id)
    first_in_line = (
        "insert into pilotis.pending_deletions (app_id, key, due_at) values ($1, $2, now() - interval '1 day')"
    )
    await connection.execute(first_in_line, app_id, IMPOSSIBLE)
    await deleted_files(app, 3)
    assert len(await stored(node, app)) == 3
    await clean(node)
    assert await stored(node, app) == []
    left = await connection.fetch("select key from pilotis.pending_deletions where app_id = $1", app_id)
    assert [row["key"] for row in left] == [IMPOSSIBLE]
    pauses = []
    for attempt in range(1, 14):
        tried = await connection.fetchrow(WAITING, app_id, IMPOSSIBLE)
        assert tried["attempts"] == attempt
        pauses.append(round(tried["pause"].total_seconds() / 60))
        await mark_for_deletion(app)
        await clean(node)
    assert pauses[:4] == [2, 4, 8, 16]
    assert pauses[-1] == 24 * 60
    await connection.execute("delete from pilotis.pending_deletions where app_id = $1", app_id)


async def test_while_the_whole_store_is_away_what_was_not_tried_keeps_its_place(
    app: App, node: Node, connection: asyncpg.Connection
):
    app_id = UUID(app.app_id)
    await deleted_files(app, 1)
    first_in_line = (
        "insert into pilotis.pending_deletions (app_id, key, due_at) values ($1, $2, now() - interval '1 day')"
    )
    for number in range(8):
        await connection.execute(first_in_line, app_id, f"{IMPOSSIBLE}{number}")
    await clean(node)
    attempts = "select count(*) from pilotis.pending_deletions where app_id = $1 and attempts = $2"
    assert await connection.fetchval(attempts, app_id, 1) == 5
    await clean(node)
    assert await stored(node, app) == []
    assert await connection.fetchval(attempts, app_id, 1) == 8
    await connection.execute("delete from pilotis.pending_deletions where app_id = $1", app_id)


async def test_a_blob_whose_deletion_has_begun_is_not_taken_into_use(connection: asyncpg.Connection):
    app_id, key = uuid7(), "blobs/x"
    pending_deletions = (
        "insert into pilotis.pending_deletions (app_id, key, due_at) values ($1, $2, now() - interval '100 years')"
    )
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(pending_deletions, app_id, key)
    [claimed] = await upload_store.claim_due_blobs(connection, 1)
    assert claimed == (app_id, key)
    assert not await upload_store.unmark(connection, app_id, key)
    await upload_store.record_deleted_blobs(connection, [claimed])
    assert not await upload_store.unmark(connection, app_id, key)
    await connection.execute(pending_deletions, app_id, key)
    assert await upload_store.unmark(connection, app_id, key)
    await transaction.rollback()


async def test_noting_deletions_reads_no_more_than_their_entries(connection: asyncpg.Connection):
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        """
        insert into pilotis.pending_deletions (app_id, key, due_at)
        select gen_random_uuid(), 'blobs/' || n, now() + interval '1 day' from generate_series(1, 50000) n
        """
    )
    await connection.execute("analyze pilotis.pending_deletions")
    # As in the embedded database. By PostgreSQL's own default, which is meant for rotating disks, 500 entries of 50,000
    # are found by a scan.
    await connection.execute("set local random_page_cost = 1.1")
    scans = "select seq_scan from pg_stat_xact_all_tables where relid = 'pilotis.pending_deletions'::regclass"
    before = await connection.fetchval(scans)
    rows = await connection.fetch("select app_id, key from pilotis.pending_deletions order by app_id, key limit 500")
    gone = [PendingDeletion(*row) for row in rows]
    await upload_store.record_deleted_blobs(connection, gone)
    await upload_store.known_keys(connection, [f"blobs/{app_id}/{uuid7()}" for app_id, _ in gone])
    assert await connection.fetchval(scans) == before
    assert (
        await connection.fetchval("select count(*) from pilotis.pending_deletions where key like 'blobs/%'") >= 49_500
    )
    await transaction.rollback()


async def test_a_node_of_the_version_before_deletes_by_the_old_name(connection: asyncpg.Connection):
    app_id = uuid7()
    insert = "insert into pilotis.dead_blobs (app_id, key, due_at) values ($1, $2, now()) on conflict do nothing"
    for key in ("blobs/a", "blobs/b", "blobs/b"):
        await connection.execute(insert, app_id, key)
    claimed = await connection.fetch(
        """
        update pilotis.dead_blobs d set attempts = d.attempts + 1
        from (
            select app_id, key from pilotis.dead_blobs where app_id = $1 order by due_at limit 1
            for update skip locked
        ) due
        where d.app_id = due.app_id and d.key = due.key
        returning d.key
        """,
        app_id,
    )
    pending = "select key, attempts from pilotis.pending_deletions where app_id = $1 order by attempts"
    assert [row["attempts"] for row in await connection.fetch(pending, app_id)] == [0, 1]
    await connection.execute("delete from pilotis.dead_blobs where app_id = $1 and key = $2", app_id, claimed[0]["key"])
    assert [row["attempts"] for row in await connection.fetch(pending, app_id)] == [0]
    await connection.execute("delete from pilotis.dead_blobs where app_id = $1", app_id)
