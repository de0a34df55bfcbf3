"""Comparison with others: `python -m bench.rivals --pocketbase PROGRAM --parse DIRECTORY --trailbase PROGRAM`.

The programs are PocketBase's example and one that runs TrailBase's crate, DIRECTORY is one in which Parse Server is
installed, all outside the repository:

    GOBIN=/tmp/peers go install github.com/pocketbase/pocketbase/examples/base@v0.39.0
    npm install --prefix /tmp/peers parse-server@9.10.0
    PATH=$PWD/bench/peers/trail:$PATH cargo install --path bench/peers/trail --root /tmp/peers

All serve the rows of `bench.data`, Pilotis and PocketBase also files, readable by everybody, over loopback to wrk
with 32 connections. Each round runs Pilotis, then the other; what counts is the median of the rounds' ratios.
Processor time is that of the whole tree of processes, PostgreSQL included, for one request; a bulk create makes a
thousand rows. Each keeps its defaults: Pilotis and Parse Server flush before they answer a create, PocketBase and
TrailBase (SQLite, synchronous=NORMAL) do not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import asyncpg

from bench import data, files, load
from bench.load import Requests
from bench.peers.parse import ParseServer
from bench.peers.pocketbase import BULK, FILES, LARGE, QUERY, SMALL, PocketBase
from bench.peers.trailbase import TrailBase
from bench.processes import processor_seconds
from bench.servers import Pilotis

_CONNECTIONS = 32
_INDEX_SECONDS = 60
_INDEXED_ROWS = 10_000
"""From so many rows on Pilotis makes indexes; see its limit `index_rows`."""


class PilotisPeer(Pilotis):
    """Pilotis with as many workers as asked for."""

    name = "Pilotis"

    def __init__(self, directory: Path, rows: int, workers: int) -> None:
        super().__init__(directory, workers=workers)
        table = {"title": "measured", "schema": data.SCHEMA, "access_level": "Public"}
        path = f"/v1/public/tables/{self.post('/v1/public/tables', table)['id']}/data"
        ids: list[str] = []
        for start in range(0, rows, BULK):
            batch = [data.row(number) for number in range(start, min(start + BULK, rows))]
            ids += [item["id"] for item in self.post(f"{path}/bulk", {"data": batch})["created"]]
        stage = files.Stage(self, directory)
        self.requests = {
            "row by id": _gets(f"{path}/{row_id}" for row_id in ids),
            "page 1 to 100": _gets(f"{path}?offset={offset}" for offset in range(0, min(rows, 2000), 20)),
            QUERY: Requests("POST", [(f"{path}/query", data.text(_query(city))) for city in data.CITIES]),
            "create": Requests("POST", [(path, data.text({"data": data.row(number)})) for number in range(5000)]),
            "bulk create": Requests("POST", [(f"{path}/bulk", data.text({"data": list(map(data.row, range(BULK)))}))]),
            "4 kB files": stage.fill(FILES, SMALL),
            "5 MB files": stage.fill(FILES, LARGE),
        }
        if rows >= _INDEXED_ROWS:
            self._wait_for_index(directory)

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    def _wait_for_index(self, directory: Path) -> None:
        """Ask what the others have an index for until Pilotis has made one."""
        requests = self.requests[QUERY]
        file = requests.write(directory / "requests")
        deadline = time.monotonic() + _INDEX_SECONDS
        while not asyncio.run(self._indexes()):
            if time.monotonic() > deadline:
                raise RuntimeError("Pilotis has made no index.")
            load.run(self.url, requests.method, file, self.headers, 1, _CONNECTIONS)

    async def _indexes(self) -> int:
        connection = await asyncpg.connect(**self.connect_arguments())
        try:
            found = "select count(*) from pg_indexes where indexdef like '%(city, active, age %'"
            return int(await connection.fetchval(found))
        finally:
            await connection.close()


class Run(NamedTuple):
    """Requests per second, and microseconds of processor time per request."""

    rate: float
    processor_us: float


Peer = PilotisPeer | PocketBase | ParseServer | TrailBase


def _run(peer: Peer, name: str, seconds: float, directory: Path) -> Run:
    requests = peer.requests[name]
    file = requests.write(directory / "requests")
    begun = processor_seconds(peer.pids)
    result = load.run(peer.url, requests.method, file, peer.headers, seconds, _CONNECTIONS)
    return Run(result.rate, (processor_seconds(peer.pids) - begun).total * 1e6 / result.requests)


def _query(city: str) -> dict[str, Any]:
    return {"where": {"city": city, "active": True}, "order_by": "age", "order_direction": "desc", "limit": 20}


def _gets(paths: Any) -> Requests:
    return Requests("GET", [(path, "") for path in paths])


def _line(name: str, rounds: Sequence[tuple[Run, Run]]) -> str:
    ours, theirs = ([pair[side] for pair in rounds] for side in (0, 1))
    cells = [
        f"{median(run.rate for run in side):,.0f} | {median(run.processor_us for run in side):,.0f} µs"
        for side in (ours, theirs)
    ]
    ratio = median(mine.rate / other.rate for mine, other in rounds)
    return f"| {name} | {cells[0]} | {cells[1]} | {ratio:.2f} |"


def _compare(pilotis: PilotisPeer, peer: Peer, options: argparse.Namespace, directory: Path) -> None:
    print(f"\n| workers: {options.workers} | Pilotis | | {peer.name} | | ratio |\n|---|---|---|---|---|---|")
    for case in peer.requests:
        if options.only is None or any(part in case for part in options.only):
            rounds = []
            for _ in range(options.rounds):
                ours = _run(pilotis, case, options.seconds, directory)
                rounds.append((ours, _run(peer, case, options.seconds, directory)))
            print(_line(case, rounds), flush=True)


def main() -> None:
    """Run the cases and print a table for each peer."""
    parser = argparse.ArgumentParser(prog="python -m bench.rivals", description=__doc__)
    parser.add_argument("--pocketbase", type=Path, help="PocketBase's program")
    parser.add_argument("--parse", type=Path, help="the directory in which Parse Server is installed")
    parser.add_argument("--trailbase", type=Path, help="a program that runs TrailBase")
    parser.add_argument("--workers", type=int, default=1, help="workers of Pilotis")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--rows", type=int, default=10_000, help="rows at the start")
    parser.add_argument("--only", action="append", help="run the cases whose names contain this; may be repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-rivals-") as name:
        directory = Path(name)
        with PilotisPeer(directory, options.rows, options.workers) as pilotis:
            print(f"load average at the start: {os.getloadavg()[0]:.1f}")
            if options.pocketbase:
                with PocketBase(options.pocketbase, directory, options.rows) as pocketbase:
                    _compare(pilotis, pocketbase, options, directory)
            if options.parse:
                with ParseServer(options.parse, directory, options.rows) as parse:
                    _compare(pilotis, parse, options, directory)
            if options.trailbase:
                with TrailBase(options.trailbase, directory, options.rows) as trailbase:
                    _compare(pilotis, trailbase, options, directory)


if __name__ == "__main__":
    main()
