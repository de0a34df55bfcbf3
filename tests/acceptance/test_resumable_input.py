"""What resumable uploads refuse: versions, lengths, offsets, metadata, URLs."""

import time
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest

from pilotis.files.signatures import UrlSigner
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from tests.acceptance.test_files import complete, fixed, send, storage
from tests.acceptance.tus import (
    DATA,
    TUS,
    append,
    begin,
    create,
    creation,
    delete,
    head,
    metadata,
    offset_of,
    upload_id,
)
from tests.backstage import master_key
from tests.support import App, assert_error


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


@pytest.mark.share(0.34)
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


async def test_a_method_override_is_not_followed(app: App):
    """An attack path on rate limits and access elsewhere; clients that cannot send PATCH use the plain upload."""
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        answer = await client.post(url, headers=headers | {"X-HTTP-Method-Override": "PATCH"}, content=DATA)
        assert_error(answer, 405, "METHOD_NOT_ALLOWED")
        assert await offset_of(url) == 0
