"""Backups: `python -m bench.backup [--megabytes 300] [--seconds 8]`.

A server is filled with rows that compress as texts do. Then a full backup to a directory is timed beside
`pg_basebackup | gzip -1` to a file and an incremental one of 1 % of the blocks, in turn. Creates by 16 clients are
timed in three states in turn: without a store, with the log archived, and while a full backup runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import asyncpg
import httpx

from bench import load
from bench.load import Requests, Result
from pilotis.backup.wal import waiting
from pilotis.db.embedded import find_binaries, running_address

CLIENTS = 16
FILL = """
    insert into {table} (__id, __created_at, __updated_at, name, note)
    select uuidv7(), now(), now(), md5(g::text), md5((g * 7)::text) || repeat(' and what follows', 10)
    from generate_series(1, $1::int) g
"""


class Served:
    """`pilotis serve` on a data directory, with or without a backup store."""

    def __init__(self, place: Path, store: Path | None) -> None:
        self.place = place
        self.environment = {
            **os.environ,
            "PILOTIS_METRICS_PORT": "0",
            "PILOTIS_LOG_LEVEL": "warning",
            "PILOTIS_BACKUP_STORE": str(store) if store else "",
            "PILOTIS_BACKUP_FULL": "",
            "PILOTIS_BACKUP_INCREMENTAL": "",
            "PILOTIS_BACKUP_REHEARSE": "",
        }
        command = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(place)]
        self._process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        output = ""
        while "Ctrl-C" not in output:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(output)
            output += line
        found = re.search(r"http://[\d.]+:\d+", output)
        assert found is not None
        self.url = found[0]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pilotis", *arguments, "--data-dir", str(self.place)]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout


async def fill(place: Path, app: str, table: str, megabytes: int) -> int:
    address = running_address(place / "postgres")
    assert address is not None
    connection = await asyncpg.connect(**address._asdict())
    physical = f"app_{app.replace('-', '')}.t_{table.replace('-', '')}"
    while True:
        await connection.execute(FILL.format(table=physical), 50_000)
        size: int = await connection.fetchval("select pg_database_size(current_database())")
        if size > megabytes << 20:
            # Otherwise autovacuum changes all blocks once, at some moment between two backups.
            await connection.execute("vacuum (freeze, analyze)")
            await connection.execute("checkpoint")
            await connection.close()
            return size


async def change(place: Path, app: str, table: str, number: int) -> None:
    """Change the rows of one block in a hundred, each time of others."""
    address = running_address(place / "postgres")
    assert address is not None
    connection = await asyncpg.connect(**address._asdict())
    physical = f"app_{app.replace('-', '')}.t_{table.replace('-', '')}"
    pages = f"(select relpages from pg_class where oid = '{physical}'::regclass)"
    first, last = (f"format('(%s,0)', {pages} * {at} / 100)::tid" for at in (number, number + 1))
    await connection.execute(f"update {physical} set name = md5(name) where ctid >= {first} and ctid < {last}")
    await connection.close()


def creates(served: Served, key: str, table: str, seconds: float) -> Result:
    path = f"/v1/public/tables/{table}/data"
    file = Requests("POST", [(path, json.dumps({"data": {"name": "x", "note": "y"}}))]).write(served.place / "requests")
    headers = {"X-Public-Key": key, "Content-Type": "application/json"}
    return load.run(served.url, "POST", file, headers, seconds, CLIENTS)


@contextmanager
def backups(served: Served) -> Generator[None]:
    """Make one full backup after another, each in a session of its own, as cron and systemd start them."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            making = subprocess.Popen(
                served.command("backup", "create", "--full"),
                env=served.environment,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            while making.poll() is None:
                if is_over.wait(0.05):
                    os.killpg(making.pid, signal.SIGKILL)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        is_over.set()
        worker.join()


def plain_backup(place: Path, target: Path) -> float:
    address = running_address(place / "postgres")
    assert address is not None
    program = find_binaries(None) / "pg_basebackup"
    line = f"{program} -Ft -D - -X none --checkpoint=fast -h {address.host} -U {address.user} | gzip -1 > {target}"
    began = time.perf_counter()
    subprocess.run(["bash", "-ec", line], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only-sizes", action="store_true", help="leave the creates out")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, store = Path(folder) / "data", Path(folder) / "store"
        served = Served(place, store)
        made = json.loads(served.run("app", "create", "bench", "--json"))
        app, key = made["app_id"], made["public_key"]
        body = {"title": "rows", "schema": {"name": "string", "note": "string"}, "access_level": "Public"}
        headers = {"X-Public-Key": key}
        table = httpx.post(f"{served.url}/v1/public/tables", json=body, headers=headers).json()["id"]
        size = asyncio.run(fill(place, app, table, options.megabytes))
        # The log of the rows goes to the store first: otherwise that would be timed as well.
        while waiting(place / "postgres").files:
            time.sleep(0.5)
        ours, plain, incremental = [], [], []
        for number in range(options.rounds):
            plain.append(plain_backup(place, Path(folder) / "plain.tar.gz"))
            began = time.perf_counter()
            done = json.loads(served.run("backup", "create", "--full", "--json"))
            ours.append(time.perf_counter() - began)
            asyncio.run(change(place, app, table, number))
            while waiting(place / "postgres").files:
                time.sleep(0.5)
            began = time.perf_counter()
            changed = json.loads(served.run("backup", "create", "--json"))
            assert changed["kind"] == "incremental", changed
            incremental.append(time.perf_counter() - began)
        alone = []
        for _ in range(options.rounds):
            began = time.perf_counter()
            served.run("backup", "list")
            alone.append(time.perf_counter() - began)
        print(f"{size / 1e6:.0f} MB of database, {done['bytes'] / 1e6:.1f} MB in the store; seconds, medians")
        print(f"  pg_basebackup | gzip -1   {median(plain):.2f}")
        print(f"  pilotis backup create     {median(ours):.2f}, of which starting a command takes {median(alone):.2f}")
        print(f"  the same after 1 % changed {median(incremental):.2f}, {changed['bytes'] / 1e6:.1f} MB in the store")
        if options.only_sizes:
            served.stop()
            return
        rates: dict[str, list[Result]] = {"no store": [], "log archived": [], "while a backup runs": []}
        for _ in range(options.rounds):
            served.stop()
            served = Served(place, None)
            creates(served, key, table, 2)
            rates["no store"].append(creates(served, key, table, options.seconds))
            served.stop()
            served = Served(place, store)
            creates(served, key, table, 2)
            rates["log archived"].append(creates(served, key, table, options.seconds))
            with backups(served):
                time.sleep(1.5)
                rates["while a backup runs"].append(creates(served, key, table, options.seconds))
        for what, found in rates.items():
            rate, p99 = median(one.rate for one in found), median(one.p99_ms for one in found)
            print(f"  {what:20} {rate:6.0f} creates/s, p99 {p99:6.1f} ms")
        served.stop()


if __name__ == "__main__":
    main()
