"""A real Pilotis in its own process, and clients that call it like a user's."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests import cluster_template, databases
from tests.forked import Program, is_alike
from tests.waiting import PATIENCE

STOP_SECONDS = 60

# Rate limits that a fast machine does not meet and a time for statements that a busy one does not, so that tests meet
# only the limits they test; and passwords that are hashed in less than a millisecond, which is a tenth of all that the
# tests would compute.
GENEROUS = {
    "PILOTIS_LIMITS_SIGNIN_ADDRESS_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_SIGNUP_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_GUEST_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_SCHEMA_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_LIVE_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_OAUTH_EXCHANGE_FAILURES_PER_MINUTE": "100000",
    "PILOTIS_LIMITS_ARGON2_MEMORY_KIB": "256",
    "PILOTIS_STATEMENT_SECONDS": "60",
}


class Server:
    """`pilotis serve` on a free port over a data directory."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        wrapper: Sequence[str | Path] = (),
        from_nothing: bool = False,
        ports: Sequence[str] = ("--port", "0"),
    ) -> None:
        """`wrapper` is a command that runs the one behind it in its place, as env(1) does; `ports` are flags.

        Its embedded database is a copy of one that has been made before; `from_nothing` lets it make its own.
        """
        self.data_dir = data_dir
        self.arguments = arguments
        self.wrapper = wrapper
        self.environment = environment or {}
        self.from_nothing = from_nothing
        self.ports = ports
        self.output = ""
        self.process: Program | subprocess.Popen[str] | None = None

    def start(self) -> "Server":
        """Start and wait until the address is printed."""
        if not self.from_nothing and "--database-url" not in self.place:
            cluster_template.copy_to(self.data_dir, self.environment)
        self.log = (self.data_dir.parent / f"{self.data_dir.name}.log").open("w")
        words = ["pilotis", "serve", *self.ports, *self.place, *self.arguments]
        environment = {**os.environ, **GENEROUS, "PILOTIS_METRICS_PORT": "0", **self.environment}
        if self.wrapper or not is_alike(environment):
            command = [*self.wrapper, sys.executable, "-m", *words]
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
            )
        else:
            self.process = Program(*words, environment=environment, stderr=self.log)
        self.output = ""
        # One that gives up ends, and with it its output.
        while not self.ready and (line := self.process.stdout.readline()):
            self.output += line
        if not self.ready:
            self.kill()
            raise AssertionError(self.output + self.logs())
        return self

    @property
    def place(self) -> list[str]:
        """The flags that name the data directory and, where it is not the embedded one, the database."""
        own = [] if "--database-url" in self.arguments else databases.arguments(self.data_dir)
        return ["--data-dir", str(self.data_dir), *own]

    @property
    def ready(self) -> bool:
        return "Ctrl-C" in self.output

    @property
    def url(self) -> str:
        return re.search(r"http://[\d.]+:\d+", self.output)[0]

    @property
    def metrics_url(self) -> str:
        """Where its metrics are, if its environment names a port for them."""
        return re.search(r"Metrics for Prometheus are at (http://[\d.]+:\d+)", self.output)[1]

    @property
    def setup_token(self) -> str:
        return re.search(r"setup#(\S+)", self.output)[1]

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """Stop as Ctrl-C does and return the exit status."""
        self.process.send_signal(2)
        return self._ended(timeout)

    def kill(self) -> int:
        """Kill without warning."""
        self.process.kill()
        return self._ended(STOP_SECONDS)

    def _ended(self, timeout: float = STOP_SECONDS) -> int:
        status = self.process.wait(timeout)
        self.process.stdout.close()
        self.log.close()
        return status

    def logs(self) -> str:
        return Path(self.log.name).read_text()

    def assert_no_failure(self) -> None:
        """Check that no request was answered with a 500; names each that was, with its traceback."""
        failed = [line for line in self.logs().splitlines() if '"event":"failed"' in line]
        assert not failed, "\n".join(["The server answered with a 500:", *failed])


def plain_client(url: str, **headers: str) -> httpx.AsyncClient:
    """A client for plain HTTP: loading the certificates that only HTTPS needs would take 17 ms each time."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=False)


@dataclass
class App:
    """An app on a server, with clients for each kind of caller."""

    server: Server
    app_id: str
    public_key: str
    secret_key: str
    console: dict[str, str] = field(repr=False)

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A client with the public key, and a bearer token where one is given."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return plain_client(self.server.url, **{"X-Public-Key": self.public_key, **bearer, **headers})

    async def member(self, login_id: str = "ada", password: str = "correct horse") -> dict[str, Any]:
        """Sign a member up and return the answer."""
        async with self.client() as client:
            answer = await client.post(
                "/v1/public/app-members/signup", json={"login_id": login_id, "password": password}
            )
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def table(
        self, schema: dict[str, Any], access_level: str = "Public", title: str | None = None, **more: Any
    ) -> str:
        """Make a table and return its id."""
        async with self.client() as client:
            title = title or f"table {time.monotonic_ns()}"
            body = {"title": title, "schema": schema, "access_level": access_level, **more}
            answer = await client.post("/v1/public/tables", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def guest(self) -> dict[str, Any]:
        """Sign a guest in and return the answer."""
        async with self.client() as client:
            answer = await client.post("/v1/public/app-members")
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def row(self, table_id: str, data: dict[str, Any], token: str | None = None) -> dict[str, Any]:
        """Make a row and return it."""
        async with self.client(token) as client:
            answer = await client.post(f"/v1/public/tables/{table_id}/data", json={"data": data})
        assert answer.status_code == 201, answer.text
        return answer.json()


def assert_error(answer: httpx.Response, status: int, code: str, *, failed_index: int | None = None) -> dict[str, Any]:
    """Check an error answer's status, shape and code, and return its body."""
    assert answer.status_code == status, answer.text
    body = json.loads(answer.content)
    assert body["code"] == code, body
    beside = {"failed_index", "key", "existing_id", "table", "column", "count"}
    beside |= {"ticket", "factors", "expires_at", "methods", "until", "quota", "resets_at", "nearest"}
    assert set(body) <= {"code", "message", "details", "request_id", *beside}, body
    assert body.get("failed_index") == failed_index, body
    assert body["request_id"] == answer.headers["x-request-id"]
    return body
