"""Request bodies of any length, read in chunks as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from pilotis.http.api.incoming import Incoming
from pilotis.http.api.request import BodyStalledError

_STALL_SECONDS = 60.0


class Body(AsyncIterator[bytes]):
    """The body of a request, read as it arrives; no more is read than is requested.

    Raises `BodyStalledError`, and `ClientDisconnectedError` if the body ends before its declared length.
    """

    def __init__(self, request: Incoming) -> None:
        self._request = request
        self._pace = request.new_pace()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk, usually of 64 KiB."""
        while not self._request.body_ended:
            if piece := await self._next():
                return piece
        raise StopAsyncIteration

    async def _next(self) -> bytes:
        now = asyncio.get_running_loop().time
        begun = now()
        try:
            async with asyncio.timeout(_STALL_SECONDS):
                message = await self._request.next_message()
        except TimeoutError:
            raise BodyStalledError from None
        piece: bytes = message.get("body", b"")
        self._pace.count(now() - begun, len(piece))
        if self._pace.is_too_slow and not self._request.body_ended:
            raise BodyStalledError
        return piece
