"""Encrypted connections: what otherwise bypasses the transport passes through it here."""

import asyncio
import os
import ssl
from pathlib import Path

import httpx
import pytest

from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import FilePart, Reply
from pilotis.http.server import sendfile
from tests.certificates import Authority
from tests.http.bare import application, serving
from tests.waiting import PATIENCE, until

DATA = os.urandom(300_000)
# What a client that knows nothing of TLS would see.
READABLE = b"plain text of an answer"


class Answers(Endpoints, tag="Answers"):
    """Answers of each kind, which say how they leave."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.size = len(DATA)
        self.asked = 0
        self.cycles: list[object] = []
        self.always = False

    @get("/cached", access=Access.OPEN, returns=bytes, media_type="*/*")
    async def cached(self, call: Call) -> Reply:
        """Answer with what may be kept."""
        self.asked += 1
        self.cycles.append(call.cycle)

        async def still_valid() -> bool:
            return True

        return Reply(READABLE, content_type=b"a/b", still_valid=still_valid)

    @get("/file", access=Access.OPEN, returns=bytes, media_type="*/*")
    async def read(self, call: Call) -> Reply:
        """Answer with a file, by the kernel where it can send one."""
        self.cycles.append(call.cycle)
        if call.takes_files:
            return Reply(FilePart(os.open(self.file, os.O_RDONLY), 0, self.size))
        raise AssertionError("A file must be sent as a stream.")


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    (tmp_path / "file").write_bytes(DATA)
    return Answers(tmp_path / "file")


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of a server on the loopback, and that of its clients."""
    authority = Authority(tmp_path)
    return authority.context("127.0.0.1"), ssl.create_default_context(cafile=str(authority.ca_file))


async def test_sendfile_is_for_plain_connections_and_the_cache_for_all(
    answers: Answers, tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
):
    app = application(answers)
    sent: list[int] = []
    real = os.sendfile
    monkeypatch.setattr(os, "sendfile", lambda *arguments: sent.append(1) or real(*arguments))
    async with serving(app) as plain_url, serving(app, context=tls[0]) as tls_url:
        async with httpx.AsyncClient(base_url=plain_url) as plain:
            assert [(await plain.get("/cached")).content for _ in range(3)] == [READABLE] * 3
            assert answers.asked == 1
            assert (await plain.get("/file")).content == DATA
            assert sent
        assert all(answers.cycles)
        answers.cycles.clear()
        sent.clear()
        async with httpx.AsyncClient(base_url=tls_url, verify=tls[1]) as encrypted:
            assert [(await encrypted.get("/cached")).content for _ in range(3)] == [READABLE] * 3
            # Once for this host, which the answer is cached for.
            assert answers.asked == 2
            assert (await encrypted.get("/file")).content == DATA
            assert (await encrypted.head("/cached")).headers["content-length"] == str(len(READABLE))
        assert all(answers.cycles)
        assert sent == []


async def test_a_file_that_ends_too_soon_ends_the_encrypted_connection(
    answers: Answers, tls: tuple[ssl.SSLContext, ssl.SSLContext]
):
    answers.file.write_bytes(DATA[:-1])
    async with (
        serving(application(answers), context=tls[0]) as url,
        httpx.AsyncClient(base_url=url, verify=tls[1]) as encrypted,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await encrypted.get("/file")


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_client_that_reads_slowly_is_waited_for(
    answers: Answers, tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch, *, is_cached: bool
):
    """Also where the file is not in the page cache."""
    monkeypatch.setattr(sendfile, "_RECORDS_BYTES", 50_000)
    read: list[int] = []
    real = os.preadv

    def preadv(file: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if flags and not is_cached:
            raise BlockingIOError
        read.append(offset)
        return real(file, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    large = os.urandom(12_000_000)
    answers.file.write_bytes(large)
    answers.size = len(large)
    async with (
        serving(application(answers), context=tls[0]) as url,
        httpx.AsyncClient(base_url=url, verify=tls[1], timeout=PATIENCE) as encrypted,
        encrypted.stream("GET", "/file") as answer,
    ):
        await until(lambda: read)
        await asyncio.sleep(0.5)
        assert len(read) < len(large) / 50_000 / 2
        assert await answer.aread() == large
    assert len(read) == len(large) / 50_000
