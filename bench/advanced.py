"""The advanced data routes, compared with their goals: `python -m bench.advanced [--rows 1000000]`.

One server with one worker, one table, nothing declared: the requests themselves make the indexes appear, and are timed
once they are there. Latencies are medians over HTTP on one connection, with other values each time. What is given as a
ratio runs beside plain SQL on the same table, or the bare driver with the same statements, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

import asyncpg
import httpx
import msgspec
import uvloop

from bench import load, report
from bench.data import text
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.apps.keys import PUBLIC_PREFIX, app_of
from pilotis.data.rows.operations import plan_create, plan_update
from pilotis.data.rows.table import PreparedTable
from pilotis.data.tables import store
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, AppUser, Role, UserInfo
from pilotis.limits import Limits

BULK = 1000
SCHEMA = {
    "name": "string",
    "about": "string",
    "city": "string",
    "score": "number",
    "visits": "int",
    "place": "object",
}
_CONNECTIONS = 8
_QUIET_SECONDS = 25
_MAX_SECONDS = 1200
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "er", "il")]
Json = dict[str, Any]


def _words() -> list[str]:
    draw = random.Random(1)
    return ["".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4))) for _ in range(20_000)]


WORDS = _words()
# The n-th most frequent word is as frequent as 1/n, as in natural language.
_FREQUENT = list(itertools.accumulate(1 / rank for rank in range(1, len(WORDS) + 1)))


def row(number: int) -> Json:
    """Return the row of this number, the same at every run: a text of 12 words, a place anywhere on Earth."""
    draw = random.Random(number)
    first, second = draw.choices(WORDS, k=2)
    return {
        "name": f"{first} {second} {number}",
        "about": " ".join(draw.choices(WORDS, cum_weights=_FREQUENT, k=12)),
        "city": f"city {draw.randrange(1000)}",
        "score": draw.randint(0, 10_000_000) / 100,
        "visits": draw.randrange(1000),
        "place": _point(draw),
    }


def _point(draw: random.Random) -> Json:
    # As many everywhere on the sphere.
    latitude = math.degrees(math.asin(draw.uniform(-1, 1)))
    return {"latitude": round(latitude, 6), "longitude": round(draw.uniform(-180, 180), 6)}


class Timed(NamedTuple):
    """A request to time: its path, a function that creates its body, and the maximum of its median in milliseconds."""

    name: str
    path: str
    make: Callable[[], Json]
    goal: float | None = None


class Stage:
    """A filled table on a running Pilotis."""

    def __init__(self, pilotis: Pilotis, rows: int) -> None:
        self.pilotis = pilotis
        self.rows = rows
        table = {"title": "measured", "schema": SCHEMA, "access_level": "Public"}
        self.table_id: str = pilotis.post("/v1/public/tables", table)["id"]
        begun = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._send, range(0, rows, BULK)))
        print(f"{rows:,} rows through the bulk route in {time.perf_counter() - begun:.0f} s", flush=True)

    def _send(self, start: int) -> None:
        rows = [row(number) for number in range(start, min(start + BULK, self.rows))]
        self.pilotis.post(f"/v1/public/tables/{self.table_id}/data/bulk", {"data": rows})

    def timed(self) -> list[Timed]:
        """Return the requests whose medians have a goal, and some that are hard."""

        def body(**fields: Any) -> Json:
            return {"table_id": self.table_id, "limit": 20, **fields}

        def two_words() -> str:
            return " ".join(random.sample(row(random.randrange(self.rows))["about"].split(), 2))

        def near(**bounds: Any) -> Json:
            return body(field="place", near={"center": _point(random.Random()), **bounds})

        def misspelt() -> str:
            word = random.choice(row(random.randrange(self.rows))["name"].split())
            return f"{word[:2]}y{word[3:]}"

        return [
            Timed(
                "filter, sort, limit 20",
                f"/v1/public/tables/{self.table_id}/data/query",
                lambda: {"where": {"city": f"city {random.randrange(1000)}"}, "order_by": "score", "limit": 20},
                2,
            ),
            Timed(
                "search, two words of a row",
                "/v1/public/search",
                lambda: body(query=two_words(), fields=["about"]),
                15,
            ),
            Timed(
                "search, two fields",
                "/v1/public/search",
                lambda: body(query=random.choice(WORDS), fields=["name", "about"]),
            ),
            Timed(
                "autocomplete, three letters",
                "/v1/public/autocomplete",
                lambda: body(query=random.choice(WORDS)[:3], field="name"),
                5,
            ),
            Timed(
                "autocomplete, a word",
                "/v1/public/autocomplete",
                lambda: body(query=random.choice(WORDS), field="name"),
                5,
            ),
            Timed("autocomplete, misspelt", "/v1/public/autocomplete", lambda: body(query=misspelt(), field="name")),
            Timed("near, within 200 km", "/v1/public/geo", lambda: near(max_distance=200_000.0), 5),
            Timed("near, without bound", "/v1/public/geo", near),
        ]

    async def physical(self, database: Database) -> PreparedTable:
        """Return the table as Pilotis prepares it."""
        record = await store.live_table(database.of(self.app_id), self.app_id, UUID(self.table_id))
        assert record is not None
        return PreparedTable(record.schema, database, None)

    @property
    def app_id(self) -> UUID:
        found = app_of(self.pilotis.headers["X-Public-Key"], PUBLIC_PREFIX)
        assert found is not None
        return found


class Client:
    """A keep-alive connection, on which requests are timed."""

    def __init__(self, pilotis: Pilotis) -> None:
        url = httpx.URL(pilotis.url)
        self._connection = http.client.HTTPConnection(url.host, url.port or 80, timeout=60)
        self._headers = {**pilotis.headers, "Content-Type": "application/json"}

    def median(self, timed: Timed, rounds: int) -> float:
        """Return the median in milliseconds; a request that reaches the time limit counts with its duration."""
        taken = []
        for _ in range(rounds):
            body = msgspec.json.encode(timed.make())
            begun = time.perf_counter()
            self._connection.request("POST", timed.path, body, self._headers)
            answer = self._connection.getresponse()
            content = answer.read()
            taken.append((time.perf_counter() - begun) * 1000)
            if answer.status != 200 and b"QUERY_TIMEOUT" not in content:
                raise RuntimeError(content.decode())
        return statistics.median(taken)


async def appeared(pilotis: Pilotis) -> list[asyncpg.Record]:
    """Return the indexes that appeared by themselves, once no further one has for a while."""
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    seen, quiet_since, begun = [("", "building")], time.monotonic(), time.monotonic()
    while time.monotonic() < min(quiet_since + _QUIET_SECONDS, begun + _MAX_SECONDS):
        rows: list[asyncpg.Record] = await connection.fetch("select * from pilotis.indexes order by created_at, name")
        now = [(row["name"], row["state"]) for row in rows]
        if now != seen or any(state == "building" for _, state in now):
            seen, quiet_since = now, time.monotonic()
        await asyncio.sleep(0.5)
    await connection.close()
    print(f"indexes appeared within {quiet_since - begun:.0f} s", flush=True)
    return rows


def measure_latencies(stage: Stage, rounds: int) -> None:
    """Print the medians before and after the indexes appeared."""
    client, timed = Client(stage.pilotis), stage.timed()
    before = [client.median(one, 3) for one in timed]
    # A search that was cut off has not come to its last step, typing errors; nor has it asked for its index.
    for index in asyncio.run(appeared(stage.pilotis)):
        print(f"  {index['state']:8} {index['size_bytes'] / 1e6:6.1f} MB  {index['use']} {index['error'] or ''}")
    for one in timed:
        client.median(one, 4)
    asyncio.run(appeared(stage.pilotis))
    print(f"\n{'p50 in ms, with the total':32}{'before':>10}{'after':>10}  goal")
    for one, first in zip(timed, before, strict=True):
        after = client.median(one, rounds)
        goal = "" if one.goal is None else f"{one.goal:g} {'reached' if after < one.goal else 'MISSED'}"
        print(f"{one.name:32}{first:10.2f}{after:10.2f}  {goal}", flush=True)


def measure_group(stage: Stage, rounds: int) -> None:
    """Print the time of `$group` and `$sum` over all rows, alternating with plain SQL."""
    group = {"$group": {"_id": "$city", "total": {"$sum": "$score"}}}
    body = {"table_id": stage.table_id, "pipeline": [group]}
    timed = Timed("group", "/v1/public/aggregate", lambda: body)
    client = Client(stage.pilotis)

    async def in_turn() -> tuple[float, float]:
        database = Database(stage.pilotis.connect_arguments(), size=1)
        schema = (await stage.physical(database)).schema
        city, score = (schema.by_name[name].physical for name in ("city", "score"))
        sql = f"select {city}, sum({score}) from {schema.physical} group by {city}"
        taken = []
        ours = []
        for _ in range(rounds):
            begun = time.perf_counter()
            await database.fetch(sql)
            taken.append((time.perf_counter() - begun) * 1000)
            ours.append(client.median(timed, 1))
        await database.close()
        return statistics.median(ours), statistics.median(taken)

    ours, beside = asyncio.run(in_turn())
    print(f"$group and $sum over all rows: {ours:.0f} ms, plain SQL {beside:.0f} ms{_ratio(ours / beside, most=1.3)}")


def _ratio(ratio: float, *, least: float | None = None, most: float | None = None) -> str:
    reached = ratio <= most if most is not None else least is not None and ratio >= least
    return f", ratio {ratio:.2f}, goal {most or least:g} {'reached' if reached else 'MISSED'}"


Statement = tuple[str, Sequence[Any]]


class Transactions:
    """Transactions of three operations: one row made, two counters counted up."""

    def __init__(self, stage: Stage, ids: Sequence[str]) -> None:
        self._stage = stage
        self._ids = ids

    def operations(self, number: int) -> list[Json]:
        table_id = self._stage.table_id
        new = {"type": "create", "table_id": table_id, "data": row(self._stage.rows + number)}
        # In the order of their ids, which prevents deadlocks.
        both = sorted(random.sample(self._ids, 2))
        changes = [
            {"type": "update", "table_id": table_id, "doc_id": row_id, "data": {"visits": {"$inc": 1}}}
            for row_id in both
        ]
        return [new, *changes]

    def requests(self, number: int) -> Requests:
        bodies = [text({"operations": self.operations(one)}) for one in range(number)]
        return Requests("POST", [("/v1/public/transactions", body) for body in bodies])

    def statements(self, table: PreparedTable, number: int) -> list[Statement]:
        """Return the statements that Pilotis runs for operations such as these."""
        principal = AppUser(cast("AppInfo", None), cast("UserInfo", None), Role.OWNER)
        plans = []
        for operation in self.operations(number):
            data = msgspec.Raw(msgspec.json.encode(operation["data"]))
            if operation["type"] == "create":
                plans.append(plan_create(principal, table, Limits(), data))
            else:
                plans.append(plan_update(principal, table, Limits(), UUID(operation["doc_id"]), data))
        return [(plan.sql, plan.arguments) for plan in plans]


async def _bare(connect_arguments: Json, work: list[list[Statement]], seconds: float) -> float:
    """Return the bare driver's transactions per second."""
    done = 0
    until = time.perf_counter() + seconds

    async def run() -> None:
        nonlocal done
        connection = await asyncpg.connect(**connect_arguments, statement_cache_size=1000)
        while time.perf_counter() < until and work:
            statements = work.pop()
            try:
                async with connection.transaction(isolation="serializable"):
                    for sql, arguments in statements:
                        await connection.fetchval(sql, *arguments)
                done += 1
            except asyncpg.SerializationError:
                work.append(statements)
        await connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(_CONNECTIONS)))
    return done / (time.perf_counter() - begun)


def measure_transactions(stage: Stage, directory: Path, seconds: float, rounds: int) -> None:
    """Print Pilotis' transactions per second, alternating with the bare driver and the same statements."""
    arguments = stage.pilotis.connect_arguments()

    async def prepare() -> tuple[Transactions, list[list[Statement]]]:
        database = Database(arguments, size=1)
        table = await stage.physical(database)
        rows = await database.fetch(f"select __id from {table.schema.physical} tablesample system (20) limit 20000")
        made = Transactions(stage, [str(row["__id"]) for row in rows])
        work = [made.statements(table, number) for number in range(int(seconds * (rounds + 1) * 5000))]
        await database.close()
        return made, work

    made, work = asyncio.run(prepare())
    file = made.requests(5000).write(directory / "transactions")
    rates = []
    for _ in range(rounds + 1):
        ours = load.run(stage.pilotis.url, "POST", file, stage.pilotis.headers, seconds, _CONNECTIONS).rate
        rates.append((ours, uvloop.run(_bare(arguments, work, seconds))))
    ours, beside = (statistics.median(rate) for rate in zip(*rates[1:], strict=True))
    ratio = statistics.median(one / other for one, other in rates[1:])
    print(f"transactions of 3 operations: {ours:.0f}/s, bare driver {beside:.0f}/s{_ratio(ratio, least=0.6)}")


def measure_neighbours(stage: Stage, directory: Path, seconds: float) -> None:
    """Print the p99 of another app, alone and while this one runs the worst it can."""
    headers, reads = _other_app(stage.pilotis)
    table, path = stage.table_id, f"/v1/public/tables/{stage.table_id}/data/query"
    worst = [
        (path, text({"where": {"about": {"$matches": r"(\w+) (\w+) .*\2 \1$"}}})),
        ("/v1/public/search", text({"table_id": table, "query": f"{WORDS[0]} {WORDS[1]}"})),
        ("/v1/public/geo", text({"table_id": table, "field": "place", "near": {"center": _point(random.Random())}})),
        (
            "/v1/public/aggregate",
            text({"table_id": table, "pipeline": [{"$group": {"_id": "$about", "all": {"$push": "$name"}}}]}),
        ),
    ]
    bad = Requests("POST", worst).write(directory / "worst")
    good = reads.write(directory / "reads")

    def other() -> str:
        result = load.run(stage.pilotis.url, "GET", good, headers, seconds, 4)
        return f"p50 {result.p50_ms:.1f} ms, p99 {result.p99_ms:.1f} ms, {result.rate:.0f}/s"

    print(f"another app, alone: {other()}")
    given = [part for name, value in stage.pilotis.headers.items() for part in ("-H", f"{name}: {value}")]
    options = ["--seconds", str(seconds + 2), "--connections", "12"]
    command = [sys.executable, "-m", "bench.client", stage.pilotis.url, "POST", str(bad), *given, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        time.sleep(1)
        print(f"another app, beside 12 connections with the worst queries: {other()}")
        output, _ = worker.communicate()
    print(f"  of those queries: {output.strip()}")


def _other_app(pilotis: Pilotis) -> tuple[dict[str, str], Requests]:
    headers = {"X-Public-Key": pilotis.owned_app()[1]["X-Public-Key"]}
    client = httpx.Client(base_url=pilotis.url, headers=headers)
    body = {"title": "small", "schema": SCHEMA, "access_level": "Public"}
    path = f"/v1/public/tables/{client.post('/v1/public/tables', json=body).json()['id']}/data"
    created = client.post(f"{path}/bulk", json={"data": [row(number) for number in range(BULK)]}).json()["created"]
    return headers, Requests("GET", [(f"{path}/{item['id']}", "") for item in created])


def main() -> None:
    """Run the benchmark and print what it saw."""
    parser = argparse.ArgumentParser(prog="python -m bench.advanced", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=101, help="times that each request is timed")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each run under load")
    options = parser.parse_args()
    for name, value in report.machine().items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name:
        directory = Path(name)
        with Pilotis(directory) as pilotis:
            stage = Stage(pilotis, options.rows)
            measure_latencies(stage, options.rounds)
            measure_group(stage, 11)
            measure_transactions(stage, directory, options.seconds, 5)
            measure_neighbours(stage, directory, options.seconds * 2)


if __name__ == "__main__":
    main()
