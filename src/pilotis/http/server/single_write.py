"""Complete answers in a single write: head and body are joined and leave in one packet.

uvicorn's `send` processes each header separately and writes head and body separately, which costs as much as routing
and authentication. What uvicorn records about an answer is recorded here too.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from pilotis.http.api.cors import Headers

_CONTROLS = bytes([*range(0x20), 0x7F]).replace(b"\t", b"")


def header_lines(headers: Headers) -> bytes:
    """Return the lines of the headers (RFC 9112, section 5); raises `ValueError` for a control character in one."""
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    if len(lines) - len(lines.translate(None, _CONTROLS)) != 2 * len(headers):
        raise ValueError("A header of an answer contains a control character.")
    return lines


async def send_whole(cycle: RequestResponseCycle, status: int, lines: bytes, body: bytes) -> None:
    """Send a complete answer to uvicorn's current request; `lines` are its header lines, including `content-length`."""
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    if cycle.scope["method"] == "HEAD":
        body = b""
    parts = [STATUS_LINE[status], *[b"%b: %b\r\n" % header for header in cycle.default_headers], lines]
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
    cycle.transport.write(b"".join([*parts, b"\r\n", body]))
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


_heads: dict[int, tuple[Headers, bytes]] = {}


def direct_head(status: int, default_headers: Headers) -> bytes:
    """Return the status line and the headers of every answer, which uvicorn replaces once a second."""
    known = _heads.get(status)
    if known is None or known[0] is not default_headers:
        lines = b"".join([b"%b: %b\r\n" % header for header in default_headers])
        known = _heads[status] = (default_headers, STATUS_LINE[status] + lines)
    return known[1]
