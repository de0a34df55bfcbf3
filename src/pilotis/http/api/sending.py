"""Sending answers: early ones, before the body was read, streams and files."""

from __future__ import annotations

import asyncio
import contextlib
import os

from pilotis.http.api.cors import Headers
from pilotis.http.api.request import Call, ClientDisconnectedError, Send
from pilotis.http.replies.reply import FilePart, Stream
from pilotis.http.server.sendfile import send_file as _send_from_file

_SMALL_REST = 64 * 1024
_LINGER_SECONDS, _LINGER_PAUSE = 30.0, 3.0


async def send_early(call: Call, status: int, headers: Headers, body: bytes, send: Send) -> None:
    """Answer a request whose body has not been read completely.

    Most clients send their body before they read an answer, and closing a connection with unread bytes discards the
    answer (RFC 9112, section 9.6). So the body is read, within limits: a small rest at once, so that the connection
    stays open; a large one after the answer and before the close, for half a minute while it arrives. A client that
    waits for `100 Continue` has not sent anything.
    """
    waits = call.headers.get(b"expect", b"").lower() == b"100-continue"
    if not waits:
        await call.discard(_SMALL_REST, 0.5)
    closing = call.has_unread_body
    if closing:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": closing})
    if closing:
        with contextlib.suppress(ClientDisconnectedError):
            if not waits:
                await call.linger(_LINGER_SECONDS, _LINGER_PAUSE)
        await send({"type": "http.response.body", "body": b""})


async def send_stream(call: Call, status: int, headers: Headers, body: Stream, send: Send) -> None:
    """Send a body in chunks until the client disconnects; `send` waits for a slow client."""
    async with contextlib.aclosing(body.chunks):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if call.scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        gone = asyncio.ensure_future(call.disconnected())
        try:
            async for chunk in body.chunks:
                if gone.done():
                    raise ClientDisconnectedError
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                call.sent += len(chunk)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})


async def send_file(call: Call, status: int, headers: Headers, body: FilePart, send: Send) -> None:
    """Send part of a file until the client disconnects, and close it."""
    sending: asyncio.Future[None] | None = None
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        assert call.cycle is not None
        sending = asyncio.ensure_future(_send_from_file(call.cycle, body.file, body.start, body.size, call.new_pace()))
        gone = asyncio.ensure_future(call.disconnected())
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.wait([sending])
        if sending.cancelled():
            raise ClientDisconnectedError
        sending.result()
        call.sent = body.size
        await send({"type": "http.response.body", "body": b""})
    finally:
        if sending is None:
            os.close(body.file)
        else:
            # A thread uses the file until this has ended, for which nobody waits who is cancelled twice.
            sending.add_done_callback(lambda _: os.close(body.file))
