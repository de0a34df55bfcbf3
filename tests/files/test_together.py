"""Uploads that are presigned and completed at the same time, and so share statements."""

import asyncio
import contextlib
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx

from pilotis.db.pool import Database
from pilotis.files.uploads import store as upload_store
from pilotis.kit.ids import uuid7
from tests import databases
from tests.acceptance.test_files import PNG, complete, permit, send, storage, sums, upload
from tests.backstage import run_sql
from tests.console import owner_of
from tests.support import App, assert_error

MANY = 20


async def presign(client: httpx.AsyncClient, base: str, **given: Any) -> httpx.Response:
    body = {"file_size": len(PNG), "mime_type": "image/png", **given}
    return await client.post(f"{base}/presigned-url", json=body)


async def test_each_presign_gets_its_own_answer(app: App, other_app: App):
    base = await storage(app, allowed_mime_types=["image/*"], max_file_size=10_000)
    async with app.client() as client:
        folder = (await client.post(f"{base}/folders", json={"name": "folder"})).json()["id"]
        await upload(client, base, file_name="taken.png")
        wanted = {
            "OK": {},
            "PATH_TAKEN": {"file_name": "taken.png"},
            "FILE_TOO_LARGE": {"file_size": 10_001},
            "MIME_TYPE_NOT_ALLOWED": {"mime_type": "text/html"},
            "FOLDER_NOT_FOUND": {"parent_id": str(uuid4())},
            "IN FOLDER": {"parent_id": folder},
        }
        asked = [
            (code, presign(client, base, **{"file_name": f"{number}.png", **given}))
            for number in range(MANY)
            for code, given in wanted.items()
        ]
        answers = await asyncio.gather(*(request for _, request in asked))
        for (code, _), answer in zip(asked, answers, strict=True):
            assert answer.json().get("code") == (None if code in {"OK", "IN FOLDER"} else code), answer.text
        granted = [answer.json() for answer in answers if answer.status_code == 200]
        assert len({one["file_id"] for one in granted}) == 2 * MANY
        for sent in await asyncio.gather(*(send(one) for one in granted)):
            assert sent.status_code == 200, sent.text
        items = [answer.json() for answer in await asyncio.gather(*(complete(client, base, one) for one in granted))]
        assert sorted(item["path"] for item in items) == sorted(
            f"{place}{number}.png" for number in range(MANY) for place in ("", "folder/")
        )
        for one, item in zip(granted, items, strict=True):
            assert (item["id"], item["url"]) == (one["file_id"], one["public_url"])
    async with other_app.client() as stranger:
        assert_error(await presign(stranger, base, file_name="x.png"), 404, "STORAGE_NOT_FOUND")


async def test_uploads_of_eight_clients_to_a_storage_with_a_quota_neither_fail_nor_stall(app: App):
    """Reservations and completions lock the storage's row in one order; a ring of them waited a second, then failed."""
    base = await storage(app, quota_bytes=10 * 2**30)
    durations: list[float] = []

    async def upload_some(worker: int) -> None:
        async with app.client() as client:
            for number in range(50):
                begun = time.perf_counter()
                answer = await presign(client, base, file_name=f"{worker}-{number}.png")
                assert answer.status_code == 200, answer.text
                durations.append(time.perf_counter() - begun)
                assert (await send(answer.json())).status_code == 200
                begun = time.perf_counter()
                done = await complete(client, base, answer.json())
                assert done.status_code == 200, done.text
                durations.append(time.perf_counter() - begun)

    await asyncio.gather(*(upload_some(worker) for worker in range(8)))
    median, slowest = statistics.median(durations), max(durations)
    print(f"median {median * 1000:.1f} ms, slowest {slowest * 1000:.1f} ms")
    # PostgreSQL looks for a deadlock after a second.
    assert slowest < 10 * median + 0.5
    used = (
        "select (used_bytes, reserved_bytes) = (400 * $2::bigint, 0) from pilotis.file_storages where storage_id = $1"
    )
    assert await run_sql(app.server, used, UUID(base.rpartition("/")[2]), len(PNG))


async def test_completions_of_one_upload_at_once_list_it_once(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        await send(permitted)
        answers = await asyncio.gather(*(complete(client, base, permitted) for _ in range(MANY)))
        assert {answer.status_code for answer in answers} == {200}, answers[0].text
        items = [answer.json() for answer in answers]
        assert items == [items[0]] * MANY
        assert items[0]["version"] == 1
        assert (await client.get(f"{base}/items")).json()["files"] == [items[0]]
    state = await run_sql(
        app.server, "select state from pilotis.uploads where item_id = $1", UUID(permitted["file_id"])
    )
    assert state == "completed"


@contextlib.asynccontextmanager
async def path_held(app: App, base: str, path: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Keep a path taken by a transaction that comes to nothing; yields what tells how many statements wait for it."""
    database = databases.address(app.server.data_dir)
    holder, watcher = await asyncpg.connect(**database), await asyncpg.connect(**database)
    transaction = holder.transaction()
    await transaction.start()
    columns = "app_id, storage_id, file_id, path, name, is_folder"
    insert = f"insert into pilotis.files ({columns}) values ($1, $2, $3, $4, $4, true)"
    await holder.execute(insert, UUID(app.app_id), UUID(base.rpartition("/")[2]), uuid4(), path)
    yield lambda: watcher.fetchval("select count(*) from pg_locks where locktype = 'transactionid' and not granted")
    await transaction.rollback()
    await holder.close()
    await watcher.close()


async def test_of_uploads_to_one_new_path_one_is_listed(app: App):
    base = await storage(app)
    async with app.client() as client:
        permits = [await permit(client, base) for _ in range(MANY)]
        for one in permits:
            assert (await send(one)).status_code == 200
        async with path_held(app, base, "a.png") as waiting:
            completions = asyncio.gather(*(complete(client, base, one) for one in permits))
            while await waiting() < 2:
                assert not completions.done()
                await asyncio.sleep(0.02)
        answers = await completions
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: MANY - 1}
        (item,) = (await client.get(f"{base}/items")).json()["files"]
        assert item == next(answer.json() for answer in answers if answer.status_code == 200)
        assert (await client.get(item["url"])).content == PNG
    # What was refused keeps its bytes until its time is over, and then gives them back.
    count = "select count(*) from pilotis.uploads where storage_id = $1 and state = $2"
    storage_id = UUID(base.rpartition("/")[2])
    assert await run_sql(app.server, count, storage_id, "completed") == 1
    assert await run_sql(app.server, count, storage_id, "uploaded") == MANY - 1


async def test_a_quota_that_is_set_meanwhile_counts_every_upload(app: App):
    """Whether an upload was promised room is decided in the statement that inserts it."""
    base = await storage(app)
    storage_id = base.rpartition("/")[2]
    async with app.client() as client:

        async def whole(number: int) -> None:
            permitted = await permit(client, base, file_name=f"{number}.png")
            await send(permitted)
            assert (await complete(client, base, permitted)).status_code == 200

        async def set_quota() -> None:
            async with owner_of(app).client(app) as console:
                answer = await console.patch(f"/storages/files/{storage_id}", json={"quota_bytes": 10**9})
                assert answer.status_code == 200, answer.text

        await asyncio.gather(*(whole(number) for number in range(MANY)), set_quota())
        async with owner_of(app).client(app) as console:
            seen = (await console.get(f"/storages/files/{storage_id}")).json()
        assert (seen["used_bytes"], seen["reserved_bytes"]) == (MANY * len(PNG), 0)


async def test_uploads_to_a_storage_with_a_quota_share_a_statement(app: App):
    """As many as there is room for, and only those are counted; the others get a closer look."""
    base = await storage(app, quota_bytes=250)
    storage_id, app_id = UUID(base.rpartition("/")[2]), UUID(app.app_id)
    rows = [
        upload_store.NewUploadRow(
            app_id, uuid7(), storage_id, None, name, "image/png", size, None, None, False, 3600, ["Public"], []
        )
        for name, size in (("a.png", 100), ("b.png", 100), ("c.png", 100), ("a/b.png", 10))
    ]
    database = Database(databases.address(app.server.data_dir))
    assert await upload_store.insert_many(database, rows[:3]) == [True, True, False]
    assert await sums(app, base) == (0, 200)
    wanted = [upload_store.CompletionRow(app_id, storage_id, row.upload_id, None, True, ["Public"]) for row in rows]
    assert await upload_store.complete_many(database, wanted) == [None] * 4
    await database.execute(
        "update pilotis.uploads set state = 'uploaded', blob_id = upload_id where storage_id = $1", storage_id
    )
    listed = await upload_store.complete_many(database, wanted)
    assert [item and item.path for item in listed] == ["a.png", "b.png", None, None]
    assert await sums(app, base) == (200, 0)
    assert await upload_store.insert_many(database, rows[2:3]) == [False]
    await database.close()


async def test_a_quota_is_never_exceeded_by_uploads_of_many_statements(app: App):
    base = await storage(app, quota_bytes=7 * len(PNG))
    async with app.client() as client, app.client() as other:
        answers = await asyncio.gather(
            *(
                presign(one, base, file_name=f"{n}{at}.png")
                for n in range(MANY)
                for at, one in enumerate((client, other))
            )
        )
        granted = [answer.json() for answer in answers if answer.status_code == 200]
        assert len(granted) == 7
        assert {answer.json()["code"] for answer in answers if answer.status_code != 200} == {"QUOTA_EXCEEDED"}
        assert await sums(app, base) == (0, 7 * len(PNG))
        await asyncio.gather(*(send(one) for one in granted))
        completed = await asyncio.gather(*(complete(client, base, one) for one in granted))
        assert {answer.status_code for answer in completed} == {200}
        assert await sums(app, base) == (7 * len(PNG), 0)
