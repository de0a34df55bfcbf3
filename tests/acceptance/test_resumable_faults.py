"""Resumable uploads under races, cut connections, lost leases and dead servers."""

import asyncio
import hashlib

import httpx
import pytest

from pilotis.files.tus.store import LEASE_SECONDS
from tests.acceptance.test_files import complete, storage
from tests.acceptance.tus import (
    DATA,
    TUS,
    append,
    begin,
    checksum,
    create,
    delete,
    drafts,
    offset_of,
    tidy,
    upload_id,
)
from tests.backstage import run_sql
from tests.console import database_of
from tests.support import App, assert_error
from tests.waiting import until


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
            await until(lambda: run_sql(app.server, waiting))
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


async def until_it_is(state: str, app: App, url: str) -> None:
    """Wait until the upload is in that state."""
    query = "select state = $2 from pilotis.uploads where upload_id = $1"
    await until(lambda: run_sql(app.server, query, upload_id(url), state))


async def assert_listed_whole(client: httpx.AsyncClient, base: str, created: httpx.Response) -> None:
    """Complete the upload and read its file."""
    item = (await complete(client, base, created.json())).json()
    assert (await client.get(item["url"])).content == DATA


async def test_a_cut_connection_keeps_what_came(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:200_000])
            await until_it_is("receiving", app, url)
            assert_error(await append(url, 0, DATA), 423, "UPLOAD_LOCKED")
            assert_error(await complete(client, base, created.json()), 409, "UPLOAD_NOT_RECEIVED")
        await until_it_is("pending", app, url)
        assert await offset_of(url) == 200_000
        assert (await append(url, 200_000, DATA[200_000:])).status_code == 204
        await assert_listed_whole(client, base, created)


async def test_a_cut_connection_with_a_checksum_keeps_nothing(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await begin(client, base)
        async with HalfSent(url, 0, len(DATA), **{"Upload-Checksum": checksum("sha1", DATA)}) as half:
            await half.send(DATA[:200_000])
            await until_it_is("receiving", app, url)
        await until_it_is("pending", app, url)
        assert await offset_of(url) == 0
        assert await drafts(app) in ([], [0])


async def test_giving_up_ends_a_request_that_still_sends(app: App):
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:1000])
            await until_it_is("receiving", app, url)
            assert (await delete(url)).status_code == 204
            await half.send(DATA[1000:])
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 404")
        assert_error(await complete(client, base, created.json()), 404, "FILE_NOT_FOUND")
        await tidy(app)
        assert await drafts(app) == []


async def test_a_request_that_lost_its_lease_acknowledges_nothing(app: App):
    """A server that is stopped for longer than its lease, and then continues."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(DATA[:1000])
            await until_it_is("receiving", app, url)
            stolen = "update pilotis.uploads set attempt_id = gen_random_uuid() where upload_id = $1"
            await run_sql(app.server, stolen, upload_id(url))
            await half.send(bytes(len(DATA) - 1000))
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 423")
        assert await offset_of(url) == 0
        over = "update pilotis.uploads set lease_until = now() - interval '1 second' where upload_id = $1"
        await run_sql(app.server, over, upload_id(url))
        assert (await append(url, 0, DATA)).status_code == 204
        await assert_listed_whole(client, base, created)


async def test_a_lease_that_ended_too_early_mixes_nothing(app: App):
    """Two requests are at it, one of them with a lease: the file's lock lets none into the other's bytes."""
    base = await storage(app)
    async with app.client() as client:
        created = await create(client, base)
        url = created.headers["location"]
        over = "update pilotis.uploads set lease_until = now() - interval '1 second' where upload_id = $1"
        async with HalfSent(url, 0, len(DATA)) as half:
            await half.send(b"x" * 200_000)
            await until_it_is("receiving", app, url)
            await run_sql(app.server, over, upload_id(url))
            assert_error(await append(url, 0, DATA), 423, "UPLOAD_LOCKED")
            await half.send(b"x" * (len(DATA) - 200_000))
            assert (await half.reader.readline()).startswith(b"HTTP/1.1 423")
        assert await offset_of(url) == 0
        assert (await append(url, 0, DATA)).status_code == 204
        await assert_listed_whole(client, base, created)


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
        await assert_listed_whole(client, base, created)


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
            # The blob's id is none that clients see: whoever knows one could ask a careless store for its bytes.
            [blob] = (objects / "blobs" / app.app_id).iterdir()
            assert blob.name not in {str(upload_id(url)), created.headers["upload-file-id"]}
            blob.rename(objects / "drafts" / app.app_id / str(upload_id(url)))
        assert_error(await complete(client, base, created.json()), 409, "UPLOAD_NOT_RECEIVED")
        assert await offset_of(url) == len(DATA)
        item = (await complete(client, base, created.json())).json()
        assert item["sha256"] == hashlib.sha256(DATA).hexdigest()
        assert (await client.get(item["url"])).content == DATA


@pytest.mark.parametrize("asks", [False, True])
async def test_an_upload_whose_bytes_are_lost_is_gone(app: App, asks: bool):
    """Then clients begin a new one; its space is free."""
    base = await storage(app, quota_bytes=len(DATA))
    async with app.client() as client:
        url = (await create(client, base)).headers["location"]
        await append(url, 0, DATA[:1000])
        (app.server.data_dir / "blobs" / "objects" / "drafts" / app.app_id / str(upload_id(url))).unlink()
        if asks:
            assert (await client.head(url, headers=TUS)).status_code == 410
        else:
            assert_error(await append(url, 1000, DATA[1000:]), 410, "UPLOAD_LOST")
        assert (await client.head(url, headers=TUS)).status_code == 404
        again = await create(client, base)
        assert (await append(again.headers["location"], 0, DATA)).status_code == 204
        await assert_listed_whole(client, base, again)
