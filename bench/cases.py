"""What is measured: for each case the requests to Pilotis and, where there is one, to the baseline."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from bench import data
from bench.baseline import Plan, Statement
from bench.expert import Expert
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.apps.keys import PUBLIC_PREFIX, app_of
from pilotis.data.tables import store
from pilotis.db.pool import Database

BULK = 1000
PASSWORD = "correct horse battery"
_MEMBERS = 32
SIGN_IN = "sign-in"
PAGES = "other pages"
CHANGE = "change of a row"
CREATES = "transaction of creates"
UPDATES = "transaction of updates and a create"
_SIGNING_IN = 4 * (os.cpu_count() or 1)
_AGED = data.text({"data": {"age": {"$inc": 1}}})
_TRANSACTIONS = "/v1/public/transactions"
_OFFSETS = [offset for offset in range(500) if offset % 50]


class Case(msgspec.Struct, frozen=True):
    """A benchmark. `goal` is the minimum ratio to the baseline, or the minimum number of `unit` per second."""

    name: str
    requests: Requests
    beside: Requests | None = None
    connections: int = 32
    goal: float | None = None
    units: int = 1


class Stage:
    """A filled table on a running Pilotis."""

    def __init__(self, pilotis: Pilotis, rows: int) -> None:
        self._pilotis = pilotis
        self.table_id = _new_table(pilotis, "measured")
        self._path = f"/v1/public/tables/{self.table_id}/data"
        # Queries give the measured one an index, sooner or later, which takes PostgreSQL as long as the rows.
        self._filled = f"/v1/public/tables/{_new_table(pilotis, 'filled')}/data"
        self.ids: list[str] = []
        for start in range(0, rows, BULK):
            batch = [data.row(number) for number in range(start, min(start + BULK, rows))]
            made = pilotis.post(f"{self._path}/bulk", {"data": batch})
            self.ids += [item["id"] for item in made["created"]]
        for number in range(_MEMBERS):
            pilotis.post("/v1/public/app-members/signup", credentials(number))

    def plan(self) -> Plan:
        """Return the best statements for these cases, for the baseline to run."""
        return asyncio.run(self._plan())

    async def _plan(self) -> Plan:
        connect_arguments = self._pilotis.connect_arguments()
        app_id = app_of(self._pilotis.headers["X-Public-Key"], PUBLIC_PREFIX)
        assert app_id is not None
        database = Database(connect_arguments, size=1)
        record = await store.live_table(database.of(app_id), app_id, UUID(self.table_id))
        assert record is not None
        # Statistics as a table of this size has them after its first minute.
        await database.execute(f"vacuum analyze app_{app_id.hex}.t_{UUID(self.table_id).hex}")
        await database.close()
        expert = Expert(record.schema)
        return Plan(
            connect_arguments,
            10,
            expert.row,
            expert.create,
            Statement(expert.page("0"), []),
            Statement(expert.page("$1::bigint"), []),
            Statement(expert.deep_page, []),
            [expert.query(city) for city in data.CITIES],
        )

    def cases(self) -> list[Case]:
        """Return every case, in the order in which they run: those that write come last."""
        path = self._path
        rows = [data.row(number) for number in range(10 * BULK)]
        creates = [data.text({"data": row}) for row in rows]
        bulk = [data.text({"data": rows[start : start + BULK]}) for start in range(0, len(rows), BULK)]
        sign_ins = [data.text(credentials(number)) for number in range(_MEMBERS)]
        deep = range(len(self.ids) // 10, len(self.ids), 37)
        pages = [f"/list/{offset}" for offset in _OFFSETS]
        return [
            Case(
                "row by id",
                _gets([f"{path}/{row_id}" for row_id in self.ids]),
                _gets([f"/row/{row_id}" for row_id in self.ids]),
                goal=0.7,
            ),
            Case("list of 20", _gets([path]), _gets(["/list"]), goal=0.7),
            Case(PAGES, _gets([f"{path}?offset={offset}" for offset in _OFFSETS]), _gets(pages)),
            Case(
                "deep pages",
                _gets([f"{path}?offset={offset}" for offset in deep]),
                _gets([f"/deep/{offset}" for offset in deep]),
                goal=0.7,
            ),
            Case(
                "query",
                _posts(f"{path}/query", [data.text(query) for query in _queries()]),
                _posts("/query", ["{}"]),
                goal=0.7,
            ),
            Case("create", _posts(path, creates), _posts("/create", creates), goal=0.7),
            Case(CHANGE, Requests("PATCH", [(f"{path}/{row_id}", _AGED) for row_id in self.ids])),
            Case(CREATES, _posts(_TRANSACTIONS, self._transactions(rows, updates=0))),
            Case(UPDATES, _posts(_TRANSACTIONS, self._transactions(rows, updates=2))),
            Case(SIGN_IN, _posts("/v1/public/app-members/signin", sign_ins), connections=_SIGNING_IN, goal=0.9),
            Case("bulk create", _posts(f"{self._filled}/bulk", bulk), connections=4, goal=50_000, units=BULK),
        ]

    def _transactions(self, rows: Sequence[dict[str, Any]], *, updates: int) -> list[str]:
        """Return transactions of three operations, of which the first `updates` change rows in no order."""
        ids = random.Random(1).sample(self.ids, len(self.ids))
        bodies = []
        for start in range(0, len(rows) - 2, 3):
            operations: list[dict[str, Any]] = [
                {"type": "update", "doc_id": ids[(start + at) % len(ids)], "data": {"age": {"$inc": 1}}}
                for at in range(updates)
            ]
            operations += [{"type": "create", "data": row} for row in rows[start + updates : start + 3]]
            bodies.append(data.text({"operations": [{"table_id": self.table_id, **one} for one in operations]}))
        return bodies


def _new_table(pilotis: Pilotis, title: str) -> str:
    table = {"title": title, "schema": data.SCHEMA, "access_level": "Public"}
    table_id: str = pilotis.post("/v1/public/tables", table)["id"]
    return table_id


def credentials(number: int) -> dict[str, str]:
    return {"login_id": f"member {number}", "password": PASSWORD}


def _queries() -> list[dict[str, Any]]:
    return [
        {"where": {"city": city, "active": True}, "order_by": "age", "order_direction": "desc", "limit": 20}
        for city in data.CITIES
    ]


def _gets(paths: Sequence[str]) -> Requests:
    return Requests("GET", [(path, "") for path in paths])


def _posts(path: str, bodies: Sequence[str]) -> Requests:
    return Requests("POST", [(path, body) for body in bodies])
