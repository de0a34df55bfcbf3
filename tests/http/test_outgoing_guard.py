"""Requests that leave the server reach public addresses and allowed networks alone, whatever form an address has."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.db.pool import Database
from pilotis.http import outgoing as outgoing_module
from pilotis.http import outgoing_resolver
from pilotis.http.outgoing import Outgoing, OutgoingSettings, Reach
from pilotis.http.outgoing_allowance import Allowance, parse_host
from pilotis.http.outgoing_resolver import CONCURRENT_LOOKUPS, read_hosts
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure, OutgoingRequest, OutgoingResponse
from pilotis.jobs.node import addresses
from pilotis.kit.networks import AddressRules, OwnPorts, is_public, parse_network
from tests.receiver import Receiver
from tests.services import address
from tests.support import Server
from tests.waiting import until

PUBLIC = {"host": "0.0.0.0", "base_url": "https://api.example.com"}
ON_LOOPBACK = {"host": "127.0.0.1", "base_url": "http://localhost:8090"}


def words(text: str) -> list[str]:
    return text.split()


# One or more addresses of every special-purpose network of IANA's registries, their edges among them.
REFUSED = words("""
    0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.255
    169.254.0.1 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.8 192.0.0.255 192.0.2.1 192.31.196.1
    192.52.193.1 192.88.99.1 192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.0 198.19.255.255 198.51.100.1
    203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:127.0.0.1
    ::ffff:10.1.2.3 ::ffff:a9fe:a9fe ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 100::1 2001::1 2001:2::1
    2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:a00:1:: 2620:4f:8000::1 3fff::1 4000::1 5f00::1 fc00::1
    fd12:3456::1 fe80::1 fec0::1 ff02::1 fe80::1%lo 2606:4700::1%eth0
""")
ALLOWED = words("""
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 172.15.255.255
    172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1
    2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2620:4f:7fff::1 2a00:1450::1 3ffe:ffff::1 ::ffff:8.8.8.8
""")

# Every spelling that some reader of addresses takes for loopback or for this machine.
LITERALS = words("""
    127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 0 0.0.0.0 localhost LOCALHOST
    127.0.0.1. [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:1] [::7f00:1]
    [64:ff9b::7f00:1] [2002:7f00:1::] [fec0::1] [fd00::1] 169.254.169.254 100.64.0.1 192.0.0.8 [3fff::1]
    １２７.0.0.1 ⑫7.0.0.1 127。0。0。1 ⓛocalhost
""")


def client(lookup: Any = None, own_ports: Iterable[int] = (), **settings: Any) -> Outgoing:
    return Outgoing(OutgoingSettings(**{**PUBLIC, **settings}), own_ports=set(own_ports), lookup=lookup)


def answers(**names: list[list[str]]) -> tuple[Any, list[str]]:
    """A resolver under test: each lookup of a name takes the next of its answers. Also the names looked up."""
    asked: list[str] = []

    async def lookup(host: str) -> list[str]:
        asked.append(host)
        listed = names[host.partition(".")[0]]
        return listed[min(asked.count(host), len(listed)) - 1]

    return lookup, asked


async def failure(
    outgoing: Outgoing, url: str, reach: Reach = Reach.SERVER, seconds: float = 5, tenant: str | None = None
) -> OutgoingFailure:
    request = OutgoingRequest(url=url, body=b"{}")
    with pytest.raises(OutgoingError) as caught:
        await outgoing.send(request, reach=reach, seconds=seconds, max_bytes=1000, tenant=tenant)
    return caught.value.failure


@pytest.mark.parametrize("address", REFUSED)
def test_special_addresses_are_refused(address: str):
    assert not AddressRules().permits(address, 443)


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_permitted(address: str):
    assert AddressRules().permits(address, 443)
    assert not AddressRules(public=False).permits(address, 443)


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public(ip: IPv4Address | IPv6Address):
    """Ours is the longer list. Python counts what is not a global unicast address, multicast apart."""
    if ip.is_private or ip.is_multicast or ip.is_loopback or ip.is_link_local or ip.is_reserved or ip.is_unspecified:
        # The exceptions within 192.0.0.0/24 and 2001::/23 are global to Python, and refused here.
        assert not is_public(ip)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_an_ipv6_one_is_judged_as_itself(ip: IPv4Address):
    mapped = str(IPv6Address(0xFFFF << 32 | int(ip)))
    assert AddressRules().permits(mapped, 443) == AddressRules().permits(str(ip), 443)
    assert not AddressRules().permits(str(IPv6Address(0x2002 << 112 | int(ip) << 80)), 443)
    assert not AddressRules().permits(str(IPv6Address(0x64FF9B << 96 | int(ip))), 443)


def test_an_allowed_network_is_permitted_and_its_neighbours_are_not():
    rules = AddressRules([parse_network("10.1.0.0/16"), parse_network("fd00::/8")])
    assert rules.permits("10.1.255.255", 80)
    assert rules.permits("::ffff:10.1.0.1", 80)
    assert rules.permits("fd12::1", 80)
    assert not rules.permits("10.2.0.0", 80)
    assert not rules.permits("fc00::1", 80)


def test_own_ports_are_refused_at_every_address_of_this_machine():
    everywhere = [parse_network("0.0.0.0/0"), parse_network("::/0")]
    rules = AddressRules(everywhere, own_ports=OwnPorts({8090}))
    for ip in ("127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"):
        assert not rules.permits(ip, 8090)
        assert rules.permits(ip, 8091)
    assert rules.permits("192.0.2.1", 8090)


@pytest.mark.parametrize("host", LITERALS)
@pytest.mark.parametrize("reach", Reach)
async def test_no_spelling_of_an_address_reaches_inside(host: str, reach: Reach):
    """The canary listens on every address of this machine, so that what gets through is seen."""
    async with Receiver.listening(host="0.0.0.0") as canary, Receiver.listening(host="::1") as other:
        outgoing = client()
        try:
            for scheme in ("http", "https"):
                for port in (canary.port, other.port):
                    reason = await failure(outgoing, f"{scheme}://{host}:{port}/", reach)
                    assert reason is OutgoingFailure.ADDRESS_NOT_ALLOWED, host
        finally:
            await outgoing.close()
        assert canary.connections == other.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_the_spellings_do_reach_the_canary_where_loopback_is_allowed(host: str):
    """Otherwise the refusals above could have any reason."""
    async with Receiver.listening(host="0.0.0.0") as canary:
        outgoing = client(outgoing_networks=("127.0.0.0/8", "::1"))
        request = OutgoingRequest(url=canary.url(host=host), body=b"{}")
        try:
            answer = await outgoing.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10)
        finally:
            await outgoing.close()
        assert (answer.status, answer.body) == (200, b"ok")
        assert len(canary.received) == 1


async def test_a_name_that_changes_its_answer_is_connected_where_it_was_checked():
    """DNS rebinding: good at the first lookup, inside at the second. There is no second one."""
    async with Receiver.listening() as canary, Receiver.listening() as good:
        # 127.0.0.2 plays the public address; only it is allowed.
        lookup, asked = answers(rebind=[["127.0.0.2"], ["127.0.0.1"]])
        outgoing = client(lookup, outgoing_networks=("127.0.0.2/32",))
        assert await failure(outgoing, f"http://rebind.test:{canary.port}/") is OutgoingFailure.CONNECT
        assert asked == ["rebind.test"]
        # The next connection resolves the name again, and is rejected because of the new answer.
        assert await failure(outgoing, f"http://rebind.test:{good.port}/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
        await outgoing.close()
        assert canary.connections == good.connections == 0


@pytest.mark.parametrize(
    "found", [["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["2606:4700::1", "::1"], ["8.8.8.8", "fe80::1%lo"]]
)
@pytest.mark.parametrize("reach", Reach)
async def test_one_bad_answer_of_two_refuses_the_name(found: list[str], reach: Reach):
    async with Receiver.listening() as canary:
        lookup, _ = answers(mixed=[found])
        outgoing = client(lookup)
        for scheme in ("http", "https"):
            reason = await failure(outgoing, f"{scheme}://mixed.test:{canary.port}/", reach)
            assert reason is OutgoingFailure.ADDRESS_NOT_ALLOWED
        await outgoing.close()
        assert canary.connections == 0


async def test_the_socket_itself_is_guarded():
    """The last step checks every address, even if a compromised resolver supplied it."""
    guard = client().guard(Reach.SERVER)
    with pytest.raises(OutgoingError) as caught:
        guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)))
    assert caught.value.failure is OutgoingFailure.ADDRESS_NOT_ALLOWED


async def test_http_is_for_allowed_networks_alone():
    lookup, _ = answers(public=[["8.8.8.8"]], intranet=[["127.0.0.1"]], both=[["8.8.8.8", "127.0.0.1"]])
    async with Receiver.listening() as receiver:
        outgoing = client(lookup, outgoing_networks=("127.0.0.0/8",))
        port = receiver.port
        assert await failure(outgoing, f"http://public.test:{port}/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
        assert await failure(outgoing, f"http://8.8.8.8:{port}/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
        assert await failure(outgoing, f"http://both.test:{port}/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
        request = OutgoingRequest(url=f"http://intranet.test:{port}/")
        answer = await outgoing.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10)
        await outgoing.close()
    assert answer.status == 200


@pytest.mark.parametrize(
    ("settings", "reached"),
    [
        (ON_LOOPBACK, True),
        ({"host": "localhost", "base_url": "http://127.0.0.1:1"}, True),
        ({"host": "::1", "base_url": "http://[::1]:1"}, True),
        ({"host": "0.0.0.0", "base_url": "http://localhost:8090"}, False),
        ({"host": "127.0.0.1", "base_url": "https://api.example.com"}, False),
        ({"host": "127.0.0.1", "base_url": "http://localhost.example.com"}, False),
        (PUBLIC, False),
    ],
)
async def test_loopback_is_reached_where_host_and_base_url_are_loopback(settings: dict[str, str], reached: bool):
    async with Receiver.listening() as receiver:
        outgoing = client(**settings)
        if reached:
            request = OutgoingRequest(url=receiver.url("/", "localhost"))
            answer = await outgoing.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10)
            assert answer.status == 200
        else:
            assert await failure(outgoing, receiver.url()) is OutgoingFailure.ADDRESS_NOT_ALLOWED
            assert await failure(outgoing, receiver.url(), Reach.FUNCTION) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        # Functions in development reach what webhooks do.
        if reached:
            answer = await outgoing.send(request, reach=Reach.FUNCTION, seconds=60, max_bytes=10)
            assert answer.status == 200
        await outgoing.close()
        assert receiver.connections == 2 * int(reached)


async def test_each_reach_has_its_own_networks_and_its_own_connections():
    """A function cannot use the server's pooled connection to an allowed network."""
    async with Receiver.listening() as receiver:
        outgoing = client(outgoing_networks=("127.0.0.0/8",))
        request = OutgoingRequest(url=receiver.url(host="localhost"))
        await outgoing.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10)
        assert await failure(outgoing, request.url, Reach.FUNCTION) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        await outgoing.close()
        outgoing = client(egress_networks=("127.0.0.0/8",))
        await outgoing.send(request, reach=Reach.FUNCTION, seconds=60, max_bytes=10)
        assert await failure(outgoing, request.url) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        await outgoing.close()
        assert receiver.connections == len(receiver.received) == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"])
async def test_own_ports_are_never_called(host: str):
    async with Receiver.listening() as receiver:
        everything = ("127.0.0.0/8", "::1")
        settings = {**ON_LOOPBACK, "outgoing_networks": everything, "egress_networks": everything}
        outgoing = client(own_ports=[receiver.port], **settings)
        for reach in Reach:
            assert await failure(outgoing, receiver.url(host=host), reach) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        await outgoing.close()
        assert receiver.connections == 0


def test_ports_of_other_nodes_are_refused_where_those_listen():
    own = OwnPorts({8090})
    own.replace_nodes([(None, [8091]), ("127.0.0.1", [8092]), ("10.1.0.7", [8093]), ("fd00::7", [8094])])
    rules = AddressRules([parse_network("0.0.0.0/0"), parse_network("::/0")], own_ports=own)
    for port in (8090, 8091, 8092):
        assert not rules.permits("127.0.0.1", port)
        assert not rules.permits("::1", port)
        assert rules.permits("10.1.0.7", port)
    assert not rules.permits("10.1.0.7", 8093)
    assert not rules.permits("::ffff:10.1.0.7", 8093)
    assert rules.permits("10.1.0.8", 8093)
    assert rules.permits("127.0.0.1", 8093)
    assert not rules.permits("fd00::7", 8094)
    own.replace_nodes([])
    assert rules.permits("10.1.0.7", 8093)
    assert not rules.permits("127.0.0.1", 8090)


async def test_no_port_of_any_node_of_the_cluster_is_called(server: Server):
    """As another server on this machine, with the same database, which listens on other ports."""
    port = urlsplit(server.url).port
    database = Database(address(server), size=1)

    async def is_known() -> bool:
        return any(port in ports for _, ports in await addresses(database))

    await until(is_known)
    async with Receiver.listening() as receiver:
        settings = OutgoingSettings(**ON_LOOPBACK)
        other = Outgoing(settings, own_ports={1}, nodes=lambda: addresses(database))
        for url in (server.url, f"http://localhost:{port}/"):
            assert await failure(other, url) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        request = OutgoingRequest(url=receiver.url())
        assert (await other.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10)).status == 200
        await other.close()
        alone = Outgoing(settings, own_ports={1})
        request = OutgoingRequest(url=f"{server.url}/healthz", method="GET")
        assert (await alone.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10_000)).status == 200
        await alone.close()
    await database.close()


async def test_nodes_that_cannot_be_read_leave_those_that_were(monkeypatch):
    monkeypatch.setattr(outgoing_module, "NODES_SECONDS", -1.0)
    answers_of_the_database = iter([[(None, [1])]])

    async def nodes() -> list[tuple[str | None, list[int]]]:
        try:
            return next(answers_of_the_database)
        except StopIteration:
            raise ConnectionError from None

    outgoing = Outgoing(OutgoingSettings(**ON_LOOPBACK), nodes=nodes)
    for _ in range(3):
        assert await failure(outgoing, "http://127.0.0.1:1/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
    await outgoing.close()


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "API.example.com.", 80, True),
        ("api.example.com", "api.example.com", 8443, False),
        ("api.example.com", "x.api.example.com", 443, False),
        ("api.example.com", "api.example.com.evil.test", 443, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "evilexample.com", 443, False),
        ("api.example.com:8443", "api.example.com", 8443, True),
        ("api.example.com:8443", "api.example.com", 443, False),
    ],
)
def test_hosts_of_an_allowance(pattern: str, host: str, port: int, matches: bool):
    assert parse_host(pattern).matches(host, port) is matches


@pytest.mark.parametrize(
    "text", ["", "*", "*.", "a b", "a..b", "*.*.com", "a:0", "a:65536", "a:", "https://a", "é.com", "a" * 300]
)
def test_what_is_no_host_of_an_allowance(text: str):
    with pytest.raises(ValueError, match="host must be"):
        parse_host(text)


async def test_an_allowance_bounds_hosts_and_bytes_of_an_execution():
    async with Receiver.listening({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer"}) as receiver:
        outgoing = client(egress_networks=("127.0.0.0/8",))
        url = receiver.url(host="127.0.0.1")
        allowance = Allowance([parse_host(f"127.0.0.1:{receiver.port}")], 25)

        async def send(body: bytes = b"1234", given: Allowance = allowance) -> OutgoingResponse:
            request = OutgoingRequest(url=url, body=body)
            return await outgoing.send(request, reach=Reach.FUNCTION, seconds=60, max_bytes=100, allowance=given)

        async def refused(expected: OutgoingFailure, **given: Any) -> None:
            with pytest.raises(OutgoingError) as caught:
                await send(**given)
            assert caught.value.failure is expected

        await refused(OutgoingFailure.HOST_NOT_ALLOWED, given=Allowance([parse_host("example.com")], 25))
        await refused(OutgoingFailure.HOST_NOT_ALLOWED, given=Allowance(None, 25))
        assert len(receiver.received) == 0
        for left in (15, 5):
            assert (await send()).body == b"answer"
            assert allowance.bytes_left == left
        await refused(OutgoingFailure.BYTES_USED_UP, body=b"123456")
        assert len(receiver.received) == 2
        short = Allowance([parse_host(f"127.0.0.1:{receiver.port}")], 9)
        await refused(OutgoingFailure.BYTES_USED_UP, given=short)
        exact = Allowance([parse_host(f"127.0.0.1:{receiver.port}")], 10)
        assert (await send(given=exact)).body == b"answer"
        assert outgoing.refused == {OutgoingFailure.HOST_NOT_ALLOWED: 2, OutgoingFailure.BYTES_USED_UP: 2}
        await outgoing.close()


async def test_refusals_are_counted_by_reason_and_failures_are_not():
    lookup, _ = answers(bad=[["10.0.0.1"]], gone=[["1.1.1.1"]])
    outgoing = client(lookup)
    for url in ("https://bad.test/", "https://10.0.0.1/", "nonsense"):
        await failure(outgoing, url)
    with pytest.raises(OutgoingError):
        await outgoing.check("http://bad.test/", reach=Reach.SERVER)
    with pytest.raises(OutgoingError):
        await outgoing.send(OutgoingRequest(url="https://gone.test/"), reach=Reach.SERVER, seconds=0, max_bytes=1)
    assert outgoing.refused == {OutgoingFailure.ADDRESS_NOT_ALLOWED: 3, OutgoingFailure.INVALID_URL: 1}
    await outgoing.close()


async def test_a_slow_resolver_ends_in_dns_and_delays_nobody():
    waiting = Counter[str]()

    async def lookup(host: str) -> list[str]:
        if host != "quick.test":
            waiting[host] += 1
            try:
                await asyncio.Event().wait()
            finally:
                waiting[host] -= 1
        return ["127.0.0.1"]

    async with Receiver.listening() as receiver:
        outgoing = client(lookup, outgoing_networks=("127.0.0.0/8",))
        urls = [f"http://slow-{number}.test:{receiver.port}/" for number in range(100)]
        slow = [asyncio.create_task(failure(outgoing, url, seconds=60, tenant="attacker")) for url in urls]
        await until(lambda: waiting.total() == CONCURRENT_LOOKUPS)
        request = OutgoingRequest(url=receiver.url(host="quick.test"))
        await outgoing.send(request, reach=Reach.SERVER, seconds=60, max_bytes=10, tenant="another")
        assert not any(task.done() for task in slow)
        assert set(await asyncio.gather(*slow)) == {OutgoingFailure.DNS}
        # A lookup ends with its time limit, and nothing waits for its answer.
        assert waiting.total() == 0
        await outgoing.close()
        assert len(receiver.received) == 1


async def test_a_name_that_was_not_found_is_not_looked_up_again_at_once(monkeypatch: pytest.MonkeyPatch):
    lookup, asked = answers(nowhere=[[], ["127.0.0.1"]])
    async with Receiver.listening() as receiver:
        outgoing = client(lookup, outgoing_networks=("127.0.0.0/8",))
        url = receiver.url(host="nowhere.test")
        for _ in range(3):
            assert await failure(outgoing, url) is OutgoingFailure.DNS
        assert asked == ["nowhere.test"]
        monkeypatch.setattr(outgoing_resolver, "FAILED_SECONDS", 0.0)
        assert await failure(outgoing, url.replace("nowhere", "NOWHERE")) is OutgoingFailure.DNS
        await outgoing.close()
        outgoing = client(lookup, outgoing_networks=("127.0.0.0/8",))
        await outgoing.send(OutgoingRequest(url=url), reach=Reach.SERVER, seconds=60, max_bytes=10)
        await outgoing.close()


def test_a_hosts_file_is_read():
    found = read_hosts("127.0.0.1 localhost\n::1\tlocalhost ip6-localhost # both\n\n# no\n10.0.0.1 A.example b\nx\n")
    assert found == {
        "localhost": ["127.0.0.1", "::1"],
        "ip6-localhost": ["::1"],
        "a.example": ["10.0.0.1"],
        "b": ["10.0.0.1"],
    }


async def test_a_name_that_does_not_resolve_is_dns():
    async def lookup(host: str) -> list[str]:
        raise OSError("no such name")

    outgoing = client(lookup)
    assert await failure(outgoing, "https://nowhere.test/") is OutgoingFailure.DNS
    # When it is saved, a name may come into being later; with http it would have to be an allowed one already.
    await outgoing.check("https://nowhere.test/", reach=Reach.SERVER)
    with pytest.raises(OutgoingError) as caught:
        await outgoing.check("http://nowhere.test/", reach=Reach.SERVER)
    assert caught.value.failure is OutgoingFailure.ADDRESS_NOT_ALLOWED
    await outgoing.close()


async def test_a_url_is_checked_before_it_is_saved():
    lookup, _ = answers(good=[["8.8.8.8"]], bad=[["8.8.8.8", "10.0.0.1"]])
    outgoing = client(lookup)
    await outgoing.check("https://good.test/hook", reach=Reach.SERVER)
    for url, expected in {
        "https://bad.test/": OutgoingFailure.ADDRESS_NOT_ALLOWED,
        "https://10.0.0.1/": OutgoingFailure.ADDRESS_NOT_ALLOWED,
        "http://good.test/": OutgoingFailure.ADDRESS_NOT_ALLOWED,
        "ftp://good.test/": OutgoingFailure.INVALID_URL,
        "https://user@good.test/": OutgoingFailure.INVALID_URL,
    }.items():
        with pytest.raises(OutgoingError) as caught:
            await outgoing.check(url, reach=Reach.SERVER)
        assert caught.value.failure is expected, url
    await outgoing.close()


async def test_an_error_does_not_say_which_address_answered():
    lookup, _ = answers(secret=[["10.11.12.13"]])
    outgoing = client(lookup)
    with pytest.raises(OutgoingError) as caught:
        await outgoing.send(OutgoingRequest(url="https://secret.test/"), reach=Reach.SERVER, seconds=5, max_bytes=1)
    assert "10.11" not in str(caught.value)
    await outgoing.close()
