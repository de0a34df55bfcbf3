"""A rolling upgrade under load: the revision before, its database, and this one beside it.

The old program is that of the last tag, or of the commit before the newest migration. Clients call whichever node is
ready, as behind a load balancer, and go on at another one when a node refuses. Nothing acknowledged may be missing
afterwards, and the only answers besides success are 503.
"""

import asyncio
import collections
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from pilotis.db import migrations
from pilotis.db.embedded import EmbeddedPostgres
from tests.support import GENEROUS
from tests.waiting import PATIENCE
from tests.whole import WHOLE, times

ROOT = Path(__file__).parents[1]
SQL = "src/pilotis/db/sql"
CLIENTS = times(2, whole=16)
SECONDS = times(0, whole=10)
PAUSE_SECONDS = 0 if WHOLE else 0.1
CREDENTIALS = {"login_id": "ada", "password": "correct horse battery"}


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def migrations_of(commit: str) -> set[bytes]:
    """The migrations of a commit, each with the hash of its text."""
    return set(git("ls-tree", "-r", commit, "--", SQL).splitlines())


def released() -> str | None:
    """The last tag, or the commit before the newest migration that is committed; None without their history."""
    try:
        if tags := git("tag", "--sort=-v:refname", "--merged", "HEAD").decode().split():
            return tags[0]
        # Of migrations that were renumbered before anybody had them, no database knows the former names.
        now = migrations_of("HEAD")
        for changed in git("rev-list", "--first-parent", "HEAD", "--", SQL).decode().split():
            before = migrations_of(f"{changed}^1")
            if before < now:
                return git("rev-parse", "--verify", f"{changed}^1").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the revision before."""
    commit = released()
    if commit is None:
        pytest.skip("the repository has no earlier revision; fetch its history")
    folder = tmp_path_factory.mktemp("released")
    with zipfile.ZipFile(io.BytesIO(git("archive", "--format=zip", commit, "src"))) as archive:
        archive.extractall(folder)
    return folder / "src"


class Node:
    """`pilotis serve` of one of the two sources on a database."""

    def __init__(self, source: Path, folder: Path, database_url: str) -> None:
        self._log = (folder.parent / f"{folder.name}.log").open("w+")
        environment = {**os.environ, **GENEROUS, "PYTHONPATH": str(source), "PILOTIS_METRICS_PORT": "0"}
        environment |= {"PILOTIS_MASTER_KEY": "ab" * 32, "PILOTIS_BLOB_STORE": str(folder.parent / "blobs")}
        command = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(folder)]
        command += ["--database-url", database_url]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment, cwd=folder.parent
        )
        self.output = ""
        self.url = ""

    def wait(self) -> "Node":
        """Wait until it serves."""
        assert self._process.stdout is not None
        while "Ctrl-C" not in self.output and (line := self._process.stdout.readline()):
            self.output += line
        assert "Ctrl-C" in self.output, self.output + self.logs()
        self.url = str(re.findall(r"http://[\d.]+:\d+", self.output)[0])
        return self

    def logs(self) -> str:
        return Path(self._log.name).read_text()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """End it as a service manager does, and return its exit status."""
        if self._process.poll() is None:
            self.send(signal.SIGTERM)
        status = self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        return status


class Load:
    """Clients that create, change and read rows and sign in, and what they were answered."""

    def __init__(self, key: str, member: str) -> None:
        self.nodes: list[Node] = []
        self.paths: list[str] = []
        self.created: dict[str, int] = {}
        self.statuses: collections.Counter[int] = collections.Counter()
        self.wrong: list[str] = []
        self._headers = {"X-Public-Key": key, "Authorization": f"Bearer {member}"}
        self._numbers = itertools.count()
        self._stopping = False

    async def run(self) -> None:
        """Send requests until `stop`."""
        async with httpx.AsyncClient(timeout=PATIENCE, headers=self._headers, verify=False) as client:
            await asyncio.gather(*(self._client(client, at) for at in range(CLIENTS)))

    def stop(self) -> None:
        self._stopping = True

    async def for_(self, seconds: float) -> None:
        """Let the clients go on, until each node has answered."""
        sent, end = sum(self.statuses.values()), time.monotonic() + seconds
        while time.monotonic() < end or sum(self.statuses.values()) < sent + 4 * CLIENTS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def _client(self, client: httpx.AsyncClient, at: int) -> None:
        while not self._stopping:
            await asyncio.sleep(PAUSE_SECONDS)
            node = self.nodes[(at := at + 1) % len(self.nodes)]
            number, rows = next(self._numbers), self.paths[-1]
            answer = await self._ask(client, node, "POST", rows, {"data": {"number": number}})
            if answer is None:
                continue
            row = answer.json()["id"]
            self.created[row] = number
            path, other = f"{rows}/{row}", self.nodes[at * 7 % len(self.nodes)]
            read = await self._ask(client, other, "GET", path)
            if read and read.json()["data"]["number"] != number:
                self.wrong.append(f"{row} has not what was stored")
            if await self._ask(client, other, "PATCH", path, {"data": {"number": number + 1_000_000}}):
                self.created[row] = number + 1_000_000
            await self._ask(client, node, "POST", "/v1/public/app-members/signin", CREDENTIALS)

    async def _ask(
        self, client: httpx.AsyncClient, node: Node, method: str, path: str, body: Any = None
    ) -> httpx.Response | None:
        """Return an answer of success; None for any other, or if the node has ended."""
        try:
            answer = await client.request(method, f"{node.url}{path}", json=body)
        except httpx.TransportError:
            self.statuses[0] += 1
            self._forget(method, path)
            return None
        self.statuses[answer.status_code] += 1
        if answer.status_code == 503:
            self._forget(method, path)
        elif answer.status_code >= 300:
            self.wrong.append(f"{method} {answer.status_code} {answer.text}")
        return answer if answer.status_code < 300 else None

    def _forget(self, method: str, path: str) -> None:
        """Expect nothing of a row whose change may have been made."""
        if method == "PATCH":
            self.created.pop(path.rpartition("/")[2])


@pytest.fixture
def database_url(tmp_path: Path) -> Iterator[str]:
    postgres = EmbeddedPostgres(tmp_path / "postgres", settings={"fsync": "off"})
    address = postgres.start()
    yield f"postgresql://{address.user}@/{address.database}?host={address.host}&port={address.port}"
    postgres.stop()


async def newest(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        number: int = await connection.fetchval("select max(number) from pilotis.migrations")
        return number
    finally:
        await connection.close()


async def ready(node: Node) -> int:
    async with httpx.AsyncClient(verify=False) as client:
        return (await client.get(f"{node.url}/readyz")).status_code


@pytest.mark.embedded("it starts PostgreSQL itself, for nodes of two versions")
async def test_the_version_before_serves_beside_the_new_one_under_load(
    old_source: Path, tmp_path: Path, database_url: str
):
    started: list[Node] = []

    async def start(source: Path) -> Node:
        started.append(Node(source, tmp_path / f"node{len(started)}", database_url))
        return await asyncio.to_thread(started[-1].wait)

    try:
        old = [await start(old_source), await start(old_source)]
        # A version may add none.
        assert await newest(database_url) <= migrations.all_migrations()[-1].number
        key = re.findall(r"pk_[\w-]+", old[0].output)[0]
        member = await signed_up(old[0], key)
        load = Load(key, member)
        load.paths.append(await table(old[0], key, member, "old"))
        load.nodes = list(old)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run())
            try:
                await load.for_(SECONDS)
                new = [await start(ROOT / "src")]
                assert await newest(database_url) == migrations.all_migrations()[-1].number
                load.nodes = [*old, *new]
                # Both serve, and what one makes the other uses.
                assert [await ready(node) for node in load.nodes] == [200, 200, 200]
                load.paths.append(await table(new[0], key, member, "new"))
                await load.for_(SECONDS)
                # An old one is killed while it answers, a new one comes, and the other old one leaves.
                old[0].send(signal.SIGKILL)
                load.nodes = [old[1], *new]
                if WHOLE:
                    new.append(await start(ROOT / "src"))
                    load.nodes = [old[1], *new]
                await load.for_(SECONDS)
                load.nodes = list(new)
                assert await asyncio.to_thread(old[1].end) == 0
                await load.for_(SECONDS)
                # The way back: a node of the version before starts on the new schema.
                again = await start(old_source)
                assert await ready(again) == 200
                load.nodes = [again, *new]
                await load.for_(SECONDS)
            finally:
                load.stop()
        await check(load, new[0], key, member)
        print(f"{sum(load.statuses.values())} requests: {dict(load.statuses)}, {len(load.created)} rows")
    finally:
        statuses = [await asyncio.to_thread(node.end) for node in started]
    assert [status for at, status in enumerate(statuses) if at != 0] == [0] * (len(started) - 1)


async def signed_up(node: Node, key: str) -> str:
    async with httpx.AsyncClient(base_url=node.url, headers={"X-Public-Key": key}, verify=False) as client:
        answer = await client.post("/v1/public/app-members/signup", json=CREDENTIALS)
        return str(answer.raise_for_status().json()["access_token"])


async def table(node: Node, key: str, member: str, title: str) -> str:
    headers = {"X-Public-Key": key, "Authorization": f"Bearer {member}"}
    async with httpx.AsyncClient(base_url=node.url, headers=headers, verify=False) as client:
        body = {"title": title, "schema": {"number": {"type": "int"}}, "access_level": "Creator"}
        answer = await client.post("/v1/public/tables", json=body)
        return f"/v1/public/tables/{answer.raise_for_status().json()['id']}/data"


async def check(load: Load, node: Node, key: str, member: str) -> None:
    """Every acknowledged row is there with its last value, and no answer was a failure."""
    assert load.wrong == []
    assert set(load.statuses) <= {0, 200, 201, 503}
    headers = {"X-Public-Key": key, "Authorization": f"Bearer {member}"}
    found: dict[str, int] = {}
    async with httpx.AsyncClient(base_url=node.url, headers=headers, verify=False, timeout=PATIENCE) as client:
        for path in load.paths:
            for offset in itertools.count(0, 1000):
                params = {"limit": 1000, "offset": offset}
                page = (await client.get(path, params=params)).raise_for_status()
                rows = page.json()["data"]
                found |= {row["id"]: row["data"].get("number") for row in rows}
                if len(rows) < 1000:
                    break
    lost = {row: number for row, number in load.created.items() if found.get(row) != number}
    assert lost == {}
    assert len(load.created) > CLIENTS
