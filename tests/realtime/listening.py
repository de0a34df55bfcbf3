"""A client of live streams, as a page would write it: events as they come, and a list that stays true."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support import App

Event = tuple[str, dict[str, Any]]


class Listener:
    """An open stream and its events, in their order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ids: list[str] = []
        self.last_id: str | None = None
        self.ready: dict[str, Any] = {}
        self.is_over = False
        self._told = asyncio.Condition()

    async def read(self, answer: httpx.Response) -> None:
        """Read the events of an answer until it ends, or its connection breaks."""
        try:
            await self._read(answer)
        finally:
            async with self._told:
                self.is_over = True
                self._told.notify_all()

    async def _read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields:
                async with self._told:
                    self.events.append((fields["event"], json.loads(fields["data"])))
                    self.ids.append(fields.get("id", ""))
                    self._told.notify_all()
            fields = {}

    async def until(self, holds: Callable[[list[Event]], bool], seconds: float = 15) -> list[Event]:
        """Wait until the events satisfy a condition, and return them."""
        async with asyncio.timeout(seconds), self._told:
            await self._told.wait_for(lambda: holds(self.events))
        return self.events

    async def next(self, number: int = 1) -> list[Event]:
        """Wait for as many events after those that were taken, and take them."""
        await self.until(lambda events: len(events) >= number)
        taken, self.events = self.events[:number], self.events[number:]
        return taken

    async def change(self) -> tuple[str, str, Any]:
        """Take the next event, which is a change: its subscription, its type, and the row's data or None."""
        ((event, data),) = await self.next()
        assert event == "change", (event, data)
        return data["subscription"], data["type"], data["row"].get("data")


@asynccontextmanager
async def listening(
    client: httpx.AsyncClient,
    *subscriptions: dict[str, Any],
    channels: Sequence[dict[str, Any]] = (),
    after: str | None = None,
    stream: str | None = None,
    **headers: str,
) -> AsyncIterator[Listener]:
    """Open a stream with subscriptions and channels, and take its `ready`."""
    body: dict[str, Any] = {"subscriptions": list(subscriptions), "channels": list(channels)}
    body |= {} if after is None else {"after": after}
    body |= {} if stream is None else {"stream": stream}
    async with client.stream("POST", "/v1/public/realtime", json=body, headers=headers, timeout=60) as answer:
        if answer.status_code != 200:
            await answer.aread()
            raise AssertionError(answer.text)
        assert answer.headers["content-type"].startswith("text/event-stream")
        listener = Listener()
        reading = asyncio.create_task(listener.read(answer))
        try:
            ((event, ready),) = await listener.next()
            assert event == "ready", (event, ready)
            listener.ready = ready
            yield listener
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def refused(client: httpx.AsyncClient, *subscriptions: dict[str, Any]) -> httpx.Response:
    """Return the error answer to a stream."""
    return await client.post("/v1/public/realtime", json={"subscriptions": list(subscriptions)})


async def patched(app: App, table: str, row: dict[str, Any], token: str | None = None, **data: Any) -> None:
    """Change a row."""
    async with app.client(token) as client:
        answer = await client.patch(f"/v1/public/tables/{table}/data/{row['id']}", json={"data": data})
    assert answer.status_code == 200, answer.text


async def deleted(app: App, table: str, row: dict[str, Any], token: str | None = None) -> None:
    """Delete a row."""
    async with app.client(token) as client:
        answer = await client.delete(f"/v1/public/tables/{table}/data/{row['id']}")
    assert answer.status_code == 200, answer.text


class TrueList:
    """The rows of a subscription as a page keeps them: read once, then changed by events, and read again at resets."""

    def __init__(self, client: httpx.AsyncClient, table: str, where: dict[str, Any] | None = None) -> None:
        self._client = client
        self._table = table
        self._where = where
        self._seen = 0
        self.rows: dict[str, dict[str, Any]] = {}
        self.told: set[str] = set()
        """Every row that an event has shown, as JSON."""

    async def read(self) -> None:
        """Read the rows."""
        self.rows = await self.asked()

    async def asked(self) -> dict[str, dict[str, Any]]:
        """Return the rows that a query returns."""
        body = {"where": self._where, "limit": 1000, "count": False}
        answer = await self._client.post(f"/v1/public/tables/{self._table}/data/query", json=body)
        if answer.status_code in {401, 403}:
            return {}
        assert answer.status_code == 200, answer.text
        return {row["id"]: row for row in answer.json()["data"]}

    async def follow(self, listener: Listener) -> None:
        """Apply the events that came since."""
        while self._seen < len(listener.events):
            event, data = listener.events[self._seen]
            self._seen += 1
            if event == "reset":
                await self.read()
            elif event == "change":
                self.apply(data)

    def apply(self, data: dict[str, Any]) -> None:
        """Apply a change."""
        row = data["row"]
        if "data" in row:
            self.told.add(json.dumps(row, sort_keys=True))
        mine = self.rows.get(row["id"])
        if mine is not None and mine["updated_at"] > row["updated_at"]:
            return
        if data["type"] in {"leave", "delete"}:
            self.rows.pop(row["id"], None)
        else:
            self.rows[row["id"]] = row

    async def until_true(self, listener: Listener, seconds: float = 15) -> None:
        """Wait until the rows are those that a query returns."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            await self.follow(listener)
            asked = await self.asked()
            if asked == self.rows:
                return
            if asyncio.get_running_loop().time() > deadline:
                assert self.rows == asked, listener.events
            await asyncio.sleep(0.02)
