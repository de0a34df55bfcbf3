"""How long requests keep the event loop: the longest step of each of 26 kinds, each as large as its route takes.

A step is the processor time of the loop's thread between two of its ticks, so other work on the machine adds nothing
to it. The server is a second one on the database of `pilotis serve`, in a thread of this process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx
import uvicorn
import uvloop

from bench.servers import Pilotis
from pilotis.http import logs
from pilotis.serve import worker
from pilotis.server import Node
from pilotis.settings import Settings

_TICK_SECONDS = 0.001
_TRIES = 3


class Request(NamedTuple):
    """What to send: `line` is the method and path."""

    line: str
    content: bytes | str | None
    headers: dict[str, str]


class Step(NamedTuple):
    """A kind of request, what it was answered, and the longest step that it caused, in seconds."""

    kind: str
    status: int
    seconds: float


class _Counter:
    """Counts the steps of an event loop; `longest` is in seconds and may be reset by another thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = 0.0

    def tick(self) -> None:
        now = time.thread_time()
        if self._last:
            self.longest = max(self.longest, now - self._last)
        self._last = time.thread_time()
        asyncio.get_running_loop().call_later(_TICK_SECONDS, self.tick)


@contextmanager
def _counted(pilotis: Pilotis) -> Iterator[tuple[str, _Counter]]:
    """Serve from a thread, with the event loop and the configuration of a worker; yield the URL and the counter."""
    counter = _Counter()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = Settings(data_dir=str(pilotis.data_dir), background=["none"])
        ready = threading.Event()
        servers: list[uvicorn.Server] = []

        async def serve() -> None:
            node = Node(settings, pilotis.connect_arguments(), url)
            try:
                await node.start()
                worker.tune()
                servers.append(uvicorn.Server(worker.configuration(node)))
                counter.tick()
                ready.set()
                await servers[0].serve(sockets=[listening])
            finally:
                await node.stop()

        def run() -> None:
            logs.configure(settings.log_format, "warning")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())

        thread = threading.Thread(target=run)
        thread.start()
        if not ready.wait(60):
            raise RuntimeError("The second server did not start.")
        try:
            yield url, counter
        finally:
            servers[0].should_exit = True
            thread.join()


def measure(pilotis: Pilotis, requests: dict[str, Request]) -> list[Step]:
    """Send each request several times, and return for each kind the shortest of the longest steps, the worst first."""
    found = []
    with _counted(pilotis) as (url, counter), httpx.Client(base_url=url, timeout=120) as client:
        for kind, request in requests.items():
            method, path = request.line.split(" ")
            longest: list[float] = []
            for _ in range(_TRIES):
                counter.longest = 0.0
                answer = client.request(method, path, content=request.content, headers=request.headers)
                time.sleep(0.05)
                longest.append(counter.longest)
            found.append(Step(kind, answer.status_code, min(longest)))
    return sorted(found, key=lambda step: -step.seconds)
