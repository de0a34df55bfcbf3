"""Two revisions in turns on one machine: `python -m bench.compare REVISION [--against REVISION]`.

Each revision is checked out into a temporary worktree and started with this environment's Python and packages; without
`--against`, the second is the working tree as it is. Each has its own data directory, PostgreSQL and equal rows. Each
round runs one, then the other, so that both meet the same noise. Processor time per request is that of the whole tree
of processes, PostgreSQL's apart: the lowest of the rounds, because other work on the machine only adds to it. A case
that became more than 3 % dearer is marked, and makes the command fail. On a machine with more work than cores such a
difference is noise: repeat the case with more `--rounds`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import asyncpg

from bench import files, load
from bench.cases import CHANGE, CREATES, PAGES, SIGN_IN, UPDATES, Case, Stage, credentials
from bench.load import Requests
from bench.processes import Tree, processor_seconds
from bench.servers import Pilotis

_ROOT = Path(__file__).parents[1]
_ROWS = ("row by id", "list of 20", PAGES, "query", "create", CHANGE, CREATES, UPDATES, "bulk create")
_READ, _PRESIGN = "file of 4 kB", "URL for an upload"
_SESSION = "a member's session"
_CASES = (*_ROWS, _READ, _PRESIGN, SIGN_IN, _SESSION)
_FILES = 200
_DEARER = 1.03


class Run(NamedTuple):
    """One run: requests per second, and processor seconds per request."""

    rate: float
    taken: Tree


class Side:
    """A revision: its running server, and the requests to it."""

    def __init__(self, server: Pilotis, rows: int, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self.cases = {case.name: case for case in Stage(server, rows).cases() if case.name in (*_ROWS, SIGN_IN)}
        storage = files.Stage(server, directory)
        self.cases[_READ] = Case(_READ, storage.fill(_FILES, 4096))
        self.cases[_PRESIGN] = Case(_PRESIGN, storage.presigns(_FILES))
        self.cases[_SESSION] = Case(_SESSION, Requests("GET", [("/v1/public/app-members/me", "")]))
        token = server.post("/v1/public/app-members/signin", credentials(0))["access_token"]
        # The storage is another app's.
        self._headers = dict.fromkeys((*_ROWS, SIGN_IN), server.headers)
        self._headers |= dict.fromkeys((_READ, _PRESIGN), storage.headers)
        self._headers[_SESSION] = {**server.headers, "Authorization": f"Bearer {token}"}
        asyncio.run(_settle(server))

    def run(self, name: str, seconds: float) -> Run:
        """Run a case."""
        case = self.cases[name]
        file = case.requests.write(self._directory / "requests")
        begun = processor_seconds([self._server.pid])
        result = load.run(self._server.url, case.requests.method, file, self._headers[name], seconds, case.connections)
        return Run(result.rate, (processor_seconds([self._server.pid]) - begun).per(result.requests))


async def _settle(server: Pilotis) -> None:
    """Give the planner the statistics that a table of this size has after its first minute."""
    connection = await asyncpg.connect(**server.connect_arguments())
    await connection.execute("vacuum (analyze)")
    await connection.execute("checkpoint")
    await connection.close()


@contextlib.contextmanager
def worktree(revision: str, directory: Path) -> Iterator[Path]:
    """Check a revision out below a directory; it is removed at the end."""
    place = directory / "tree"
    _git("worktree", "add", "--quiet", "--detach", str(place), revision)
    try:
        yield place
    finally:
        _git("worktree", "remove", "--force", str(place))


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(_ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@contextlib.contextmanager
def _side(revision: str | None, rows: int, directory: Path) -> Iterator[Side]:
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        place = _ROOT if revision is None else stack.enter_context(worktree(revision, directory))
        yield Side(stack.enter_context(Pilotis(directory, source=place / "src")), rows, directory)


class Row(NamedTuple):
    """A case on both sides: the median of the rates, the lowest processor time, and the ratio of the latter."""

    case: Case
    before: Run
    after: Run
    ratio: float

    @property
    def is_dearer(self) -> bool:
        """Whether it takes more than 3 % more processor time than before."""
        return self.ratio > _DEARER

    def __str__(self) -> str:
        """Return the line of the table."""
        bulk = self.case.units > 1
        cells = [self.case.name]
        for run in (self.before, self.after):
            scale, unit, digits = (1e3, "ms", 1) if bulk else (1e6, "µs", 0)
            taken = f"{run.taken.python * scale:,.{digits}f} + {run.taken.postgres * scale:,.{digits}f} {unit}"
            cells += [taken, f"{run.rate * self.case.units:,.0f}"]
        return "| " + " | ".join([*cells, f"{self.ratio:.2f}{' **dearer**' if self.is_dearer else ''}"]) + " |"


def _best(runs: Sequence[Run]) -> Run:
    cheapest = min(runs, key=lambda run: run.taken.total)
    return Run(median(run.rate for run in runs), cheapest.taken)


def compared(before: Side, after: Side, name: str, rounds: int, seconds: float) -> Row:
    """Run a case on both sides in turns, after a round that warms them up."""
    pairs = [(before.run(name, seconds), after.run(name, seconds)) for _ in range(rounds + 1)][1:]
    old, new = _best([old for old, _ in pairs]), _best([new for _, new in pairs])
    return Row(before.cases[name], old, new, new.taken.total / old.taken.total)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("revision", help="what git names: a commit, a branch, a tag")
    parser.add_argument("--against", help="the second revision; by default the working tree")
    parser.add_argument("--only", action="append", help="run the cases whose names contain this; may be repeated")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in the table at the start")
    return parser.parse_args()


def _selected(only: Sequence[str] | None) -> Callable[[str], bool]:
    return lambda name: only is None or any(part in name for part in only)


def main() -> None:
    """Run the cases and print the table."""
    options = _options()
    names = list(filter(_selected(options.only), _CASES))
    with tempfile.TemporaryDirectory(prefix="pilotis-compare-") as name, contextlib.ExitStack() as stack:
        before = stack.enter_context(_side(options.revision, options.rows, Path(name) / "before"))
        after = stack.enter_context(_side(options.against, options.rows, Path(name) / "after"))
        print(f"load average at the start: {os.getloadavg()[0]:.1f}; Python + PostgreSQL, processor time a request")
        second = options.against or "working tree"
        print(f"| | {options.revision} | per second | {second} | per second | ratio of processor time |")
        print("|---|---|---|---|---|---|")
        rows = []
        for name in names:
            rows.append(compared(before, after, name, options.rounds, options.seconds))
            print(rows[-1], flush=True)
    if any(row.is_dearer for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
