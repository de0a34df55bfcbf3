"""The client's address, believed only as far as the proxies in between are trusted."""

from __future__ import annotations

from pilotis.http.call import Scope


def client_address(scope: Scope, trusted_proxies: frozenset[str]) -> str:
    """Return the address of the nearest party that is no trusted proxy.

    `X-Forwarded-For` is read from its right end, and only where the connection itself comes from a trusted proxy:
    everything further left is whatever the client chose to write. Several such headers are one (RFC 9110, 5.3): a
    proxy may add its own line below the one that it was sent.
    """
    client = scope.get("client")
    address = client[0] if client else ""
    if address not in trusted_proxies:
        return address
    lines = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = b",".join(lines).decode("latin-1").split(",")
    for hop in reversed([hop.strip() for hop in hops if hop.strip()]):
        if hop not in trusted_proxies:
            return hop
        address = hop
    return address
