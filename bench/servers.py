"""The processes under load: Pilotis as a user starts it, and the baseline."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from bench.baseline import Plan
from pilotis.db.embedded import running_address

_START_SECONDS = 120
_STOP_SECONDS = 20
_ENVIRONMENT = {
    "PILOTIS_METRICS_PORT": "0",
    # The limits that a benchmark of sign-ins meets.
    "PILOTIS_LIMITS_SIGNIN_PER_MINUTE": "1000000000",
    "PILOTIS_LIMITS_SIGNIN_ADDRESS_PER_MINUTE": "1000000000",
    "PILOTIS_LIMITS_SIGNUP_PER_MINUTE": "1000000000",
    "PILOTIS_LIMITS_GUEST_PER_MINUTE": "1000000000",
}


def _https(certificate: Path) -> dict[str, str]:
    """Return the settings of a server that answers by HTTPS on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {
        "PILOTIS_HOST": "127.0.0.1",
        "PILOTIS_HTTPS_PORT": str(port),
        "PILOTIS_HTTP_PORT": "0",
        "PILOTIS_BASE_URL": f"https://127.0.0.1:{port}",
        "PILOTIS_HTTPS_CERTIFICATE": str(certificate),
    }


class Process:
    """A server in a separate process; its address is `url` once it has started.

    With `source` it runs the packages in that directory in place of the installed ones.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        directory: Path,
        source: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._log = directory / f"{name}.log"
        own = {**({"PYTHONPATH": str(source)} if source else {}), **(settings or {})}
        environment = {**os.environ, **_ENVIRONMENT, **own}
        with self._log.open("w") as errors, (directory / f"{name}.out").open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdout=output, stderr=errors, env=environment
            )
        self._output = directory / f"{name}.out"
        self.url = self._find(r"https?://[\w.]+:\d+")

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_STOP_SECONDS)

    def memory(self) -> dict[str, float]:
        """Return the process' resident and proportional set sizes in megabytes (10^6 bytes)."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return {name: kilobytes[name] * 1024 / 1e6 for name in ("Rss", "Pss")}

    def reset_peak(self) -> None:
        """Restart recording the peak of the resident set (proc_pid_clear_refs(5))."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak(self) -> float:
        """Return the peak of the resident set in megabytes (10^6 bytes)."""
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def processor_seconds(self) -> float:
        """Return the processor time that the process has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _find(self, pattern: str) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := re.search(pattern, self._output.read_text()):
                return found[0]
            time.sleep(0.02)
        raise RuntimeError(f"The server did not start:\n{self._output.read_text()}{self._log.read_text()}")


class Pilotis(Process):
    """`pilotis serve` on a new data directory, and the app that it creates there.

    With a URL it serves from that database, which must be empty; `name` tells two servers of one directory apart.
    """

    def __init__(
        self,
        directory: Path,
        database_url: str | None = None,
        name: str = "pilotis",
        workers: int = 1,
        source: Path | None = None,
        certificate: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.data_dir = directory / f"{name}-data"
        place = ["--data-dir", str(self.data_dir), *(["--database-url", database_url] if database_url else [])]
        port = [] if certificate else ["--port", "0"]
        command = ["pilotis", "serve", *port, "--workers", str(workers), *place]
        super().__init__(name, command, directory, source, _https(certificate) if certificate else environment)
        self.headers = {"X-Public-Key": self._find(r"pk_[\w-]+")}
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                httpx.get(self.url, verify=False)
                return
            except httpx.ConnectError:
                time.sleep(0.02)

    def connect_arguments(self) -> dict[str, Any]:
        """Return how to connect to Pilotis' own PostgreSQL."""
        address = running_address(self.data_dir / "postgres")
        assert address is not None
        return address._asdict()

    def workers(self) -> list[int]:
        """Return the processes that answer requests, by slot, of a server none of which has been replaced."""
        own = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sorted(int(pid) for pid in found if Path(f"/proc/{pid}/cmdline").read_bytes() == own)

    def post(self, path: str, body: Any) -> Any:
        """Send a request and return the answer's body."""
        answer = httpx.post(self.url + path, json=body, headers=self.headers, timeout=60, verify=False)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def owned_app(self) -> tuple[str, dict[str, str]]:
        """Create a console user and an app; return the app's id and headers with its key and the user's token.

        The user is the first one, so this can be done once.
        """
        token = self._find(r"setup#\S+").partition("#")[2]
        user = {"email": "bench@example.com", "password": "correct horse battery", "token": token}
        bearer = {"Authorization": f"Bearer {self.post('/v1/auth/signup', user)['access_token']}"}
        made = httpx.post(f"{self.url}/v1/apps", json={"name": "neighbour"}, headers=bearer, verify=False).json()
        return made["app_id"], {"X-Public-Key": made["public_key"], **bearer}


def baseline(plan: Plan, directory: Path) -> Process:
    """Start the bare application."""
    file = directory / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    return Process("baseline", ["bench.baseline", str(file)], directory)
