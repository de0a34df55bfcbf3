"""Ports for sites on one's own machine: which a name gets, how many there are, and where there are any."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from pilotis.hosting import ports
from pilotis.hosting.ports import SitePorts, needs_ports, other_name


class Says(asyncio.Protocol):
    """Tells each connection for which host name it is, and ends it."""

    def __init__(self, host: str) -> None:
        self._host = host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._host.encode())
        transport.close()


def says(host: str) -> Callable[[], asyncio.Protocol]:
    return lambda: Says(host)


@pytest.fixture
async def sites() -> AsyncIterator[SitePorts]:
    opened = SitePorts()
    opened.attach(says)
    yield opened
    await opened.close()


def port(address: str | None) -> int:
    assert address is not None
    assert address.startswith("http://localhost:")
    return int(address.rpartition(":")[2])


async def said(number: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


async def test_each_name_has_a_port_and_keeps_it(sites: SitePorts) -> None:
    cafe, bar = port(sites.address("cafe.localhost")), port(sites.address("bar.localhost"))
    assert await said(cafe) == "cafe.localhost"
    assert await said(bar) == "bar.localhost"
    assert port(sites.address("cafe.localhost")) == cafe
    await sites.close()
    assert sites.address("cafe.localhost") is None
    with pytest.raises(ConnectionRefusedError):
        await said(cafe)
    sites.attach(says)
    assert port(sites.address("cafe.localhost")) == cafe


async def test_a_port_that_another_program_has_is_left_to_it(sites: SitePorts) -> None:
    usual = port(sites.address("cafe.localhost"))
    await sites.close()
    with socket.create_server(("127.0.0.1", usual)):
        sites.attach(says)
        another = port(sites.address("cafe.localhost"))
        assert another != usual
        assert await said(another) == "cafe.localhost"


async def test_where_no_port_is_free_the_site_has_the_address_of_its_name(
    sites: SitePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = port(sites.address("cafe.localhost"))
    await sites.close()
    monkeypatch.setattr(ports, "_TRIES", 1)
    with socket.create_server(("127.0.0.1", usual)):
        sites.attach(says)
        assert sites.address("cafe.localhost") is None


async def test_the_one_asked_for_the_longest_ago_is_closed_for_another(
    sites: SitePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "MAX_PORTS", 2)
    first, second = port(sites.address("first.localhost")), port(sites.address("second.localhost"))
    sites.address("first.localhost")
    third = port(sites.address("third.localhost"))
    assert [await said(number) for number in (first, third)] == ["first.localhost", "third.localhost"]
    with pytest.raises(ConnectionRefusedError):
        await said(second)
    assert port(sites.address("second.localhost")) == second


@pytest.mark.parametrize(
    ("host", "base_url", "workers", "needed"),
    [
        ("127.0.0.1", "http://localhost:8000", 1, True),
        ("127.0.0.1", "http://localhost:8000", 2, False),  # only one of them could listen
        ("0.0.0.0", "http://localhost:8000", 1, False),
        ("127.0.0.1", "https://pilotis.example", 1, False),  # behind a proxy
    ],
)
def test_only_macos_needs_them_and_only_on_ones_own_machine(
    monkeypatch: pytest.MonkeyPatch, host: str, base_url: str, workers: int, needed: bool
) -> None:
    assert not needs_ports(host, base_url, workers)
    monkeypatch.setattr(ports.sys, "platform", "darwin")
    assert needs_ports(host, base_url, workers) == needed


def test_sites_and_console_never_share_a_name() -> None:
    assert other_name("http://localhost:8000") == "127.0.0.1"
    assert other_name("http://127.0.0.1:8000") == "localhost"
