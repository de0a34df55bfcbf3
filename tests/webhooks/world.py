"""Webhooks of an app by the console's routes, and servers whose schedule runs in seconds."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from tests.console import ConsoleClient, owner_of
from tests.receiver import Received, Receiver
from tests.support import App, assert_error
from tests.waiting import until

FAST = {
    "PILOTIS_WEBHOOK_SCHEDULE": "0,0.05,0.1,0.1",
    "PILOTIS_WEBHOOK_BREAKER_SECONDS": "0.1",
    "PILOTIS_LIMITS_WEBHOOK_TESTS_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_WEBHOOK_PENDING": "2000",
}
"""A schedule of four attempts within a second, and at most 2,000 pending deliveries."""


@dataclass
class Webhook:
    """A webhook of an app."""

    app: App
    id: str
    secret: str
    created: dict[str, Any]

    async def call(self, method: str, path: str = "", **options: Any) -> dict[str, Any]:
        """Call a route below the webhook's and return what it answers with 200."""
        answer = await self.answer(method, path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def answer(self, method: str, path: str = "", **options: Any) -> httpx.Response:
        async with console(self.app) as client:
            return await client.request(method, f"/webhooks/{self.id}{path}", **options)

    async def read(self) -> dict[str, Any]:
        return await self.call("GET")

    async def change(self, **values: Any) -> dict[str, Any]:
        return await self.call("PUT", json=values)

    async def logs(self, **query: Any) -> list[dict[str, Any]]:
        return (await self.call("GET", "/logs", params={"limit": 1000, **query}))["data"]

    async def ended(self, number: int = 1, **query: Any) -> list[dict[str, Any]]:
        """Wait until so many deliveries have ended, and return all of them."""

        async def look() -> list[dict[str, Any]] | None:
            found = await self.logs(**query)
            is_over = len(found) >= number and all(one["status"] != "pending" for one in found)
            return found if is_over else None

        return await until(look)

    async def status(self, status: str) -> dict[str, Any]:
        """Wait until the webhook has a status, and return it."""

        async def look() -> dict[str, Any] | None:
            found = await self.read()
            return found if found["status"] == status else None

        return await until(look)


def console(app: App) -> ConsoleClient:
    """A client of an app's console routes, as its owner."""
    return owner_of(app).client(app)


async def create(app: App, url: str, types: Sequence[str] = ("row.*",), **values: Any) -> Webhook:
    """Create a webhook, with as much time for an answer as one can have: the machine may be busy."""
    body = {"url": url, "event_types": list(types), "timeout_seconds": 30, **values}
    async with console(app) as client:
        answer = await client.post("/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    created = answer.json()
    return Webhook(app, created["id"], created["secret"], created)


async def refused(app: App, status: int, code: str, **values: Any) -> dict[str, Any]:
    """Try to create a webhook that is refused, and return the error."""
    body = {"url": "https://example.com/hooks", "event_types": ["row.*"], **values}
    async with console(app) as client:
        return assert_error(await client.post("/webhooks", json=body), status, code)


async def received(receiver: Receiver, number: int = 1) -> list[Received]:
    """Wait until the receiver has so many requests, and return all of them."""
    await until(lambda: len(receiver.received) >= number)
    return receiver.received


def events(receiver: Receiver) -> list[dict[str, Any]]:
    """What the receiver was sent, decoded."""
    return [json.loads(request.body) for request in receiver.received]


def answering(*answers: bytes) -> Any:
    """Return an answer for a receiver that gives these one after the other, and then the last one."""
    left = list(answers)

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return answer


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of an answer."""
    lines = [f"HTTP/1.1 {code} X", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
