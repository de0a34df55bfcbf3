"""Moving the bytes of files between a directory and S3 while the server runs."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.files.feature import FilesFeature
from tests import forked
from tests.acceptance.test_files import PNG, complete, fixed, permit, send, storage, upload
from tests.acceptance.tus import TUS, create
from tests.background import paused
from tests.blobs import swift
from tests.blobs.support import content, keys
from tests.console import client_of
from tests.files.nodes import s3_node
from tests.support import App, Server, assert_error

DRAFT = content(300_000)


def pilotis(server: Server, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these settings while the server runs."""
    given = {"s3_access_key": swift.ACCESS_KEY, "s3_secret_key": swift.SECRET_KEY} | settings
    environment = os.environ | {f"PILOTIS_{name.upper()}": value for name, value in given.items()}
    return forked.run("pilotis", *arguments, *server.place, environment=environment)


async def sent(client: httpx.AsyncClient, permitted: dict[str, Any], data: bytes) -> None:
    """Send an upload's bytes to the node or to its store, wherever its URL leads."""
    if permitted["upload_url"].startswith("http://node/"):
        answer = await client.put(permitted["upload_url"], content=data, headers=permitted["headers"])
    else:
        answer = await send(permitted, data)
    assert answer.status_code == 200, answer.text


async def sent_new(client: httpx.AsyncClient, base: str, name: str, data: bytes) -> dict[str, Any]:
    permitted = await permit(client, base, data, file_name=name)
    await sent(client, permitted, data)
    return (await complete(client, base, permitted)).json()


async def sent_at(client: httpx.AsyncClient, base: str, path: str, data: bytes) -> dict[str, Any]:
    permitted = (await fixed(client, base, path, data, overwrite=True)).json()
    await sent(client, permitted, data)
    return (await complete(client, base, permitted)).json()


async def append(client: httpx.AsyncClient, url: str, offset: int, data: bytes) -> httpx.Response:
    headers = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return await client.patch(url, content=data, headers=headers)


@pytest.mark.parametrize("to_s3", [True, False])
async def test_files_stay_readable_while_they_are_moved(app: App, s3_url: str, tmp_path: Path, to_s3: bool):
    directory = str(tmp_path / "files")
    old, new = (directory, s3_url) if to_s3 else (s3_url, directory)
    both = {"blob_store": new, "previous_blob_store": old}
    key = {"X-Public-Key": app.public_key}
    base = await storage(app)
    async with s3_node(app.server, old) as node, client_of(node, **key) as client:
        kept, deleted = [await sent_new(client, base, name, PNG + name.encode()) for name in ("1", "2")]
        replaced = await sent_at(client, base, "b.png", b"before")
        begun = await create(client, base, len(DRAFT))
        assert (await append(client, begun.headers["location"], 0, DRAFT[:1000])).status_code == 204
        pending = await permit(client, base, b"pending", file_name="pending.png")
        await sent(client, pending, b"pending")
    async with (
        s3_node(app.server, new, previous_blob_store=old) as node,
        client_of(node, **key) as client,
        node.database.connection() as connection,
        paused(connection, "blobs.delete"),
    ):
        assert (await client.get(kept["url"])).content == PNG + b"1"
        assert (await client.get(kept["url"], headers={"Range": "bytes=1-3"})).content == PNG[1:4]
        assert (await client.get(replaced["url"])).content == b"before"
        unfinished = pilotis(app.server, "storage", "move", "--json", **both)
        assert unfinished.returncode == 1, unfinished.stderr
        moved = json.loads(unfinished.stdout)
        # The bytes of an upload that is not completed are a blob in the directory, and staged in S3.
        assert (moved["copied"], moved["wrong"]) == (4 if to_s3 else 3, [])
        assert moved["unfinished"] == (1 if to_s3 else 5)

        created = await sent_new(client, base, "created.png", b"created")
        assert (await sent_at(client, base, "b.png", b"after"))["version"] == 2
        assert (await client.delete(f"{base}/items/{deleted['id']}")).status_code == 200
        assert (await append(client, begun.headers["location"], 1000, DRAFT[1000:])).status_code == 204
        finished = (await complete(client, base, begun.json())).json()
        completed = (await complete(client, base, pending)).json()
        urls = {kept["url"]: PNG + b"1", replaced["url"]: b"after", created["url"]: b"created"}
        urls |= {finished["url"]: DRAFT, completed["url"]: b"pending"}
        for url, data in urls.items():
            assert (await client.get(url)).content == data
        # As the servers do in the end.
        app_id = UUID(app.app_id)
        await connection.execute("update pilotis.uploads set expires_at = now() where app_id = $1", app_id)
        await node.services.files.cleaning.expire_uploads(connection)
        await connection.execute("update pilotis.pending_deletions set due_at = now() where app_id = $1", app_id)
        await node.services.files.cleaning.delete_pending_blobs(connection)
        rest = pilotis(app.server, "storage", "move", **both)
        assert rest.returncode == 0, rest.stderr
        assert "remove previous_blob_store" in rest.stdout
    async with s3_node(app.server, new) as node, client_of(node, **key) as client:
        for url, data in urls.items():
            assert (await client.get(url)).content == data
        assert len(await keys(node.services.blobs)) == len(urls)


async def test_a_store_that_does_not_fit_the_records_is_told(
    app: App, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = await storage(app)
    async with app.client() as client:
        await upload(client, base)
    empty = str(tmp_path / "empty")
    said = pilotis(app.server, "doctor", blob_store=empty)
    assert "The object store lacks the bytes of" in said.stdout, said.stdout
    assert "pilotis storage move" in said.stdout
    assert "previous_blob_store" in pilotis(app.server, "storage", "move", blob_store=empty).stderr
    async with s3_node(app.server, empty) as node:
        await node.made.get(FilesFeature).start()
        assert "bytes are missing" in capsys.readouterr().out
        assert len(await keys(node.services.blobs)) == 0


def test_doctor_names_a_wrong_store(server: Server, s3_url: str):
    absent = pilotis(server, "doctor", blob_store=s3_url.replace(swift.BUCKET, "there-is-none"))
    assert (absent.returncode, "NoSuchBucket" in absent.stdout) == (1, True), absent.stdout
    wrong = pilotis(server, "doctor", blob_store=s3_url, s3_secret_key="wrong")
    assert (wrong.returncode, "SignatureDoesNotMatch" in wrong.stdout) == (1, True), wrong.stdout
    forgotten = pilotis(server, "doctor", blob_store=s3_url, s3_secret_key="")
    assert (forgotten.returncode, "s3_secret_key is missing" in forgotten.stdout) == (1, True), forgotten.stdout


async def test_an_upload_that_another_store_has_begun_is_gone(app: App, s3_url: str, tmp_path: Path):
    """Clients that are told so begin again."""
    key = {"X-Public-Key": app.public_key}
    base = await storage(app)
    for first, second in ((str(tmp_path / "files"), s3_url), (s3_url, str(tmp_path / "files"))):
        begun = []
        async with s3_node(app.server, first) as node, client_of(node, **key) as client:
            for _ in range(2):
                begun.append((await create(client, base, len(DRAFT))).headers["location"])
                assert (await append(client, begun[-1], 0, DRAFT[:1000])).status_code == 204
        async with s3_node(app.server, second) as node, client_of(node, **key) as client:
            assert_error(await append(client, begun[0], 1000, DRAFT[1000:]), 410, "UPLOAD_LOST")
            assert (await client.head(begun[1], headers=TUS)).status_code == 410
