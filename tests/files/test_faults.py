"""The errors that readers and uploaders get while the object store is unavailable; no data is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest

from pilotis.blobs import remote as opening
from tests.acceptance.test_files import PNG, complete, permit, send, storage, upload
from tests.accepting import accepting
from tests.console import client_of
from tests.files.nodes import s3_node
from tests.support import App, assert_error

REFUSAL = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Wire:
    """A TCP proxy before the object store, which can answer in its place, or cut answers short."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.is_away = False
        self.max_bytes: int | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            if self.is_away:
                await reader.read(65536)
                writer.write(REFUSAL)
                await writer.drain()
            else:
                far_reader, far_writer = await asyncio.open_connection(*self._target)
                back = asyncio.create_task(self._pump(far_reader, writer, self.max_bytes))
                try:
                    await self._pump(reader, far_writer, None)
                    await back
                finally:
                    back.cancel()
                    far_writer.close()
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
        passed = 0
        with contextlib.suppress(ConnectionError):
            while (data := await reader.read(65536)) and not self.is_away:
                writer.write(data if most is None else data[: most - passed])
                await writer.drain()
                passed += len(data)
                if most is not None and passed >= most:
                    break
        writer.close()


@pytest.fixture
async def wire(s3_url: str) -> AsyncIterator[tuple[Wire, str]]:
    """The proxy, and the store's URL by way of it."""
    endpoint = s3_url.partition("endpoint=")[2].partition("&")[0]
    address = urlsplit(endpoint)
    made = Wire(address.hostname, address.port)
    async with accepting(made.serve) as port:
        yield made, s3_url.replace(endpoint, f"http://127.0.0.1:{port}")


@pytest.fixture
async def client(app: App, wire: tuple[Wire, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a node whose object store is behind the wire."""
    monkeypatch.setitem(opening._RETRY, "max_retries", 1)
    async with s3_node(app.server, wire[1]) as node, client_of(node, **{"X-Public-Key": app.public_key}) as made:
        yield made


async def test_while_the_store_is_away_nothing_is_lost(app: App, client: httpx.AsyncClient, wire: tuple[Wire, str]):
    base = await storage(app)
    there = await upload(client, base, PNG)
    sent = await permit(client, base, file_name="sent.png")
    assert (await send(sent)).status_code == 200

    wire[0].is_away = True
    assert_error(await client.get(there["url"]), 503, "BLOB_STORE_UNAVAILABLE")
    assert_error(await complete(client, base, sent), 503, "BLOB_STORE_UNAVAILABLE")
    begun = await permit(client, base, file_name="begun.png")
    assert (await send(begun)).status_code == 503
    assert (await client.get(f"{base}/items")).json()["total_count"] == 1

    wire[0].is_away = False
    assert (await client.get(there["url"])).content == PNG
    done = await complete(client, base, sent)
    assert done.status_code == 200, done.text
    assert (await client.get(done.json()["url"])).content == PNG
    assert (await send(begun)).status_code == 200
    assert (await complete(client, base, begun)).status_code == 200
    assert (await client.get(f"{base}/items")).json()["total_count"] == 3


async def test_an_answer_cut_short_is_never_taken_for_the_whole(
    app: App, client: httpx.AsyncClient, wire: tuple[Wire, str]
):
    base = await storage(app)
    data = bytes(range(256)) * 8000
    item = await upload(client, base, data)
    wire[0].max_bytes = 700_000
    try:
        answer = await client.get(item["url"])
    except (httpx.HTTPError, ConnectionError, RuntimeError):
        pass
    else:
        assert answer.content == data or answer.status_code == 503
    wire[0].max_bytes = None
    assert (await client.get(item["url"])).content == data
