"""PocketBase with its data in a directory of its own, for `bench.rivals` and `bench.console`.

Its program is PocketBase's example, installed outside the repository:

    GOBIN=/tmp/peers go install github.com/pocketbase/pocketbase/examples/base@v0.39.0
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx

from bench import data
from bench.load import Requests

LARGE = 5_000_000
FILES = 8
"""The number of large files, of `LARGE` bytes each."""
_START_SECONDS = 30
_PASSWORD = "correct horse battery"
_KINDS = {"int": "number", "number": "number", "boolean": "bool", "date": "date", "array": "json", "string": "text"}
Json = dict[str, Any]


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
        fields.append({"name": "file", "type": "file", "maxSize": 2 * LARGE, "maxSelect": 1})
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
            "5 MB files": _gets(self._upload(path, os.urandom(LARGE)) for _ in range(FILES)),
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


def _gets(paths: Iterable[str]) -> Requests:
    return Requests("GET", [(path, "") for path in paths])
