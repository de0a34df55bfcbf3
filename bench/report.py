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
_PACKAGES = ("uvicorn", "uvloop", "httptools", "asyncpg", "msgspec", "structlog", "argon2-cffi")
_RESULTS = Path(__file__).parent / "results"


class Measure(msgspec.Struct):
    """The medians of one case: units a second, and the ratio to the baseline where there is one."""

    name: str
    rate: float
    beside: float | None
    ratio: float | None
    p50_ms: float
    p99_ms: float
    goal: float | None
    rates: list[float]
    beside_rates: list[float]

    @property
    def reached(self) -> bool:
        """Whether the case comes up to its goal."""
        return self.goal is None or (self.rate if self.ratio is None else self.ratio) >= self.goal


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
        "command": "python -m bench " + " ".join(sys.argv[1:]),
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
    beside = "" if measure.beside is None else f"{measure.beside:,.0f}"
    ratio = "" if measure.ratio is None else f"{measure.ratio:.2f}"
    goal = "" if measure.goal is None else f"{measure.goal:,g} {'reached' if measure.reached else 'MISSED'}"
    latency = f"{measure.p50_ms:8.1f} {measure.p99_ms:8.1f}"
    return f"{measure.name:<14} {measure.rate:>10,.0f} {beside:>10} {ratio:>6} {latency}  {goal}"


def table(report: Report) -> str:
    """Return the whole run as text."""
    heading = f"{'a second':<14} {'Pilotis':>10} {'baseline':>10} {'ratio':>6} {'p50 ms':>8} {'p99 ms':>8}  goal"
    facts = [f"{name}: {value}" for name, value in report.machine.items()]
    idle, loaded = report.idle_memory, report.loaded_memory
    memory = [
        f"memory idle {idle['Rss']:.0f} MB resident, {idle['Pss']:.0f} MB proportional "
        f"(goal: under {IDLE_MEGABYTES}); after the run {loaded['Rss']:.0f} and {loaded['Pss']:.0f} MB"
    ]
    return "\n".join(["", *facts, "", heading, *map(line, report.measures), "", *memory])


def write(report: Report) -> Path:
    """Write the run as JSON and return the file."""
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    return file


def _postgres() -> str:
    return _output(str(find_binaries(None) / "postgres"), "--version")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def _output(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
