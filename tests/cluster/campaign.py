"""A campaign: loads work on a cluster while faults happen, window by window, and each window is checked.

What happens in a window follows from the seed and the window's number alone, so that one with a violation can be played
again. The moments differ from run to run: programs are not simulated here.
"""

import asyncio
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pilotis import __version__
from tests.cluster.checkers.history import Finding
from tests.cluster.checkers.states import check_counts
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Applies, Disturbance
from tests.cluster.loads.accounts import SessionLoad
from tests.cluster.loads.base import Load, Place
from tests.cluster.loads.events import EventsLoad
from tests.cluster.loads.files import FilesLoad
from tests.cluster.loads.rows import BankLoad, RegisterLoad, SetLoad
from tests.cluster.loads.tables import SchemaLoad
from tests.cluster.loads.work import WorkLoad

LOADS: Sequence[type[Load]] = (
    SetLoad,
    BankLoad,
    RegisterLoad,
    SessionLoad,
    SchemaLoad,
    WorkLoad,
    EventsLoad,
    FilesLoad,
)
_REST_SECONDS = 120


class Window(msgspec.Struct, kw_only=True):
    """What happened in a window: its number, the faults with what was chosen, and what the checkers found."""

    number: int
    seconds: float = 0.0
    checked_seconds: float = 0.0
    longest_stop_seconds: float = 0.0
    faults: list[str] = []
    findings: list[str] = []


class Report(msgspec.Struct, kw_only=True):
    """A campaign: how it can be repeated, what was done, and what was found."""

    campaign: str
    seed: str
    versions: dict[str, str]
    began: str
    seconds: float = 0.0
    rounds: int = 0
    windows: list[Window] = []
    faults: dict[str, int] = {}
    requests: dict[str, int] = {}
    errors: dict[str, int] = {}
    work: dict[str, int] = {}
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    longest_stop_seconds: float = 0.0
    failover_seconds: list[float] = []
    violations: int = 0

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


class Campaign:
    """Runs on a cluster that has started."""

    def __init__(
        self,
        name: str,
        seed: str,
        cluster: Cluster,
        faults: Mapping[Applies, int],
        *,
        scale: float = 1.0,
        calm: float = 1.0,
    ) -> None:
        """`scale` is how long faults are, and `calm` how long clients pause, both times what is usual."""
        self.cluster = cluster
        self.report = Report(
            campaign=name, seed=seed, versions=versions(), began=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        )
        self._faults = faults
        self._scale = scale
        self._calm = calm
        self._counts: Counter[str] = Counter()
        self._known_failures = 0
        self._loads: list[Load] = []

    async def prepare(self, loads: Sequence[type[Load]] = LOADS) -> None:
        """Make an app, and what the loads work on."""
        app = await asyncio.to_thread(self.cluster.app)
        self.place = Place(self.cluster, app)
        for kind in loads:
            load = kind(self.place, random.Random(f"{self.report.seed}/{kind.__name__}"))
            await load.prepare()
            self._loads.append(load)

    async def window(self, number: int, rounds: int | Sequence[Applies]) -> Window:
        """Let the loads work while faults happen one after another, so many or these, then check them."""
        began = time.monotonic()
        choice = random.Random(f"{self.report.seed}/{number}")
        window = Window(number=number)
        self.report.windows.append(window)
        with self.place.pause():
            await self.cluster.serving()
            await self.place.sign_in()
            for load in self._loads:
                await load.begin()
        stopped = asyncio.Event()
        working = [
            asyncio.create_task(load.run(worker, stopped, self._calm), name=f"{type(load).__name__} {worker}")
            for load in self._loads
            for worker in range(load.workers)
        ]
        try:
            if isinstance(rounds, int):
                rounds = choice.choices(list(self._faults), list(self._faults.values()), k=rounds)
            for apply in rounds:
                await self._round(apply, choice, window)
        finally:
            stopped.set()
            window.longest_stop_seconds = round(self.place.longest_stop, 2)
            done, late = await asyncio.wait(working, timeout=_REST_SECONDS)
            stuck = [_whereabouts(task) for task in late]
            for task in late:
                task.cancel()
        for task in done:
            task.result()
        findings = [Finding("campaign", f"a client did not come to rest: {where}") for where in stuck]
        rested = time.monotonic()
        with self.place.pause():
            findings += await self._check()
        self.place.longest_stop = 0.0
        window.seconds, window.checked_seconds = round(rested - began, 1), round(time.monotonic() - rested, 1)
        window.findings = [f"{finding.checker}: {finding.text}" for finding in findings]
        self._summarize(time.monotonic() - began)
        return window

    async def close(self) -> None:
        """Close the clients."""
        for load in self._loads:
            await load.close()

    async def _round(self, apply: Applies, choice: random.Random, window: Window) -> None:
        await asyncio.sleep(self._scale * choice.uniform(0.2, 1.0))
        log: list[str] = []
        failovers: list[float] = []
        began = time.monotonic()
        await apply(Disturbance(self.cluster, choice, log, failovers, self._scale))
        name = apply.__name__
        self._counts[name] += 1
        self.report.rounds += 1
        for at in failovers:
            self.report.failover_seconds.append(round(self.place.first_after(at) - at, 3))
        applied = time.monotonic()
        # So that faults do not add up to a cluster that never answers, of which nothing could be learned.
        await self.cluster.serving()
        now = time.monotonic()
        window.faults.append(" ".join([name, *log, f"({applied - began:.1f} s, ready after {now - applied:.1f} s)"]))

    async def _check(self) -> list[Finding]:
        await self.cluster.serving()
        findings = []
        for load in self._loads:
            findings += await load.check()
        findings += await self._check_totals()
        failures = self.cluster.failures()
        findings += [Finding("server", f"an answer of 500: {line[:2000]}") for line in failures[self._known_failures :]]
        self._known_failures = len(failures)
        return findings

    async def _check_totals(self) -> list[Finding]:
        """Compare the stored totals of the app's tables with `count(*)`."""
        app = self.place.app
        async with self.place.client() as client:
            tables = [table["id"] for table in (await self.place.insist(client, "GET", "/v1/public/tables"))["tables"]]
            totals, counted = {}, {}
            for table in tables:
                page = await self.place.insist(client, "GET", f"/v1/public/tables/{table}/data?limit=0")
                totals[table] = page["total_count"]
                physical = f"app_{app.app_id.replace('-', '')}.t_{table.replace('-', '')}"
                counted[table] = (await self.place.fetch(f"select count(*) from {physical}"))[0][0]
        return check_counts(totals, counted)

    def _summarize(self, seconds: float) -> None:
        report, place = self.report, self.place
        report.seconds = round(report.seconds + seconds, 1)
        report.faults = dict(self._counts.most_common())
        report.requests = dict(place.outcomes)
        report.errors = dict(place.errors.most_common(20))
        ordered = sorted(place.seconds) or [0.0]
        report.p50_ms, report.p99_ms = (round(1000 * ordered[int(len(ordered) * part)], 1) for part in (0.5, 0.99))
        report.longest_stop_seconds = max(window.longest_stop_seconds for window in report.windows)
        report.violations = sum(len(window.findings) for window in report.windows)
        numbers: dict[str, Any] = {}
        for load in self._loads:
            numbers |= {name: value for name, value in vars(load).items() if isinstance(value, int) and name[0] != "_"}
        report.work = numbers


def _whereabouts(task: asyncio.Task[None]) -> str:
    """Return what a client is about: its name, and the lines at which it waits."""
    frames, inner = [], task.get_coro()
    while frame := getattr(inner, "cr_frame", None):
        frames.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        inner = inner.cr_await  # type: ignore[union-attr]
    return f"{task.get_name()} at {', '.join(frames)}"


def versions() -> dict[str, str]:
    """Return the versions of what a campaign is about."""
    found = {"pilotis": __version__, "python": platform.python_version(), "kernel": platform.release()}
    for name, command in {
        "commit": ["git", "rev-parse", "--short=12", "HEAD"],
        "haproxy": ["/usr/sbin/haproxy", "-v"],
    }.items():
        with suppress(OSError):
            output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            found[name] = output.partition("\n")[0].removeprefix("HAProxy version ").split(" ")[0]
    found["platform"] = sys.platform
    return found
