"""Requests to an app's own API from inside, as the console user who merges, or as the server."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from pilotis.http.api.principals import AppItself, AppUser
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import ConflictError

_SECONDS = 60.0
_PAGE_SIZE = 100


class CallInside(Protocol):
    """Serves a call of the API; see `Application.call_inside`."""

    async def __call__(
        self,
        principal: AppUser | AppItself,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        deadline: float,
    ) -> Reply:
        """Return the answer."""


class RejectedError(ConflictError):
    """409 `REJECTED`: an app rejected a request; the message has its code."""

    code = "REJECTED"


class AppInside:
    """An app of this server, and the requests that read and change its definitions."""

    def __init__(self, call: CallInside, principal: AppUser | AppItself) -> None:
        self._call, self._principal = call, principal
        self.app_id = str(principal.app.app_id)
        self.path = f"/v1/apps/{self.app_id}"

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer; `path` is below the app's, or absolute. Raises `RejectedError`."""
        if not path.startswith("/"):
            path = f"{self.path}/{path}"
        deadline = asyncio.get_running_loop().time() + _SECONDS
        encoded = b"" if body is None else json.encode(body)
        reply = await self._call(self._principal, method, path, body=encoded, deadline=deadline)
        assert isinstance(reply.body, bytes)
        answer: Any = json.decode(reply.body)
        if (reply.status or 200) >= 400:
            raise RejectedError(f"{answer['code']}: {answer['message']}")
        return answer

    async def pages(self, path: str) -> list[dict[str, Any]]:
        """Return all things of a list."""
        found = list[dict[str, Any]]()
        while True:
            answer = await self.ask("GET", f"{path}?limit={_PAGE_SIZE}&offset={len(found)}")
            (page,) = (value for value in answer.values() if isinstance(value, list))
            found += page
            if not page or len(found) >= answer["total_count"]:
                return found
