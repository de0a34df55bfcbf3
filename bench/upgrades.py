"""Upgrades from earlier commits to this one: `python -m bench.upgrades --from HEAD~10 --from HEAD~40`.

For each commit: its server fills a new data directory over HTTP, ends by SIGINT or by kill -9 in turn, and this
version's server starts on the directory. Then everything is read again and compared, and the old server is started on
what the new one has migrated: it must work as before, or say in a sentence why it does not start. Needs a repository
with those commits, and the dependencies that they had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

_ROOT = Path(__file__).parent.parent
_ROWS = 500
_START_SECONDS = 120.0
_PASSWORD = "correct horse battery"


class Server:
    """`pilotis serve` of one source tree on a data directory."""

    def __init__(self, source: Path, data_dir: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source / "src"), "PILOTIS_METRICS_PORT": "0"}
        command = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(data_dir)]
        began = time.monotonic()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=data_dir.parent
        )
        assert self._process.stdout is not None
        self.output = ""
        while "Ctrl-C" not in self.output and (line := self._process.stdout.readline()):
            self.output += line
        self.seconds = time.monotonic() - began
        self.is_ready = "Ctrl-C" in self.output
        self.problem = "" if self.is_ready else self._problem()

    @property
    def url(self) -> str:
        """Where it listens."""
        return str(re.findall(r"http://[\d.]+:\d+", self.output)[0])

    @property
    def public_key(self) -> str:
        """The key of the first app, which the first start prints."""
        return str(re.findall(r"pk_[\w-]+", self.output)[0])

    def end(self, number: signal.Signals) -> None:
        """End it by a signal; what a killed server leaves behind ends itself."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.communicate(timeout=_START_SECONDS)

    def _problem(self) -> str:
        lines = self._process.communicate(timeout=_START_SECONDS)[1].strip().splitlines()
        told = [line for line in lines if line.startswith("pilotis: ")]
        return told[-1].removeprefix("pilotis: ") if told else f"traceback: {lines[-1] if lines else 'nothing'}"


_TOLD = ("id", "data", "created_at", "updated_at")


class Found(NamedTuple):
    """Everything that a client reads: a digest of the rows, who the member is, and a signed-in member's own rows."""

    rows: str
    total: int
    member: str
    own: str


class World(NamedTuple):
    """What was put in: the headers of the app and of a member, and the paths of tables."""

    key: dict[str, str]
    member: dict[str, str]
    tables: list[str]


def fill(server: Server) -> World:
    """Put tables, rows of several types, an encrypted column and a member into the first app."""
    key = {"X-Public-Key": server.public_key}
    with httpx.Client(base_url=server.url, headers=key, timeout=60) as client:
        answer = client.post("/v1/public/app-members/signup", json={"login_id": "ada", "password": _PASSWORD})
        member = key | {"Authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}
        schema = {
            "text": {"type": "string"},
            "number": {"type": "int"},
            "secret": {"type": "string", "encrypted": True},
            "more": {"type": "object"},
        }
        tables = []
        for title, level in (("everybody", "Public"), ("own", "Creator")):
            body = {"title": title, "schema": schema, "access_level": level}
            path = f"/v1/public/tables/{client.post('/v1/public/tables', json=body).raise_for_status().json()['id']}"
            rows = [_row(number) for number in range(_ROWS)]
            client.post(f"{path}/data/bulk", json={"data": rows}, headers=member).raise_for_status()
            tables.append(path)
    return World(key, member, tables)


def _row(number: int) -> dict[str, Any]:
    return {"text": f"text {number} é 漢", "number": number, "secret": f"s{number}", "more": {"a": [number, None]}}


def read(server: Server, world: World) -> Found:
    """Read everything as a client."""
    with httpx.Client(base_url=server.url, timeout=60) as client:

        def rows(path: str, headers: dict[str, str]) -> tuple[str, int]:
            answer = client.get(f"{path}/data", params={"limit": 1000}, headers=headers).raise_for_status().json()
            # A new version may tell more of a row, such as who created it.
            listed = sorted(repr([row[name] for name in _TOLD]) for row in answer["data"])
            return hashlib.sha256("".join(listed).encode()).hexdigest(), answer["total_count"]

        everybody, count = rows(world.tables[0], world.key)
        own, _ = rows(world.tables[1], world.member)
        me = client.get("/v1/public/app-members/me", headers=world.member).raise_for_status().json()
        credentials = {"login_id": "ada", "password": _PASSWORD}
        client.post("/v1/public/app-members/signin", json=credentials, headers=world.key).raise_for_status()
    return Found(everybody, count, str(me["member_id"]), own)


@contextmanager
def checked_out(commit: str, directory: Path) -> Iterator[Path]:
    """The files of a commit."""
    target = directory / commit
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(target), commit], cwd=_ROOT, check=True)
    try:
        yield target
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(target)], cwd=_ROOT, check=True)


def upgrade(commit: str, number: int, directory: Path) -> list[str]:
    """Return the row of the table for a commit."""
    data_dir, ending = directory / f"data{number}", (signal.SIGINT, signal.SIGKILL)[number % 2]
    with checked_out(commit, directory) as source:
        old = Server(source, data_dir)
        if not old.is_ready:
            return [commit, "-", f"the old one does not start: {old.problem}", "", "", ""]
        world = fill(old)
        before = read(old, world)
        old.end(ending)
        new = Server(_ROOT, data_dir)
        if not new.is_ready:
            return [commit, ending.name, f"does not start: {new.problem}", "", "", ""]
        same = "yes" if read(new, world) == before else "NO"
        applied = new.output.count("Applied ")
        new.end(signal.SIGINT)
        again = Server(source, data_dir)
        told = f"starts, equal: {read(again, world) == before}" if again.is_ready else again.problem
        again.end(signal.SIGINT)
    return [commit, ending.name, f"{new.seconds:.1f} s", str(applied), same, told]


def main() -> int:
    """Print the table; the status is 1 if something was lost or altered."""
    parser = argparse.ArgumentParser(prog="python -m bench.upgrades", description=__doc__)
    parser.add_argument("--from", dest="commits", action="append", required=True, metavar="COMMIT")
    options = parser.parse_args()
    print("| From | ended by | ready in | migrations | equal | the old one again |\n|---|---|---|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        for number, given in enumerate(options.commits):
            command = ["git", "rev-parse", "--short", given]
            commit = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout.strip()
            row = upgrade(commit, number, Path(directory))
            failed |= row[4] != "yes"
            print(f"| {' | '.join(row)} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
