"""The console in Chromium: `python -m bench.console [--pocketbase PROGRAM]`, beside PocketBase's (see `bench.rivals`).

Each load has a new browser context, so an empty cache: from the navigation to the first rows on the screen, with the
bytes that arrived and the requests. Slow is 40 ms of latency, 10 Mbit/s and a quarter of the processor, set by the
browser. Then jumps and scrolling in a table of `--rows` rows and 20 columns, the time until JSON can be edited, and
what an open tab asks for and holds while nobody touches it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import Browser, Page, StorageState, sync_playwright

from bench.peers.pocketbase import PocketBase
from bench.servers import Pilotis

# Debian's Chromium without windows: a whole one prepares its menus on the same processor, for a second each window.
_CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_EMAIL = "bench@example.com"
_PASSWORD = "correct horse battery"
_COLUMNS = 20
_PATIENCE_MS = 60_000
_SLOW = {"offline": False, "latency": 40, "downloadThroughput": 1_250_000, "uploadThroughput": 1_250_000}
_SLOWER_PROCESSOR = 4

# Each jump: from setting the place to the end of the frame that shows it.
_JUMPS = """async (jumps) => {
    const grid = document.querySelector(".grid");
    const times = [];
    for (let jump = 0; jump < jumps; jump++) {
        const begun = performance.now();
        grid.scrollTop = ((jump * 7919) % 997) / 997 * (grid.scrollHeight - grid.clientHeight);
        await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
        times.push(performance.now() - begun);
        await new Promise((resume) => setTimeout(resume, 30));
    }
    return times;
}"""
_SCROLL = """async (seconds) => {
    const grid = document.querySelector(".grid");
    const long = [], frames = [];
    const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map((one) => one.duration)));
    observer.observe({ entryTypes: ["longtask"] });
    grid.scrollTop = 0;
    const end = performance.now() + seconds * 1000;
    for (let last = performance.now(); last < end; ) {
        await new Promise(requestAnimationFrame);
        grid.scrollTop += 97;
        frames.push(performance.now() - last);
        last = performance.now();
    }
    observer.disconnect();
    return { long, frames };
}"""


_LONG_TASKS = """() => new Promise((resume) => {
    new PerformanceObserver((list) => resume(list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask", buffered: true });
    setTimeout(() => resume([]), 200);
})"""

# Whether a text is on the screen: an editor's is in a shadow root, or in a text box until the editor arrives.
_SHOWN = """(text) => {
    const editors = [...document.querySelectorAll(".editor")].map((one) => one.shadowRoot?.textContent);
    const fields = [...document.querySelectorAll("textarea")].map((one) => one.value);
    const said = [document.body?.innerText, ...editors, ...fields];
    return said.some((one) => one?.includes(text)) && performance.now();
}"""
# A page that follows a stream is never without a request: what it loads has arrived once nothing ends for so long.
_QUIET_MS = 700

# The screens of the features, each with a text that it shows once its content has arrived.
_FEATURES = {
    "sites": "No sites yet",
    "functions": "price-order",
    "functions/{function}": "export default",
    "workflows": "Orders from the shop",
    "workflows/{workflow}/steps": "Look at it",
    "workflows/{workflow}/runs/{run}": "Look at it",
    "webhooks": "Warehouse",
    "webhooks/{webhook}": "row.created",
    "webhooks/events": "row.created",
    "webhooks/jobs": "No failed jobs",
    "oauth": "Become a provider",
    "tables/{table}/aggregate": "20 documents",
}


class Load(NamedTuple):
    """Milliseconds to the first rows, bytes that arrived, requests, and the durations of tasks over 50 ms."""

    milliseconds: float
    kilobytes: float
    requests: int
    long_tasks: list[float]


class Visited(NamedTuple):
    """A console: how somebody is signed in, the address of a list, and a text in its first row."""

    name: str
    enter: Callable[[Browser], StorageState]
    url: str
    text: str


def load(browser: Browser, console: Visited, *, slow: bool) -> Load:
    """Open the list with an empty cache."""
    context = browser.new_context(storage_state=console.enter(browser), viewport={"width": 1280, "height": 860})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda done: sizes.append(done["encodedDataLength"]))
    if slow:
        session.send("Network.emulateNetworkConditions", _SLOW)
        session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER_PROCESSOR})
    page.goto(console.url, wait_until="commit")
    taken = page.wait_for_function(_SHOWN, arg=console.text, polling="raf", timeout=_PATIENCE_MS).json_value()
    before = -1
    while before != len(sizes):
        before = len(sizes)
        page.wait_for_timeout(_QUIET_MS)
    long_tasks = page.evaluate(_LONG_TASKS)
    context.close()
    return Load(taken, sum(sizes) / 1000, len(sizes), long_tasks)


def loads(browser: Browser, consoles: Sequence[Visited], runs: int, *, slow: bool) -> None:
    """Open the consoles in turn, and print the median and the 95th percentile of each."""
    found: dict[str, list[Load]] = {console.name: [] for console in consoles}
    for _ in range(runs):
        for console in consoles:
            found[console.name].append(load(browser, console, slow=slow))
    for name, rounds in found.items():
        times = [one.milliseconds for one in rounds]
        size = statistics.median(one.kilobytes for one in rounds)
        longest = max((task for one in rounds for task in one.long_tasks), default=0)
        print(
            f"{name:34} {'slow' if slow else 'loopback':9} median {statistics.median(times):6.0f} ms,"
            f" p95 {p95(times):6.0f} ms, {size:5.0f} kB, {rounds[-1].requests} requests,"
            f" tasks over 50 ms: {sum(len(one.long_tasks) for one in rounds)}, longest {longest:.0f} ms"
        )


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile: the value that no more than one in twenty exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def heap(page: Page) -> float:
    """Return the megabytes (10^6 bytes) of JavaScript's objects after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"]) / 1e6


def grid(page: Page, seconds: int) -> None:
    """Jump and scroll in the table that is open."""
    jumps = page.evaluate(_JUMPS, 100)
    print(f"jump                   median {statistics.median(jumps):6.1f} ms, p95 {p95(jumps):6.1f} ms")
    before = heap(page)
    scrolled: dict[str, list[float]] = page.evaluate(_SCROLL, seconds)
    long, frames = scrolled["long"], scrolled["frames"]
    print(
        f"scrolling {seconds:3} s       {len(frames)} frames, p95 {p95(frames):.1f} ms; tasks over 50 ms: {len(long)},"
        f" 100 ms: {sum(one > 100 for one in long)}; heap {before:.1f} MB before, {heap(page):.1f} MB after"
    )


def editor(page: Page) -> None:
    """Open a JSON cell for the first time: until the editor has the focus."""
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+ArrowRight")
    page.keyboard.press("ArrowLeft")
    begun = time.monotonic()
    page.keyboard.press("Enter")
    page.wait_for_selector(".cm-content", timeout=_PATIENCE_MS)
    print(f"editor of JSON         {(time.monotonic() - begun) * 1000:6.0f} ms after Enter")
    page.keyboard.press("Escape")


def idle(page: Page, server: Pilotis, seconds: int) -> None:
    """Leave the tab alone, and count what it asks for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(server.url)))
    before = heap(page)
    page.wait_for_timeout(seconds * 1000)
    paths = {path: asked.count(path) for path in asked}
    print(f"idle for {seconds} s         {len(asked)} requests {paths}; heap {before:.1f} MB, then {heap(page):.1f} MB")


def _fill(server: Pilotis, headers: dict[str, str], rows: int) -> str:
    kinds = ["string", "number", "int"]
    schema = {f"column_{number:02}": kinds[number % 3] for number in range(_COLUMNS - 1)} | {"extras": "object"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=120) as client:
        table = {"title": "measured", "schema": schema, "access_level": "Public"}
        table_id = str(client.post("/v1/public/tables", json=table).raise_for_status().json()["id"])
        for start in range(0, rows, 1000):
            batch = [_row(number) for number in range(start, min(start + 1000, rows))]
            client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": batch}).raise_for_status()
    return table_id


def _row(number: int) -> dict[str, Any]:
    values = [f"Person number {number}", number / 8, number]
    return {f"column_{column:02}": values[column % 3] for column in range(_COLUMNS - 1)} | {"extras": {"crew": number}}


def _in_use(server: Pilotis, headers: dict[str, str], app_id: str, table_id: str) -> dict[str, str]:
    """Give the app a function, a workflow that ran, a webhook and its events, and return their ids."""
    step = {"step_type": "merge", "id": "look", "name": "Look at it"}
    with httpx.Client(base_url=f"{server.url}/v1/apps/{app_id}", headers=headers, timeout=60) as client:

        def create(path: str, body: dict[str, Any], key: str = "id") -> str:
            return str(client.post(path, json=body).raise_for_status().json()[key])

        function = create("/functions", {"name": "price-order", "runtime": "javascript"})
        workflow = create("/workflows", {"name": "Orders from the shop", "steps": [step]})
        run = create(f"/workflows/{workflow}/execute", {"input": {}}, "execution_id")
        hook = {"url": "https://warehouse.example/", "name": "Warehouse", "event_types": ["row.*"]}
        webhook = create("/webhooks", hook)
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        for number in range(50):
            row = {"data": _row(number)}
            client.post(f"/v1/public/tables/{table_id}/data", json=row).raise_for_status()
    return {"function": function, "workflow": workflow, "run": run, "webhook": webhook}


def _pilotis(server: Pilotis, app_id: str, table_id: str) -> list[Visited]:
    def enter(browser: Browser) -> StorageState:
        context = browser.new_context()
        body = {"email": _EMAIL, "password": _PASSWORD}
        context.request.post(f"{server.url}/v1/auth/session", data=body, headers={"Origin": server.url})
        state = context.storage_state()
        context.close()
        return state

    console = f"{server.url}/console"
    return [
        Visited("Pilotis, apps", enter, console, "neighbour"),
        Visited("Pilotis, rows", enter, f"{console}/apps/{app_id}/tables/{table_id}", "Person number 0"),
    ]


def _pocketbase(server: PocketBase) -> Visited:
    kept: list[StorageState] = []

    def enter(browser: Browser) -> StorageState:
        if not kept:
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{server.url}/_/")
            page.locator("input[type=email]").fill(_EMAIL)
            page.locator("input[type=password]").fill(_PASSWORD)
            page.keyboard.press("Enter")
            page.wait_for_url("**/_/#/collections*")
            page.wait_for_load_state("networkidle")
            kept.append(context.storage_state())
            context.close()
        return kept[0]

    return Visited("PocketBase, records", enter, f"{server.url}/_/#/collections?collection=measured", "Person number")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the table that is scrolled")
    parser.add_argument("--runs", type=int, default=20, help="loads of each console")
    parser.add_argument("--seconds", type=int, default=10, help="seconds of scrolling")
    parser.add_argument("--idle", type=int, default=120, help="seconds for which a tab is left alone")
    parser.add_argument("--pocketbase", type=Path, help="PocketBase's program, to measure its console beside it")
    parser.add_argument("--features", action="store_true", help="measure the screens of the features, and nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright, Pilotis(Path(name)) as server:
        app_id, headers = server.owned_app()
        table_id = _fill(server, headers, options.rows)
        before = server.memory()["Pss"]
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        consoles = _pilotis(server, app_id, table_id)
        if options.features:
            ids = {"table": table_id, **_in_use(server, headers, app_id, table_id)}
            screens = [
                Visited(path, consoles[0].enter, f"{server.url}/console/apps/{app_id}/{path.format(**ids)}", text)
                for path, text in _FEATURES.items()
            ]
            _compare(browser, screens, options.runs)
            browser.close()
            return
        if options.pocketbase:
            with PocketBase(options.pocketbase, Path(name), 1000) as peer:
                _compare(browser, [*consoles, _pocketbase(peer)], options.runs)
        else:
            _compare(browser, consoles, options.runs)
        after = server.memory()["Pss"]
        print(f"memory of the server   {before:.1f} MB before the console was opened, {after:.1f} MB after")
        page = browser.new_context(
            storage_state=consoles[1].enter(browser), viewport={"width": 1280, "height": 860}
        ).new_page()
        page.goto(consoles[1].url)
        page.locator("[role=gridcell]").first.click()
        grid(page, options.seconds)
        editor(page)
        idle(page, server, options.idle)
        browser.close()


def _compare(browser: Browser, consoles: Sequence[Visited], runs: int) -> None:
    for slow in (False, True):
        loads(browser, consoles, max(1, runs // 4) if slow else runs, slow=slow)


if __name__ == "__main__":
    main()
