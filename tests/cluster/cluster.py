"""Three nodes behind HAProxy, on PostgreSQL with a standby and an object store, with a link for each connection.

Without HAProxy the clients choose a node themselves. Everything listens on loopback.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from pilotis.blobs.check import send
from pilotis.blobs.presign import Presigner
from pilotis.db.embedded.lockfile import DATABASE, SUPERUSER
from tests.blobs import swift
from tests.cluster.links import Link, to_port, to_socket
from tests.cluster.postgres import Pair
from tests.conftest import first_console_user, new_app
from tests.support import App, Server, plain_client
from tests.waiting import children, reserved_port, until

NODES = 3
LEASE_SECONDS = 4
_HAPROXY = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
_FOLDERS = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())


class Balanced(Server):
    """What clients take for the server: the load balancer before the nodes."""

    def __init__(self, data_dir: Path, address: Callable[[], str]) -> None:
        super().__init__(data_dir)
        self._address = address

    @property
    def url(self) -> str:
        return self._address()


class Node:
    """A node with its links: to the database, to the object store, and from the load balancer."""

    def __init__(self, folder: Path, number: int, environment: dict[str, str]) -> None:
        self.name = f"node{number}"
        self.database = Link(None)
        self.store = Link(None)
        self.front = Link(None)
        self.is_paused = False
        self.source: Path | None = None
        """The checkout whose program it runs, if that is another one."""
        self._folder = folder
        self._environment = environment
        self.server: Server | None = None

    @property
    def links(self) -> dict[str, Link]:
        return {"database": self.database, "store": self.store, "front": self.front}

    @property
    def url(self) -> str:
        """The address of the node by its link."""
        return f"http://127.0.0.1:{self.front.port}"

    async def start(self, wrapper: list[str] | None = None) -> None:
        """Start the process, and wait until it answers."""
        url = f"postgresql://{SUPERUSER}@127.0.0.1:{self.database.port}/{DATABASE}?sslmode=disable"
        environment = dict(self._environment)
        if self.store.port:
            environment["PILOTIS_BLOB_STORE"] = (
                f"s3://{swift.BUCKET}/cluster?endpoint=http://127.0.0.1:{self.store.port}&region={swift.REGION}"
            )
        command = list(wrapper or [])
        if self.source is not None:
            command = ["env", f"PYTHONPATH={self.source / 'src'}", *command]
        self.server = Server(self._folder / self.name, "--database-url", url, environment=environment, wrapper=command)
        await asyncio.to_thread(self.server.start)
        self.front.leads_to = to_port(urlsplit(self.server.url).port or 0)

    async def kill(self) -> None:
        """Kill it as `kill -9` does."""
        server, self.server = self.server, None
        if server is not None:
            await asyncio.to_thread(server.kill)
            self._kept_log(server)

    async def stop(self) -> None:
        """Stop it as an operator does."""
        server, self.server = self.server, None
        if server is not None:
            await asyncio.to_thread(server.stop)
            self._kept_log(server)

    def pause(self) -> None:
        """Freeze it, with the programs that it has started."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on."""
        if self.is_paused:
            self._signal(signal.SIGCONT)
        self.is_paused = False

    def failures(self) -> list[str]:
        """The lines of its logs that tell of an answer of 500."""
        logs = sorted(self._folder.glob(f"{self.name}*.log"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return [line for line in lines if '"event":"failed"' in line]

    def _signal(self, number: signal.Signals) -> None:
        assert self.server is not None
        assert self.server.process is not None
        pid = self.server.process.pid
        for each in (pid, *children(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)

    def _kept_log(self, server: Server) -> None:
        """Keep the log of a process that has ended, which the next one would replace."""
        log = Path(server.log.name)
        number = len(list(self._folder.glob(f"{self.name}.*.log")))
        log.replace(self._folder / f"{self.name}.{number}.log")


class Cluster:
    """All parts, and an app to work with."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.postgres = Pair(folder)
        self.store: swift.Swift | None = None
        self._haproxy: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.console: dict[str, str] = {}
        environment = {
            "PILOTIS_MASTER_KEY": secrets.token_hex(32),
            "PILOTIS_NODE_LEASE_SECONDS": str(LEASE_SECONDS),
            "PILOTIS_S3_ACCESS_KEY": swift.ACCESS_KEY,
            "PILOTIS_S3_SECRET_KEY": swift.SECRET_KEY,
            "PILOTIS_OUTGOING_NETWORKS": "127.0.0.0/8",
            "PILOTIS_LIMITS_ZIP_DEPLOYS_PER_HOUR": "100000",
            # What a request may take: unlike the rest of the suite, this is about what is slow.
            "PILOTIS_STATEMENT_SECONDS": "5",
            "PILOTIS_FUNCTIONS_READY_JAVASCRIPT": "1",
            "PILOTIS_FUNCTIONS_READY_PYTHON": "0",
            "PILOTIS_STOP_SECONDS": "5",
            "PILOTIS_WEBHOOK_SCHEDULE": "0,0.5,1,1,2,2,4,4,8,8,16,16,16,16,16,16",
            "PILOTIS_LOG_FORMAT": "json",
        }
        self.nodes = [Node(folder, number, environment | (settings or {})) for number in range(1, NODES + 1)]

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        *,
        with_standby: bool = True,
        with_store: bool = True,
        settings: dict[str, str] | None = None,
        source: Path | None = None,
    ) -> AsyncIterator["Cluster"]:
        """Start everything below a new folder, which is removed at the end; the nodes run the program of `source`."""
        folder = _new_folder()
        cluster = cls(folder, settings)
        for node in cluster.nodes:
            node.source = source
        try:
            await cluster._start(with_standby=with_standby, with_store=with_store)
            yield cluster
        finally:
            await cluster._stop()
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Where clients reach the cluster."""
        return f"http://127.0.0.1:{self._port}" if self._haproxy else self.nodes[0].url

    @property
    def database_links(self) -> list[Link]:
        return [node.database for node in self.nodes]

    def app(self) -> App:
        """Make an app, whose requests go by way of the load balancer."""
        return new_app(Balanced(self.folder / "balanced", lambda: self.url), self.console)

    async def serving(self) -> None:
        """Wait until each node that runs is ready, and the load balancer has one to send requests to."""
        for url in [*(node.url for node in self.nodes if node.server and not node.is_paused), self.url]:
            told: list[str] = []
            try:
                await until(lambda url=url, told=told: _is_ready(url, told))
            except AssertionError:
                logs = [node.server.logs()[-2000:] for node in self.nodes if node.server and node.url == url]
                raise AssertionError(f"{url} is not ready: {told[-1:]} {logs}") from None

    def failures(self) -> list[str]:
        """Every answer of 500."""
        return [line for node in self.nodes for line in node.failures()]

    async def _start(self, *, with_standby: bool, with_store: bool) -> None:
        await self.postgres.start(with_standby=with_standby)
        if with_store:
            (self.folder / "store").mkdir()
            self.store = await asyncio.to_thread(swift.Swift, self.folder / "store")
            signer = Presigner(self.store.endpoint, swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)
            url = signer.sign("PUT", swift.BUCKET, expires_seconds=60)
            status, _ = await asyncio.to_thread(send, "PUT", url, {})
            assert status == 200
        for node in self.nodes:
            node.database.leads_to = to_socket(self.postgres.primary.socket)
            await node.database.open()
            await node.front.open()
            if self.store:
                node.store.leads_to = to_port(self.store.port)
                await node.store.open()
        if self.nodes[0].source is not None:
            # The other version makes its own.
            await self.postgres.primary.run("drop schema pilotis cascade")
        await self.nodes[0].start()
        assert self.nodes[0].server is not None
        # Each node that starts before there is a user prints a token of its own, of which the last is valid.
        self.console = await asyncio.to_thread(first_console_user, self.nodes[0].server)
        await asyncio.gather(*(node.start() for node in self.nodes[1:]))
        self._start_haproxy()
        await self.serving()

    def _start_haproxy(self) -> None:
        """Start HAProxy with the configuration of `deploy`, in which other nodes are named."""
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            return
        lines = [line for line in _HAPROXY.read_text().splitlines() if not line.startswith("    server ")]
        lines += [f"    server {node.name} 127.0.0.1:{node.front.port}" for node in self.nodes]
        with reserved_port() as self._port:
            text = "\n".join(lines).replace("bind :8080", f"bind 127.0.0.1:{self._port}")
            configuration = self.folder / "haproxy.cfg"
            configuration.write_text(text + "\n")
            with (self.folder / "haproxy.log").open("wb") as log:
                self._haproxy = subprocess.Popen(
                    [program, "-f", str(configuration), "-db"], stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )

    async def _stop(self) -> None:
        for node in self.nodes:
            node.resume()
            for link in node.links.values():
                link.heal()
        self.postgres.replication.heal()
        await asyncio.gather(*(node.kill() for node in self.nodes))
        if self._haproxy:
            self._haproxy.terminate()
            await asyncio.to_thread(self._haproxy.wait)
        for node in self.nodes:
            for link in node.links.values():
                await link.close()
        await self.postgres.stop()
        if self.store:
            await asyncio.to_thread(self.store.stop)


def _new_folder() -> Path:
    """A folder through which the user of PostgreSQL can pass; its path is short, since those of unix sockets are."""
    folder = Path(tempfile.mkdtemp(prefix="pilotis-cluster-", dir=_FOLDERS))
    folder.chmod(0o711)
    return folder


async def _is_ready(url: str, told: list[str]) -> bool:
    """Ask whether a node is ready, and add what it says."""
    async with plain_client(url) as client:
        try:
            answer = await client.get("/readyz", headers={"Host": "localhost"}, timeout=5)
        except httpx.HTTPError as error:
            told.append(repr(error))
            return False
        told.append(answer.text)
        return answer.status_code == 200
