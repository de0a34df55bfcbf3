"""Which addresses an outgoing connection may reach: public ones, and networks that the operator allows. Pure.

The lists follow the IANA special-purpose address registries (RFC 6890) and are longer than those of
`ipaddress.is_private`, which considers 100.64.0.0/10 and several others public.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

_SPECIAL_4 = [
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
    )
]
# Link-local, unique local, multicast, NAT64 and IPv4-compatible addresses are all outside this network.
_GLOBAL_6 = IPv6Network("2000::/3")
# Teredo, ORCHID and benchmarking; documentation, twice; 6to4, which carries any IPv4 address; AS112.
_SPECIAL_6 = [
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
]


IpAddress = IPv4Address | IPv6Address


class OwnPorts:
    """Addresses and ports on which the server's own processes listen, on this machine and on others of the cluster."""

    def __init__(self, here: Iterable[int] = ()) -> None:
        self._own = frozenset(here)
        self._here = self._own
        self._elsewhere: frozenset[tuple[IpAddress, int]] = frozenset()

    def replace_nodes(self, nodes: Iterable[tuple[str | None, Collection[int]]]) -> None:
        """Set the processes of the cluster, each with its ports and its address, which is None on this machine."""
        here, elsewhere = set(self._own), set[tuple[IpAddress, int]]()
        for address, ports in nodes:
            ip = None if address is None else _unwrapped(address)
            if ip is None or _is_this_machine(ip):
                here.update(ports)
            else:
                elsewhere.update((ip, port) for port in ports)
        self._here, self._elsewhere = frozenset(here), frozenset(elsewhere)

    def include(self, ip: IpAddress, port: int) -> bool:
        """Return whether one of the server's processes may listen at the address and port."""
        return (ip, port) in self._elsewhere or (port in self._here and _is_this_machine(ip))


class AddressRules:
    """Determines whether an address and port may be reached."""

    def __init__(
        self,
        allowed: Iterable[Network] = (),
        *,
        public: bool = True,
        own_ports: OwnPorts | None = None,
    ) -> None:
        """`public` permits public addresses in addition to the networks; `own_ports` are never permitted."""
        self._allowed = tuple(allowed)
        self._public = public
        self._own_ports = own_ports or OwnPorts()

    def is_own(self, address: str, port: int) -> bool:
        """Return whether one of the server's processes may listen there. Raises `ValueError` as `permits` does."""
        return "%" not in address and self._own_ports.include(_unwrapped(address), port)

    def permits(self, address: str, port: int) -> bool:
        """Return whether a connection to the address is permitted. Raises `ValueError` for an invalid IP address."""
        if "%" in address:
            return False
        ip = _unwrapped(address)
        if not (_is_within(ip, self._allowed) or (self._public and is_public(ip))):
            return False
        return not self._own_ports.include(ip, port)


def is_public(ip: IPv4Address | IPv6Address) -> bool:
    """Return whether the address is a public unicast address."""
    if isinstance(ip, IPv4Address):
        return not _is_within(ip, _SPECIAL_4)
    return ip in _GLOBAL_6 and not _is_within(ip, _SPECIAL_6)


def is_loopback(host: str) -> bool:
    """Return whether a host, an address (also in brackets) or a name, is the loopback by its form."""
    try:
        return _is_within(_unwrapped(host.strip("[]")), LOOPBACK)
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def serves_this_machine(host: str, base_url: str) -> bool:
    """Return whether a server listens only on loopback, where its URL is too if it has one: a developer's machine."""
    return is_loopback(host) and is_loopback(urlsplit(base_url).hostname or host)


def parse_network(text: str) -> Network:
    """Parse a network such as `10.1.0.0/16`; a bare address is a network of one. Raises `ValueError`."""
    return ip_network(text)


def _unwrapped(address: str) -> IPv4Address | IPv6Address:
    """Return the address; one of `::ffff:0:0/96` becomes the IPv4 address that it contains (RFC 4291, 2.5.5.2)."""
    ip = ip_address(address)
    return (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip


def _is_within(ip: IPv4Address | IPv6Address, networks: Iterable[Network]) -> bool:
    return any(ip in network for network in networks)


def _is_this_machine(ip: IPv4Address | IPv6Address) -> bool:
    """Return whether the address belongs to this machine, which is the case if a socket can be bound to it."""
    if ip.is_loopback or ip.is_unspecified:
        return True
    family = socket.AF_INET if isinstance(ip, IPv4Address) else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError:
            return False
    return True
