"""`python -m bench.functions [sandboxes | http | idle | saved]`: starts and calls of sandboxes, and calls over HTTP.

`idle` is the memory of a hundred idle sandboxes, `saved` the time from a stored draft to the result of its call.

Prints one JSON object: times in milliseconds, memory in MB. A busy machine increases all of them; beside them stands
what bare Deno takes at the same moment. Over HTTP, calls of a warm function and requests of an empty route take turns:
their ratio, and the server's processor time for each, depend less on what else runs.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvloop

from bench import load
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.functions.runtime.call import Invocation, Program
from pilotis.functions.runtime.policy import Runtime, tools
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.types import PoolSettings, Ran, Wanted

SOURCES = {
    Runtime.JAVASCRIPT: ("index.js", b"export default (p) => p.n + 1"),
    Runtime.PYTHON: ("main.py", b"def handler(p, c): return p['n'] + 1"),
}
WARM_CALLS = 3000
STARTS = 20
IDLE = 100
CONNECTIONS = 8
ROUNDS = 3


ASYNCHRONOUS = b"async def handler(p, c): return p['n'] + 1"


def wanted(runtime: Runtime, source: bytes | None = None) -> Wanted:
    """Return a new function."""
    entry, usual = SOURCES[runtime]
    text = source or usual

    async def load() -> Program:
        return Program({entry: text}, entry, {})

    return Wanted((uuid4(), uuid4(), "1", 0), runtime, 128, 10, 100, True, 8, load)


async def call(pool: Pool, want: Wanted) -> tuple[float, Ran]:
    """Call a function and return the milliseconds that it took."""
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    ran = await pool.run(want, Invocation(payload=b'{"n":1}', context={}, deadline=loop.time() + 60, cpu_seconds=60))
    assert ran.outcome.status == "success", ran
    return (time.perf_counter() - begun) * 1000, ran


def quantiles(times: list[float]) -> dict[str, float]:
    """Return p50 and p99."""
    ordered = sorted(times)
    return {"p50": round(statistics.median(ordered), 3), "p99": round(ordered[int(len(ordered) * 0.99)], 3)}


async def measure(runtime: Runtime) -> dict[str, Any]:
    """Return warm, ready and cold calls of a runtime, and the memory of idle sandboxes."""
    pool = Pool(PoolSettings(32, 0, 0, 300, 705_000))
    found: dict[str, Any] = {}
    try:
        warm = wanted(runtime)
        await call(pool, warm)
        found["warm"] = quantiles([(await call(pool, warm))[0] for _ in range(WARM_CALLS)])
        begun = time.perf_counter()
        await asyncio.gather(*(repeated(pool, warm, WARM_CALLS // 8) for _ in range(8)))
        found["warm_per_second"] = round(WARM_CALLS / (time.perf_counter() - begun))
        found["cold"] = quantiles([(await call(pool, wanted(runtime)))[0] for _ in range(STARTS)])
        if runtime is Runtime.PYTHON:
            starts = [(await call(pool, wanted(runtime, ASYNCHRONOUS)))[0] for _ in range(STARTS)]
            found["cold_asynchronous"] = quantiles(starts)
    finally:
        await pool.close()
    ready = Pool(PoolSettings(32, 1, 1, 300, 705_000))
    try:
        await call(ready, wanted(runtime))
        times = []
        for _ in range(STARTS):
            while not ready.counts()["ready"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            took, ran = await call(ready, wanted(runtime))
            if ran.start == "ready":
                times.append(took)
        found["ready"] = quantiles(times)
    finally:
        await ready.close()
    return found


async def idle(runtime: Runtime) -> dict[str, float]:
    """Return the memory of a hundred idle sandboxes, each of another app, that have served one call."""
    pool = Pool(PoolSettings(IDLE, 0, 0, 300, 705_000))
    try:
        for _ in range(IDLE):
            await call(pool, wanted(runtime))
        sizes = [pss(sandbox.pid) for sandbox in pool.idle()]
    finally:
        await pool.close()
    return {"sandboxes": len(sizes), "mean": round(statistics.mean(sizes), 1), "max": round(max(sizes), 1)}


async def repeated(pool: Pool, want: Wanted, number: int) -> None:
    """Call a function so many times, one after the other."""
    for _ in range(number):
        await call(pool, want)


def over_http(seconds: float = 3.0) -> dict[str, Any]:
    """Return how calls of a warm function compare with an empty route of the same server, in rounds that alternate."""
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name, Pilotis(Path(name)) as server:
        app_id, headers = server.owned_app()
        function = {"name": "adds", "runtime": "javascript", "invoke_access": "Public"}
        made = httpx.post(f"{server.url}/v1/apps/{app_id}/functions", json=function, headers=headers, timeout=60).json()
        files = {"files": {"index.js": "export default (p) => p.n + 1"}}
        path = f"/v1/apps/{app_id}/functions/{made['id']}/versions"
        httpx.post(server.url + path, json=files, headers=headers, timeout=60).raise_for_status()
        key = {"X-Public-Key": headers["X-Public-Key"]}
        invoke = Requests("POST", [(f"/v1/public/functions/{made['id']}/invoke", '{"payload": {"n": 1}}')])
        kinds = {"function": invoke, "empty": Requests("GET", [("/healthz", "")])}
        sent = {kind: requests.write(Path(name, kind)) for kind, requests in kinds.items()}
        found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        for connections in (1, *[CONNECTIONS] * ROUNDS):
            for kind, requests in kinds.items():
                before = server.processor_seconds()
                given = {**key, "Content-Type": "application/json"}
                result = load.run(server.url, requests.method, sent[kind], given, seconds, connections)
                processor = (server.processor_seconds() - before) * 1000 / result.requests
                found[kind].append({"rate": result.rate, "p50": result.p50_ms, "processor_ms": processor})
        rounds = list(zip(found["function"][1:], found["empty"][1:], strict=True))
        return {
            "idle_p50": {kind: round(values[0]["p50"], 2) for kind, values in found.items()},
            "per_second": {kind: [round(one["rate"]) for one in values[1:]] for kind, values in found.items()},
            "ratio": round(statistics.median(ours["rate"] / empty["rate"] for ours, empty in rounds), 3),
            "processor_ms": {
                kind: round(statistics.median(one["processor_ms"] for one in values[1:]), 3)
                for kind, values in found.items()
            },
        }


def saved() -> dict[str, Any]:
    """Return how long `functions dev` takes from a change that it has seen to the result of the call."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name, Pilotis(Path(name)) as server:
        app_id, headers = server.owned_app()
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            for runtime, (entry, source) in SOURCES.items():
                function = {"name": f"saved-{runtime.value}", "runtime": runtime.value}
                made = client.post(f"/v1/apps/{app_id}/functions", json=function).json()
                path, times = f"/v1/apps/{app_id}/functions/{made['id']}", []
                for number in range(STARTS + 1):
                    comment = f"{'#' if runtime is Runtime.PYTHON else '//'} {number}"
                    begun = time.perf_counter()
                    files = {"files": {entry: f"{source.decode()}\n{comment}"}}
                    client.put(f"{path}/draft", json=files).raise_for_status()
                    body = {"payload": {"n": 1}, "version": "draft"}
                    assert client.post(f"{path}/invoke", json=body).json()["result"] == 2
                    times.append((time.perf_counter() - begun) * 1000)
                # The first one finds out how the machine isolates.
                found[runtime.value] = quantiles(times[1:])
    return found


def bare_deno() -> dict[str, float]:
    """Return how long a process of Deno takes for one call, without a sandbox."""
    deno = tools().deno
    assert deno
    times = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        subprocess.run([deno, "eval", "console.log(1 + 1)"], check=True, capture_output=True)
        times.append((time.perf_counter() - begun) * 1000)
    return quantiles(times)


def pss(pid: int) -> float:
    """Return the proportional memory of a process in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def main() -> None:
    """Print the figures."""
    parts = sys.argv[1:] or ["sandboxes", "http", "idle", "saved"]
    found: dict[str, Any] = {}
    if "sandboxes" in parts:
        found |= {runtime.value: uvloop.run(measure(runtime)) for runtime in Runtime}
    if "idle" in parts:
        found["idle_pss_mb"] = {runtime.value: uvloop.run(idle(runtime)) for runtime in Runtime}
    if "saved" in parts:
        found["saved"] = saved()
    if "http" in parts:
        found["http"] = over_http()
    found["bare_deno"] = bare_deno()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
