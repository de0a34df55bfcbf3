"""A request as it is read: its headers, and a body of which more may arrive."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

from pilotis.kit.pace import Pace
from pilotis.limits import Limits


class Incoming(Protocol):
    """What reads a request may use of its `Call`, whose endpoint in turn names what reads it.

    `scope` is that of ASGI, `headers` are keyed by lower-case name, and `body_ended` says that the body was read
    completely.
    """

    scope: MutableMapping[str, Any]
    headers: Mapping[bytes, bytes]
    body_ended: bool

    @property
    def limits(self) -> Limits:
        """The limits in force: the app's, or the server's if the request names no app."""
        ...

    def header(self, name: bytes) -> str | None:
        """Return a header's value, or None. The name is in lower case."""
        ...

    def new_pace(self) -> Pace:
        """Return the `Pace` of a transfer of this request."""
        ...

    async def body(self, limit: int) -> bytes:
        """Read the whole body, of at most `limit` bytes; raises `PayloadTooLargeError`."""
        ...

    async def next_message(self) -> MutableMapping[str, Any]:
        """Wait for more of the body, or its end; raises `ClientDisconnectedError`."""
        ...
