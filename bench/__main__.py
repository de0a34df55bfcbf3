"""`make bench`: Pilotis and a bare ASGI application in turn, round by round, on one PostgreSQL.

Two neighbouring runs meet the same noise, so what counts is the median of their ratios. Options: `--only`,
`--seconds`, `--rounds`, `--rows`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench import load, report
from bench.cases import Case, Stage
from bench.report import Measure, Report
from bench.servers import Pilotis, Process, baseline


class Bench:
    """The two servers, and the running of cases on them."""

    def __init__(self, pilotis: Pilotis, beside: Process, options: argparse.Namespace, directory: Path) -> None:
        self._pilotis = pilotis
        self._beside = beside
        self._options = options
        self._directory = directory

    def measure(self, case: Case) -> Measure:
        """Run a case's rounds, after one that warms both sides up."""
        self._round(case, 1)
        rounds = [self._round(case, self._options.seconds) for _ in range(self._options.rounds)]
        ours = [ours for ours, _ in rounds]
        beside = [rate for _, rate in rounds if rate is not None]
        return Measure(
            case.name,
            rate=median(one.rate for one in ours) * case.units,
            beside=median(beside) if beside else None,
            ratio=median(one.rate / rate for one, rate in rounds if rate is not None) if beside else None,
            p50_ms=median(one.p50_ms for one in ours),
            p99_ms=median(one.p99_ms for one in ours),
            goal=case.goal,
            rates=[one.rate * case.units for one in ours],
            beside_rates=beside,
        )

    def _round(self, case: Case, seconds: float) -> tuple[load.Result, float | None]:
        file = case.requests.write(self._directory / "requests")
        ours = load.run(
            self._pilotis.url, case.requests.method, file, self._pilotis.headers, seconds, case.connections
        )
        return ours, self._beside_rate(case, seconds)

    def _beside_rate(self, case: Case, seconds: float) -> float | None:
        if case.name == "sign-in":
            command = [sys.executable, "-m", "bench.hashing", str(seconds)]
            return float(subprocess.run(command, capture_output=True, check=True).stdout)
        if case.beside is None:
            return None
        file = case.beside.write(self._directory / "beside")
        return load.run(self._beside.url, case.beside.method, file, {}, seconds, case.connections).rate


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
                for case in stage.cases():
                    if options.only is None or any(part in case.name for part in options.only):
                        measures.append(bench.measure(case))
                        print(report.line(measures[-1]), flush=True)
                done = Report(report.machine(), vars(options), measures, idle, pilotis.memory())
    print(report.table(done))
    print(f"\nWritten to {report.write(done)}")


if __name__ == "__main__":
    main()
