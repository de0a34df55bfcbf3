"""Files, compared with nginx and dd: `python -m bench.files [--only NAME] [--seconds 3] [--rounds 5]`.

Pilotis with one worker, nginx with one worker. Every round runs Pilotis, then what it is compared with; what counts is
the median of the rounds' ratios.

- `read …`: the same files by the same paths from both, out of the page cache; wrk with kept-alive connections, every
  file in turn. Pilotis reads them from its object store, where they came by the three steps; nginx from a directory.
- `upload`: one PUT of 200 MB over loopback from a client that does nothing but sendfile, timed from connecting to the
  answer, beside `dd bs=1M conv=fsync` of the same file on the same file system. Megabytes (10^6) a second. The
  server's peak of resident memory is reset before each PUT and read after it.
- `pairs`: presigned-url for many files, then the bytes of all of them, then complete-upload for all of them, each by
  many connections. The rate is the number of files by the seconds of the first and the last part together; sending
  the bytes is not counted. Latencies are those of the two requests of a pair added up.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from bench import load, once, report
from bench.load import Requests
from bench.once import Request
from bench.peers import nginx
from bench.peers.nginx import Nginx
from bench.report import Measure, Side
from bench.servers import Pilotis, Process

MEMORY_MEGABYTES = 40
_SMALL, _LARGE, _HUGE = 4 << 10, 5_000_000, 200_000_000
_CONNECTIONS = 32
Json = dict[str, Any]


class FilesReport(msgspec.Struct):
    """One run. `upload_growth` is the most by which a PUT of 200 MB raised the server's resident memory, in MB."""

    machine: Json
    options: Json
    measures: list[Measure]
    upload_growth: float | None


class Stage:
    """A storage on a running Pilotis, and the plain directory that holds the same files by the same paths."""

    def __init__(self, pilotis: Pilotis, directory: Path) -> None:
        self.pilotis = pilotis
        self.plain = directory / "plain"
        app, headers = pilotis.owned_app()
        url = f"{pilotis.url}/v1/apps/{app}/storages/files"
        made = httpx.post(url, json={"name": "measured"}, headers=headers)
        self.headers = {"X-Public-Key": headers["X-Public-Key"], "Content-Type": "application/json"}
        self._route = f"/v1/public/storages/files/{made.raise_for_status().json()['id']}"

    def fill(self, count: int, size: int) -> Requests:
        """Upload files of random bytes, put them into the plain directory too, and return the requests for them."""
        contents = [os.urandom(size) for _ in range(count)]
        presigned_uploads = self.presign(contents).bodies
        self.put(presigned_uploads, contents)
        urls = [msgspec.json.decode(body)["url"] for body in self.complete(presigned_uploads).bodies]
        paths = [urlsplit(url).path for url in urls]
        for path, content in zip(paths, contents, strict=True):
            file = self.plain / path[1:]
            file.parent.mkdir(parents=True)
            file.write_bytes(content)
        return Requests("GET", [(path, "") for path in paths])

    def presigns(self, count: int) -> Requests:
        """Return requests for URLs of uploads, which nobody uses."""
        bodies = [
            msgspec.json.encode({"file_name": f"{number}.png", "file_size": 4096, "mime_type": "image/png"}).decode()
            for number in range(count)
        ]
        return Requests("POST", [(f"{self._route}/presigned-url", body) for body in bodies])

    def presigned(self, name: str, size: int) -> Json:
        """Return a presigned for one upload."""
        body = {"file_name": name, "file_size": size, "mime_type": "image/png"}
        answer = httpx.post(f"{self.pilotis.url}{self._route}/presigned-url", json=body, headers=self.headers)
        presigned: Json = answer.raise_for_status().json()
        return presigned

    def presign(self, contents: list[bytes]) -> once.Sent:
        """Ask for a presigned for each file."""
        names = [f"{os.urandom(8).hex()}.png" for _ in contents]
        bodies = [
            {"file_name": name, "file_size": len(content), "mime_type": "image/png"}
            for name, content in zip(names, contents, strict=True)
        ]
        return self._post("presigned-url", bodies)

    def put(self, presigned_uploads: list[bytes], contents: list[bytes]) -> None:
        """Send the bytes."""
        urls = [urlsplit(msgspec.json.decode(presigned)["upload_url"]) for presigned in presigned_uploads]
        puts = [
            Request("PUT", f"{url.path}?{url.query}", {"Content-Type": "image/png"}, content)
            for url, content in zip(urls, contents, strict=True)
        ]
        once.send(self.pilotis.url, puts, _CONNECTIONS)

    def complete(self, presigned_uploads: list[bytes]) -> once.Sent:
        """Complete each upload."""
        return self._post(
            "complete-upload", [{"file_id": msgspec.json.decode(one)["file_id"]} for one in presigned_uploads]
        )

    def _post(self, name: str, bodies: list[Json]) -> once.Sent:
        route = f"{self._route}/{name}"
        requests = [Request("POST", route, self.headers, msgspec.json.encode(body)) for body in bodies]
        return once.send(self.pilotis.url, requests, _CONNECTIONS)


class _Run(msgspec.Struct):
    rate: float
    p50_ms: float
    p99_ms: float
    processor_us: float


def measure_reads(
    stage: Stage, other: Process, name: str, requests: Requests, goal: float, connections: int, options: Any
) -> Measure:
    """Compare reads of the same files, after a round that brings them into the page cache."""
    file = requests.write(stage.plain.parent / "requests")

    def run(server: Process) -> _Run:
        begun = server.processor_seconds()
        result = load.run(server.url, "GET", file, {}, options.seconds, connections)
        processor_us = (server.processor_seconds() - begun) * 1e6 / result.requests
        return _Run(result.rate, result.p50_ms, result.p99_ms, processor_us)

    rounds = [(run(stage.pilotis), run(other)) for _ in range(options.rounds + 1)][1:]
    ratio = median(ours.rate / beside.rate for ours, beside in rounds)
    ours, beside = (_side([pair[at] for pair in rounds]) for at in (0, 1))
    return Measure(name, goal, ours, beside, beside.rate, ratio)


def measure_upload(stage: Stage, options: Any) -> tuple[Measure, float]:
    """Compare a large upload with dd; returns by how many megabytes it raised the server's memory at most, too."""
    source, target = stage.plain.parent / "huge", stage.plain.parent / "copied"
    with source.open("wb") as file:
        file.writelines(os.urandom(1_000_000) for _ in range(_HUGE // 1_000_000))

    def copy() -> _Run:
        seconds = _timed(lambda: _copy(source, target))
        target.unlink()
        return _Run(_HUGE / 1e6 / seconds, seconds * 1000, seconds * 1000, 0)

    growths = []

    def upload(number: int) -> _Run:
        with source.open("r+b") as file:
            # Bytes that are already stored would be deduplicated, which this does not measure.
            file.write(number.to_bytes(8))
        presigned = stage.presigned(f"huge {number}.bin", _HUGE)
        before = stage.pilotis.memory()["Rss"]
        stage.pilotis.reset_peak()
        begun = stage.pilotis.processor_seconds()
        seconds = _timed(lambda: _put(presigned["upload_url"], source))
        processor_us = (stage.pilotis.processor_seconds() - begun) * 1e6
        growths.append(stage.pilotis.peak() - before)
        return _Run(_HUGE / 1e6 / seconds, seconds * 1000, seconds * 1000, processor_us)

    rounds = [(upload(number), copy()) for number in range(options.rounds + 1)][1:]
    ratio = median(ours.rate / beside.rate for ours, beside in rounds)
    ours, beside = (_side([pair[at] for pair in rounds]) for at in (0, 1))
    return Measure("upload 200 MB", 0.7, ours, beside, beside.rate, ratio), max(growths)


def _copy(source: Path, target: Path) -> None:
    command = ["dd", f"if={source}", f"of={target}", "bs=1M", "conv=fsync", "status=none"]
    subprocess.run(command, check=True)


def _put(url: str, source: Path) -> None:
    """Send a file with as little work as a client can have."""
    address = urlsplit(url)
    head = (
        f"PUT {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: image/png\r\nContent-Length: {_HUGE}\r\nConnection: close\r\n\r\n"
    )
    assert address.hostname is not None
    with source.open("rb") as file, socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode())
        connection.sendfile(file)
        answer = connection.makefile("rb").read()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise load.LoadError(f"The upload failed: {answer!r}")


def measure_pairs(stage: Stage, count: int, rounds: int) -> Measure:
    """Measure presign and complete of files whose bytes are sent in between."""

    def run() -> _Run:
        contents = [b"%16d" % number for number in range(count)]
        begun = stage.pilotis.processor_seconds()
        presigned = stage.presign(contents)
        between = stage.pilotis.processor_seconds()
        stage.put(presigned.bodies, contents)
        after = stage.pilotis.processor_seconds()
        completed = stage.complete(presigned.bodies)
        processor_us = (stage.pilotis.processor_seconds() - after + between - begun) * 1e6 / count
        both = sorted(map(sum, zip(presigned.latencies, completed.latencies, strict=True)))
        p50, p99 = (1000 * both[int(part * (count - 1))] for part in (0.5, 0.99))
        return _Run(count / (presigned.seconds + completed.seconds), p50, p99, processor_us)

    return Measure("pairs", 2000, _side([run() for _ in range(rounds + 1)][1:]))


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _side(runs: list[_Run]) -> Side:
    return Side(
        median(run.rate for run in runs),
        median(run.p50_ms for run in runs),
        median(run.p99_ms for run in runs),
        median(run.processor_us for run in runs),
        [run.rate for run in runs],
    )


def measure(stage: Stage, directory: Path, options: Any) -> tuple[list[Measure], float | None]:
    """Run what was asked for, and print each line as it is known."""
    measures: list[Measure] = []
    growth = None

    def wanted(name: str) -> bool:
        return options.only is None or any(part in name for part in options.only)

    def add(measured: Measure) -> None:
        measures.append(measured)
        print(report.line(measured), flush=True)

    print(report.heading("nginx, dd"), flush=True)
    stage.plain.mkdir()
    with Nginx(stage.plain, directory) as other:
        if wanted("read 4 KB"):
            small = stage.fill(1000, _SMALL)
            add(measure_reads(stage, other, "read 4 KB", small, 0.4, _CONNECTIONS, options))
        if wanted("read 5 MB"):
            large = stage.fill(16, _LARGE)
            add(measure_reads(stage, other, "read 5 MB", large, 0.9, _CONNECTIONS // 4, options))
    if wanted("upload"):
        measured, growth = measure_upload(stage, options)
        add(measured)
    if wanted("pairs"):
        add(measure_pairs(stage, options.pairs, options.rounds))
    return measures, growth


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.files", description=__doc__)
    parser.add_argument("--only", action="append", help="run the cases whose names contain this; may be repeated")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run under load")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--pairs", type=int, default=3000, help="files that are presigned and completed in a round")
    options = parser.parse_args()
    if nginx.PROGRAM is None:
        sys.exit("nginx is missing, which reads are compared with; `apt-get install nginx` brings it.")
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name:
        directory = Path(name)
        with Pilotis(directory) as pilotis:
            measures, growth = measure(Stage(pilotis, directory), directory, options)
    done = FilesReport({**report.machine(), "nginx": nginx.version()}, vars(options), measures, growth)
    for fact, value in done.machine.items():
        print(f"{fact}: {value}")
    if growth is not None:
        reached = "reached" if growth < MEMORY_MEGABYTES else "MISSED"
        print(f"memory grew by at most {growth:.0f} MB in an upload (goal: under {MEMORY_MEGABYTES}, {reached})")
    print(f"\nWritten to {report.write(done)}")


if __name__ == "__main__":
    main()
