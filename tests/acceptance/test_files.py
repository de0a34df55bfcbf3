"""Uploads in three steps, files, folders and their delivery (interface: File storage)."""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.files.signatures import UrlSigner
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from tests.backstage import master_key, run_sql
from tests.console import owner_of
from tests.support import App, assert_error, plain_client
from tests.waiting import PATIENCE, until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


async def storage(app: App, **settings: Any) -> str:
    """Make a storage and return the address of its public routes."""
    async with owner_of(app).client(app) as console:
        answer = await console.post("/storages/files", json={"name": f"files {len(settings)}", **settings})
    assert answer.status_code == 201, answer.text
    return f"/v1/public/storages/files/{answer.json()['id']}"


async def permit(client: httpx.AsyncClient, base: str, data: bytes = PNG, **given: Any) -> dict[str, Any]:
    body = {"file_name": "a.png", "file_size": len(data), "mime_type": "image/png", **given}
    answer = await client.post(f"{base}/presigned-url", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send(permitted: dict[str, Any], data: bytes = PNG, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:
        return await client.put(permitted["upload_url"], content=data, headers=permitted["headers"] | headers)


async def complete(client: httpx.AsyncClient, base: str, permitted: dict[str, Any]) -> httpx.Response:
    return await client.post(f"{base}/complete-upload", json={"file_id": permitted["file_id"]})


async def upload(client: httpx.AsyncClient, base: str, data: bytes = PNG, **given: Any) -> dict[str, Any]:
    permitted = await permit(client, base, data, **given)
    assert (await send(permitted, data)).status_code == 200
    answer = await complete(client, base, permitted)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_three_steps(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        assert {"file_id", "upload_url", "public_url"} <= permitted.keys()
        assert permitted["method"] == "PUT"
        assert_error(await client.get(permitted["public_url"]), 404, "FILE_NOT_FOUND")
        sent = await send(permitted)
        assert sent.status_code == 200, sent.text
        assert sent.headers["etag"] == f'"{hashlib.sha256(PNG).hexdigest()}"'
        assert_error(await client.get(permitted["public_url"]), 404, "FILE_NOT_FOUND")
        assert (await client.get(f"{base}/items")).json()["files"] == []
        answer = await complete(client, base, permitted)
        assert answer.status_code == 200, answer.text
        item = answer.json()
        assert item["id"] == permitted["file_id"]
        assert item["url"] == permitted["public_url"]
        assert (item["name"], item["path"], item["type"]) == ("a.png", "a.png", "file")
        assert (item["mime_type"], item["size"], item["parent_id"]) == ("image/png", len(PNG), None)
        assert (await complete(client, base, permitted)).json() == item
        assert (await client.get(f"{base}/items")).json() == {
            "files": [item],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        }
    async with plain_client(app.server.url) as anybody:
        served = await anybody.get(item["url"])
    assert served.status_code == 200
    assert served.content == PNG
    assert served.headers["content-type"] == "image/png"
    assert served.headers["cache-control"] == "public, max-age=31536000, immutable"


async def fixed(client: httpx.AsyncClient, base: str, path: str, data: bytes = PNG, **given: Any) -> httpx.Response:
    """Ask for a URL to upload to a path."""
    body = {"file_size": len(data), "mime_type": "image/png", **given}
    return await client.post(f"{base}/presigned-url/path/{path}", json=body)


async def put_at(
    client: httpx.AsyncClient, base: str, path: str, data: bytes = PNG, *, overwrite: bool = True
) -> dict[str, Any]:
    """Upload to a path and return the item."""
    answer = await fixed(client, base, path, data, overwrite=overwrite)
    assert answer.status_code == 200, answer.text
    assert (await send(answer.json(), data)).status_code == 200
    done = await complete(client, base, answer.json())
    assert done.status_code == 200, done.text
    return done.json()


async def test_an_upload_of_another_size_is_refused_before_it_is_read(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        for data in (PNG + b"x", PNG[:-1], b""):
            assert_error(await send(permitted, data), 400, "SIZE_MISMATCH")
        assert_error(await send(permitted, PNG, **{"Content-Type": "image/gif"}), 400, "CONTENT_TYPE_MISMATCH")
        assert_error(await send(permitted, PNG, **{"Content-Type": "image/png;x=y"}), 400, "CONTENT_TYPE_MISMATCH")

        async def unmeasured() -> AsyncIterator[bytes]:
            yield PNG

        answer = await client.put(permitted["upload_url"], content=unmeasured(), headers=permitted["headers"])
        assert_error(answer, 411, "LENGTH_REQUIRED")
        assert_error(await complete(client, base, permitted), 409, "UPLOAD_NOT_RECEIVED")
        # None of it used the URL up.
        assert (await send(permitted)).status_code == 200
        assert (await complete(client, base, permitted)).status_code == 200


async def test_a_large_refused_upload_gets_its_answer(app: App):
    base = await storage(app)
    data = b"x" * (3 << 20)
    async with app.client() as client:
        permitted = await permit(client, base, data)
        assert_error(await send(permitted, data + b"x"), 400, "SIZE_MISMATCH")
        assert (await send(permitted, data)).status_code == 200


async def test_a_url_takes_one_file_once(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        answers = await asyncio.gather(*(send(permitted) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
        codes = {answer.json()["code"] for answer in answers if answer.status_code == 409}
        assert codes <= {"UPLOAD_IN_PROGRESS", "UPLOAD_ALREADY_RECEIVED"}
        assert_error(await send(permitted), 409, "UPLOAD_ALREADY_RECEIVED")
        item = (await complete(client, base, permitted)).json()
        assert_error(await send(permitted, b"y" * len(PNG)), 409, "UPLOAD_ALREADY_RECEIVED")
        assert (await client.get(item["url"])).content == PNG


async def test_a_changed_url_is_refused(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted, other = await permit(client, base), await permit(client, base, file_name="b.png")
        url = httpx.URL(permitted["upload_url"])
        expires, signature = int(url.params["expires"]), url.params["signature"]
        for params in (
            {"expires": str(expires + 1), "signature": signature},
            {"expires": str(expires), "signature": signature[:-1] + ("A" if signature[-1] != "A" else "B")},
            {"expires": str(expires), "signature": httpx.URL(other["upload_url"]).params["signature"]},
            {"expires": str(expires), "signature": ""},
            {"expires": "x", "signature": signature},
            {"signature": signature},
            {},
        ):
            changed = permitted | {"upload_url": str(url.copy_with(params=params))}
            assert_error(await send(changed), 403, "UPLOAD_SIGNATURE_INVALID")
        assert (await send(permitted)).status_code == 200


async def test_an_expired_url_is_refused(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        upload_id = UUID(httpx.URL(permitted["upload_url"]).path.rpartition("/")[2])
        expires = int(time.time()) - 1
        signature = UrlSigner(MasterKeyring(MasterKeys(master_key(app.server)))).upload(
            upload_id, expires, len(PNG), "image/png"
        )
        url = f"{app.server.url}/v1/uploads/{upload_id}?expires={expires}&signature={signature}"
        assert_error(await send(permitted | {"upload_url": url}), 403, "UPLOAD_URL_EXPIRED")
        assert (await send(permitted)).status_code == 200
        await run_sql(app.server, "update pilotis.uploads set expires_at = now() where upload_id = $1", upload_id)
        assert_error(await complete(client, base, permitted), 410, "UPLOAD_EXPIRED")


async def test_an_upload_cut_in_the_middle_can_be_repeated(app: App):
    base = await storage(app)
    data = b"z" * 300_000
    async with app.client() as client:
        permitted = await permit(client, base, data)
        url = httpx.URL(permitted["upload_url"])
        _, writer = await asyncio.open_connection(url.host, url.port)
        head = f"PUT {url.raw_path.decode()} HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:100_000])
        await writer.drain()
        writer.close()
        answers = []

        async def let_go() -> bool:
            answers.append(await send(permitted, data))
            return answers[-1].status_code != 409

        await until(let_go)
        assert answers[-1].status_code == 200, answers[-1].text
        item = (await complete(client, base, permitted)).json()
        assert (await client.get(item["url"])).content == data


async def test_a_receiver_that_died_is_replaced(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        claimed = (
            "update pilotis.uploads set state = 'receiving', blob_id = gen_random_uuid(),"
            " lease_until = now() + interval '{}' where file_id = $1 returning blob_id::text"
        )
        await run_sql(app.server, claimed.format("1 minute"), UUID(permitted["file_id"]))
        assert_error(await send(permitted), 409, "UPLOAD_IN_PROGRESS")
        dead = await run_sql(app.server, claimed.format("-1 second"), UUID(permitted["file_id"]))
        assert (await send(permitted)).status_code == 200
        pending_deletions = "select true from pilotis.pending_deletions where key like '%' || $1"
        assert await run_sql(app.server, pending_deletions, dead)


async def test_a_declared_digest_is_checked(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base, sha256=hashlib.sha256(PNG).hexdigest())
        assert_error(await send(permitted, b"x" * len(PNG)), 400, "DIGEST_MISMATCH")
        assert (await send(permitted)).status_code == 200
        assert (await complete(client, base, permitted)).json()["sha256"] == hashlib.sha256(PNG).hexdigest()


async def test_an_empty_file(app: App):
    base = await storage(app)
    async with app.client() as client:
        item = await upload(client, base, b"")
        served = await client.get(item["url"])
        assert (served.status_code, served.content, item["size"]) == (200, b"", 0)
        assert (await client.get(item["url"], headers={"Range": "bytes=0-"})).status_code == 416


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"file_name": "a/b.png"}, "INVALID_PATH"),
        ({"file_name": "..", "mime_type": "image/png"}, "INVALID_PATH"),
        ({"file_name": "é" * 150}, "INVALID_PATH"),
        ({"file_name": "a\r\nX-Evil: 1.png"}, "INVALID_PATH"),
        ({"file_size": -1}, "VALIDATION_FAILED"),
        ({"file_size": "12"}, "VALIDATION_FAILED"),
        ({"mime_type": "image/png\r\nX: y"}, "VALIDATION_FAILED"),
        ({"sha256": "x"}, "VALIDATION_FAILED"),
        ({"unknown": 1}, "VALIDATION_FAILED"),
        ({"parent_id": "x"}, "VALIDATION_FAILED"),
    ],
)
async def test_what_presign_refuses(app: App, change: dict[str, Any], code: str):
    base = await storage(app)
    async with app.client() as client:
        body = {"file_name": "a.png", "file_size": 1, "mime_type": "image/png", **change}
        assert_error(await client.post(f"{base}/presigned-url", json=body), 400, code)


async def test_types_and_sizes_that_a_storage_does_not_take(app: App):
    base = await storage(app, allowed_mime_types=["image/*", "application/pdf"], max_file_size=10)
    async with app.client() as client:
        body = {"file_name": "a.png", "file_size": 10, "mime_type": "image/png"}
        assert (await client.post(f"{base}/presigned-url", json=body)).status_code == 200
        answer = await client.post(f"{base}/presigned-url", json=body | {"mime_type": "text/html"})
        assert_error(answer, 415, "MIME_TYPE_NOT_ALLOWED")
        assert_error(await client.post(f"{base}/presigned-url", json=body | {"file_size": 11}), 413, "FILE_TOO_LARGE")
        assert_error(await fixed(client, base, "a.png", b"x" * 11), 413, "FILE_TOO_LARGE")


@pytest.mark.parametrize("limit", [10, None])
async def test_what_no_disk_holds_is_too_large_first(app: App, limit: int | None):
    base = await storage(app, max_file_size=limit)
    async with app.client() as client:
        for path, body in (("presigned-url", {"file_name": "a"}), ("presigned-url/path/a", {})):
            body |= {"file_size": 1 << 52, "mime_type": "image/png"}
            assert_error(await client.post(f"{base}/{path}", json=body), 413, "FILE_TOO_LARGE")


async def test_a_quota_holds_against_presigns_that_arrive_together(app: App):
    size = 1000
    base = await storage(app, quota_bytes=5 * size + 500)
    body = {"file_size": size, "mime_type": "image/png"}
    async with app.client() as client:
        answers = await asyncio.gather(
            *(client.post(f"{base}/presigned-url", json={"file_name": str(n), **body}) for n in range(20))
        )
        permitted = [answer.json() for answer in answers if answer.status_code == 200]
        assert len(permitted) == 5
        for answer in answers:
            if answer.status_code != 200:
                assert_error(answer, 413, "QUOTA_EXCEEDED")
        for one in permitted:
            assert (await send(one, b"q" * size)).status_code == 200
            assert (await complete(client, base, one)).status_code == 200
        assert await sums(app, base) == (5 * size, 0)
        assert_error(await client.post(f"{base}/presigned-url", json={"file_name": "x", **body}), 413, "QUOTA_EXCEEDED")
        assert (await client.delete(f"{base}/items/{permitted[0]['file_id']}")).status_code == 200
        assert await sums(app, base) == (4 * size, 0)
        again = await client.post(f"{base}/presigned-url", json={"file_name": "x", **body})
        assert again.status_code == 200
        assert await sums(app, base) == (4 * size, size)


async def sums(app: App, base: str) -> tuple[int, int]:
    """The bytes that a storage holds and has promised, as the console sees them."""
    async with owner_of(app).client(app) as console:
        found = (await console.get(f"/storages/files/{base.rpartition('/')[2]}")).json()
    return found["used_bytes"], found["reserved_bytes"]


async def test_a_quota_that_is_set_later_counts_what_is_there(app: App):
    base = await storage(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        await upload(client, base, b"a" * 100)
        waiting = await permit(client, base, b"b" * 50, file_name="b")
        assert await sums(app, base) == (100, 50)
        changed = await console.patch(f"/storages/files/{base.rpartition('/')[2]}", json={"quota_bytes": 160})
        assert changed.status_code == 200
        assert await sums(app, base) == (100, 50)
        assert (await send(waiting, b"b" * 50)).status_code == 200
        assert (await complete(client, base, waiting)).status_code == 200
        assert await sums(app, base) == (150, 0)
        body = {"file_name": "c", "file_size": 11, "mime_type": "a/b"}
        assert_error(await client.post(f"{base}/presigned-url", json=body), 413, "QUOTA_EXCEEDED")


async def test_replacing_gives_the_old_bytes_back_to_the_quota(app: App):
    base = await storage(app, quota_bytes=250)
    async with app.client() as client:
        await put_at(client, base, "a", b"1" * 100)
        await put_at(client, base, "a", b"2" * 120)
        assert await sums(app, base) == (120, 0)


async def test_overwriting_a_path(app: App):
    base = await storage(app)
    async with app.client() as client:
        first = await put_at(client, base, "img/logo.png", b"one")
        assert first["url"].endswith("/p/img/logo.png")
        assert first["version"] == 1
        assert_error(await fixed(client, base, "img/logo.png"), 409, "PATH_TAKEN")
        old = await client.get(first["url"])
        assert old.headers["cache-control"] == "public, max-age=0, must-revalidate"
        permitted = (await fixed(client, base, "img/logo.png", b"three", overwrite=True)).json()
        assert permitted["public_url"] == first["url"]
        await send(permitted, b"three")
        assert (await client.get(first["url"])).content == b"one"
        second = (await complete(client, base, permitted)).json()
        assert (second["id"], second["url"], second["version"]) == (first["id"], first["url"], 2)
        assert (await complete(client, base, permitted)).json() == second
        new = await client.get(first["url"], headers={"If-None-Match": old.headers["etag"]})
        assert (new.status_code, new.content) == (200, b"three")
        same = await client.get(first["url"], headers={"If-None-Match": new.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert "content-length" not in same.headers
        pinned = await client.get(first["url"], params={"v": "2"})
        assert pinned.headers["cache-control"] == "public, max-age=31536000, immutable"
        stale = await client.get(first["url"], params={"v": "1"})
        assert stale.headers["cache-control"] == "public, max-age=0, must-revalidate"
        listed = (await client.get(f"{base}/items")).json()["files"]
        assert [(item["path"], item["type"]) for item in listed] == [("img", "folder"), ("img/logo.png", "file")]


async def test_readers_never_see_a_mixture(app: App):
    base = await storage(app)
    contents = [bytes([65 + n]) * 400_000 for n in range(4)]
    async with app.client() as client:
        url = (await put_at(client, base, "f", contents[0]))["url"]
        done = asyncio.Event()

        async def read() -> int:
            count = 0
            while not done.is_set():
                answer = await client.get(url)
                assert answer.content in contents
                assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
                count += 1
            return count

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for data in contents:
            await put_at(client, base, "f", data)
        done.set()
        assert all(await asyncio.gather(*readers))


async def test_uploads_to_one_path_at_once(app: App):
    """All are acknowledged, and what is there in the end is one of them, whole; none without overwrite but one."""
    base = await storage(app)
    contents = [f"content {n}".encode() for n in range(8)]
    async with app.client() as client:
        items = await asyncio.gather(*(put_at(client, base, "same/path", data) for data in contents))
        item = (await client.get(f"{base}/path/same/path")).json()
        assert (await client.get(item["url"])).content in contents
        assert len({one["path"] for one in items}) == 1
        permits = [(await fixed(client, base, "other", b"x")).json() for _ in range(4)]
        for one in permits:
            assert (await send(one, b"x")).status_code == 200
        answers = await asyncio.gather(*(complete(client, base, one) for one in permits))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert {answer.json().get("code") for answer in answers} == {None, "PATH_TAKEN"}


async def test_the_later_of_two_overwrites_stays(app: App):
    base = await storage(app)
    async with app.client() as client:
        await put_at(client, base, "f", b"0")
        one = (await fixed(client, base, "f", b"1", overwrite=True)).json()
        two = (await fixed(client, base, "f", b"2", overwrite=True)).json()
        assert (await send(one, b"1")).status_code == 200
        assert (await send(two, b"2")).status_code == 200
        item = (await complete(client, base, two)).json()
        assert (await complete(client, base, one)).status_code == 200
        assert (await client.get(item["url"])).content == b"2"


async def test_folders(app: App):
    base = await storage(app)
    async with app.client() as client:
        answer = await client.post(f"{base}/folders", json={"name": "photos"})
        assert answer.status_code == 201
        folder = answer.json()
        assert (folder["type"], folder["path"], folder["parent_id"]) == ("folder", "photos", None)
        assert_error(await client.post(f"{base}/folders", json={"name": "photos"}), 409, "PATH_TAKEN")
        inner = (await client.post(f"{base}/folders", json={"name": "2026", "parent_id": folder["id"]})).json()
        item = await upload(client, base, parent_id=inner["id"])
        assert (item["path"], item["parent_id"]) == ("photos/2026/a.png", inner["id"])
        top = (await client.get(f"{base}/items", params={"parent_id": "root"})).json()
        assert [one["id"] for one in top["files"]] == [folder["id"]]
        below = (await client.get(f"{base}/items", params={"parent_id": inner["id"]})).json()
        assert below["files"] == [item]
        everything = (await client.get(f"{base}/items", params={"limit": "2"})).json()
        assert (len(everything["files"]), everything["total_count"]) == (2, 3)
        found = (await client.get(f"{base}/items", params={"search": "A.P"})).json()
        assert [one["id"] for one in found["files"]] == [item["id"]]
        assert (await client.get(f"{base}/path/photos/2026/a.png")).json() == item
        shown = (await client.get(f"{base}/path/photos/2026")).json()
        assert (shown["type"], shown["files"]) == ("folder", [item])
        assert_error(await client.get(f"{base}/path/photos/2027"), 404, "FILE_NOT_FOUND")
        assert_error(await client.delete(f"{base}/items/{folder['id']}"), 409, "FOLDER_NOT_EMPTY")
        gone = await client.delete(f"{base}/items/{folder['id']}", params={"recursive": "true"})
        assert gone.json() == {"message": "Deleted.", "id": folder["id"]}
        assert (await client.get(f"{base}/items")).json()["total_count"] == 0
        assert_error(await client.get(item["url"]), 404, "FILE_NOT_FOUND")


async def test_a_folder_needs_a_place(app: App, other_app: App):
    base, foreign = await storage(app), await storage(other_app)
    async with app.client() as client, other_app.client() as other:
        theirs = (await other.post(f"{foreign}/folders", json={"name": "x"})).json()["id"]
        file = await upload(client, base)
        for parent_id in (theirs, file["id"], str(UUID(int=0))):
            body = {"file_name": "b.png", "file_size": 1, "mime_type": "a/b", "parent_id": parent_id}
            assert_error(await client.post(f"{base}/presigned-url", json=body), 404, "FOLDER_NOT_FOUND")
            answer = await client.post(f"{base}/folders", json={"name": "y", "parent_id": parent_id})
            assert_error(answer, 404, "FOLDER_NOT_FOUND")
        folder = (await client.post(f"{base}/folders", json={"name": "f"})).json()["id"]
        waiting = await permit(client, base, parent_id=folder)
        await send(waiting)
        await client.delete(f"{base}/items/{folder}")
        assert_error(await complete(client, base, waiting), 404, "FOLDER_NOT_FOUND")
        blocked = (await fixed(client, base, "later.png/inside", b"x")).json()
        await put_at(client, base, "later.png", b"x")
        await send(blocked, b"x")
        assert_error(await complete(client, base, blocked), 409, "PATH_TAKEN")


async def test_no_upload_below_a_file_is_permitted(app: App):
    base = await storage(app)
    async with app.client() as client:
        await put_at(client, base, "photos/a.png", b"x")
        for path in ("photos/a.png/inside", "photos/a.png/deep/inside"):
            assert_error(await fixed(client, base, path, b"x"), 409, "PATH_TAKEN")
        assert (await fixed(client, base, "photos/b.png", b"x")).status_code == 200


async def test_items_of_no_folder_are_not_found(app: App, other_app: App):
    base, theirs = await storage(app), await storage(other_app)
    async with other_app.client() as client:
        folder = (await client.post(f"{theirs}/folders", json={"name": "photos"})).json()["id"]
        assert (await client.get(f"{theirs}/items", params={"parent_id": folder})).json()["files"] == []
    async with app.client() as client:
        file = await upload(client, base)
        for parent_id in (folder, file["id"], str(UUID(int=0))):
            answer = await client.get(f"{base}/items", params={"parent_id": parent_id})
            assert_error(answer, 404, "FOLDER_NOT_FOUND")


async def test_names_of_any_script(app: App):
    base = await storage(app)
    async with app.client() as client:
        item = await upload(client, base, file_name="e\u0301 사진 #1?.png")
        assert item["name"] == "é 사진 #1?.png"
        assert item["url"].isascii()
        served = await client.get(item["url"])
        assert served.content == PNG
        assert "filename*=UTF-8''%C3%A9%20%EC%82%AC%EC%A7%84" in served.headers["content-disposition"]
        composed = await client.get(f"{base}/path/" + "%65%CC%81%20%EC%82%AC%EC%A7%84%20%231%3F.png")
        assert composed.json() == item
        answer = await fixed(client, base, "e\u0301 사진 %231%3F.png")
        assert_error(answer, 409, "PATH_TAKEN")
        for path in ("a/%2e%2e/b", "a//b", "a/%00", "a%0d%0ab", "a%5cb", "x" * 300, "/".join("d" * 40)):
            assert_error(await fixed(client, base, path), 400, "INVALID_PATH")


async def test_delivery(app: App):
    base = await storage(app)
    data = bytes(range(256)) * 2000
    async with app.client() as client:
        item = await upload(client, base, data, file_name="big.bin", mime_type="application/octet-stream")
    async with plain_client(app.server.url) as client:
        url = item["url"]
        whole = await client.get(url, headers={"Origin": "https://any.example"})
        assert whole.content == data
        head = await client.head(url)
        assert head.content == b""
        assert {n: v for n, v in head.headers.items() if n not in {"x-request-id", "date"}} == {
            n: v for n, v in whole.headers.items() if n not in {"x-request-id", "date"}
        }
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in whole.headers["content-security-policy"]
        assert whole.headers["cross-origin-resource-policy"] == "cross-origin"
        assert whole.headers["access-control-allow-origin"] == "*"
        assert whole.headers["accept-ranges"] == "bytes"
        assert whole.headers["content-disposition"].startswith("attachment;")
        part = await client.get(url, headers={"Range": "bytes=1000-400999"})
        assert (part.status_code, part.content) == (206, data[1000:401000])
        assert part.headers["content-range"] == f"bytes 1000-400999/{len(data)}"
        small = await client.get(url, headers={"Range": "bytes=-10"})
        assert (small.status_code, small.content) == (206, data[-10:])
        beyond = await client.get(url, headers={"Range": f"bytes={len(data)}-"})
        assert_error(beyond, 416, "RANGE_NOT_SATISFIABLE")
        assert beyond.headers["content-range"] == f"bytes */{len(data)}"
        many = await client.get(url, headers={"Range": "bytes=0-1,5-6"})
        assert (many.status_code, len(many.content)) == (200, len(data))
        assert_error(await client.get(url, headers={"If-Match": '"x"'}), 412, "PRECONDITION_NOT_MET")
        assert (await client.get(url, headers={"If-Modified-Since": whole.headers["last-modified"]})).status_code == 304
        assert_error(await client.get(url + "x"), 404, "FILE_NOT_FOUND")
        assert_error(await client.post(url), 405, "METHOD_NOT_ALLOWED")


@pytest.mark.advisory("GHSA-hcj7-6gxh-24ww", "parse-server#10158")
@pytest.mark.parametrize(
    ("mime_type", "is_shown"),
    [
        ("image/png", True),
        ("image/svg+xml", True),
        ("application/pdf", True),
        ("video/mp4", True),
        ("text/html", False),
        ("TEXT/html; charset=utf-8", False),
        ("text/html;x=y", False),
        ("application/xhtml+xml", False),
        ("text/xml", False),
        ("application/javascript", False),
        ("image/png; charset=utf-7", False),
    ],
)
async def test_nothing_runs_in_a_file(app: App, mime_type: str, is_shown: bool):
    base = await storage(app)
    data = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    async with app.client() as client:
        item = await upload(client, base, data, file_name="evil.html", mime_type=mime_type)
        served = await client.get(item["url"])
    assert served.headers["content-type"] == mime_type
    assert served.headers["content-disposition"].partition(";")[0] == ("inline" if is_shown else "attachment")
    assert served.headers["x-content-type-options"] == "nosniff"
    policy = served.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert policy.endswith("sandbox")


async def test_memory_stays_bounded(app: App):
    """80 MB up and down, slowly read, while the server's memory hardly grows."""
    base = await storage(app)
    size = 80 << 20
    chunk = bytes(1 << 20)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield chunk

    async with app.client() as client:
        permitted = await permit(client, base, file_size=size, mime_type="application/zip")
        before = resident(app)
        headers = permitted["headers"] | {"Content-Length": str(size)}
        answer = await client.put(permitted["upload_url"], content=chunks(), headers=headers)
        assert answer.status_code == 200, answer.text
        item = (await complete(client, base, permitted)).json()
        read = 0
        async with client.stream("GET", item["url"]) as served:
            async for part in served.aiter_raw():
                read += len(part)
        assert read == size
        assert resident(app) - before < 40 << 20


def resident(app: App) -> int:
    """The resident memory of the server's process, in bytes."""
    status = Path(f"/proc/{app.server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


async def test_a_reader_who_leaves_is_let_go(app: App):
    base = await storage(app)
    async with app.client() as client:
        item = await upload(client, base, bytes(8 << 20))
        async with client.stream("GET", item["url"]) as served:
            async for _ in served.aiter_raw():
                break
        assert (await client.get(item["url"])).status_code == 200


async def test_equal_files_live_and_end_on_their_own(app: App):
    """Their bytes may be stored once; clients cannot detect it."""
    base = await storage(app)
    async with app.client() as client:
        one, two = await upload(client, base, file_name="1.png"), await upload(client, base, file_name="2.png")
        text = await upload(client, base, file_name="3.txt", mime_type="text/plain")
        assert (await client.delete(f"{base}/items/{one['id']}")).status_code == 200
        assert (await client.get(one["url"])).status_code == 404
        for item, mime_type in ((two, "image/png"), (text, "text/plain")):
            answer = await client.get(item["url"])
            assert (answer.content, answer.headers["content-type"]) == (PNG, mime_type)
        again = await put_at(client, base, "2.png", b"other", overwrite=True)
        assert (await client.get(again["url"])).content == b"other"
        assert (await client.get(text["url"])).content == PNG


async def test_repeated_lines_of_if_none_match_are_one_list(app: App):
    base = await storage(app)
    async with app.client() as client:
        item = await upload(client, base)
        etag = (await client.get(item["url"])).headers["etag"]
        for tags in ([etag, '"x"'], ['"x"', etag], ['"x"', f'"y", {etag}', '"z"']):
            answer = await client.get(item["url"], headers=[("If-None-Match", tag) for tag in tags])
            assert answer.status_code == 304, tags
            refused = await client.get(item["url"], headers=[("If-Match", tag) for tag in tags])
            assert refused.status_code == 200, tags
        others = [("If-None-Match", '"x"'), ("If-None-Match", '"y"')]
        assert (await client.get(item["url"], headers=others)).status_code == 200
