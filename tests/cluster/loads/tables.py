"""A load on schemas: one client adds and drops a column, others write rows with and without it."""

import asyncio

from tests.cluster.checkers.history import Finding, Outcome, Span
from tests.cluster.checkers.schemas import ColumnWrite, SchemaChange, check_schema
from tests.cluster.loads.base import Load

_WITHOUT, _WITH = frozenset({"text"}), frozenset({"text", "extra"})
_STRAY_SECONDS = 10.0
"""How long a change with an unknown outcome may still be on its way: longer than the server waits for its statement."""


class SchemaLoad(Load):
    """Worker 0 changes the schema, the others write."""

    workers = 2

    async def prepare(self) -> None:
        self._table = await self.place.app.table({"text": "string"}, title="changing")
        self._path = f"/v1/public/tables/{self._table}"
        self._clients = [self.place.client() for _ in range(self.workers)]
        self._has_extra = False
        self.changes_made = 0

    async def begin(self) -> None:
        now = asyncio.get_running_loop().time()
        self._changes = [SchemaChange(Span(now, now), self._columns)]
        self._writes: list[ColumnWrite] = []

    async def work(self, worker: int) -> None:
        if worker == 0:
            await self._change()
            await asyncio.sleep(0.5)
            return
        columns = self.choice.choice([_WITHOUT, _WITH])
        body = {"data": dict.fromkeys(columns, "x")}
        reply = await self.place.send(self._clients[worker], "POST", f"{self._path}/data", json=body)
        if reply.acknowledged or reply.code == "UNKNOWN_COLUMN":
            self._writes.append(ColumnWrite(reply.span, columns, reply.outcome))

    async def check(self) -> list[Finding]:
        page = await self.place.insist(self._clients[1], "GET", f"{self._path}/data?limit=1000")
        return check_schema(self._changes, self._writes, [frozenset(row["data"]) for row in page["data"]])

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    @property
    def _columns(self) -> frozenset[str]:
        return _WITH if self._has_extra else _WITHOUT

    async def _change(self) -> None:
        """Add or drop the column, and go on only when it is known whether that was done."""
        began = asyncio.get_running_loop().time()
        client = self._clients[0]
        while True:
            if self._has_extra:
                reply = await self.place.send(client, "DELETE", f"{self._path}/columns/extra")
            else:
                body = {"name": "extra", "data_type": "string"}
                reply = await self.place.send(client, "POST", f"{self._path}/columns", json=body)
            if reply.acknowledged or reply.code in {"COLUMN_EXISTS", "COLUMN_NOT_FOUND"}:
                break
            # One that is still on its way would undo a later change.
            await asyncio.sleep(_STRAY_SECONDS if reply.outcome is Outcome.UNKNOWN else 0.5)
        self._has_extra = not self._has_extra
        self.changes_made += 1
        self._changes.append(SchemaChange(Span(began, reply.span.ended), self._columns))
