"""Comparison with PocketBase or Parse Server: `python -m bench.peers --pocketbase PROGRAM --parse DIRECTORY`.

PROGRAM is PocketBase's example, DIRECTORY one in which Parse Server is installed, both outside the repository:

    GOBIN=/tmp/peers go install github.com/pocketbase/pocketbase/examples/base@v0.39.0
    npm install --prefix /tmp/peers parse-server@9.10.0

All serve the rows of `bench.data`, Pilotis and PocketBase also files of 5 MB, readable by everybody, over loopback to
wrk with 32 connections. Each round runs Pilotis, then the other; what counts is the median of the rounds' ratios.
Processor time is that of the whole tree of processes, PostgreSQL included, for one request. Each keeps its defaults:
Pilotis and Parse Server flush before they answer a create, PocketBase (SQLite, synchronous=NORMAL) does not.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

import httpx

from bench import data, files, load
from bench.load import Requests
from bench.parse import ParseServer
from bench.servers import Pilotis

_LARGE = 5_000_000
_FILES = 8
_CONNECTIONS = 32
_START_SECONDS = 30
_PASSWORD = "correct horse battery"
_KINDS = {"int": "number", "number": "number", "boolean": "bool", "date": "date", "array": "json", "string": "text"}
Json = dict[str, Any]


class PilotisPeer(Pilotis):
    """Pilotis with as many workers as asked for."""

    name = "Pilotis"

    def __init__(self, directory: Path, rows: int, workers: int) -> None:
        super().__init__(directory, workers=workers)
        table = {"title": "measured", "schema": data.SCHEMA, "access_level": "Public"}
        path = f"/v1/public/tables/{self.post('/v1/public/tables', table)['id']}/data"
        ids: list[str] = []
        for start in range(0, rows, 1000):
            batch = [data.row(number) for number in range(start, min(start + 1000, rows))]
            ids += [item["id"] for item in self.post(f"{path}/bulk", {"data": batch})["created"]]
        self.requests = {
            "row by id": _gets(f"{path}/{row_id}" for row_id in ids),
            "page 1 to 100": _gets(f"{path}?offset={offset}" for offset in range(0, min(rows, 2000), 20)),
            "create": Requests("POST", [(path, data.text({"data": data.row(number)})) for number in range(5000)]),
            "5 MB files": files.Stage(self, directory).fill(_FILES, _LARGE),
        }

    @property
    def pids(self) -> list[int]:
        return [self.pid]


class PocketBase:
    """PocketBase with its data in a separate directory."""

    name = "PocketBase"
    headers: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json"})

    def __init__(self, program: Path, directory: Path, rows: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        own = [f"--dir={directory / 'pocketbase'}"]
        admin: Json = {"identity": "bench@example.com", "password": _PASSWORD}
        command: list[str | Path] = [program, "superuser", "upsert", admin["identity"], _PASSWORD, *own]
        subprocess.run(command, check=True, capture_output=True)
        self.url = f"http://{address}"
        self._client = httpx.Client(timeout=60)
        with (directory / "pocketbase.log").open("w") as log:
            self._process = subprocess.Popen([program, "serve", f"--http={address}", *own], stdout=log, stderr=log)
        self._wait()
        token = self._post("/api/collections/_superusers/auth-with-password", admin)["token"]
        fields: list[Json] = [{"name": name, "type": _KINDS[type_]} for name, type_ in data.SCHEMA.items()]
        fields.append({"name": "file", "type": "file", "maxSize": 2 * _LARGE, "maxSelect": 1})
        rules = dict.fromkeys(["listRule", "viewRule", "createRule"], "")
        made: Json = {"name": "measured", "type": "base", "fields": fields, **rules}
        self._post("/api/collections", made, {"Authorization": token})
        path = "/api/collections/measured/records"
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda number: self._post(path, data.row(number))["id"], range(rows)))
        pages = [f"{path}?page={page}&perPage=20&skipTotal=1" for page in range(1, min(rows, 2000) // 20 + 1)]
        self.requests = {
            "row by id": _gets(f"{path}/{row_id}" for row_id in ids),
            "page 1 to 100": _gets(pages),
            "create": Requests("POST", [(path, data.text(data.row(number))) for number in range(5000)]),
            "5 MB files": _gets(self._upload(path, os.urandom(_LARGE)) for _ in range(_FILES)),
        }

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(_START_SECONDS)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                self._client.get(f"{self.url}/api/health")
                return
            except httpx.ConnectError:
                time.sleep(0.05)
        raise RuntimeError("PocketBase did not start.")

    def _post(self, path: str, body: Json, headers: Mapping[str, str] | None = None) -> Any:
        answer = self._client.post(self.url + path, json=body, headers=headers)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def _upload(self, path: str, content: bytes) -> str:
        answer = self._client.post(self.url + path, files={"file": ("large.bin", content)}).raise_for_status()
        made = answer.json()
        return f"/api/files/measured/{made['id']}/{made['file']}"


class Run(NamedTuple):
    """Requests per second, and microseconds of processor time per request."""

    rate: float
    processor_us: float


def tree_seconds(pids: Sequence[int]) -> float:
    """Return the processor time of processes and all below them, ended ones that were waited for included."""
    children: dict[int, list[int]] = {}
    taken: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(file.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        taken[number] = sum(map(int, fields[11:15]))
    total, waiting = 0, [*pids]
    while waiting:
        one = waiting.pop()
        total += taken.get(one, 0)
        waiting += children.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


Peer = PilotisPeer | PocketBase | ParseServer


def _run(peer: Peer, name: str, seconds: float, directory: Path) -> Run:
    requests = peer.requests[name]
    file = requests.write(directory / "requests")
    begun = tree_seconds(peer.pids)
    result = load.run(peer.url, requests.method, file, peer.headers, seconds, _CONNECTIONS)
    return Run(result.rate, (tree_seconds(peer.pids) - begun) * 1e6 / result.requests)


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
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--pocketbase", type=Path, help="PocketBase's program")
    parser.add_argument("--parse", type=Path, help="the directory in which Parse Server is installed")
    parser.add_argument("--workers", type=int, default=1, help="workers of Pilotis")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--rows", type=int, default=5000, help="rows at the start")
    parser.add_argument("--only", action="append", help="run the cases whose names contain this; may be repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-peers-") as name:
        directory = Path(name)
        with PilotisPeer(directory, options.rows, options.workers) as pilotis:
            print(f"load average at the start: {os.getloadavg()[0]:.1f}")
            if options.pocketbase:
                with PocketBase(options.pocketbase, directory, options.rows) as pocketbase:
                    _compare(pilotis, pocketbase, options, directory)
            if options.parse:
                with ParseServer(options.parse, directory, options.rows) as parse:
                    _compare(pilotis, parse, options, directory)


if __name__ == "__main__":
    main()
