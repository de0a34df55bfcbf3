"""The client's address, according to the trusted proxies."""

from __future__ import annotations

from pilotis.http.api.request import Scope


def client_address(scope: Scope, trusted_proxies: frozenset[str]) -> str:
    """Return the address of the nearest hop that is not a trusted proxy.

    `X-Forwarded-For` is read from its right end, and only if the connection itself comes from a trusted proxy: a client
    can write anything further left. Several such headers count as one (RFC 9110, 5.3): a proxy may append its own line.
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
