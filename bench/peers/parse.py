"""Parse Server with its own PostgreSQL, for the comparison by `bench.rivals` with `--parse DIRECTORY`.

The directory is where npm has installed it:

    npm install --prefix /tmp/peers parse-server@9.10.0
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx
import msgspec

from bench import data
from bench.load import Requests
from pilotis.db.embedded.server import EmbeddedPostgres

_START_SECONDS = 60
_KINDS = {"int": "Number", "number": "Number", "boolean": "Boolean", "date": "Date", "array": "Array"}
# Everything is readable and writable with the application's id alone, as Pilotis' tables with the public key.
_PROGRAM = """
const { ParseServer } = require('parse-server');
const [port, databaseURI, database] = process.argv.slice(1);
ParseServer.startApp({
  databaseURI, databaseOptions: JSON.parse(database), appId: 'bench', masterKey: 'master', mountPath: '/parse',
  port: Number(port), host: '127.0.0.1', serverURL: `http://127.0.0.1:${port}/parse`, silent: true,
  allowClientClassCreation: true, logsFolder: null, verbose: false,
}).catch(error => { console.error(error); process.exit(1); });
"""


class ParseServer:
    """Parse Server with its PostgreSQL's data in a separate directory, and the rows of `bench.data`."""

    name = "Parse Server"
    headers: Mapping[str, str] = MappingProxyType(
        {"X-Parse-Application-Id": "bench", "Content-Type": "application/json"}
    )

    def __init__(self, installed: Path, directory: Path, rows: int) -> None:
        self._postgres = EmbeddedPostgres(directory / "parse-postgres")
        address = self._postgres.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        # The address in the URI is passed over: the database listens on a Unix socket alone.
        options = {"host": str(address.host), "port": address.port, "user": address.user}
        command = ["node", "-e", _PROGRAM, str(port), f"postgres://localhost/{address.database}"]
        with (directory / "parse.log").open("w") as log:
            self._process = subprocess.Popen(
                [*command, msgspec.json.encode(options).decode()], cwd=installed, stdout=log, stderr=log
            )
        self._client = httpx.Client(timeout=60, headers=self.headers)
        self._wait()
        self._define()
        path = "/parse/classes/Measured"
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda number: self._post(path, _record(number))["objectId"], range(rows)))
        offsets = range(0, min(rows, 2000), 20)
        creates = [data.text(_record(number)) for number in range(5000)]
        self.requests = {
            "row by id": Requests("GET", [(f"{path}/{row_id}", "") for row_id in ids]),
            "page 1 to 100": Requests("GET", [(f"{path}?limit=20&order=createdAt&skip={at}", "") for at in offsets]),
            "create": Requests("POST", [(path, body) for body in creates]),
        }

    @property
    def pids(self) -> list[int]:
        """The processes whose time counts, with all below them."""
        assert self._postgres.pid is not None
        return [self._process.pid, self._postgres.pid]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(_START_SECONDS)
        self._postgres.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self._client.get(f"{self.url}/parse/health").is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise RuntimeError("Parse Server did not start.")

    def _define(self) -> None:
        fields = {name: {"type": _KINDS.get(type_, "String")} for name, type_ in data.SCHEMA.items()}
        anybody = {name: {"*": True} for name in ("get", "find", "count", "create")}
        made = {"className": "Measured", "fields": fields, "classLevelPermissions": anybody}
        self._post("/parse/schemas/Measured", made)

    def _post(self, path: str, body: Any) -> Any:
        answer = self._client.post(self.url + path, json=body, headers={"X-Parse-Master-Key": "master"})
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()


def _record(number: int) -> dict[str, Any]:
    row = data.row(number)
    moment = row["joined"].replace("Z", ".000Z")
    return {**row, "joined": {"__type": "Date", "iso": moment}}
