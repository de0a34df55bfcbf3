"""A load on events: rows whose creation is delivered to a receiver, and shown in a live list."""

import asyncio
import itertools
import json
from contextlib import suppress
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.cluster.checkers.deliveries import Delivery, check_deliveries
from tests.cluster.checkers.history import Finding, Outcome
from tests.cluster.checkers.states import check_live
from tests.cluster.loads.base import Load
from tests.realtime.listening import Listener, TrueList, listening
from tests.receiver import OK, Received, Receiver
from tests.waiting import PATIENCE, until


class EventsLoad(Load):
    """Creates, changes and deletes rows; a client keeps the list of them by a stream that breaks."""

    workers = 1

    async def prepare(self) -> None:
        app = self.place.app
        self.table = await app.table({"number": "int", "state": "string"}, title="tickets")
        self._path = f"/v1/public/tables/{self.table}/data"
        self._listening = Receiver.listening({"/": self._receive})
        self._receiver = await self._listening.__aenter__()
        self._client = self.place.client()
        body = {
            "name": "tickets",
            "url": self._receiver.url("/"),
            "event_types": ["row.created"],
            "table_ids": [self.table],
        }
        async with self.place.console() as console:
            answer = await console.post(f"/v1/apps/{app.app_id}/webhooks", json=body)
        assert answer.status_code == 201, answer.text
        self._signed = Webhook(answer.json()["secret"])
        self._deliveries: list[Delivery] = []
        self._numbers = itertools.count()
        self._rows: list[str] = []
        self._list = TrueList(self._client, self.table)
        self._kept = "no stream yet"
        self._stream = asyncio.create_task(self._follow())
        self.delivered = self.reconnected = 0

    async def begin(self) -> None:
        self._events: dict[int, Outcome] = {}
        self._deliveries = []

    async def work(self, worker: int) -> None:
        number = next(self._numbers)
        body = {"data": {"number": number, "state": "new"}}
        made = await self.place.send(self._client, "POST", self._path, json=body)
        self._events[number] = made.outcome
        if made.acknowledged:
            row = made.body["id"]
            self._rows.append(row)
            await self.place.send(self._client, "PATCH", f"{self._path}/{row}", json={"data": {"state": "old"}})
        if len(self._rows) > 50:
            await self.place.send(self._client, "DELETE", f"{self._path}/{self._rows.pop(0)}")

    async def check(self) -> list[Finding]:
        # What is known of a row whose outcome was unknown: whether it is there. The youngest are not deleted yet.
        page = await self.place.insist(
            self._client, "POST", f"{self._path}/query", json={"limit": 1000, "count": False}
        )
        there = {row["data"]["number"] for row in page["data"]}
        self._rows = [row["id"] for row in page["data"]]
        for number, outcome in self._events.items():
            if outcome is Outcome.UNKNOWN:
                self._events[number] = Outcome.ACKNOWLEDGED if number in there else Outcome.REFUSED
        expected = {number for number, outcome in self._events.items() if outcome is Outcome.ACKNOWLEDGED}

        def arrived() -> bool:
            return expected <= {delivery.subject for delivery in self._deliveries}

        # The checker says what is missing.
        with suppress(AssertionError):
            await until(arrived, PATIENCE)
        await asyncio.sleep(0.5)
        self.delivered += len(self._deliveries)
        return check_deliveries(self._events, self._deliveries) + await self._check_list()

    async def close(self) -> None:
        self._stream.cancel()
        await asyncio.gather(self._stream, return_exceptions=True)
        await self._client.aclose()
        await self._listening.__aexit__(None, None, None)

    async def _check_list(self) -> list[Finding]:
        findings: list[Finding] = []

        async def equal() -> bool:
            body = {"limit": 1000, "count": False}
            page = await self.place.insist(self._client, "POST", f"{self._path}/query", json=body)
            queried = {row["id"]: row["data"] for row in page["data"]}
            findings[:] = check_live({key: row["data"] for key, row in self._list.rows.items()}, queried)
            return not findings

        with suppress(AssertionError):
            await until(equal, 30)
        if self._stream.done():
            # The list is kept no more: that says nothing about the server.
            self._stream.result()
        if findings:
            findings.append(Finding("live rows", f"the list is kept by {self._kept}"))
        return findings

    async def _receive(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Verify a delivery when it comes, since a signature is valid for five minutes."""
        try:
            self._signed.verify(received.body, received.headers)
            signed = True
        except WebhookVerificationError:
            signed = False
        event = json.loads(received.body)
        number = event["data"]["row"]["data"]["number"]
        self._deliveries.append(Delivery(received.headers["webhook-id"], number, _content(event), signed))
        writer.write(OK)
        await writer.drain()

    async def _follow(self) -> None:
        """Keep the list by one stream after another, each of which goes on where the one before it ended."""
        after: str | None = None
        subscription = {"id": "tickets", "table_id": self.table}
        while True:
            try:
                async with listening(self._client, subscription, after=after) as listener:
                    self.reconnected += 1
                    self._kept = f"stream {self.reconnected} after {after}, ready with {listener.ready}"
                    after = await self._keep(listener, is_new=after is None)
                    self._kept += f", which ended at {after} with {listener.events[-1:]}"
            except (httpx.HTTPError, AssertionError, TimeoutError) as error:
                self._kept = f"no stream after {after}: {error!r}"
            await asyncio.sleep(0.2)

    async def _keep(self, listener: Listener, *, is_new: bool) -> str | None:
        """Apply events until the stream ends; return where it ended, or None if the list must be read again."""
        self._list._seen = 0
        try:
            if is_new:
                await self._list.read()
            while not listener.is_over:
                await self._list.follow(listener)
                with suppress(TimeoutError):
                    await listener.until(lambda events: len(events) > self._list._seen or listener.is_over, 1)
            await self._list.follow(listener)
        except (httpx.HTTPError, AssertionError):
            # The rows could not be read, and what the stream told before is not in the list.
            return None
        return listener.last_id


def _content(event: dict[str, Any]) -> bytes:
    return json.dumps(event, sort_keys=True).encode()
