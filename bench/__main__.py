"""`make bench`: Pilotis and a bare ASGI application in turn, round by round, on one PostgreSQL.

Two neighbouring runs meet the same noise, so what counts is the median of their ratios. Options: `--only`,
`--seconds`, `--rounds`, `--rows`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import load, report
from bench.cases import SIGN_IN, Case, Stage
from bench.load import Requests
from bench.report import Measure, Report, Side
from bench.servers import Pilotis, Process, baseline


class Run(NamedTuple):
    """One run on one server: requests per second, latencies, and the server's processor time per request."""

    rate: float
    p50_ms: float
    p99_ms: float
    processor_us: float


# There are about 100 per second: in a shorter run, the requests cut off at its end would distort the figure.
_SIGN_IN_SECONDS = 10.0


class Bench:
    """The two servers, and the running of cases on them."""

    def __init__(self, pilotis: Pilotis, beside: Process, options: argparse.Namespace, directory: Path) -> None:
        self._pilotis = pilotis
        self._beside = beside
        self._options = options
        self._directory = directory

    def measure(self, case: Case) -> Measure:
        """Run a case's rounds, after one that warms both sides up."""
        seconds = max(self._options.seconds, _SIGN_IN_SECONDS if case.name == SIGN_IN else 0)
        self._round(case, seconds)
        rounds = [self._round(case, seconds) for _ in range(self._options.rounds)]
        measure = Measure(case.name, case.goal, _side([ours for ours, _ in rounds], case.units))
        beside = [other for _, other in rounds if other is not None]
        if beside:
            measure.alone = median(one.rate for one in beside)
            measure.ratio = median(ours.rate / other.rate for ours, other in rounds if other is not None)
        if case.beside is not None:
            measure.beside = _side(beside, case.units)
        return measure

    def _round(self, case: Case, seconds: float) -> tuple[Run, Run | None]:
        return self._run(case, case.requests, self._pilotis, self._pilotis.headers, seconds), self._other(case, seconds)

    def _other(self, case: Case, seconds: float) -> Run | None:
        if case.name == SIGN_IN:
            command = [sys.executable, "-m", "bench.hashing", str(seconds)]
            rate = float(subprocess.run(command, capture_output=True, check=True).stdout)
            return Run(rate, 0, 0, 0)
        if case.beside is None:
            return None
        return self._run(case, case.beside, self._beside, {}, seconds)

    def _run(self, case: Case, requests: Requests, server: Process, headers: Mapping[str, str], seconds: float) -> Run:
        file = requests.write(self._directory / "requests")
        begun = server.processor_seconds()
        result = load.run(server.url, requests.method, file, headers, seconds, case.connections)
        processor_us = (server.processor_seconds() - begun) * 1e6 / result.requests
        return Run(result.rate, result.p50_ms, result.p99_ms, processor_us)


def _side(runs: Sequence[Run], units: int) -> Side:
    return Side(
        median(run.rate for run in runs) * units,
        median(run.p50_ms for run in runs),
        median(run.p99_ms for run in runs),
        median(run.processor_us for run in runs),
        [run.rate * units for run in runs],
    )


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", help="run the cases whose names contain this; may be repeated")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in the table at the start")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name:
        directory = Path(name)
        with Pilotis(directory) as pilotis:
            idle = pilotis.memory()
            stage = Stage(pilotis, options.rows)
            with baseline(stage.plan(), directory) as beside:
                bench = Bench(pilotis, beside, options, directory)
                measures = []
                print(report.heading(), flush=True)
                for case in stage.cases():
                    if options.only is None or any(part in case.name for part in options.only):
                        measures.append(bench.measure(case))
                        print(report.line(measures[-1]), flush=True)
                done = Report(report.machine(), vars(options), measures, idle, pilotis.memory())
    print(report.table(done))
    print(f"\nWritten to {report.write(done)}")


if __name__ == "__main__":
    main()
