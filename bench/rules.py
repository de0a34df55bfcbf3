"""What rules cost: `python -m bench.rules`.

Requests under rules are run in turns with the same requests of the same caller to a table with equal rows that needs
none of them; the ratio is that of requests per second. Where few rows are visible among many, the time of a page and
its count is told, by one connection. Folding and compiling are timed in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import httpx

from bench import load
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import Related, stored
from pilotis.data.rules.fold import Caller, fold
from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema
from pilotis.data.where.operands import Arguments
from pilotis.http.api.principals import MemberInfo
from pilotis.limits import Limits

Json = Any
_ME = {"$member": "id"}
_SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": _ME}}}
_TEAM = {"read": _SEATED, "create": _SEATED, "update": _SEATED, "delete": _SEATED}
_TEAMS, _SEATS = 10_000, 100_000
_SCHEMA = {"team": "string", "n": "int", "state": "string"}
_IDS, _CREATES = 1_000, 20_000


class Pair(NamedTuple):
    """A case by its table and request, the table beside it, and the least ratio wanted."""

    name: str
    table: str
    beside: str
    request: str
    goal: float


_PAIRS = (
    Pair("everything, by a role", "role", "public", "page", 0.98),
    Pair("own rows", "own", "creator", "page", 0.95),
    Pair("a row of one's team by id", "team", "public", "row", 0.7),
    Pair("a row with a column by row", "column", "public", "row", 0.7),
    Pair("a row through two references", "path", "public", "row", 0.5),
    Pair("create under a team's rule", "team", "public", "create", 0.75),
)
_RULES: Mapping[str, Json] = {
    "role": {"read": {"$or": [{"$member": {"roles": {"$arrayContains": "editor"}}}, {"state": "none"}]}},
    "own": {"read": {"$creator": _ME}, "create": {"$member": {}}},
    "team": _TEAM,
    "column": {"read": True, "columns": {"state": {"read": _SEATED}}},
    "path": {"read": {"group.owner.member": _ME}},
    "own or team": {"read": {"$or": [{"$creator": _ME}, _SEATED]}},
}
_FEW: Mapping[str, tuple[str, Json]] = {
    "a team's rows, by creation": ("team", {}),
    "a team's rows, by a number": ("team", {"order_by": "n"}),
    "own or team, by creation": ("own or team", {}),
    "own or team, by a number": ("own or team", {"order_by": "n"}),
}
_GOAL_MS, _FOLD_US = 3.0, 25.0


class Stage:
    """The tables, a member with three seats, and its requests."""

    def __init__(self, pilotis: Pilotis, rows: int) -> None:
        self._pilotis = pilotis
        self._app, self._owner = pilotis.owned_app()
        self._key = {"X-Public-Key": self._owner["X-Public-Key"]}
        member = self._post("/v1/public/app-members", None, self._key)
        self.headers = {**self._key, "Authorization": f"Bearer {member['access_token']}"}
        self._member = member["member_id"]
        self._patch(f"/v1/apps/{self._app}/members/{self._member}", {"roles": ["editor"]})
        seats = self._table("seats", {"team": "string", "member": "string"})
        owners = self._table("owners", {"member": "string"})
        groups = self._table("groups", {"owner": {"type": "uuid", "references": {"table": "owners"}}})
        path = {**_SCHEMA, "group": {"type": "uuid", "references": {"table": "groups"}}}
        self.tables = {
            name: self._table(name, path if name == "path" else _SCHEMA, "Creator" if name == "creator" else "Public")
            for name in ("public", "creator", *_RULES)
        }
        asyncio.run(self._fill(seats, owners, groups, rows))
        asyncio.run(self._settle())
        for name, rules in _RULES.items():
            self._put(f"/v1/apps/{self._app}/tables/{self.tables[name]}/rules", {"rules": rules})
        self._wait_for_indexes(seats)
        asyncio.run(self._settle())

    def requests(self, pair: Pair, table: str) -> Requests:
        """Return the requests of a case to a table."""
        path = f"/v1/public/tables/{self.tables[table]}/data"
        match pair.request:
            case "page":
                return Requests("GET", [(f"{path}?limit=20&offset={offset}", "") for offset in range(20)])
            case "row":
                return Requests("GET", [(f"{path}/{row_id}", "") for row_id in self._ids(table)])
            case _:
                body = json.dumps({"data": {"team": "team 0", "n": 1, "state": "x"}})
                return Requests("POST", [(path, body)] * _CREATES)

    def page_ms(self, table: str, query: Json, times: int = 60) -> tuple[int, float]:
        """Return the number of visible rows, and the median of the milliseconds of a page with its count."""
        path = f"/v1/public/tables/{self.tables[table]}/data/query"
        taken, total = [], 0
        with httpx.Client(base_url=self._pilotis.url, headers=self.headers, timeout=60) as client:
            for _ in range(times):
                begun = time.perf_counter()
                answer = client.post(path, json={"limit": 20, **query}).raise_for_status()
                taken.append((time.perf_counter() - begun) * 1000)
                total = answer.json()["total_count"]
        return total, median(taken)

    def _ids(self, table: str) -> list[str]:
        found = httpx.post(
            f"{self._pilotis.url}/v1/public/tables/{self.tables[table]}/data/query",
            json={"limit": _IDS, "where": {"team": "team 0"}},
            headers=self._owner,
            timeout=60,
        )
        return [row["id"] for row in found.raise_for_status().json()["data"]]

    async def _fill(self, seats: str, owners: str, groups: str, rows: int) -> None:
        connection = await asyncpg.connect(**self._pilotis.connect_arguments())

        async def insert(table: str, columns: str, select: str, *values: Any) -> None:
            # The ids of rows grow with their time.
            physical = f"app_{UUID(self._app).hex}.t_{UUID(table).hex}"
            await connection.execute(
                f"insert into {physical} (__id, __created_at, __updated_at, {columns}) select "
                "(lpad(to_hex(1700000000000 + i), 12, '0') || '7000' || '8000' || lpad(to_hex(i), 12, '0'))::uuid, "
                f"now(), now(), {select}",
                *values,
            )
            await connection.execute(
                f"insert into app_{UUID(self._app).hex}.__row_counts (table_id, slot, rows) "
                f"select $1, -1, count(*) from {physical}",
                UUID(table),
            )

        count = f"from generate_series(1, {rows}) i"
        team = f"'team ' || i % {_TEAMS}"
        await insert(
            seats,
            "team, member",
            f"'team ' || i % {_TEAMS}, case when i <= 3 or i = {_TEAMS} then $1 else 'member ' || i end "
            f"from generate_series(1, {_SEATS}) i",
            self._member,
        )
        await insert(owners, "member", "$1 from generate_series(1, 1) i", self._member)
        await insert(
            groups, "owner", f"(select __id from {self._physical(owners)} limit 1) from generate_series(1, 1) i"
        )
        for name, table in self.tables.items():
            columns, values = (
                ["team", "n", "state", "__creator"],
                [team, f"i % {rows // 10}", "'x'", f"case when i % {rows // 50} = 0 then $1 end"],
            )
            if name == "path":
                columns.append('"group"')
                values.append(f"(select __id from {self._physical(groups)} limit 1)")
            await insert(table, ", ".join(columns), f"{', '.join(values)} {count}", self._member)
        await connection.close()

    def _physical(self, table: str) -> str:
        return f"app_{UUID(self._app).hex}.t_{UUID(table).hex}"

    async def _settle(self) -> None:
        connection = await asyncpg.connect(**self._pilotis.connect_arguments())
        await connection.execute("vacuum (analyze)")
        await connection.close()

    def _wait_for_indexes(self, seats: str) -> None:
        """Wait for the indexes that the rules need."""
        ruled = [seats, *(self.tables[name] for name in ("own", "team", "own or team"))]
        for _ in range(200):
            found = [
                self._sent("GET", f"/v1/apps/{self._app}/tables/{one}/indexes", None, self._owner) for one in ruled
            ]
            if all(any(index["state"] == "ready" for index in one["indexes"]) for one in found):
                return
            time.sleep(0.5)
        raise RuntimeError("The indexes that the rules need were not built.")

    def _table(self, title: str, schema: Json, level: str = "Public") -> str:
        made: str = self._post("/v1/public/tables", {"title": title, "schema": schema, "access_level": level})["id"]
        return made

    def _post(self, path: str, body: Json, headers: Mapping[str, str] | None = None) -> Json:
        return self._sent("POST", path, body, headers or self._owner)

    def _patch(self, path: str, body: Json) -> Json:
        return self._sent("PATCH", path, body, self._owner)

    def _put(self, path: str, body: Json) -> Json:
        return self._sent("PUT", path, body, self._owner)

    def _sent(self, method: str, path: str, body: Json, headers: Mapping[str, str]) -> Json:
        answer = httpx.request(method, self._pilotis.url + path, json=body, headers=headers, timeout=120)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()


def folding_us() -> float:
    """Return the microseconds in which a rule of ten conditions is folded and compiled."""
    app = uuid4()
    seats = TableSchema(
        app,
        uuid4(),
        "seats",
        AccessLevel.PUBLIC,
        1,
        (Column(1, "team", ColumnType.STRING), Column(2, "member", ColumnType.STRING)),
    )
    columns = tuple(Column(number, name, ColumnType.STRING) for number, name in enumerate(("team", "n", "state"), 1))
    table = TableSchema(app, uuid4(), "rows", AccessLevel.PUBLIC, 1, columns)
    branches: list[Json] = [{"state": "published"}, {"$creator": _ME}, _SEATED, {"team": {"$member": "claims.team"}}]
    rule = {"$or": [*branches, {"state": "a", "team": "b", "n": {"$ne": "c"}, "$not": {"state": "d"}}]}
    document = stored({"read": rule}, table, Related.of([seats, table]), Limits())["read"]
    caller = Caller.of(MemberInfo("ada", uuid4(), is_guest=False, claims={"team": "red"}))
    tables = {seats.table_id: seats}
    times = 2_000

    def run() -> None:
        for _ in range(times):
            folded = fold(document, caller, table, tables)
            assert isinstance(folded, dict)
            compile_rule(folded, table, tables, Arguments(), many=True)

    return min(_timed(run) for _ in range(5)) / times * 1e6


def _timed(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def main() -> int:
    """Print the tables; the status is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    taken = folding_us()
    missed = taken > _FOLD_US
    print(f"Folding and compiling ten conditions: {taken:.1f} µs (goal {_FOLD_US:.0f})\n", flush=True)
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as pilotis:
        stage = Stage(pilotis, options.rows)
        print("| | visible | page and count, ms | goal |\n|---|---|---|---|", flush=True)
        for name, (table, query) in _FEW.items():
            visible, milliseconds = stage.page_ms(table, query)
            missed |= milliseconds > _GOAL_MS
            print(f"| {name} | {visible:,} | {milliseconds:.2f} | {_GOAL_MS} |", flush=True)

        def rate(pair: Pair, table: str) -> float:
            requests = stage.requests(pair, table)
            file = requests.write(Path(directory) / "requests")
            return load.run(pilotis.url, requests.method, file, stage.headers, options.seconds, 16).rate

        print("\n| | per second | beside it | ratio | goal |\n|---|---|---|---|---|", flush=True)
        for pair in _PAIRS:
            rates = [(rate(pair, pair.table), rate(pair, pair.beside)) for _ in range(options.rounds + 1)][1:]
            own, plain = (median(one) for one in zip(*rates, strict=True))
            ratio = median(one / other for one, other in rates)
            missed |= ratio < pair.goal
            print(f"| {pair.name} | {own:,.0f} | {plain:,.0f} | {ratio:.2f} | {pair.goal} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
