"""What a run says: a table for people, a JSON file for comparing runs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from bench.load import GENERATOR, WRK
from pilotis.db.embedded import find_binaries

IDLE_MEGABYTES = 90
_PACKAGES = ("uvicorn", "uvloop", "httptools", "asyncpg", "msgspec", "structlog", "pynacl", "argon2-cffi")
_RESULTS = Path(__file__).parent / "results"


class Side(msgspec.Struct):
    """One server's medians: units per second, latencies, and its own process' processor time per request."""

    rate: float
    p50_ms: float
    p99_ms: float
    processor_us: float
    rates: list[float]


class Measure(msgspec.Struct):
    """One case: Pilotis, the baseline, and the median of the rounds' ratios."""

    name: str
    goal: float | None
    ours: Side
    beside: Side | None = None
    alone: float | None = None
    ratio: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the case reaches its goal."""
        return self.goal is None or (self.ours.rate if self.ratio is None else self.ratio) >= self.goal


class Report(msgspec.Struct):
    """One run of the benchmark. Memory is in megabytes."""

    machine: dict[str, Any]
    options: dict[str, Any]
    measures: list[Measure]
    idle_memory: dict[str, float]
    loaded_memory: dict[str, float]


def machine() -> dict[str, Any]:
    """Return what a figure depends on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "command": f"python -m {_module()} " + " ".join(sys.argv[1:]),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "postgresql": _postgres(),
        "load_generator": f"{GENERATOR} ({WRK})" if WRK else GENERATOR,
        **{name: version(name) for name in _PACKAGES},
    }


def line(measure: Measure) -> str:
    """Return a case as a row of the table."""
    alone = "" if measure.alone is None else f"{measure.alone:,.0f}"
    ratio = "" if measure.ratio is None else f"{measure.ratio:.2f}"
    goal = "" if measure.goal is None else f"{measure.goal:,g} {'reached' if measure.reached else 'MISSED'}"
    beside = f"{alone:>9} {'':>24}" if measure.beside is None else _side(measure.beside)
    return f"{measure.name:<13} {_side(measure.ours)} {beside} {ratio:>6}  {goal}"


def _side(side: Side) -> str:
    return f"{side.rate:>9,.0f} {side.p50_ms:>8.1f} {side.p99_ms:>7.1f} {side.processor_us:>7.0f}"


def heading(beside: str = "baseline") -> str:
    """Return the table's header; `beside` names what Pilotis is compared with."""
    columns = f"{'a second':>9} {'p50 ms':>8} {'p99 ms':>7} {'CPU µs':>7}"
    return f"{'':<13} {'Pilotis':<34} {beside}\n{'':<13} {columns} {columns} {'ratio':>6}  goal"


def table(report: Report) -> str:
    """Return the whole run as text."""
    facts = [f"{name}: {value}" for name, value in report.machine.items()]
    idle, loaded = report.idle_memory, report.loaded_memory
    memory = [
        f"memory idle {idle['Rss']:.0f} MB resident, {idle['Pss']:.0f} MB proportional "
        f"(goal: under {IDLE_MEGABYTES}); after the run {loaded['Rss']:.0f} and {loaded['Pss']:.0f} MB"
    ]
    return "\n".join(["", *facts, "", heading(), *map(line, report.measures), "", *memory])


def write(report: msgspec.Struct) -> Path:
    """Write the run, a `Report` or a benchmark's own, as JSON and return the file."""
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return file


def _module() -> str:
    name = Path(sys.argv[0]).stem
    return "bench" if name == "__main__" else f"bench.{name}"


def _postgres() -> str:
    return _output(str(find_binaries(None) / "postgres"), "--version")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def _output(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
