"""Kills, stops and cuts off three processes while rows are written; then compares the receiver's rows with the table's.

    PYTHONPATH=src python -m tests.webhooks.crash [--writes 10000] [--seed 1]

Processes get `kill -9`, or SIGSTOP until their lease is over, and PostgreSQL is shut down or killed. What must hold
afterwards: each row that is in the table has arrived, and no other; every repeat has the `Idempotency-Key` of the
first; no attempt is recorded under a fence older than that of the attempt before it.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx

from tests.conftest import first_console_user, new_app
from tests.console import database_of
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import PATIENCE, children, until
from tests.webhooks.world import FAST, create

WRITERS = 8
WRITES_TO_DISTURBANCE = 100
LEASE_SECONDS = 2
ENVIRONMENT = {
    **FAST,
    # What fails is tried again soon, and often enough for every disturbance.
    "PILOTIS_WEBHOOK_SCHEDULE": ",".join(["0", *["0.2"] * 90]),
    "PILOTIS_WORKERS": "3",
    "PILOTIS_NODE_LEASE_SECONDS": str(LEASE_SECONDS),
}
KINDS = ("kill", "stop", "kill", "database")


@dataclass
class Outcome:
    """What came of a run: rows in the table, requests at the receiver, and disturbances by kind."""

    rows: int = 0
    requests: int = 0
    disturbances: Counter[str] = field(default_factory=Counter)


class Crash:
    """One run: writers beside a disturber, and a receiver."""

    def __init__(self, directory: Path, writes: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = Server(directory / "data", environment=ENVIRONMENT)
        self.writes = writes
        self.begun = self.answered = 0
        self.keys: dict[str, set[str]] = {}
        self.seen = 0
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Write and disturb, then compare; raises `AssertionError` with what is wrong."""
        await asyncio.to_thread(self.server.start)
        try:
            app = new_app(self.server, first_console_user(self.server))
            table_id = await app.table({"n": "int"})
            async with Receiver.listening() as receiver:
                webhook = await create(app, receiver.url(), ["row.created"], max_in_flight=16)
                writing = asyncio.gather(*(self._write(app, table_id) for _ in range(WRITERS)))
                disturbing = asyncio.create_task(self._disturb_often(writing))
                await asyncio.gather(writing, disturbing)
                await self._compare(app, table_id, webhook.id, receiver)
        finally:
            await asyncio.to_thread(self.server.stop)
        return self.outcome

    async def _write(self, app: App, table_id: str) -> None:
        """Write rows until enough are acknowledged and each kind of disturbance has been; others may be there too."""
        while self.answered < self.writes or not self.outcome.disturbances.keys() >= set(KINDS):
            self.begun += 1
            try:
                async with app.client() as client:
                    path = f"/v1/public/tables/{table_id}/data"
                    answer = await client.post(path, json={"data": {"n": self.begun}})
                if answer.status_code == 201:
                    self.answered += 1
                    continue
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.1)

    async def _disturb_often(self, writing: asyncio.Future[list[None]]) -> None:
        kinds = iter(KINDS)
        while not writing.done():
            # So many writes, not so much time: at any pace something is done and something is cut off.
            goal = self.answered + self.random.randrange(WRITES_TO_DISTURBANCE // 2, WRITES_TO_DISTURBANCE)
            await until(lambda goal=goal: self.answered >= goal or writing.done(), 10 * PATIENCE)
            kind = next(kinds, None) or self.random.choice(KINDS)
            if kind == "database" and self.outcome.disturbances[kind] >= 4:
                # The server waits twice as long before it starts PostgreSQL each time.
                kind = "kill"
            await self._disturb(kind)
            self.outcome.disturbances[kind] += 1

    async def _disturb(self, kind: str) -> None:
        if kind == "database":
            os.kill(await until(self._postmaster), self.random.choice([signal.SIGINT, signal.SIGKILL]))
            await asyncio.sleep(1)
            return
        victim = self.random.choice(await until(self._workers))
        # It may have ended by itself a moment ago.
        with suppress(ProcessLookupError):
            if kind == "kill":
                os.kill(victim, signal.SIGKILL)
                return
            os.kill(victim, signal.SIGSTOP)
            await asyncio.sleep(LEASE_SECONDS * 1.5)
            os.kill(victim, signal.SIGCONT)

    def _workers(self) -> list[int]:
        """The processes that answer requests: forks of the server's, so with the same command line."""
        assert self.server.process is not None
        own = _command(self.server.process.pid)
        return [pid for pid in children(self.server.process.pid) if _command(pid) == own]

    def _postmaster(self) -> int | None:
        """The process that has started PostgreSQL's others."""
        with suppress(FileNotFoundError):
            return int((self.server.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        return None

    async def _compare(self, app: App, table_id: str, webhook_id: str, receiver: Receiver) -> None:
        assert self.server.process is not None
        assert self.server.process.poll() is None, self.server.logs()
        rows = await until(lambda: self._rows(app, table_id))
        assert len(rows) >= self.answered
        while not self._arrived(receiver) >= rows:
            # As long as some arrive all is well.
            seen = len(self.keys)
            await until(lambda seen=seen: len(self._arrived(receiver)) > seen)
        assert self.keys.keys() == rows
        assert all(len(keys) == 1 for keys in self.keys.values()), "a repeat had another key"
        async with database_of(self.server) as database:
            attempts = await database.fetch(
                """
                select a.delivery_id, a.fence from pilotis.delivery_attempts a
                join pilotis.deliveries d using (app_id, delivery_id) where d.target_id = $1 order by a.number
                """,
                UUID(webhook_id),
            )
        last: dict[UUID, int] = {}
        for attempt in attempts:
            assert attempt["fence"] >= last.get(attempt["delivery_id"], 0), "recorded under an old fence"
            last[attempt["delivery_id"]] = attempt["fence"]
        self.outcome.rows, self.outcome.requests = len(rows), self.seen

    def _arrived(self, receiver: Receiver) -> set[str]:
        for request in receiver.received:
            row_id = json.loads(request.body)["data"]["row"]["id"]
            self.keys.setdefault(row_id, set()).add(request.headers["idempotency-key"])
        self.seen += len(receiver.received)
        receiver.received.clear()
        return set(self.keys)

    async def _rows(self, app: App, table_id: str) -> set[str] | None:
        """The ids of the table's rows; None while PostgreSQL is away."""
        name = f"app_{UUID(app.app_id).hex}.t_{UUID(table_id).hex}"
        try:
            async with database_of(self.server) as database:
                return {str(row["__id"]) for row in await database.fetch(f"select __id from {name}")}
        except (AssertionError, OSError, asyncpg.PostgresError):
            return None


def _command(pid: int) -> bytes | None:
    """The command line of a process (proc(5)); None for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None


def main() -> None:
    """Run once and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        outcome = asyncio.run(Crash(Path(directory), given.writes, given.seed).run())
    disturbances = ", ".join(f"{number} {kind}" for kind, number in outcome.disturbances.items())
    print(
        f"{given.writes} acknowledged writes, {disturbances}: {outcome.rows} rows, each of them arrived and no other,"
        f" by {outcome.requests} requests"
    )


if __name__ == "__main__":
    main()
