"""Resumable uploads by the client that applications use: tus-js-client, from npm."""

import asyncio
import hashlib
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_files import complete, storage, sums
from tests.acceptance.tus import head
from tests.backstage import run_sql
from tests.blobs import swift
from tests.conftest import first_console_user, new_app
from tests.files.npm import NEEDS_NODE, modules
from tests.support import App, Server
from tests.waiting import reserved_port

__all__ = ["modules"]

PROGRAM = Path(__file__).parent / "tus_client.js"
MIB = 1 << 20

pytestmark = NEEDS_NODE


@pytest.fixture(scope="module")
def on_s3(tmp_path_factory: pytest.TempPathFactory, s3_server: swift.Swift) -> Iterator[App]:
    """An app on a server whose files are in an S3 store."""
    environment = {
        "PILOTIS_BLOB_STORE": s3_server.url(swift.BUCKET, "tus-client"),
        "PILOTIS_S3_ACCESS_KEY": swift.ACCESS_KEY,
        "PILOTIS_S3_SECRET_KEY": swift.SECRET_KEY,
    }
    running = Server(tmp_path_factory.mktemp("on-s3") / "data", environment=environment).start()
    yield new_app(running, first_console_user(running))
    running.stop()
    running.assert_no_failure()


@pytest.fixture(params=["local", "s3"])
def stored(request: pytest.FixtureRequest) -> App:
    return request.getfixturevalue("app" if request.param == "local" else "on_s3")


class Client:
    """tus-js-client with a file to upload, and its memory of uploads in a file."""

    def __init__(self, modules: Path, tmp_path: Path, app: App, base: str, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        self.file = tmp_path / "film.bin"
        self.file.write_bytes(self.data)
        self.modules = modules
        self.given = {
            "file": str(self.file),
            "urls": str(tmp_path / "urls.json"),
            "endpoint": f"{app.server.url}{base}/tus",
            "headers": {"X-Public-Key": app.public_key},
            "metadata": {"filename": "film.bin", "filetype": "video/mp4"},
        }

    async def run(self, **given: Any) -> dict[str, Any]:
        """Upload, or continue where the last run stopped; returns the client's output."""
        arguments = [str(self.modules), json.dumps(self.given | given)]
        process = await asyncio.create_subprocess_exec("node", str(PROGRAM), *arguments, stdout=subprocess.PIPE)
        output, _ = await asyncio.wait_for(process.communicate(), 120)
        return json.loads(output)


async def check(app: App, base: str, file_id: str, data: bytes) -> None:
    """Complete the upload and read the file."""
    async with app.client() as client:
        done = await complete(client, base, {"file_id": file_id})
        assert done.status_code == 200, done.text
        item = done.json()
        assert (item["name"], item["mime_type"], item["size"]) == ("film.bin", "video/mp4", len(data))
        assert item["sha256"] == hashlib.sha256(data).hexdigest()
        served = await client.get(item["url"])
        assert served.content == data


@pytest.mark.share(0.3, of="an upload that goes on")
@pytest.mark.parametrize("chunk_size", [None, pytest.param(6 * MIB, marks=pytest.mark.whole), MIB + 1])
async def test_an_upload_goes_on_in_another_process(stored: App, modules: Path, tmp_path: Path, chunk_size: int | None):
    base = await storage(stored, quota_bytes=100 * MIB, name=tmp_path.name)
    client = Client(modules, tmp_path, stored, base, 20 * MIB + 12_345)
    first = await client.run(chunkSize=chunk_size, holdAfter=9 * MIB)
    assert first["outcome"] == "aborted", first
    assert (await head(first["url"])).status_code == 200
    second = await client.run(chunkSize=chunk_size)
    assert second["outcome"] == "done", second
    assert second["previous"] == 1
    assert second["url"] == first["url"]
    assert MIB <= second["resumedAt"] <= 9 * MIB
    assert "POST" not in {method for method, _ in second["requests"]}
    await check(stored, base, first["fileId"], client.data)
    assert await sums(stored, base) == (len(client.data), 0)


async def test_an_upload_in_one_request(app: App, modules: Path, tmp_path: Path):
    base = await storage(app)
    client = Client(modules, tmp_path, app, base, 3 * MIB)
    done = await client.run(uploadDataDuringCreation=True)
    assert (done["outcome"], done["requests"]) == ("done", [["POST", 201]]), done
    await check(app, base, done["fileId"], client.data)


async def test_an_empty_file(app: App, modules: Path, tmp_path: Path):
    base = await storage(app)
    client = Client(modules, tmp_path, app, base, 0)
    done = await client.run()
    assert done["outcome"] == "done", done
    await check(app, base, done["fileId"], b"")


async def test_an_upload_is_given_up(app: App, modules: Path, tmp_path: Path):
    base = await storage(app, quota_bytes=100 * MIB)
    client = Client(modules, tmp_path, app, base, 8 * MIB)
    ended = await client.run(chunkSize=MIB, holdAfter=3 * MIB, terminate=True)
    assert ended["outcome"] == "aborted", ended
    assert ["DELETE", 204] in ended["requests"]
    assert await sums(app, base) == (0, 0)
    assert (await head(ended["url"])).status_code == 404


@pytest.fixture
def port() -> Iterator[str]:
    """A port that no other process gets while the server is down."""
    with reserved_port() as number:
        yield str(number)


async def test_a_server_that_is_killed_in_the_middle(
    tmp_path: Path, modules: Path, port: str, request: pytest.FixtureRequest
):
    """The client waits until the server is back, asks for the offset, and continues."""
    server = Server(tmp_path / "data", "--port", port).start()
    request.addfinalizer(lambda: server.process.poll() is None and server.stop())
    app = new_app(server, first_console_user(server))
    base = await storage(app)
    client = Client(modules, tmp_path, app, base, 12 * MIB)
    go_on = tmp_path / "go-on"
    running = asyncio.create_task(client.run(chunkSize=2 * MIB, holdAfter=5 * MIB, until=str(go_on)))
    come = "select draft from pilotis.uploads"
    while await run_sql(server, come) != f'{{"size":{4 * MIB}}}':
        assert not running.done(), running.result()
        await asyncio.sleep(0.02)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    go_on.touch()
    done = await running
    assert done["outcome"] == "done", done
    assert done["requests"].count(["POST", 201]) == 1, "It started again."
    assert done["resumedAt"] >= 4 * MIB
    await check(app, base, done["fileId"], client.data)
