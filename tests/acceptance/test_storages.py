"""File storages: their console routes, who may do what in them, temporary URLs, and how they end."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.files.signatures import UrlSigner
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from pilotis.limits import Limits
from tests.acceptance.test_files import PNG, complete, fixed, permit, put_at, send, storage, sums, upload
from tests.background import run_task
from tests.backstage import master_key, run_sql
from tests.console import owner_of, second_node, the_log, user_with
from tests.services import Node
from tests.support import App, assert_error, plain_client


@pytest.fixture
async def node(app: App) -> AsyncIterator[Node]:
    """A node that cleans up on request."""
    async with second_node(app.server, listening=False) as made:
        yield made


async def clean(node: Node, name: str) -> None:
    """Run a maintenance task, once no other node is at it."""
    await run_task(node, name)


async def test_a_storage_that_names_no_quota_has_the_default_one(app: App):
    """The server's limit, or the app's own stricter one; null means no limit."""
    default = Limits().storage_quota_bytes
    async with owner_of(app).client(app) as console:
        assert default == 10 * 1024**3
        assert (await console.post("/storages/files", json={"name": "default"})).json()["quota_bytes"] == default
        for name, quota in (("own", 3 * default), ("none", None)):
            made = await console.post("/storages/files", json={"name": name, "quota_bytes": quota})
            assert made.json()["quota_bytes"] == quota
        assert (await console.patch("/limits", json={"storage_quota_bytes": 150})).status_code == 200
        made = (await console.post("/storages/files", json={"name": "small"})).json()
        assert made["quota_bytes"] == 150
    base = f"/v1/public/storages/files/{made['id']}"
    async with app.client() as client:
        body = {"file_name": "a.png", "mime_type": "image/png", "file_size": 100}
        assert (await client.post(f"{base}/presigned-url", json=body)).status_code == 200
        second = await client.post(f"{base}/presigned-url", json={**body, "file_name": "b.png"})
        assert_error(second, 413, "QUOTA_EXCEEDED")


async def test_a_storage_is_made_read_changed_and_deleted(app: App):
    async with owner_of(app).client(app) as console:
        made = await console.post("/storages/files", json={"name": "avatars", "allowed_mime_types": ["Image/*"]})
        assert made.status_code == 201, made.text
        storage = made.json()
        assert storage["upload_access"] == storage["delete_access"] == storage["read_access"] == "Public"
        assert (storage["allowed_mime_types"], storage["max_file_size"]) == (["image/*"], None)
        listed = (await console.get("/storages/files")).json()
        assert listed == {"storages": [storage], "total_count": 1, "limit": 20, "offset": 0}
        address = f"/storages/files/{storage['id']}"
        assert (await console.get(address)).json() == storage
        assert_error(await console.post("/storages/files", json={"name": "avatars"}), 409, "STORAGE_NAME_TAKEN")
        changed = await console.patch(address, json={"name": "faces", "read_access": "AppMember", "quota_bytes": 5})
        assert changed.status_code == 200
        assert changed.json() | {"updated_at": ""} == storage | {
            "name": "faces",
            "read_access": "AppMember",
            "quota_bytes": 5,
            "updated_at": "",
        }
        assert (await console.patch(address, json={"quota_bytes": None})).json()["quota_bytes"] is None
        gone = await console.delete(address)
        assert gone.json() == {"message": "File storage deleted.", "id": storage["id"]}
        assert_error(await console.get(address), 404, "STORAGE_NOT_FOUND")
    actions = [entry["action"] for entry in await the_log(app, action="file_storage")]
    assert actions == ["file_storage." + name for name in ("delete", "update", "update", "create")]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": ""},
        {"name": "x", "upload_access": "Nobody"},
        {"name": "x", "allowed_mime_types": ["image"]},
        {"name": "x", "quota_bytes": -1},
        {"name": "x", "id": "y"},
    ],
)
async def test_a_storage_that_makes_no_sense(app: App, wrong: dict[str, Any]):
    async with owner_of(app).client(app) as console:
        assert_error(await console.post("/storages/files", json=wrong), 400, "VALIDATION_FAILED")


async def test_viewers_read_and_editors_write(app: App):
    viewer, editor = await user_with(app, "viewer"), await user_with(app, "editor")
    async with viewer.client(app) as reading, editor.client(app) as writing:
        made = (await writing.post("/storages/files", json={"name": "x"})).json()
        assert (await reading.get(f"/storages/files/{made['id']}")).status_code == 200
        assert_error(await reading.post("/storages/files", json={"name": "y"}), 403, "ROLE_REQUIRED")
        assert_error(await reading.patch(f"/storages/files/{made['id']}", json={}), 403, "ROLE_REQUIRED")
        assert_error(await reading.delete(f"/storages/files/{made['id']}"), 403, "ROLE_REQUIRED")


async def test_an_app_has_a_bounded_number_of_storages(app: App):
    async with owner_of(app).client(app) as console:
        assert (await console.patch("/limits", json={"storages": 2})).status_code == 200
        answers = await asyncio.gather(
            *(console.post("/storages/files", json={"name": str(number)}) for number in range(5))
        )
    assert sorted(answer.status_code for answer in answers) == [201, 201, 400, 400, 400]


async def test_a_storage_with_files_is_deleted_only_by_force(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        item = await upload(client, base)
        waiting = await permit(client, base, file_name="b")
        await send(waiting)
        address = f"/storages/files/{base.rpartition('/')[2]}"
        assert_error(await console.delete(address), 409, "STORAGE_NOT_EMPTY")
        assert (await client.get(item["url"])).status_code == 200
        assert (await console.delete(address, params={"force": "true"})).status_code == 200
        assert_error(await client.get(item["url"]), 404, "FILE_NOT_FOUND")
        assert_error(await client.get(f"{base}/items"), 404, "STORAGE_NOT_FOUND")
        assert_error(await complete(client, base, waiting), 404, "STORAGE_NOT_FOUND")
    assert len(await stored(node, app)) == 2
    await mark_for_deletion(app)
    await clean(node, "blobs.delete")
    assert await stored(node, app) == []


async def stored(node: Node, app: App) -> list[str]:
    """The keys of an app's blobs in the object store."""
    return [info.key async for info in node.services.blobs.list(f"blobs/{app.app_id}")]


async def mark_for_deletion(app: App) -> None:
    """Let the time pass that readers of deleted files are given."""
    due = "update pilotis.pending_deletions set due_at = now() - interval '1 second' where app_id = $1"
    await run_sql(app.server, due, UUID(app.app_id))


async def member(app: App, login_id: str) -> httpx.AsyncClient:
    return app.client((await app.member(login_id))["access_token"])


async def test_upload_access(app: App):
    ada, eve = await member(app, "ada"), await member(app, "eve")
    async with app.client() as public, ada, eve, app.client(app.secret_key) as secret:
        body = {"file_name": "a", "file_size": 1, "mime_type": "a/b"}
        cases = {
            "Public": (200, 200, 200),
            "AppMember": (401, 200, 200),
            "Creator": (401, 200, 200),
            "Secret": (401, 401, 200),
        }
        for access, expected in cases.items():
            base = await storage(app, name=access, upload_access=access)
            for client, status in zip((public, ada, secret), expected, strict=True):
                answers = [
                    await client.post(f"{base}/presigned-url", json=body),
                    await client.post(f"{base}/presigned-url/path/a", json=body),
                    await client.post(f"{base}/folders", json={"name": f"{access} {id(client)}"}),
                ]
                statuses = [answer.status_code for answer in answers]
                assert statuses == ([status, status, 201] if status == 200 else [status] * 3), (access, statuses)
        refused = await public.post(
            f"{await storage(app, name='m', upload_access='AppMember')}/presigned-url", json=body
        )
        assert_error(refused, 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await ada.post(f"{base}/presigned-url", json=body), 401, "SECRET_KEY_REQUIRED")


async def test_nobody_completes_or_replaces_anothers_upload(app: App):
    base = await storage(app, upload_access="Creator")
    ada, eve = await member(app, "ada"), await member(app, "eve")
    async with ada, eve, app.client(app.secret_key) as secret:
        permitted = await permit(ada, base)
        await send(permitted)
        assert_error(await complete(eve, base, permitted), 404, "FILE_NOT_FOUND")
        assert (await complete(ada, base, permitted)).status_code == 200
        assert_error(await complete(eve, base, permitted), 404, "FILE_NOT_FOUND")
        await put_at(ada, base, "mine", b"1")
        assert_error(await fixed(eve, base, "mine", overwrite=True), 403, "NOT_YOURS")
        # Presigned while the path was free, completed when it no longer is.
        early = (await fixed(eve, base, "late", b"e", overwrite=True)).json()
        await send(early, b"e")
        await put_at(ada, base, "late", b"a")
        assert_error(await complete(eve, base, early), 403, "NOT_YOURS")
        assert (await put_at(ada, base, "mine", b"2"))["version"] == 2
        assert (await put_at(secret, base, "mine", b"3"))["version"] == 3


async def test_anothers_upload_in_a_storage_for_all_members(app: App):
    base = await storage(app, upload_access="AppMember")
    ada, eve = await member(app, "ada"), await member(app, "eve")
    async with ada, eve, app.client() as public:
        permitted = await permit(ada, base)
        await send(permitted)
        assert_error(await complete(eve, base, permitted), 404, "FILE_NOT_FOUND")
        assert_error(await complete(public, base, permitted), 401, "MEMBER_TOKEN_REQUIRED")
        assert (await complete(ada, base, permitted)).status_code == 200


async def test_whoever_signs_in_meanwhile_may_complete_what_nobody_began(app: App):
    base = await storage(app)
    async with app.client() as public, await member(app, "ada") as ada:
        permitted = await permit(public, base)
        await send(permitted)
        assert (await complete(ada, base, permitted)).status_code == 200


async def test_delete_access(app: App):
    base = await storage(app, delete_access="Creator")
    ada, eve = await member(app, "ada"), await member(app, "eve")
    async with app.client() as public, ada, eve, app.client(app.secret_key) as secret:
        items = [await upload(ada, base, file_name=str(number)) for number in range(2)]
        folder = (await ada.post(f"{base}/folders", json={"name": "f"})).json()
        await upload(eve, base, parent_id=folder["id"])
        assert_error(await public.delete(f"{base}/items/{items[0]['id']}"), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await eve.delete(f"{base}/items/{items[0]['id']}"), 403, "NOT_YOURS")
        assert (await ada.delete(f"{base}/items/{items[0]['id']}")).status_code == 200
        refused = await ada.delete(f"{base}/items/{folder['id']}", params={"recursive": "true"})
        assert_error(refused, 403, "NOT_YOURS")
        assert (await secret.delete(f"{base}/items/{folder['id']}", params={"recursive": "true"})).status_code == 200
        assert (await secret.delete(f"{base}/items/{items[1]['id']}")).status_code == 200


async def test_read_access(app: App, other_app: App):
    ada, eve = await member(app, "ada"), await member(app, "eve")
    stranger = await member(other_app, "sam")
    viewer = app.client((await user_with(app, "viewer")).access_token)
    async with app.client() as public, ada, eve, stranger, viewer, app.client(app.secret_key) as secret:
        for access, eves in (("AppMember", 200), ("Creator", 404), ("Secret", 401)):
            base = await storage(app, name=access, read_access=access)
            item = await upload(secret if access == "Secret" else ada, base)
            async with plain_client(app.server.url) as nobody:
                assert (await nobody.get(item["url"])).status_code == 401
            assert (await public.get(f"{base}/items")).status_code == 401
            assert (await public.get(f"{base}/path/a.png")).status_code == 401
            assert (await public.post(f"{base}/items/{item['id']}/signed-url", json={})).status_code == 401
            assert (await stranger.get(item["url"])).status_code == 401
            for path in (item["url"], f"{base}/path/a.png"):
                assert (await eve.get(path)).status_code == eves, (access, path)
            for client in (ada, secret, viewer):
                status = 401 if client is ada and access == "Secret" else 200
                served = await client.get(item["url"])
                assert served.status_code == status
                if status == 200:
                    assert served.headers["cache-control"].startswith("private")
                assert (await client.get(f"{base}/items")).status_code == status
            if access == "Creator":
                assert (await eve.get(f"{base}/items")).json()["files"] == []
                assert (await eve.get(f"{base}/items")).json()["total_count"] == 0
                assert (await eve.post(f"{base}/items/{item['id']}/signed-url", json={})).status_code == 404
                assert [one["id"] for one in (await ada.get(f"{base}/items")).json()["files"]] == [item["id"]]


async def test_temporary_urls(app: App):
    base = await storage(app, read_access="Creator")
    async with await member(app, "ada") as ada, plain_client(app.server.url) as anybody:
        item = await upload(ada, base)
        at_path = await put_at(ada, base, "p", b"p")
        signed = (await ada.post(f"{base}/items/{item['id']}/signed-url", json={"expires_seconds": 60})).json()
        served = await anybody.get(signed["url"])
        assert (served.status_code, served.content) == (200, PNG)
        assert served.headers["cache-control"].startswith("private")
        other = (await ada.post(f"{base}/items/{at_path['id']}/signed-url", json={})).json()["url"]
        assert (await anybody.get(other)).content == b"p"
        url = httpx.URL(signed["url"])
        expires, signature = int(url.params["expires"]), url.params["signature"]
        for params in (
            {"expires": str(expires + 1), "signature": signature},
            {"expires": str(expires), "signature": httpx.URL(other).params["signature"]},
            {"expires": "", "signature": signature},
            {"expires": "9" * 30, "signature": signature},
        ):
            answer = await anybody.get(url.copy_with(params=params))
            assert_error(answer, 403, "FILE_SIGNATURE_INVALID")
        past = int(time.time()) - 1
        storage_id = UUID(base.rpartition("/")[2])
        old = UrlSigner(MasterKeyring(MasterKeys(master_key(app.server)))).read(storage_id, UUID(item["id"]), past)
        answer = await anybody.get(url.copy_with(params={"expires": str(past), "signature": old}))
        assert_error(answer, 403, "FILE_SIGNATURE_INVALID")
        for seconds in (0, 8 * 24 * 3600, "x"):
            answer = await ada.post(f"{base}/items/{item['id']}/signed-url", json={"expires_seconds": seconds})
            assert_error(answer, 400, "VALIDATION_FAILED")


async def test_settings_hold_for_uploads_that_are_under_way(app: App):
    base = await storage(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        permitted = await permit(client, base)
        await send(permitted)
        await console.patch(f"/storages/files/{base.rpartition('/')[2]}", json={"upload_access": "Secret"})
        assert_error(await complete(client, base, permitted), 401, "SECRET_KEY_REQUIRED")


async def test_uploads_that_nobody_completes_expire(app: App, node: Node):
    base = await storage(app, quota_bytes=10_000)
    async with app.client() as client:
        kept = await upload(client, base, b"k" * 10)
        received, pending = (
            await permit(client, base, b"r" * 100, file_name="r"),
            await permit(client, base, b"p" * 100, file_name="p"),
        )
        await send(received, b"r" * 100)
        assert await sums(app, base) == (10, 200)
        await run_sql(app.server, "update pilotis.uploads set expires_at = now() where app_id = $1", UUID(app.app_id))
        await clean(node, "uploads.expire")
        assert await sums(app, base) == (10, 0)
        for gone in (received, pending):
            assert_error(await complete(client, base, gone), 404, "FILE_NOT_FOUND")
        assert_error(await send(pending, b"p" * 100), 404, "UPLOAD_NOT_FOUND")
        await mark_for_deletion(app)
        await clean(node, "blobs.delete")
        assert len(await stored(node, app)) == 1
        assert (await client.get(kept["url"])).content == b"k" * 10
        assert (await complete(client, base, {"file_id": kept["id"]})).json()["id"] == kept["id"]


async def test_an_upload_that_is_coming_in_does_not_expire(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        late = (
            "update pilotis.uploads set expires_at = now(), state = 'receiving', blob_id = gen_random_uuid(),"
            " lease_until = now() + interval '1 minute' where file_id = $1"
        )
        await run_sql(app.server, late, UUID(permitted["file_id"]))
        await clean(node, "uploads.expire")
        left = "select count(*) from pilotis.uploads where file_id = $1"
        assert await run_sql(app.server, left, UUID(permitted["file_id"])) == 1


async def test_replaced_bytes_go_after_their_readers(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client:
        for data in (b"1", b"2", b"3"):
            item = await put_at(client, base, "f", data)
        await clean(node, "blobs.delete")
        assert len(await stored(node, app)) == 3
        await mark_for_deletion(app)
        await clean(node, "blobs.delete")
        assert len(await stored(node, app)) == 1
        assert (await client.get(item["url"])).content == b"3"


async def test_a_deleted_app_takes_its_files_along(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        item = await upload(client, base)
        permitted = await permit(client, base, file_name="b")
        assert (await console.delete("")).status_code == 200
        assert_error(await client.get(item["url"]), 404, "FILE_NOT_FOUND")
        assert_error(await send(permitted), 404, "UPLOAD_NOT_FOUND")
    gone = "update pilotis.apps set deleted_at = now() - interval '8 days' where app_id = $1"
    await run_sql(app.server, gone, UUID(app.app_id))
    await clean(node, "apps.purge")
    left = "select count(*) from pilotis.files where app_id = $1"
    assert await run_sql(app.server, left, UUID(app.app_id)) == 0
    await mark_for_deletion(app)
    await clean(node, "blobs.delete")
    assert await stored(node, app) == []


async def test_reconciling_finds_what_is_too_much_and_what_is_missing(app: App, node: Node):
    base = await storage(app)
    blobs, cleaning = node.services.blobs, node.services.files.cleaning

    async def chunks() -> AsyncIterator[bytes]:
        yield b"orphan"

    async with app.client() as client:
        kept = await upload(client, base)
        lost = await upload(client, base, file_name="lost")
        received = await permit(client, base, file_name="received")
        await send(received)
        orphan = f"blobs/{app.app_id}/{UUID(int=1)}"
        odd = f"blobs/{app.app_id}/odd"
        for key in (orphan, odd):
            await blobs.put(key, chunks(), size=6, content_type="a/b")
        lost_blob = await run_sql(
            app.server, "select blob_id::text from pilotis.files where file_id = $1", UUID(lost["id"])
        )
        lost_key = f"blobs/{app.app_id}/{lost_blob}"
        await blobs.delete([lost_key])

        def ours(keys: list[str]) -> list[str]:
            return sorted(key for key in keys if app.app_id in key)

        young = await cleaning.reconcile(timedelta(hours=1), apply=False)
        assert (ours(young.orphans), ours(young.missing)) == ([], [])
        found = await cleaning.reconcile(timedelta(0), apply=False)
        assert ours(found.orphans) == sorted([orphan, odd])
        assert ours(found.missing) == [lost_key]
        assert {orphan, odd} <= set(await stored(node, app))
        applied = await cleaning.reconcile(timedelta(0), apply=True)
        assert applied.deleted >= 2
        assert not {orphan, odd} & set(await stored(node, app))
        assert (await client.get(kept["url"])).content == PNG
        assert (await complete(client, base, received)).status_code == 200
        assert_error(await client.get(lost["url"]), 404, "BLOB_NOT_FOUND")
        assert (await client.delete(f"{base}/items/{lost['id']}")).status_code == 200


async def test_files_count_in_the_statistics(app: App):
    base = await storage(app)
    async with app.client() as client:
        before = (await client.get("/v1/public/stats")).json()["storage_bytes"]
        await upload(client, base, b"s" * 12345)
        assert (await client.get("/v1/public/stats")).json()["storage_bytes"] == before + 12345


async def test_storages_page_as_every_list_does(app: App):
    async with owner_of(app).client(app) as console:
        for name in "abc":
            assert (await console.post("/storages/files", json={"name": name})).status_code == 201
        pages = {
            (1, 1): ["b"],
            (2, 2): ["c"],
            (0, 0): [],
            (10**6, 0): ["a", "b", "c"],
        }
        for (limit, offset), names in pages.items():
            page = (await console.get("/storages/files", params={"limit": limit, "offset": offset})).json()
            assert [storage["name"] for storage in page["storages"]] == names
            assert (page["total_count"], page["limit"], page["offset"]) == (3, min(limit, 1000), offset)
        assert_error(await console.get("/storages/files?limit=-1"), 400, "VALIDATION_FAILED")


async def test_a_file_and_a_folder_are_renamed_and_moved(app: App):
    base = await storage(app)
    storage_id = base.rpartition("/")[2]
    async with owner_of(app).client(app) as console, app.client() as client:

        async def move(item_id: str, **change: Any) -> httpx.Response:
            return await console.patch(f"/storages/files/{storage_id}/items/{item_id}", json=change)

        async def at(path: str) -> dict[str, Any]:
            return (await client.get(f"{base}/path/{path}")).json()

        file = await put_at(client, base, "drafts/old/menu.png")
        drafts, old = await at("drafts"), await at("drafts/old")
        renamed = await move(file["id"], name="card.png")
        assert renamed.status_code == 200, renamed.text
        assert renamed.json()["path"] == "drafts/old/card.png"
        assert (await client.get(renamed.json()["url"])).content == PNG
        assert (await client.get(file["url"])).status_code == 404
        moved = await move(old["id"], parent_id=None, name="new")
        assert (moved.json()["path"], moved.json()["parent_id"]) == ("new", None)
        inside = await at("new/card.png")
        assert (inside["id"], inside["parent_id"]) == (file["id"], old["id"])
        assert (await client.get(inside["url"])).content == PNG
        await client.post(f"{base}/folders", json={"name": "taken"})
        assert_error(await move(old["id"], name="taken"), 409, "PATH_TAKEN")
        assert_error(await move(drafts["id"], parent_id=file["id"]), 404, "FOLDER_NOT_FOUND")
        await move(old["id"], parent_id=drafts["id"])
        assert_error(await move(drafts["id"], parent_id=old["id"]), 400, "INVALID_PATH")
        assert_error(await move(drafts["id"], parent_id=drafts["id"]), 400, "INVALID_PATH")
        assert_error(await move(file["id"], name="../x"), 400, "INVALID_PATH")
        for name in ("a" * 250, "b" * 250, "c" * 250, "d" * 200):
            top = (await client.post(f"{base}/folders", json={"name": name})).json()
            assert (await move(drafts["id"], parent_id=top["id"])).is_success
            drafts = top
        assert_error(await move(drafts["id"], name="z" * 255), 400, "INVALID_PATH")
    places = [(entry["details"]["from"], entry["details"]["to"]) for entry in await the_log(app, action="file.move")]
    assert places[-1] == ("drafts/old/menu.png", "drafts/old/card.png")


async def test_a_viewer_moves_no_file(app: App):
    base = await storage(app)
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console, app.client() as client:
        file = await put_at(client, base, "menu.png")
        place = f"/storages/files/{base.rpartition('/')[2]}/items/{file['id']}"
        refused = await console.patch(place, json={"name": "x"})
    assert_error(refused, 403, "ROLE_REQUIRED")


async def test_the_apps_side_sees_and_finds_whose_a_file_is(app: App):
    base, ada = await storage(app), await app.member("author")
    async with app.client(ada["access_token"]) as client, app.client() as anybody:
        hers = await upload(client, base, b"hers", file_name="hers.txt")
        await put_at(client, base, "folder/hers.txt")
        nobodys = await upload(anybody, base, b"nobodys", file_name="nobodys.txt")
        for path in ("items", "path/hers.txt", "path/folder"):
            answer = await client.get(f"{base}/{path}")
            assert (answer.status_code, "created_by" in answer.text) == (200, False), path
        refused = await client.get(f"{base}/items", params={"created_by": ada["member_id"]})
        assert_error(refused, 403, "ROLE_REQUIRED")
    for token in (app.secret_key, app.console["access_token"]):
        async with app.client(token) as client:
            listed = (await client.get(f"{base}/items")).json()["files"]
            creators = {one["id"]: one["created_by"] for one in listed if one["type"] == "file"}
            assert (creators[hers["id"]], creators[nobodys["id"]]) == (ada["member_id"], None)
            found = (await client.get(f"{base}/items", params={"created_by": ada["member_id"]})).json()
            assert ([one["name"] for one in found["files"]], found["total_count"]) == (["hers.txt", "hers.txt"], 2)
            assert (await client.get(f"{base}/path/hers.txt")).json()["created_by"] == ada["member_id"]
            (inside,) = (await client.get(f"{base}/path/folder")).json()["files"]
            assert inside["created_by"] == ada["member_id"]
