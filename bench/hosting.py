"""Sites, compared with nginx and a bare ASGI application: `python -m bench.hosting [--seconds 3] [--rounds 3]`.

Each with one worker, and wrk with kept-alive connections on one path. Every round runs all of them, one after the
other; what counts is the median of the rounds' ratios. The deploys are timed from the request to its answer, the files
random, so that no compression helps.

- `hot`: a file of 4 KB.
- `meta`: a page of 4 KB that has metadata.
- `deploy`: an archive of 5,000 files and 100 MB; `incremental`: 10 of them changed, sent as a form.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import socket
import tempfile
import time
import zipfile
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import uvicorn

from bench import load
from bench.load import Requests
from bench.peers.nginx import Nginx
from bench.servers import Pilotis, Process

_CONNECTIONS = 32
_SIZE = 4096
_FILES, _FILE_SIZE = 5_000, 20_000
_BODY = os.urandom(_SIZE)


class Bare(Process):
    """An ASGI application that answers every request with 4 KB and nothing else."""

    def __init__(self, directory: Path) -> None:
        super().__init__("bare", ["bench.hosting", "--bare"], directory)


async def _bare(_scope: Any, _receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"4096")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _BODY})


def serve_bare() -> None:
    """Serve the bare application and print its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(_bare, interface="asgi3", http="httptools", loop="uvloop", lifespan="off", log_config=None)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def archive(files: dict[str, bytes]) -> bytes:
    """Return a zip archive of files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as made:
        for path, data in files.items():
            made.writestr(path, data)
    return buffer.getvalue()


class Site:
    """A web storage on a running Pilotis."""

    def __init__(self, pilotis: Pilotis) -> None:
        app, self.headers = pilotis.owned_app()
        self.url = f"{pilotis.url}/v1/apps/{app}/storages/webs"
        self.public = f"{pilotis.url}/v1/public/storages/webs"
        made = self._asked("POST", self.url, json={"name": "measured"})
        self.id, self.host = made["id"], f"{made['slug']}.localhost"

    def deploy(self, files: dict[str, bytes]) -> float:
        """Deploy an archive and return the seconds until the answer."""
        data = archive(files)
        begun = time.perf_counter()
        self._asked("POST", f"{self.url}/{self.id}/deploy", files={"file": ("site.zip", data)})
        return time.perf_counter() - begun

    def deploy_changes(self, files: dict[str, bytes]) -> float:
        """Deploy changed files in a form and return the seconds until the answer."""
        parts = [("file", (path, data)) for path, data in files.items()]
        begun = time.perf_counter()
        self._asked("POST", f"{self.url}/{self.id}/deploy/incremental", files=parts)
        return time.perf_counter() - begun

    def put_meta(self, path: str) -> None:
        """Give a page metadata."""
        body = {"path": path, "title": "Measured", "description": "A page with metadata"}
        self._asked("PUT", f"{self.public}/{self.id}/page-metas", json=body)

    def _asked(self, method: str, url: str, **options: Any) -> Any:
        answer = httpx.request(method, url, headers=self.headers, timeout=600, verify=False, **options)
        return answer.raise_for_status().json()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bare", action="store_true", help="serve the bare application")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.bare:
        serve_bare()
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        root = directory / "plain"
        root.mkdir()
        (root / "hot.bin").write_bytes(_BODY)
        with Pilotis(directory) as pilotis, Bare(directory) as bare, Nginx(root, directory) as nginx:
            site = Site(pilotis)
            page = b"<!doctype html><head><title>x</title></head>".ljust(_SIZE, b".")
            site.deploy({"hot.bin": _BODY, "page.html": page})
            site.put_meta("/page")
            rates: dict[str, list[float]] = {}
            for _ in range(options.rounds):
                for case, url, path, host in (
                    ("hot", pilotis.url, "/hot.bin", site.host),
                    ("meta", pilotis.url, "/page", site.host),
                    ("bare", bare.url, "/hot.bin", "localhost"),
                    ("nginx", nginx.url, "/hot.bin", "localhost"),
                ):
                    file = Requests("GET", [(path, "")]).write(directory / "requests")
                    result = load.run(url, "GET", file, {"Host": host}, options.seconds, _CONNECTIONS)
                    rates.setdefault(case, []).append(result.rate)
            for case, found in rates.items():
                print(f"{case:12} {median(found):10,.0f} requests a second")
            for case, base in (("hot", "bare"), ("hot", "nginx"), ("meta", "hot")):
                ratio = median(a / b for a, b in zip(rates[case], rates[base], strict=True))
                print(f"{case} / {base}: {ratio:.2f}")
            files = {f"assets/{number}.bin": os.urandom(_FILE_SIZE) for number in range(_FILES)}
            print(f"deploy       {site.deploy(files):10.2f} s", flush=True)
            changed = {f"assets/{number}.bin": os.urandom(_FILE_SIZE) for number in range(10)}
            print(f"incremental  {site.deploy_changes(changed):10.2f} s")


if __name__ == "__main__":
    main()
