"""Resumable uploads: tus 1.0.0, https://tus.io/protocols/resumable-upload (docs/files.md)."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from uuid import UUID

from tests.acceptance.test_files import complete, fixed, resident, storage, sums
from tests.acceptance.tus import (
    DATA,
    TUS,
    append,
    begin,
    checksum,
    create,
    creation,
    delete,
    drafts,
    encoded,
    head,
    metadata,
    offset_of,
    tidy,
    upload_id,
)
from tests.backstage import run_sql
from tests.console import set_limits
from tests.support import App, assert_error, plain_client


async def test_a_file_comes_in_pieces(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url, permit = created.headers["location"], created.json()
        assert created.headers["tus-resumable"] == "1.0.0"
        assert created.headers["upload-offset"] == "0"
        assert created.headers["upload-file-id"] == permit["file_id"]
        assert permit["upload_url"] == url
        assert permit["method"] == "PATCH"
        left = parsedate_to_datetime(created.headers["upload-expires"]).timestamp() - time.time()
        assert 23 * 3600 < left <= 24 * 3600
        at = 0
        for end in (1, 1000, 100_000, len(DATA)):
            asked = await head(url)
            assert asked.status_code == 200
            assert asked.headers["upload-offset"] == str(at)
            assert asked.headers["upload-length"] == str(len(DATA))
            assert asked.headers["upload-metadata"] == creation()["Upload-Metadata"]
            assert asked.headers["upload-expires"] == created.headers["upload-expires"]
            assert asked.headers["cache-control"] == "no-store"
            assert asked.headers["tus-resumable"] == "1.0.0"
            assert_error(await complete(client, base, permit), 409, "UPLOAD_NOT_RECEIVED")
            sent = await append(url, at, DATA[at:end])
            assert (sent.status_code, sent.content) == (204, b"")
            assert sent.headers["upload-offset"] == str(end)
            assert sent.headers["upload-expires"] == created.headers["upload-expires"]
            assert sent.headers["tus-resumable"] == "1.0.0"
            at = end
        assert (await client.get(f"{base}/items")).json()["files"] == []
        assert_error(await client.get(permit["public_url"]), 404, "FILE_NOT_FOUND")
        done = await complete(client, base, permit)
        assert done.status_code == 200, done.text
        item = done.json()
        assert (item["id"], item["url"]) == (permit["file_id"], permit["public_url"])
        assert (item["name"], item["mime_type"], item["size"]) == ("a.png", "image/png", len(DATA))
        assert item["sha256"] == hashlib.sha256(DATA).hexdigest()
        assert (await complete(client, base, permit)).json() == item
        assert (await client.get(item["url"])).content == DATA
        assert await offset_of(url) == len(DATA)
        # Nothing changes a file any more that is listed.
        assert_error(await append(url, 0, DATA), 409, "UPLOAD_OFFSET_MISMATCH")
        assert_error(await append(url, len(DATA), b"x"), 400, "SIZE_MISMATCH")
        assert (await append(url, len(DATA), b"")).status_code == 204
        assert_error(await delete(url), 409, "UPLOAD_ALREADY_RECEIVED")
        assert (await client.get(item["url"])).content == DATA


async def test_the_state_can_be_read_as_json(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        await append(url, 0, DATA[:10])
        told = (await client.get(url, headers=TUS)).json()
    assert (told["offset"], told["length"]) == (10, len(DATA))
    assert told["expires_at"].endswith("Z")


async def test_an_empty_file_is_there_at_once(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base, 0)
        assert await offset_of(created.headers["location"]) == 0
        item = (await complete(client, base, created.json())).json()
        assert (item["size"], item["sha256"]) == (0, hashlib.sha256(b"").hexdigest())
        assert (await client.get(item["url"])).content == b""


async def test_the_first_bytes_may_come_with_the_creation(app: App):
    base = await storage(app, quota_bytes=10 * len(DATA))
    more = {"Content-Type": "application/offset+octet-stream"}
    async with app.client() as client:
        answer = await client.post(f"{base}/tus", headers=creation() | more, content=DATA[:1000])
        assert answer.status_code == 201, answer.text
        assert answer.headers["upload-offset"] == "1000"
        assert (await append(answer.headers["location"], 1000, DATA[1000:])).status_code == 204
        whole = await client.post(f"{base}/tus", headers=creation(filename="b.png") | more, content=DATA)
        assert whole.headers["upload-offset"] == str(len(DATA))
        for one in (answer, whole):
            item = (await complete(client, base, one.json())).json()
            assert (await client.get(item["url"])).content == DATA
        # An upload that cannot be continued is discarded, and its space is freed.
        wrong = creation(filename="c.png") | more | {"Upload-Checksum": checksum("sha1", b"other")}
        assert_error(await client.post(f"{base}/tus", headers=wrong, content=DATA), 460, "CHECKSUM_MISMATCH")
        other = creation(filename="c.png") | {"Content-Type": "text/plain"}
        assert_error(await client.post(f"{base}/tus", headers=other, content=b"x"), 415, "UNSUPPORTED_MEDIA_TYPE")
        too_much = await client.post(f"{base}/tus", headers=creation(3, filename="c.png") | more, content=DATA)
        assert_error(too_much, 400, "SIZE_MISMATCH")
        assert await sums(app, base) == (2 * len(DATA), 0)


async def test_a_creation_without_a_body_may_name_a_type(app: App):
    base = await storage(app)
    async with app.client() as client:
        for kind in ("application/json", "application/offset+octet-stream"):
            answer = await client.post(f"{base}/tus", headers=creation() | {"Content-Type": kind})
            assert (answer.status_code, answer.headers["upload-offset"]) == (201, "0"), answer.text


async def test_a_path_a_folder_and_a_digest(app: App):
    base = await storage(app)
    async with app.client() as client:
        folder = (await client.post(f"{base}/folders", json={"name": "f"})).json()["id"]
        created = await create(client, base, parent_id=folder)
        assert (await append(created.headers["location"], 0, DATA)).status_code == 204
        assert (await complete(client, base, created.json())).json()["path"] == "f/a.png"
        for version, data in ((1, DATA), (2, DATA[::-1])):
            sha256 = hashlib.sha256(data).hexdigest()
            created = await create(client, base, path="x/y.png", overwrite="true", sha256=sha256)
            assert (await append(created.headers["location"], 0, data)).status_code == 204
            item = (await complete(client, base, created.json())).json()
            assert (item["path"], item["version"], item["sha256"]) == ("x/y.png", version, sha256)
            assert (await client.get(item["url"])).content == data
        taken = await client.post(f"{base}/tus", headers=creation(path="x/y.png"))
        assert_error(taken, 409, "PATH_TAKEN")


async def test_a_file_without_the_declared_digest_can_be_sent_again(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base, sha256=hashlib.sha256(DATA).hexdigest())
        url = created.headers["location"]
        assert (await append(url, 0, DATA[:1000])).status_code == 204
        assert_error(await append(url, 1000, bytes(len(DATA) - 1000)), 400, "DIGEST_MISMATCH")
        assert_error(await complete(client, base, created.json()), 409, "UPLOAD_NOT_RECEIVED")
        assert await offset_of(url) == 0
        assert (await append(url, 0, DATA)).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_checksums(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url, at = created.headers["location"], 0
        for algorithm, end in (("sha1", 100_000), ("sha256", 200_000), ("md5", len(DATA))):
            part = DATA[at:end]
            wrong = await append(url, at, b"y" * len(part), **{"Upload-Checksum": checksum(algorithm, part)})
            assert_error(wrong, 460, "CHECKSUM_MISMATCH")
            assert await offset_of(url) == at
            right = await append(url, at, part, **{"Upload-Checksum": checksum(algorithm, part)})
            assert right.status_code == 204, right.text
            at = end
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_what_is_offered_is_told(app: App):
    base = await storage(app)
    async with app.client() as client, plain_client(app.server.url) as anybody:
        url = await begin(client, base)
        for address in (f"{base}/tus", url):
            told = await anybody.options(address)
            assert (told.status_code, told.content) == (204, b"")
            assert told.headers["tus-version"] == "1.0.0"
            extensions = {"creation", "creation-with-upload", "expiration", "checksum", "termination"}
            assert set(told.headers["tus-extension"].split(",")) == extensions
            assert set(told.headers["tus-checksum-algorithm"].split(",")) == {"md5", "sha1", "sha256"}
            assert told.headers["tus-max-size"] == str(5 << 30)


async def test_pages_of_any_origin_may_upload(app: App):
    base = await storage(app)
    async with app.client(Origin="https://any.example") as client:
        created = await create(client, base)
        names = {"location", "upload-offset", "upload-expires", "upload-file-id", "tus-resumable", "upload-length"}
        assert created.headers["access-control-allow-origin"] == "*"
        assert names <= set(created.headers["access-control-expose-headers"].replace(",", " ").split())
        for address, method in ((f"{base}/tus", "POST"), (created.headers["location"], "PATCH")):
            asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "tus-resumable"}
            told = await client.options(address, headers=asked)
            assert told.status_code == 204
            assert told.headers["access-control-allow-origin"] == "*"
            assert method in told.headers["access-control-allow-methods"]
            allowed = set(told.headers["access-control-allow-headers"].replace(",", " ").split())
            sent = {"tus-resumable", "upload-length", "upload-metadata", "upload-offset", "upload-checksum"}
            assert sent | {"content-type", "x-public-key", "authorization"} <= allowed


async def test_what_clients_add_to_the_metadata_is_passed_over(app: App):
    """Uppy sends all it knows of a file, some of it without a value."""
    base = await storage(app)
    async with app.client() as client:
        value = f"relativePath ,name {encoded('x')},filetype ,is_confidential,{metadata(filename='b.bin')}"
        answer = await client.post(f"{base}/tus", headers={**TUS, "Upload-Length": "1", "Upload-Metadata": value})
        assert answer.status_code == 201, answer.text
        await append(answer.headers["location"], 0, b"x")
        item = (await complete(client, base, answer.json())).json()
        assert (item["name"], item["mime_type"]) == ("b.bin", "application/octet-stream")


async def test_the_rules_of_the_storage_hold(app: App, other_app: App):
    base = await storage(app, allowed_mime_types=["image/*"], upload_access="AppMember")
    public = await storage(other_app)
    async with app.client() as client, other_app.client() as other:
        assert_error(await client.post(f"{base}/tus", headers=creation()), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await client.post(f"{public}/tus", headers=creation()), 404, "STORAGE_NOT_FOUND")
        assert_error(await other.post(f"{base}/tus", headers=creation()), 404, "STORAGE_NOT_FOUND")
    member = await app.member()
    async with app.client(member["access_token"]) as client, app.client() as nobody:
        answer = await client.post(f"{base}/tus", headers=creation(filetype="text/html"))
        assert_error(answer, 415, "MIME_TYPE_NOT_ALLOWED")
        created = await create(client, base)
        # The URL is all that the bytes need; the completion asks for the member again.
        assert (await append(created.headers["location"], 0, DATA)).status_code == 204
        assert_error(await complete(nobody, base, created.json()), 401, "MEMBER_TOKEN_REQUIRED")
        assert (await complete(client, base, created.json())).status_code == 200
        answer = await client.post(f"{base}/tus", headers=creation(parent_id=str(UUID(int=7))))
        assert_error(answer, 404, "FOLDER_NOT_FOUND")


async def test_what_nobody_went_on_with_expires(app: App):
    base = await storage(app, quota_bytes=len(DATA))
    async with app.client() as client:
        url = await begin(client, base)
        await append(url, 0, DATA[:1000])
        assert await sums(app, base) == (0, len(DATA))
        assert await drafts(app) == [1000]
        await run_sql(app.server, "update pilotis.uploads set expires_at = now() where upload_id = $1", upload_id(url))
        await tidy(app)
        assert await sums(app, base) == (0, 0)
        assert await drafts(app) == []
        assert (await head(url)).status_code == 404
        assert_error(await append(url, 1000, DATA[1000:]), 404, "UPLOAD_NOT_FOUND")


async def test_an_upload_can_be_given_up(app: App):
    base = await storage(app, quota_bytes=len(DATA))
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        await append(url, 0, DATA[:1000])
        full = await client.post(f"{base}/tus", headers=creation(1, filename="b.png"))
        assert_error(full, 413, "QUOTA_EXCEEDED")
        answer = await delete(url)
        assert (answer.status_code, answer.content, answer.headers["tus-resumable"]) == (204, b"", "1.0.0")
        assert await sums(app, base) == (0, 0)
        assert await drafts(app) == []
        assert (await head(url)).status_code == 404
        assert_error(await delete(url), 404, "UPLOAD_NOT_FOUND")
        assert_error(await append(url, 1000, DATA[1000:]), 404, "UPLOAD_NOT_FOUND")
        assert_error(await complete(client, base, created.json()), 404, "FILE_NOT_FOUND")
        # Also one whose bytes have all come.
        received = await create(client, base)
        await append(received.headers["location"], 0, DATA)
        assert (await delete(received.headers["location"])).status_code == 204
        assert await sums(app, base) == (0, 0)
        assert_error(await complete(client, base, received.json()), 404, "FILE_NOT_FOUND")
        assert (await create(client, base)).status_code == 201


async def test_a_quota_holds_against_creations_that_arrive_together(app: App):
    base = await storage(app, quota_bytes=5 * 1000 + 500)
    async with app.client() as client:
        answers = await asyncio.gather(
            *(client.post(f"{base}/tus", headers=creation(1000, filename=str(n))) for n in range(20))
        )
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [413] * 15


async def test_memory_stays_bounded(app: App):
    base = await storage(app)
    size = 80 << 20
    chunk = bytes(1 << 20)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield chunk

    async with app.client() as client:
        created = await create(client, base, size)
        before = resident(app)
        answer = await append(created.headers["location"], 0, chunks(), **{"Content-Length": str(size)})
        assert answer.status_code == 204, answer.text
        item = (await complete(client, base, created.json())).json()
        assert item["sha256"] == hashlib.sha256(bytes(size)).hexdigest()
        assert resident(app) - before < 40 << 20


async def test_uploads_can_be_limited_by_address(app: App, other_app: App):
    base, theirs = await storage(app), await storage(other_app)
    await set_limits(app, upload_per_minute=3, data_per_minute=100)
    body = {"file_name": "a.png", "file_size": 1, "mime_type": "image/png"}
    async with app.client() as client, other_app.client() as other:
        first = await client.post(f"{base}/presigned-url", json=body)
        assert (first.status_code, first.headers["ratelimit-limit"], first.headers["ratelimit-remaining"]) == (
            200,
            "3",
            "2",
        )
        assert (await fixed(client, base, "b.png", b"x")).status_code == 200
        created = await create(client, base)
        for answer in (
            await client.post(f"{base}/presigned-url", json=body),
            await fixed(client, base, "c.png", b"x"),
            await client.post(f"{base}/tus", headers=creation()),
        ):
            assert_error(answer, 429, "RATE_LIMITED")
            assert int(answer.headers["retry-after"]) >= 1
        # Uploads in progress continue, other requests are counted separately, and other apps are not affected.
        assert (await append(created.headers["location"], 0, DATA)).status_code == 204
        listed = await client.get(f"{base}/items")
        assert (listed.status_code, listed.headers["ratelimit-limit"]) == (200, "100")
        assert (await other.post(f"{theirs}/presigned-url", json=body)).status_code == 200
