"""Resumable uploads: tus 1.0.0, https://tus.io/protocols/resumable-upload (docs/files.md)."""

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.files.signatures import UrlSigner
from pilotis.files.tus.store import LEASE_SECONDS
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from tests.acceptance.test_files import complete, fixed, resident, send, storage, sums
from tests.backstage import change_app, master_key, run_sql
from tests.console import database_of, second_node
from tests.support import App, assert_error, plain_client

TUS = {"Tus-Resumable": "1.0.0"}
DATA = bytes(range(256)) * 1200


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def metadata(**pairs: str) -> str:
    return ",".join(f"{name} {encoded(value)}" for name, value in pairs.items())


def creation(size: int | str = len(DATA), **pairs: str) -> dict[str, str]:
    """The headers that begin an upload."""
    named = pairs if "path" in pairs else {"filename": "a.png", **pairs}
    return TUS | {"Upload-Length": str(size), "Upload-Metadata": metadata(**{"filetype": "image/png", **named})}


async def create(client: httpx.AsyncClient, base: str, size: int = len(DATA), **pairs: str) -> httpx.Response:
    answer = await client.post(f"{base}/tus", headers=creation(size, **pairs))
    assert answer.status_code == 201, answer.text
    return answer


async def begin(client: httpx.AsyncClient, base: str, size: int = len(DATA), **pairs: str) -> str:
    """Begin an upload and return where its bytes go."""
    return (await create(client, base, size, **pairs)).headers["location"]


async def append(url: str, offset: int, data: Any, **headers: str) -> httpx.Response:
    sent = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"} | headers
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        return await client.patch(url, content=data, headers=sent)


async def head(url: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        return await client.head(url, headers=TUS)


async def offset_of(url: str) -> int:
    answer = await head(url)
    assert answer.status_code == 200, answer.headers
    return int(answer.headers["upload-offset"])


async def delete(url: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as client:
        return await client.delete(url, headers=TUS)


def upload_id(url: str) -> UUID:
    return UUID(httpx.URL(url).path.rpartition("/")[2])


def checksum(algorithm: str, data: bytes) -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


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
        # What nobody could go on with is given up, and its room is free again.
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


async def test_a_file_without_the_declared_digest_can_be_sent_anew(app: App):
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


@pytest.mark.parametrize(
    "value",
    ["", "sha1", "sha1 !!!", "sha1 AAAA", "crc32 AAAA", "SHA1 AAAA", "sha512 AAAA", "sha256 x y"],
)
async def test_checksums_that_are_none(app: App, value: str):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
    answer = await append(url, 0, DATA, **{"Upload-Checksum": value})
    assert_error(answer, 400, "UPLOAD_HEADER_INVALID")
    assert await offset_of(url) == 0


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


@pytest.mark.parametrize("version", [None, "", "0.2.2", "1.0.1", "1.0.0, 1.0.0"])
async def test_another_version_is_refused(app: App, version: str | None):
    base = await storage(app)
    given = {} if version is None else {"Tus-Resumable": version}
    async with app.client() as client:
        url = await begin(client, base)
        headers = {name: value for name, value in creation().items() if name != "Tus-Resumable"} | given
        bytes_ = given | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        for answer in (
            await client.post(f"{base}/tus", headers=headers),
            await client.patch(url, headers=bytes_, content=DATA),
            await client.delete(url, headers=given),
            await client.get(url, headers=given),
        ):
            assert_error(answer, 412, "TUS_VERSION_NOT_SUPPORTED")
            assert answer.headers["tus-version"] == "1.0.0"
        assert (await client.head(url, headers=given)).status_code == 412
        assert await offset_of(url) == 0


@pytest.mark.parametrize(
    "length",
    ["", "-1", "+1", "1.5", "1e3", "x", "0x10", "١", "9" * 17, "1 2", "1,1"],
)
async def test_lengths_that_are_none(app: App, length: str):
    base = await storage(app)
    async with app.client() as client:
        headers = {name: value.encode() for name, value in creation(length).items()}
        answer = await client.post(f"{base}/tus", headers=headers)
        assert_error(answer, 400, "UPLOAD_HEADER_INVALID")


async def test_lengths_that_are_too_much(app: App):
    base = await storage(app, max_file_size=1000)
    async with app.client() as client:
        assert_error(await client.post(f"{base}/tus", headers=creation("9" * 16)), 400, "VALIDATION_FAILED")
        assert_error(await client.post(f"{base}/tus", headers=creation(1001)), 413, "FILE_TOO_LARGE")
        without = {name: value for name, value in creation().items() if name != "Upload-Length"}
        assert_error(await client.post(f"{base}/tus", headers=without), 400, "UPLOAD_HEADER_INVALID")
        for header in ({"Upload-Defer-Length": "1"}, {"Upload-Concat": "partial"}):
            answer = await client.post(f"{base}/tus", headers=creation(10) | header)
            assert_error(answer, 400, "UPLOAD_HEADER_INVALID")


@pytest.mark.parametrize("offset", ["", "-1", "+0", "0.0", "x", "9" * 17, "0 0"])
async def test_offsets_that_are_none(app: App, offset: str):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        answer = await append(url, 0, DATA, **{"Upload-Offset": offset})
        assert_error(answer, 400, "UPLOAD_HEADER_INVALID")
        assert await offset_of(url) == 0


async def test_only_the_right_offset_goes_on(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
    assert (await append(url, 0, DATA[:1000])).status_code == 204
    for wrong in (0, 999, 1001, len(DATA), 10**15):
        answer = await append(url, wrong, DATA[:10])
        assert_error(answer, 409, "UPLOAD_OFFSET_MISMATCH")
        assert answer.headers["upload-offset"] == "1000"
    assert await offset_of(url) == 1000


async def test_only_bytes_of_the_right_type_are_taken(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
    for wrong in ("image/png", "application/octet-stream", "", "application/offset+octet-stream; x=y"):
        assert_error(await append(url, 0, DATA, **{"Content-Type": wrong}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert await offset_of(url) == 0


async def test_never_more_than_was_declared(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
    url = created.headers["location"]
    assert_error(await append(url, 0, DATA + b"x"), 400, "SIZE_MISMATCH")
    assert (await append(url, 0, DATA[:10])).status_code == 204
    assert_error(await append(url, 10, DATA), 400, "SIZE_MISMATCH")

    async def unmeasured() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield DATA[10:]

    assert_error(await append(url, 10, unmeasured()), 400, "SIZE_MISMATCH")
    at = await offset_of(url)
    assert 10 <= at <= len(DATA)

    async def exact() -> AsyncIterator[bytes]:
        yield DATA[at:]

    assert (await append(url, at, exact())).status_code == 204
    async with app.client() as client:
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "VALIDATION_FAILED"),
        ("filename", "VALIDATION_FAILED"),
        ("filename !", "UPLOAD_HEADER_INVALID"),
        ("filename YQ", "UPLOAD_HEADER_INVALID"),
        ("filename Y Q=", "UPLOAD_HEADER_INVALID"),
        ("filename /w==", "UPLOAD_HEADER_INVALID"),
        ("filename YQ==,filename Yg==", "UPLOAD_HEADER_INVALID"),
        ("filename YQ==,,", "UPLOAD_HEADER_INVALID"),
        (", filename YQ==", "UPLOAD_HEADER_INVALID"),
        ("n\xe4me YQ==,filename YQ==", "UPLOAD_HEADER_INVALID"),
        (metadata(filename=".."), "INVALID_PATH"),
        (metadata(filename="../../etc/passwd"), "INVALID_PATH"),
        (metadata(filename="a\\b"), "INVALID_PATH"),
        (metadata(filename="a\r\nX-Evil: 1"), "INVALID_PATH"),
        (metadata(filename="a\0b"), "INVALID_PATH"),
        (metadata(filename="é" * 150), "INVALID_PATH"),
        (metadata(path="a/../b"), "INVALID_PATH"),
        (metadata(path="/a"), "INVALID_PATH"),
        ("path", "INVALID_PATH"),
        (metadata(path="a", parent_id=str(UUID(int=1))), "UPLOAD_HEADER_INVALID"),
        (metadata(filename="a", overwrite="true"), "UPLOAD_HEADER_INVALID"),
        (metadata(path="a", overwrite="yes"), "VALIDATION_FAILED"),
        (metadata(filename="a", parent_id="x"), "VALIDATION_FAILED"),
        (metadata(filename="a", filetype="image/png\r\nX: y"), "VALIDATION_FAILED"),
        (metadata(filename="a", filetype="png"), "VALIDATION_FAILED"),
        (metadata(filename="a", sha256="x"), "VALIDATION_FAILED"),
        (metadata(filename="a", more="x" * 6200), "UPLOAD_HEADER_INVALID"),
    ],
)
async def test_metadata_that_is_refused(app: App, value: str, code: str):
    base = await storage(app)
    async with app.client() as client:
        headers = {**TUS, "Upload-Length": "10", "Upload-Metadata": value.encode("latin-1")}
        assert_error(await client.post(f"{base}/tus", headers=headers), 400, code)


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


async def test_a_changed_url_is_refused(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = httpx.URL(await begin(client, base))
        other = httpx.URL(await begin(client, base, filename="b.png"))
        plain = (await fixed(client, base, "c.png", DATA)).json()["upload_url"]
        expires, signature = url.params["expires"], url.params["signature"]
        for params in (
            {"expires": str(int(expires) + 1), "signature": signature},
            {"expires": expires, "signature": signature[:-1] + ("A" if signature[-1] != "A" else "B")},
            {"expires": expires, "signature": other.params["signature"]},
            {"expires": expires, "signature": ""},
            {"expires": "-1", "signature": signature},
            {"expires": "9" * 13, "signature": signature},
            {"signature": signature},
            {},
        ):
            changed = str(url.copy_with(params=params))
            for answer in (await append(changed, 0, DATA), await delete(changed)):
                assert_error(answer, 403, "UPLOAD_SIGNATURE_INVALID")
            assert (await head(changed)).status_code == 403
        # Neither kind of URL does for the other kind of upload.
        swapped = httpx.URL(plain).copy_with(path=f"/v1/uploads/tus/{upload_id(plain)}")
        assert_error(await append(str(swapped), 0, DATA), 404, "UPLOAD_NOT_FOUND")
        swapped = url.copy_with(path=f"/v1/uploads/{upload_id(str(url))}")
        permit = {"upload_url": str(swapped), "headers": {"Content-Type": "image/png"}}
        assert_error(await send(permit, DATA), 404, "UPLOAD_NOT_FOUND")
        missing = url.copy_with(path=f"/v1/uploads/tus/{UUID(int=5)}")
        assert_error(await append(str(missing), 0, DATA), 404, "UPLOAD_NOT_FOUND")
        assert await offset_of(str(url)) == 0


async def test_an_upload_expires(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        signer = UrlSigner(MasterKeyring(MasterKeys(master_key(app.server))))
        expires = int(time.time()) - 1
        signature = signer.resumable_upload(upload_id(url), expires, len(DATA), "image/png")
        over = str(httpx.URL(url).copy_with(params={"expires": str(expires), "signature": signature}))
        assert_error(await append(over, 0, DATA), 410, "UPLOAD_EXPIRED")
        assert_error(await delete(over), 410, "UPLOAD_EXPIRED")
        assert (await head(over)).status_code == 410
        assert await offset_of(url) == 0


async def test_what_nobody_went_on_with_is_reaped(app: App):
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


async def tidy(app: App) -> None:
    """End what has expired, and delete the bytes of it, as if ten minutes had passed."""
    async with second_node(app.server, listening=False) as node, node.database.connection() as connection:
        await node.services.files.cleaning.reap_uploads(connection)
        await connection.execute("update pilotis.dead_blobs set due_at = now() where app_id = $1", UUID(app.app_id))
        await node.services.files.cleaning.delete_dead_blobs(connection)


async def drafts(app: App) -> list[int]:
    """The sizes of the app's unfinished uploads in the object store."""
    async with second_node(app.server, listening=False) as node:
        return [info.size async for info in node.services.blobs.list(f"drafts/{app.app_id}")]


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


async def test_of_many_requests_at_one_offset_one_wins(app: App):
    base = await storage(app)
    rounds, length = 8, 1000
    async with app.client() as client:
        created = await create(client, base, rounds * length)
        url, sent = created.headers["location"], b""
        for number in range(rounds):
            contents = [bytes([number, n]) * (length // 2) for n in range(20)]
            answers = await asyncio.gather(*(append(url, len(sent), data) for data in contents))
            won = [n for n, answer in enumerate(answers) if answer.status_code == 204]
            assert len(won) == 1, [answer.status_code for answer in answers]
            for answer in answers:
                if answer.status_code == 423:
                    assert_error(answer, 423, "UPLOAD_LOCKED")
                elif answer.status_code != 204:
                    assert_error(answer, 409, "UPLOAD_OFFSET_MISMATCH")
            sent += contents[won[0]]
            assert await offset_of(url) == len(sent)
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == sent


async def test_the_offset_is_compared_once_nobody_else_can_change_it(app: App):
    """Another request ends between the moment a request looks up the upload and the one it gets hold of it."""
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%attempt_id%'"
    async with database_of(app.server) as connection:
        async with connection.transaction():
            change = "update pilotis.uploads set draft = '{\"size\":5}' where upload_id = $1"
            await connection.execute(change, upload_id(url))
            late = asyncio.create_task(append(url, 0, DATA))
            for _ in range(1000):
                if await run_sql(app.server, waiting):
                    break
                await asyncio.sleep(0.01)
        answer = await late
    assert_error(answer, 409, "UPLOAD_OFFSET_MISMATCH")
    assert answer.headers["upload-offset"] == "5"


class HalfSent:
    """A PATCH over a plain connection, of which a part is sent."""

    def __init__(self, url: str, offset: int, declared: int, **headers: str) -> None:
        self.url, self.offset, self.declared, self.headers = httpx.URL(url), offset, declared, headers

    async def __aenter__(self) -> "HalfSent":
        self.reader, self.writer = await asyncio.open_connection(self.url.host, self.url.port)
        headers = TUS | {
            "Host": "x",
            "Upload-Offset": str(self.offset),
            "Content-Type": "application/offset+octet-stream",
            "Content-Length": str(self.declared),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers | self.headers).items())
        self.writer.write(f"PATCH {self.url.raw_path.decode()} HTTP/1.1\r\n{lines}\r\n".encode())
        await self.writer.drain()
        return self

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()


async def until(app: App, url: str, state: str) -> None:
    """Wait until the upload is in that state."""
    query = "select state from pilotis.uploads where upload_id = $1"
    for _ in range(1000):
        if await run_sql(app.server, query, upload_id(url)) == state:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"The upload never was {state}.")


async def test_a_cut_connection_keeps_what_came(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:200_000])
            await until(app, url, "receiving")
            assert_error(await append(url, 0, DATA), 423, "UPLOAD_LOCKED")
            assert_error(await complete(client, base, created.json()), 409, "UPLOAD_NOT_RECEIVED")
        await until(app, url, "pending")
        assert await offset_of(url) == 200_000
        assert (await append(url, 200_000, DATA[200_000:])).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_a_cut_connection_with_a_checksum_keeps_nothing(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        async with HalfSent(url, 0, len(DATA), **{"Upload-Checksum": checksum("sha1", DATA)}) as half:
            await half.send(DATA[:200_000])
            await until(app, url, "receiving")
        await until(app, url, "pending")
        assert await offset_of(url) == 0
        assert await drafts(app) in ([], [0])


async def test_giving_up_ends_a_request_that_still_sends(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:1000])
            await until(app, url, "receiving")
            assert (await delete(url)).status_code == 204
            await half.send(DATA[1000:])
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 404")
        assert_error(await complete(client, base, created.json()), 404, "FILE_NOT_FOUND")
        await tidy(app)
        assert await drafts(app) == []


async def test_a_request_that_lost_its_lease_acknowledges_nothing(app: App):
    """A server that stood still for longer than its lease, and then goes on."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:1000])
            await until(app, url, "receiving")
            stolen = "update pilotis.uploads set attempt_id = gen_random_uuid() where upload_id = $1"
            await run_sql(app.server, stolen, upload_id(url))
            await half.send(bytes(len(DATA) - 1000))
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 423")
        assert await offset_of(url) == 0
        over = "update pilotis.uploads set lease_until = now() - interval '1 second' where upload_id = $1"
        await run_sql(app.server, over, upload_id(url))
        assert (await append(url, 0, DATA)).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_a_lease_that_ended_too_early_mixes_nothing(app: App):
    """Two requests are at it, one of them with a lease: the file's lock lets none into the other's bytes."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        over = "update pilotis.uploads set lease_until = now() - interval '1 second' where upload_id = $1"
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(b"x" * 200_000)
            await until(app, url, "receiving")
            await run_sql(app.server, over, upload_id(url))
            assert_error(await append(url, 0, DATA), 423, "UPLOAD_LOCKED")
            await half.send(b"x" * (len(DATA) - 200_000))
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 423")
        assert await offset_of(url) == 0
        assert (await append(url, 0, DATA)).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_a_server_that_died_is_replaced(app: App):
    """The database as it is after a crash: the claim's lease is over, and the bytes go further than the note of it."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        await append(url, 0, DATA[:1000])
        left = (
            "update pilotis.uploads set state = 'receiving', attempt_id = gen_random_uuid(),"
            " lease_until = now() + interval '{}' where upload_id = $1"
        )
        await run_sql(app.server, left.format(f"{LEASE_SECONDS} seconds"), upload_id(url))
        assert await offset_of(url) == 1000
        assert_error(await append(url, 1000, DATA[1000:]), 423, "UPLOAD_LOCKED")
        await run_sql(app.server, left.format("-1 second"), upload_id(url))
        draft = app.server.data_dir / "blobs" / "objects" / "drafts" / app.app_id / str(upload_id(url))
        with draft.open("ab") as file:
            file.write(b"not acknowledged")
        assert (await append(url, 1000, DATA[1000:])).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


@pytest.mark.parametrize("renamed", [False, True])
async def test_a_server_that_died_before_the_end_is_made_up_for(app: App, renamed: bool):
    """All bytes were acknowledged, and perhaps renamed, but not noted as received: asking is enough."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        await append(url, 0, DATA)
        back = (
            "update pilotis.uploads set state = 'receiving', attempt_id = gen_random_uuid(), sha256 = null,"
            " lease_until = now() - interval '1 second' where upload_id = $1"
        )
        await run_sql(app.server, back, upload_id(url))
        objects = app.server.data_dir / "blobs" / "objects"
        if not renamed:
            blob = objects / "blobs" / app.app_id / str(upload_id(url))
            blob.rename(objects / "drafts" / app.app_id / str(upload_id(url)))
        assert_error(await complete(client, base, created.json()), 409, "UPLOAD_NOT_RECEIVED")
        assert await offset_of(url) == len(DATA)
        item = (await complete(client, base, created.json())).json()
        assert item["sha256"] == hashlib.sha256(DATA).hexdigest()
        assert (await client.get(item["url"])).content == DATA


async def test_bytes_that_are_lost_are_asked_for_again(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        await append(url, 0, DATA[:1000])
        (app.server.data_dir / "blobs" / "objects" / "drafts" / app.app_id / str(upload_id(url))).unlink()
        assert_error(await append(url, 1000, DATA[1000:]), 404, "BLOB_NOT_FOUND")
        assert await offset_of(url) == 0
        assert (await append(url, 0, DATA)).status_code == 204
        item = (await complete(client, base, created.json())).json()
        assert (await client.get(item["url"])).content == DATA


async def test_a_method_override_is_not_followed(app: App):
    """An attack path on rate limits and access elsewhere; clients that cannot send PATCH use the plain upload."""
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        answer = await client.post(url, headers=headers | {"X-HTTP-Method-Override": "PATCH"}, content=DATA)
        assert_error(answer, 405, "METHOD_NOT_ALLOWED")
        assert await offset_of(url) == 0


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
    await change_app(app.server, app.app_id, limits='{"upload_per_minute": 3, "data_per_minute": 100}')
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
        # What has begun goes on, other requests count for themselves, and other apps are not concerned.
        assert (await append(created.headers["location"], 0, DATA)).status_code == 204
        listed = await client.get(f"{base}/items")
        assert (listed.status_code, listed.headers["ratelimit-limit"]) == (200, "100")
        assert (await other.post(f"{theirs}/presigned-url", json=body)).status_code == 200
