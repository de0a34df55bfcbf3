"""The latency of an app's requests while two others run their worst queries, and the time to a 503 with a hung
database.

`python -m bench.neighbours` prints medians and worst times. PostgreSQL hangs because its processes are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from bench.servers import Pilotis

_WORST = {"where": {"name": {"$matches": r"^(a+)(a+)(a+)(a+)\1\2\3\4b$"}}}
_TEXT = "a" * 301 + "b"
_CLIENTS = 16
_SECONDS = 12.0

Headers = dict[str, str]


def _apps(pilotis: Pilotis) -> list[Headers]:
    """Make two further apps; return the headers of the three."""
    _, owner = pilotis.owned_app()
    made = httpx.post(
        f"{pilotis.url}/v1/apps", json={"name": "third"}, headers={"Authorization": owner["Authorization"]}
    ).json()
    return [pilotis.headers, {"X-Public-Key": owner["X-Public-Key"]}, {"X-Public-Key": made["public_key"]}]


def _table(pilotis: Pilotis, headers: Headers) -> str:
    """Make a table with one row and return the path of its rows."""
    body = {"title": "bench", "schema": {"name": "string"}, "access_level": "Public"}
    with httpx.Client(base_url=pilotis.url, headers=headers) as client:
        path = f"/v1/public/tables/{client.post('/v1/public/tables', json=body).json()['id']}/data"
        client.post(path, json={"data": {"name": _TEXT}}).raise_for_status()
    return path


async def _attack(client: httpx.AsyncClient, path: str) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError):
            await client.post(f"{path}/query", json=_WORST)


async def _victim(client: httpx.AsyncClient, path: str) -> list[float]:
    """Create and list one after the other; return the seconds of each request."""
    seconds = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        for method, body in (("POST", {"data": {"name": "b"}}), ("GET", None)):
            started = time.monotonic()
            answer = await client.request(method, path, json=body, params={"limit": 5} if body is None else None)
            assert answer.is_success, answer.text
            seconds.append(time.monotonic() - started)
    return seconds


def _tell(what: str, seconds: list[float]) -> None:
    middle, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(f"{what:44} {len(seconds):5} requests, median {middle:7.1f} ms, worst {worst:8.1f} ms")


async def _beside_attacks(pilotis: Pilotis, apps: list[Headers], paths: list[str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=pilotis.url, headers=headers, timeout=60, limits=httpx.Limits())
            )
            for headers in apps
        ]
        _tell("alone", await _victim(clients[2], paths[2]))
        attackers: list[asyncio.Task[None]] = []
        for number in (0, 1):
            attackers += [asyncio.create_task(_attack(clients[number], paths[number])) for _ in range(_CLIENTS)]
            await asyncio.sleep(1)
            _tell(f"beside {number + 1} attacking, {_CLIENTS} clients each", await _victim(clients[2], paths[2]))
        for attacker in attackers:
            attacker.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)


async def _beside_silence(pilotis: Pilotis, headers: Headers, path: str, stopped: list[int]) -> None:
    async def timed(client: httpx.AsyncClient, number: int) -> float:
        started = time.monotonic()
        body = {"data": {"name": "b"}} if number % 2 else None
        answer = await client.request("POST" if body else "GET", path, json=body)
        assert answer.status_code == 503, answer.text
        assert "Retry-After" in answer.headers
        return time.monotonic() - started

    async with httpx.AsyncClient(base_url=pilotis.url, headers=headers, timeout=60) as client:
        try:
            _signal(stopped, signal.SIGSTOP)
            _tell("503 while PostgreSQL hangs", await asyncio.gather(*(timed(client, n) for n in range(40))))
        finally:
            _signal(stopped, signal.SIGCONT)
        started = time.monotonic()
        while not (await client.get(path)).is_success:  # noqa: ASYNC110 - another process recovers
            await asyncio.sleep(0.05)
        _tell("served again after it went on", [time.monotonic() - started])


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        # A backend may have ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    """Measure both."""
    with tempfile.TemporaryDirectory() as place, Pilotis(Path(place)) as pilotis:
        apps = _apps(pilotis)
        paths = [_table(pilotis, headers) for headers in apps]
        asyncio.run(_beside_attacks(pilotis, apps, paths))
        (pid_file,) = Path(place).glob("*/postgres/postmaster.pid")
        postmaster = int(pid_file.read_text().split("\n", 1)[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        asyncio.run(_beside_silence(pilotis, apps[2], paths[2], [postmaster, *map(int, children)]))


if __name__ == "__main__":
    main()
