"""Events of tables, files and folders: each from the request that makes the change, in its transaction."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from pilotis.files.events import CallerEvents
from pilotis.files.items import Links
from pilotis.files.records import ItemRecord
from pilotis.http.api.principals import Anonymous
from tests.acceptance.test_files import PNG, put_at, storage, upload
from tests.events.listening import Recorder, target
from tests.events.test_members import HOSTILE, heard
from tests.services import Node
from tests.support import App, plain_client
from tests.waiting import until


async def test_what_happens_to_a_table_is_told(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["table.*"]))
    table_id = await app.table({"n": "int"}, title=HOSTILE)
    path = f"/v1/public/tables/{table_id}"
    async with app.client(app.secret_key) as client:
        column = {"name": "m", "data_type": "int"}
        assert (await client.post(f"{path}/columns", json=column)).is_success
        assert (await client.post(f"{path}/columns", json=column)).status_code == 409
        assert (await client.delete(path)).is_success
    async with plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}") as client:
        assert (await client.post(f"/v1/apps/{app.app_id}/trash/tables/{table_id}/restore")).is_success
        imported = await client.post(
            f"/v1/apps/{app.app_id}/tables/{table_id}/import",
            content='{"n": 1}\n{"n": "x"}\n',
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert imported.is_success, imported.text
    names = "created updated deleted restored imported"
    told = await heard(recorder, node, *(f"table.{name}" for name in names.split()))
    assert [data["table"] for data in told] == [{"id": table_id, "title": HOSTILE, "access_level": "Public"}] * 5
    assert (told[-1]["created"], told[-1]["rejected"]) == (1, 1)
    kinds = [event.actor_kind for event in recorder.events]
    assert kinds == ["public", "secret_key", "secret_key", "console_user", "console_user"]
    assert {(event.subject, str(event.table_id)) for event in recorder.events} == {(f"tables/{table_id}", table_id)}


async def test_arming_a_table_is_no_change_of_it(app: App, node: Node, recorder: Recorder):
    table_id = await app.table({"n": "int"})
    await node.services.events.listen(target(app, ["table.*", "row.created"]))
    await app.row(table_id, {"n": 1})
    await heard(recorder, node, "row.created")


async def test_what_happens_to_files_is_told(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["file.*", "folder.*"]))
    base = await storage(app)
    member = await app.member()
    async with app.client(member["access_token"]) as client:
        single = await upload(client, base, file_name=f"{HOSTILE[:3]}.png")
        first = await put_at(client, base, "a/b/c.png")
        second = await put_at(client, base, "a/b/c.png", data=PNG * 2)
        folder = (await client.post(f"{base}/folders", json={"name": "empty"})).json()
        top = next(item for item in (await client.get(f"{base}/items")).json()["files"] if item["path"] == "a")
        assert (await client.delete(f"{base}/items/{top['id']}", params={"recursive": "true"})).is_success
    names = "file.created folder.created folder.created file.created file.replaced folder.created"
    await until(lambda: len(recorder.events) == 9)
    recorder.events.sort(key=lambda event: event.event_id)
    assert recorder.types()[:6] == names.split()
    assert sorted(recorder.types()[6:]) == ["file.deleted", "folder.deleted", "folder.deleted"]
    told = await heard(recorder, node, *recorder.types())
    storage_id = base.rpartition("/")[2]
    assert {data["storage_id"] for data in told} == {storage_id}
    assert told[0]["file"] == single
    assert [told[at]["file"]["path"] for at in (1, 2)] == ["a", "a/b"]
    assert told[3]["file"] == first
    assert told[4]["file"] == second
    assert told[5]["file"] == folder
    assert sorted(data["file"]["path"] for data in told[6:]) == ["a", "a/b", "a/b/c.png"]
    assert {(event.actor_kind, event.actor_id) for event in recorder.events} == {("member", member["member_id"])}
    assert recorder.events[0].subject == f"storages/{storage_id}/items/{single['id']}"


async def test_uploads_that_are_completed_at_once_are_told_once_each(app: App, node: Node, recorder: Recorder):
    base = await storage(app)
    await node.services.events.listen(target(app, ["file.created"]))
    async with app.client() as client:
        made = await asyncio.gather(*(upload(client, base, file_name=f"{number}.png") for number in range(20)))
    told = await heard(recorder, node, *["file.created"] * 20)
    assert {data["file"]["id"] for data in told} == {item["id"] for item in made}


def test_of_many_items_that_are_deleted_together_the_folder_alone_is_told():
    at = datetime(2026, 11, 22, tzinfo=UTC)
    app_id, storage_id = UUID(int=8), UUID(int=9)
    rows = [
        ItemRecord(
            app_id, storage_id, UUID(int=number), None, "a", "a", True, False, None, None, 0, None, 1, None, at, at
        )
        for number in range(1, 1002)
    ]
    telling = CallerEvents(Links("https://example.com"), Anonymous())
    assert len(telling.deleted(rows[:1000], UUID(int=1))) == 1000
    assert [event.data.file.id for event in telling.deleted(rows, UUID(int=1))] == [UUID(int=1)]
