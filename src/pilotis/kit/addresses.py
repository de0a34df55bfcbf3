"""Identifies clients by their addresses."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address


def one_client(address: str) -> str:
    """Return the network that identifies a client: an IPv4 address, or an IPv6 network of 64 bits.

    The owner of one IPv6 address usually controls the whole /64 (RFC 6177, section 2).
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(ip, IPv6Address):
        return address
    return str(ip.ipv4_mapped or IPv6Network((int(ip), 64), strict=False))
