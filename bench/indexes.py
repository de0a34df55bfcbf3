"""The same queries before and after indexes appeared by themselves: `python -m bench.indexes [--rows 1000000]`.

A server is started on a new data directory, rows are sent through the bulk route, and every query is timed over HTTP
on one connection, with other values each time. Nothing is declared in between: the queries themselves are what makes
the indexes appear.
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

START_SECONDS = 30
BULK = 1000
SCHEMA = {
    "name": "string",
    "city": "string",
    "plan": "string",
    "age": "int",
    "score": "number",
    "joined": "date",
    "tags": "array",
}
TAGS = [f"tag {number}" for number in range(200)]
PLANS = ["free", "small", "large"]
Json = dict[str, Any]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"The server printed something else: {text}")
    return match[1]


def row(number: int) -> Json:
    draw = random.Random(number)
    day = f"20{draw.randint(10, 25)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
    return {
        "name": f"person {draw.randrange(10**9):09} of {number}",
        "city": f"city {draw.randrange(1000)}",
        "plan": draw.choices(PLANS, [90, 9, 1])[0],
        "age": draw.randint(18, 90),
        "score": draw.randint(0, 10_000_000) / 100,
        "joined": f"{day}T12:30:{draw.randint(0, 59):02}Z",
        "tags": draw.sample(TAGS, 2),
    }


def _city() -> str:
    return f"city {random.randrange(1000)}"


QUERIES: dict[str, Callable[[], Json]] = {
    "city =, sort score desc (0.1 % match)": lambda: {
        "where": {"city": _city()},
        "order_by": "score",
        "order_direction": "desc",
    },
    "age =, sort joined desc (1.4 % match)": lambda: {
        "where": {"age": random.randint(18, 90)},
        "order_by": "joined",
        "order_direction": "desc",
    },
    "plan =, sort score (9 % match)": lambda: {"where": {"plan": "small"}, "order_by": "score"},
    "city = and age between, sort score": lambda: {
        "where": {"city": _city(), "age": {"$between": [30, 40]}},
        "order_by": "score",
    },
    "sort score desc": lambda: {"order_by": "score", "order_direction": "desc"},
    "sort plan, score desc": lambda: {"order_by": [{"column": "plan"}, {"column": "score", "direction": "desc"}]},
    "sort created_at desc": lambda: {"order_by": "created_at", "order_direction": "desc"},
    "score between (0.01 % match)": lambda: {
        "where": {"score": {"$between": [(low := random.randrange(99_000)), low + 10]}}
    },
    "name $startsWith": lambda: {"where": {"name": {"$startsWith": f"person {random.randrange(10**5):05}"}}},
    "name $contains": lambda: {"where": {"name": {"$contains": f"{random.randrange(10**6):06}"}}},
    "name $ieq": lambda: {"where": {"name": {"$ieq": f"PERSON {random.randrange(10**6):06} of seoul"}}},
    "name $istartsWith": lambda: {"where": {"name": {"$istartsWith": f"PERSON {random.randrange(10**5):05}"}}},
    "name $icontains": lambda: {"where": {"name": {"$icontains": f"N {random.randrange(10**6):06}"}}},
    "name $matches": lambda: {"where": {"name": {"$matches": f"{random.randrange(10**5):05}[0-4] of"}}},
    "tags $arrayContains two (0.01 %)": lambda: {"where": {"tags": {"$arrayContains": random.sample(TAGS, 2)}}},
}


class Server:
    """`pilotis serve` with one worker, and the app that it makes."""

    def __init__(self, directory: Path, rows: int) -> None:
        self.rows = rows
        environment = {**os.environ, "PILOTIS_METRICS_PORT": "0"}
        with (directory / "out").open("w") as out, (directory / "log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(directory / "data")],
                stdout=out,
                stderr=log,
                env=environment,
            )
        text = self._output(directory / "out")
        url = _found(r"(http://[\d.]+:\d+)", text)
        self.app_id = _found(r"app id\s+(\S+)", text)
        key = _found(r"(pk_[\w-]+)", text)
        self.client = httpx.Client(base_url=url, headers={"X-Public-Key": key}, timeout=120, verify=False)
        token = _found(r"setup#(\S+)", text)
        body = {"email": "bench@example.com", "password": "correct horse battery", "token": token}
        self.user = self.post("/v1/auth/signup", body)

    def _output(self, file: Path) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if "Ctrl-C" in (text := file.read_text()):
                return text
            time.sleep(0.05)
        raise RuntimeError(f"The server did not start:\n{file.read_text()}")

    def post(self, path: str, body: Any) -> Any:
        answer = self.client.post(path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)


@contextmanager
def serving(rows: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory), rows)
        try:
            yield server
        finally:
            server.stop()


def fill(server: Server) -> str:
    body = {"title": "people", "schema": SCHEMA, "access_level": "Public"}
    table_id: str = server.post("/v1/public/tables", body)["id"]
    starts = range(0, server.rows, BULK)

    def send(start: int) -> None:
        rows = [row(number) for number in range(start, min(start + BULK, server.rows))]
        server.post(f"/v1/public/tables/{table_id}/data/bulk", {"data": rows})

    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(send, starts))
    seconds = time.perf_counter() - begun
    print(f"{server.rows} rows through the bulk route in {seconds:.0f} s")
    return table_id


def measure(server: Server, table_id: str, rounds: int) -> dict[str, float]:
    """Return the median of each query in milliseconds, over HTTP on one connection."""
    path = f"/v1/public/tables/{table_id}/data/query"
    url = server.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port or 80)
    headers = {"X-Public-Key": server.client.headers["X-Public-Key"], "Content-Type": "application/json"}
    medians = {}
    for name, make in QUERIES.items():
        taken = []
        for _ in range(rounds):
            body = msgspec.json.encode(make())
            begun = time.perf_counter()
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            taken.append((time.perf_counter() - begun) * 1000)
            if answer.status != 200 and b"QUERY_TIMEOUT" not in content:
                raise RuntimeError(content.decode())
        medians[name] = statistics.median(taken)
    connection.close()
    return medians


def wait_for_indexes(server: Server, table_id: str, max_seconds: float) -> list[Json]:
    """Wait until nothing more is built, and return the indexes."""
    headers = {"Authorization": f"Bearer {server.user['access_token']}"}
    seen: list[tuple[str, str]] = []
    quiet_since = begun = time.monotonic()
    while time.monotonic() < begun + max_seconds:
        answer = httpx.get(
            f"{server.client.base_url}/v1/apps/{server.app_id}/tables/{table_id}/indexes", headers=headers, verify=False
        )
        if answer.is_error:
            raise RuntimeError(answer.text)
        now = [(index["name"], index["state"]) for index in answer.json()["indexes"]]
        if now != seen or any(state == "building" for _, state in now):
            seen, quiet_since = now, time.monotonic()
        if seen and time.monotonic() > quiet_since + 30:
            print(f"indexes appeared within {quiet_since - begun:.0f} s of the last query")
            indexes: list[Json] = answer.json()["indexes"]
            return indexes
        time.sleep(1)
    raise RuntimeError("Indexes did not settle.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=51)
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with serving(options.rows) as server:
        table_id = fill(server)
        before = measure(server, table_id, 5)
        indexes = wait_for_indexes(server, table_id, 900)
        after = measure(server, table_id, options.rounds)
    for index in indexes:
        size = index["size_bytes"] / 1e6
        print(f"{index['state']:8} {index['method']:5} {size:6.1f} MB  {index['reason']} {index['error'] or ''}")
    print(f"\n{'p50 in ms, limit 20, with total':42}{'before':>10}{'after':>10}")
    for name in QUERIES:
        print(f"{name:42}{before[name]:10.2f}{after[name]:10.2f}")


if __name__ == "__main__":
    main()
