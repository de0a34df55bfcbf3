"""A mixed load for long: `python -m bench.soak --minutes 60`. It prints a line each minute, and what grew at the end.

One client after another creates, reads, changes, queries and deletes rows, signs in, and changes the rows of a table
with a webhook, whose receiver counts what arrives: some 70 requests a second. The status is 1 if a request failed or
a delivery did not arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from bench.servers import Pilotis

_CLIENTS = 4
_TURNS_A_SECOND = 16.0
_SIGN_IN_SECONDS = 5.0
"""Sign-ins from one address are limited by the minute."""
_PASSWORD = "correct horse battery"
_KEPT = 2_000
_SCHEMA = {"text": {"type": "string"}, "number": {"type": "int"}}
_PATIENCE_SECONDS = 120.0
_LARGEST = """
    select relname, pg_total_relation_size(c.oid) / 1e6 as megabytes from pg_class c
    where relkind = 'r' and relnamespace = 'pilotis'::regnamespace order by 2 desc limit 8
"""


class Soak:
    """The load on one server, and what has happened so far."""

    def __init__(self, pilotis: Pilotis, app_id: str, headers: dict[str, str]) -> None:
        self._pilotis = pilotis
        self._app = f"/v1/apps/{app_id}"
        self._headers = headers
        self.requests = 0
        self.changes = 0
        self.received = 0
        self.failures: Counter[str] = Counter()
        self.seconds: list[float] = []
        self._rows: list[str] = []
        self._numbers = itertools.count()
        self._began = self._signs_in_at = time.monotonic()
        self._delivered = asyncio.Event()

    async def prepare(self) -> None:
        """Make the table, a member, and a webhook to a receiver in this process."""
        server = await asyncio.start_server(self._deliver, "127.0.0.1", 0)
        receiver = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with httpx.AsyncClient(base_url=self._pilotis.url, headers=self._headers, timeout=60) as client:
            body = {"title": "soak", "access_level": "Public", "schema": _SCHEMA}
            made = (await client.post("/v1/public/tables", json=body)).raise_for_status().json()
            self._path = f"/v1/public/tables/{made['id']}/data"
            await client.post("/v1/public/app-members/signup", json={"login_id": "ada", "password": _PASSWORD})
            hook = {"name": "soak", "url": receiver, "event_types": ["row.*"], "table_ids": [made["id"]]}
            (await client.post(f"{self._app}/webhooks", json=hook)).raise_for_status()

    async def run(self, until: float) -> None:
        """Send requests one after another until a time of `time.monotonic`."""
        # A token would expire within the hour.
        public = {name: value for name, value in self._headers.items() if name.lower() != "authorization"}
        async with httpx.AsyncClient(base_url=self._pilotis.url, headers=public, timeout=60) as client:
            while time.monotonic() < until:
                await self._turn(client)

    async def _turn(self, client: httpx.AsyncClient) -> None:
        number = next(self._numbers)
        await asyncio.sleep(self._began + number / _TURNS_A_SECOND - time.monotonic())
        row = {"data": {"text": f"text {number}", "number": number}}
        if made := await self._send(client, "POST", self._path, json=row):
            self.changes += 1
            self._rows.append(made["id"])
            path = f"{self._path}/{made['id']}"
            await self._send(client, "GET", path)
            if await self._send(client, "PATCH", path, json={"data": {"number": -number}}):
                self.changes += 1
        await self._send(client, "POST", f"{self._path}/query", json={"where": {"number": {"$lt": 0}}, "limit": 20})
        if time.monotonic() > self._signs_in_at:
            self._signs_in_at += _SIGN_IN_SECONDS
            credentials = {"login_id": "ada", "password": _PASSWORD}
            await self._send(client, "POST", "/v1/public/app-members/signin", json=credentials)
        if len(self._rows) > _KEPT:
            gone = f"{self._path}/{self._rows.pop(0)}"
            if await self._send(client, "DELETE", gone):
                self.changes += 1

    async def _send(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        began = time.perf_counter()
        self.requests += 1
        try:
            answer = await client.request(method, path, **options)
        except httpx.HTTPError as error:
            self.failures[type(error).__name__] += 1
            return None
        self.seconds.append(time.perf_counter() - began)
        if answer.is_error:
            self.failures[f"{answer.status_code} {answer.text[:80]}"] += 1
            return None
        found: dict[str, Any] = answer.json()
        return found

    async def _deliver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.lower().split(b"\r\n")
                length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
                await reader.readexactly(length)
                self.received += 1
                self._delivered.set()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    async def arrived(self) -> bool:
        """Wait until every change was delivered, as long as some arrive."""
        with suppress(TimeoutError):
            while self.received < self.changes:
                self._delivered.clear()
                await asyncio.wait_for(self._delivered.wait(), _PATIENCE_SECONDS)
        return self.received >= self.changes

    def line(self, minute: int) -> str:
        """Return what happened in the last minute, and start the next."""
        ordered = sorted(self.seconds) or [0.0]
        self.seconds = []
        p50, p99 = (1000 * ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
        memory = self._pilotis.memory()["Rss"]
        return (
            f"{minute:6}{self.requests:10}{sum(self.failures.values()):9}{p50:9.1f}{p99:9.1f}{memory:9.0f}"
            f"{self.changes:10}{self.received:10}"
        )


async def soak(pilotis: Pilotis, minutes: float) -> int:
    """Run, print, and return the status."""
    load = Soak(pilotis, *pilotis.owned_app())
    await load.prepare()
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    before = {row["relname"]: row["megabytes"] for row in await connection.fetch(_LARGEST)}
    print("minute  requests   failed   p50 ms   p99 ms   RSS MB   changes delivered", flush=True)
    end = time.monotonic() + 60 * minutes
    running = [asyncio.create_task(load.run(end)) for _ in range(_CLIENTS)]
    minute = 0
    while time.monotonic() < end:
        await asyncio.sleep(min(60, max(0, end - time.monotonic())))
        minute += 1
        print(load.line(minute), flush=True)
    await asyncio.gather(*running)
    is_complete = await load.arrived()
    for row in await connection.fetch(_LARGEST):
        name, now = row["relname"], row["megabytes"]
        print(f"{name:26}{before.get(name, 0):9.1f} to {now:9.1f} MB")
    await connection.close()
    for failure, number in load.failures.most_common(5):
        print(f"failed {number} times: {failure}")
    print(f"deliveries: {load.received} of {load.changes} changes")
    return int(bool(load.failures) or not is_complete)


def main() -> int:
    """Start a server, and soak it."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    os.environ["PILOTIS_OUTGOING_NETWORKS"] = "127.0.0.0/8"  # the receiver is in this process
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as pilotis:
        return asyncio.run(soak(pilotis, options.minutes))


if __name__ == "__main__":
    sys.exit(main())
