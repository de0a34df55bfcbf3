"""What unique keys, references, related rows and cursors cost beside the same without them: `python -m bench.data2`.

Each case is run in turns with the plain one to which it is compared, on one server with equal rows. The ratio is that
of requests per second; the goals are those of the design. An update by a condition is compared with the same statement
in SQL on a connection of its own.

`--pocketbase PROGRAM` compares with PocketBase as well (see `bench.rivals`), which has the same rows, indexes on the
columns that are asked for, and pages by their number, without totals. On a busy machine the processor time of a request
tells more than the rate: one worker of Pilotis uses one core, PocketBase all.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx

from bench import data, load
from bench.load import Requests
from bench.peers.pocketbase import RelatedPocketBase
from bench.processes import processor_seconds
from bench.servers import Pilotis
from pilotis.apps.keys import PUBLIC_PREFIX, app_of

_AUTHORS, _ITEMS, _COMMENTS_EACH = 1_000, 20_000, 3
_CHANGED = 10_000
_PAGES = 200
_A_RUN = 40_000
"""Rows of which a run of creates has enough; each value of a unique key is used once."""


class Pair(NamedTuple):
    """A case, the plain one beside it, and the least ratio wanted."""

    name: str
    beside: str
    goal: float


class Run(NamedTuple):
    """Requests per second, and microseconds of processor time per request, with those of PostgreSQL."""

    rate: float
    processor_us: float

    def __str__(self) -> str:
        """Return two cells of a table."""
        return f"{self.rate:,.0f} | {self.processor_us:,.0f} µs"


_PAIRS = (
    Pair("create with a unique key", "create", 0.75),
    Pair("create with a reference", "create", 0.7),
    Pair("upsert by a unique key", "create", 0.6),
    Pair("query with authors", "query", 0.7),
    Pair("query with 3 comments each", "query", 0.7),
    Pair("query with a count", "query", 0.7),
    Pair("query through a reference", "query", 0.5),
    Pair("row by its key", "query", 0.9),
    Pair("pages by a cursor at depth", "pages by a cursor near the start", 0.9),
)

_BESIDE_POCKETBASE = (
    "create with a unique key",
    "query with authors",
    "query with 3 comments each",
    "pages by a cursor at depth",
)

_QUERIES: dict[str, dict[str, Any]] = {
    "query": {},
    "query with authors": {"expand": ["author"]},
    "query with 3 comments each": {"expand": {"c": {"from": "comments.item", "limit": _COMMENTS_EACH}}},
    "query with a count": {"counts": {"c": {"from": "comments.item"}}},
    "query through a reference": {"where": {"author.n": {"$gte": 0}}},
}


class Stage:
    """The tables, and the requests to them."""

    def __init__(self, pilotis: Pilotis) -> None:
        self._pilotis = pilotis
        self._numbers = itertools.count()
        authors = self._table("authors", {"name": "string", "n": "int"})
        self._authors = self._fill(authors, ({"name": f"author {number}", "n": number} for number in range(_AUTHORS)))
        plain = {"slug": "string", "author": "uuid", "n": "int"}
        refers = plain | {"author": {"type": "uuid", "references": {"table": authors}}}
        self._plain = self._table("plain", plain)
        self._unique = self._table("unique", plain, [{"columns": ["slug"]}])
        self._upserted = self._table("upserted", plain, [{"columns": ["slug"]}])
        self._referring = self._table("referring", refers)
        self.items = self._table("items", refers, [{"columns": ["slug"]}])
        self._ids = self._fill(self.items, (self._item() for _ in range(_ITEMS)))
        comments = self._table("comments", {"item": {"type": "uuid", "references": {"table": self.items}}, "n": "int"})
        self._fill(comments, ({"item": one, "n": n} for one in self._ids for n in range(_COMMENTS_EACH)))
        self._cursors = list(self._walk())

    def requests(self, name: str) -> Requests:
        """Return the requests of a case."""
        if "quer" in name:
            return self._queries(_QUERIES[name])
        items = _rows(self.items)
        match name:
            case "create":
                return self._creates(self._plain)
            case "create with a unique key":
                return self._creates(self._unique)
            case "create with a reference":
                return self._creates(self._referring)
            case "upsert by a unique key":
                rows = [data.text({"key": "slug", "data": self._item()}) for _ in range(_A_RUN)]
                return _posts(f"{_rows(self._upserted)}/upsert", rows)
            case "row by its key":
                return _gets([f"{items}/by/slug/item-{n}" for n in range(_ITEMS)])
            case "pages by a cursor near the start":
                return _gets([f"{items}?cursor={one}&limit=20" for one in self._cursors[:_PAGES]])
            case _:
                return _gets([f"{items}?cursor={one}&limit=20" for one in self._cursors[-_PAGES:]])

    def _item(self) -> dict[str, Any]:
        number = next(self._numbers)
        return {"slug": f"item-{number}", "author": self._authors[number % _AUTHORS], "n": number % 1000}

    def _creates(self, table: str) -> Requests:
        return _posts(_rows(table), [data.text({"data": self._item()}) for _ in range(_A_RUN)])

    def _queries(self, more: dict[str, Any]) -> Requests:
        where = more.get("where", {})
        asked = [{"limit": 20, "count": False, **more, "where": {"n": number, **where}} for number in range(1000)]
        return _posts(f"{_rows(self.items)}/query", [data.text(one) for one in asked])

    def _walk(self) -> Iterator[str]:
        """Yield the cursors of the pages of the table."""
        cursor: str | None = "first"
        while cursor is not None:
            yield cursor
            path = f"{self._pilotis.url}{_rows(self.items)}"
            answer = httpx.get(path, params={"cursor": cursor, "limit": 20}, headers=self._pilotis.headers)
            cursor = answer.raise_for_status().json()["next_cursor"]

    def _table(self, title: str, schema: dict[str, Any], unique: list[dict[str, Any]] | None = None) -> str:
        body = {"title": title, "schema": schema, "access_level": "Public", "unique": unique or []}
        made: str = self._pilotis.post("/v1/public/tables", body)["id"]
        return made

    def _fill(self, table: str, rows: Iterator[dict[str, Any]]) -> list[str]:
        ids: list[str] = []
        while batch := list(itertools.islice(rows, 1000)):
            ids += [row["id"] for row in self._pilotis.post(f"{_rows(table)}/bulk", {"data": batch})["created"]]
        return ids


def _rows(table: str) -> str:
    return f"/v1/public/tables/{table}/data"


def _gets(paths: list[str]) -> Requests:
    return Requests("GET", [(path, "") for path in paths])


def _posts(path: str, bodies: list[str]) -> Requests:
    return Requests("POST", [(path, body) for body in random.Random(1).sample(bodies, len(bodies))])


async def _settle(pilotis: Pilotis) -> None:
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    await connection.execute("vacuum (analyze)")
    await connection.close()


async def _changes(pilotis: Pilotis, table: str, rounds: int) -> tuple[float, float]:
    """Return the seconds of an update of so many rows by a request, and in SQL, in turns from equal tables."""
    change = {"where": {"n": {"$lt": 500}}, "data": {"n": {"$inc": 1000}}}
    app_id = app_of(pilotis.headers["X-Public-Key"], PUBLIC_PREFIX)
    assert app_id is not None
    physical = f"app_{app_id.hex}.t_{UUID(table).hex}"
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        pair = []
        for is_request in (True, False):
            begun = time.perf_counter()
            if is_request:
                pilotis.post(f"{_rows(table)}/update-where", change)
            else:
                await connection.execute(f"update {physical} set n = n + 1000, __updated_at = now() where n < 500")
            pair.append(time.perf_counter() - begun)
            await connection.execute(f"update {physical} set n = n - 1000 where n >= 1000")
            await connection.execute(f"vacuum {physical}")
        seconds.append((pair[0], pair[1]))
    await connection.close()
    ours, plain = zip(*seconds[1:], strict=True)
    return median(ours), median(plain)


def main() -> int:
    """Print the table; the status is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.data2", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pocketbase", type=Path, help="PocketBase's program")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as pilotis:
        stage = Stage(pilotis)
        asyncio.run(_settle(pilotis))

        def run(server: Pilotis | RelatedPocketBase, requests: Requests) -> Run:
            file = requests.write(Path(directory) / "requests")
            begun = processor_seconds([server.pid]).total
            result = load.run(server.url, requests.method, file, server.headers, options.seconds, 32)
            return Run(result.rate, (processor_seconds([server.pid]).total - begun) * 1e6 / result.requests)

        def compare(own: Callable[[], Run], other: Callable[[], Run]) -> tuple[Run, Run, float]:
            """Return the medians of both, and that of the ratios of the rounds after the first."""
            rounds = [(own(), other()) for _ in range(options.rounds + 1)][1:]
            ours, others = (Run(*map(median, zip(*side, strict=True))) for side in zip(*rounds, strict=True))
            return ours, others, median(one.rate / other.rate for one, other in rounds)

        def of_case(name: str) -> Callable[[], Run]:
            return lambda: run(pilotis, stage.requests(name))

        def of_peer(peer: RelatedPocketBase, name: str) -> Callable[[], Run]:
            return lambda: run(peer, peer.requests(name, _A_RUN))

        print(f"load average at the start: {os.getloadavg()[0]:.1f}\n")
        print(
            "| | per second | | beside it | per second | | ratio | goal |\n|---|---|---|---|---|---|---|---|",
            flush=True,
        )
        for name, beside, goal in _PAIRS:
            own, plain, ratio = compare(of_case(name), of_case(beside))
            missed |= ratio < goal
            print(f"| {name} | {own} | {beside} | {plain} | {ratio:.2f} | {goal} |", flush=True)
        ours, plain_seconds = asyncio.run(_changes(pilotis, stage.items, options.rounds))
        ratio = ours / plain_seconds
        missed |= ratio > 1.3
        print(
            f"\nupdate-where of {_CHANGED:,} rows: {ours:.2f} s, in SQL {plain_seconds:.2f} s, {ratio:.2f} (goal 1.3)",
            flush=True,
        )
        if options.pocketbase:
            sizes = (_AUTHORS, _ITEMS, _COMMENTS_EACH)
            with RelatedPocketBase(options.pocketbase, Path(directory), *sizes) as peer:
                print("\n| | per second | | PocketBase | | ratio |\n|---|---|---|---|---|---|", flush=True)
                for name in _BESIDE_POCKETBASE:
                    own, other, ratio = compare(of_case(name), of_peer(peer, name))
                    print(f"| {name} | {own} | {other} | {ratio:.2f} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
