"""Load: `wrk` if it is installed, otherwise our own client in a separate process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

WRK = shutil.which("wrk")
GENERATOR = "wrk" if WRK else "bench.client"
_GRACE_SECONDS = 30
_SCRIPT = Path(__file__).with_name("wrk.lua")


class Requests(msgspec.Struct, frozen=True):
    """Requests of one kind, sent in turn over and over: pairs of a path and a body, each in one line of text."""

    method: str
    lines: Sequence[tuple[str, str]]

    def write(self, file: Path) -> Path:
        """Write the requests as the generators read them, and return the file."""
        file.write_text("".join(f"{path}\t{body}\n" for path, body in self.lines))
        return file


class Result(msgspec.Struct, frozen=True):
    """What one run saw; latencies in milliseconds."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


class LoadError(Exception):
    """The load generator or requests failed, so the run is not valid."""


def command(
    url: str, method: str, file: Path, headers: Mapping[str, str], seconds: float, connections: int
) -> list[str]:
    """Return the command that sends the file's requests."""
    given = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    if WRK is None:
        own = [sys.executable, "-m", "bench.client", url, method, str(file)]
        return [*own, *given, "--seconds", str(seconds), "--connections", str(connections)]
    # wrk accepts only whole seconds.
    bounds = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
    return [WRK, *bounds, *given, "-s", str(_SCRIPT), url, "--", method, str(file)]


def run(url: str, method: str, file: Path, headers: Mapping[str, str], seconds: float, connections: int) -> Result:
    """Send requests on kept-alive connections, each waiting for its answer; raises `LoadError` if any fails."""
    ran = subprocess.run(
        command(url, method, file, headers, seconds, connections),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + _GRACE_SECONDS,
    )
    if ran.returncode:
        raise LoadError(f"{GENERATOR} ended with {ran.returncode}: {ran.stderr}{ran.stdout}")
    result = msgspec.json.decode(ran.stdout.strip().rpartition("\n")[2], type=Result)
    if result.failed or not result.requests:
        raise LoadError(f"{result.failed} of {result.requests} requests to {url} failed.")
    return result
