"""Loads on rows: a set that only grows, a bank with counters, a register with conditional writes."""

import asyncio
import itertools
from typing import Any
from uuid import uuid4

import httpx

from tests.cluster.checkers.bank import Increment, check_bank, check_counter
from tests.cluster.checkers.history import Finding, Outcome, Span, Write
from tests.cluster.checkers.registers import MAX_OPERATIONS, Access, check_register
from tests.cluster.checkers.sets import check_set
from tests.cluster.loads.base import Load, Reply

_PAGE = 500


class SetLoad(Load):
    """Creates rows one by one, in bulk, in transactions, and again and again under an idempotency key."""

    workers = 3

    async def prepare(self) -> None:
        self.table = await self.place.app.table({"number": "int"}, title="elements")
        self.path = f"/v1/public/tables/{self.table}/data"
        self._clients = [self.place.client() for _ in range(self.workers)]
        self._numbers = itertools.count()
        self.writes: list[Write] = []
        self.written = 0

    async def begin(self) -> None:
        self.writes = []
        self._first = next(self._numbers)
        self.writes.append(Write(self._first, Outcome.REFUSED))

    async def work(self, worker: int) -> None:
        kind = self.choice.choices([self._one, self._repeated, self._bulk, self._transaction], [4, 3, 1, 1])[0]
        await kind(worker)

    async def check(self) -> list[Finding]:
        end = next(self._numbers)
        self.writes.append(Write(end, Outcome.REFUSED))
        self.written += sum(write.outcome is Outcome.ACKNOWLEDGED for write in self.writes)
        return check_set(self.writes, await self.found(self._clients[0], end))

    async def found(self, client: httpx.AsyncClient, end: int) -> list[int]:
        """Return the numbers of the window that are there, up to an end."""
        found: list[int] = []
        for start in range(self._first, end, _PAGE):
            where = {"number": {"$gte": start, "$lt": min(start + _PAGE, end)}}
            body = {"where": where, "limit": 2 * _PAGE, "count": False}
            page = await self.place.insist(client, "POST", f"{self.path}/query", json=body)
            found += [row["data"]["number"] for row in page["data"]]
        return found

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def _one(self, worker: int) -> None:
        (number,) = self._take(1)
        reply = await self.place.send(self._clients[worker], "POST", self.path, json={"data": {"number": number}})
        self.writes.append(Write(number, reply.outcome, None, reply.span))

    async def _repeated(self, worker: int) -> None:
        """The client repeats until it gets an answer; the key makes one row of it."""
        (number,) = self._take(1)
        headers = {"Idempotency-Key": str(uuid4())}
        client, outcome = self._clients[worker], Outcome.UNKNOWN
        began = asyncio.get_running_loop().time()
        for attempt in range(30):
            reply = await self.place.send(client, "POST", self.path, json={"data": {"number": number}}, headers=headers)
            # Which of several requests was refused says nothing of those before.
            outcome = reply.outcome if reply.acknowledged or attempt == 0 else Outcome.UNKNOWN
            if reply.acknowledged:
                break
            await asyncio.sleep(0.3)
        self.writes.append(Write(number, outcome, None, Span(began, reply.span.ended)))

    async def _bulk(self, worker: int) -> None:
        numbers = self._take(5)
        body = {"data": [{"number": number} for number in numbers]}
        reply = await self.place.send(self._clients[worker], "POST", f"{self.path}/bulk", json=body)
        self.writes += [Write(number, reply.outcome, f"bulk {numbers[0]}", reply.span) for number in numbers]

    async def _transaction(self, worker: int) -> None:
        numbers = self._take(3)
        operations = [{"type": "create", "table_id": self.table, "data": {"number": number}} for number in numbers]
        reply = await self.place.send(
            self._clients[worker], "POST", "/v1/public/transactions", json={"operations": operations}
        )
        self.writes += [Write(number, reply.outcome, f"transaction {numbers[0]}", reply.span) for number in numbers]

    def _take(self, count: int) -> list[int]:
        return list(itertools.islice(self._numbers, count))


class BankLoad(Load):
    """Moves money between accounts by transactions, reads all of them, and increments a counter."""

    workers = 2
    ACCOUNTS = 8
    TOTAL = 800

    async def prepare(self) -> None:
        app = self.place.app
        self._accounts = await app.table({"name": "string", "cents": "int"}, title="accounts")
        self._counters = await app.table({"count": "int"}, title="counters")
        cents = self.TOTAL // self.ACCOUNTS
        self._ids = [
            (await app.row(self._accounts, {"name": f"account {number}", "cents": cents}))["id"]
            for number in range(self.ACCOUNTS)
        ]
        self._clients = [self.place.client() for _ in range(self.workers)]
        self.transfers = 0

    async def begin(self) -> None:
        self._reads: list[dict[str, int]] = []
        self._increments: list[Increment] = []
        self._counts: list[tuple[Span, int]] = []
        self._counter = (await self.place.app.row(self._counters, {"count": 0}))["id"]

    async def work(self, worker: int) -> None:
        client = self._clients[worker]
        kind = self.choice.choices(["transfer", "increment", "read"], [4, 3, 2])[0]
        path = f"/v1/public/tables/{self._counters}/data/{self._counter}"
        if kind == "transfer":
            source, target = self.choice.sample(self._ids, 2)
            cents = self.choice.randint(1, 20)
            operations = [self._add(source, -cents), self._add(target, cents)]
            reply = await self.place.send(client, "POST", "/v1/public/transactions", json={"operations": operations})
            self.transfers += reply.acknowledged
        elif kind == "increment":
            amount = self.choice.randint(1, 5)
            reply = await self.place.send(client, "PATCH", path, json={"data": {"count": {"$inc": amount}}})
            self._increments.append(Increment(reply.span, amount, reply.outcome))
        else:
            await self._read(worker)
            reply = await self.place.send(client, "GET", path)
            if reply.acknowledged and len(self._counts) < 200:
                self._counts.append((reply.span, reply.body["data"]["count"]))

    async def check(self) -> list[Finding]:
        path = f"/v1/public/tables/{self._counters}/data/{self._counter}"
        row = await self.place.insist(self._clients[0], "GET", path)
        now = asyncio.get_running_loop().time()
        self._counts.append((Span(now, now), row["data"]["count"]))
        self._reads.append(await self.balances(self._clients[0]))
        return check_bank(self._reads, self.TOTAL) + check_counter(self._increments, self._counts)

    async def balances(self, client: httpx.AsyncClient) -> dict[str, int]:
        """Return what each account has, of one snapshot."""
        page = await self.place.insist(client, "GET", f"/v1/public/tables/{self._accounts}/data?limit=100")
        return _cents(page)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def _read(self, worker: int) -> None:
        reply = await self.place.send(
            self._clients[worker], "GET", f"/v1/public/tables/{self._accounts}/data?limit=100"
        )
        if reply.acknowledged:
            self._reads.append(_cents(reply.body))

    def _add(self, row: str, cents: int) -> dict[str, Any]:
        return {"type": "update", "table_id": self._accounts, "doc_id": row, "data": {"cents": {"$inc": cents}}}


def _cents(page: dict[str, Any]) -> dict[str, int]:
    return {row["data"]["name"]: row["data"]["cents"] for row in page["data"]}


class RegisterLoad(Load):
    """Reads one row and writes it on condition that it is as it was read."""

    workers = 3

    async def prepare(self) -> None:
        self._table = await self.place.app.table({"value": "int"}, title="registers")
        self._clients = [self.place.client() for _ in range(self.workers)]
        self._values = itertools.count(1)

    async def begin(self) -> None:
        self._accesses: list[Access] = []
        row = await self.place.app.row(self._table, {"value": 0})
        self._path = f"/v1/public/tables/{self._table}/data/{row['id']}"

    async def work(self, worker: int) -> None:
        # With what the other workers are about to add, and the read of the check.
        if len(self._accesses) > MAX_OPERATIONS - 2 * self.workers - 1:
            await asyncio.sleep(0.2)
            return
        client = self._clients[worker]
        reply = await self.place.send(client, "GET", self._path)
        if not reply.acknowledged:
            return
        read = reply.body["data"]["value"]
        self._accesses.append(Access("read", reply.span, read))
        value = next(self._values)
        body = {"data": {"value": value}, "expected_updated_at": reply.body["updated_at"]}
        written = await self.place.send(client, "PATCH", self._path, json=body)
        if self._says_something(written):
            self._accesses.append(Access("write", written.span, value, read, written.outcome))

    async def check(self) -> list[Finding]:
        began = asyncio.get_running_loop().time()
        row = await self.place.insist(self._clients[0], "GET", self._path)
        span = Span(began, asyncio.get_running_loop().time())
        self._accesses.append(Access("read", span, row["data"]["value"]))
        return check_register(self._accesses, 0)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    @staticmethod
    def _says_something(reply: Reply) -> bool:
        """A write that was turned away for another reason than its condition took no effect, and is no access."""
        return reply.outcome is not Outcome.REFUSED or reply.code == "PRECONDITION_FAILED"
