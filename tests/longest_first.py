"""Distributes test files to the processes of pytest-xdist, the longest first: `pytest -n 6 --longest-first`.

With xdist's own modes every process collects every test, and files are run in the order of their names. Here a process
collects a file when it runs it, and the next file is the longest of those that the processors have room for: a file
that mostly waits runs beside others, one that computes does not. `durations.json` says how long each file took; a run
with `--record-durations` rewrites it. The files of `PARTS` are divided. Tests marked `alone` run at the end, in the
only process that is left.

With `--budget` a run of all tests does as much as its seconds hold: every file that costs little, and of the others
those that changed and those whose turn it is.

How it fits into xdist: what a process collects, and the scheduler sees, are `Unit`s instead of tests. Running a unit
collects and runs its tests.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from xdist.workermanage import WorkerController

from tests.whole import SEED, WHOLE

DURATIONS = Path(__file__).with_name("durations.json")
PARTS = {
    "tests/security/test_matrix.py": 2,
    "tests/http/test_examples.py": 3,
    "tests/blobs/test_contract.py": 2,
}
"""Files whose tests are divided among so many units. Their tests do not share fixtures that take long to create."""

_CAPACITY = 1.5
"""Processors that the running units may use together, for each that there is: they do not use them all the time."""
_CHEAP = 2.0
"""Seconds of a processor: a file that takes no more is always run, since most faults a second are found there."""
_IDLE, _IDLE_INDEX = "end of a process", 0
_ALONE = "alone"
_TICKS = os.sysconf("SC_CLK_TCK")


class Duration(NamedTuple):
    """What a unit needs: seconds by the clock while no other runs, and seconds of processors."""

    seconds: float
    processor: float

    @property
    def load(self) -> float:
        """The number of processors that it uses on average."""
        return self.processor / max(self.seconds, 0.1)


# A new file neither comes last nor keeps others from running.
UNKNOWN = Duration(60.0, 30.0)


def read_durations() -> dict[str, Duration]:
    """Return the recorded durations by unit."""
    return {unit: Duration(*recorded) for unit, recorded in json.loads(DURATIONS.read_text()).items()}


def write_durations(measured: dict[str, Duration]) -> None:
    """Record the durations of units that have run, and forget those whose file has gone."""
    root = DURATIONS.parent.parent
    known = read_durations() | measured
    lines = [
        f"{json.dumps(unit)}: [{duration.seconds:.1f}, {duration.processor:.1f}]"
        for unit, duration in sorted(known.items())
        if (root / unit.partition("::")[0]).exists()
    ]
    DURATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


class Budget(NamedTuple):
    """Seconds of processors that a run's units may take together, by the durations; and the files that come first."""

    seconds: float
    changed: Collection[str] = ()

    def chosen(self, units: Sequence[str], durations: dict[str, Duration], seed: str) -> set[str]:
        """Return the units that are run.

        A unit that costs little always is, and so is a file without a duration. What they leave goes to files that
        changed, then to the others in an order that follows from the seed: with each commit it is the turn of others.
        """
        cheap = {unit for unit in units if unit not in durations or durations[unit].processor <= _CHEAP}
        dear = sorted(set(units) - cheap)
        random.Random(seed).shuffle(dear)
        dear.sort(key=lambda unit: unit.partition("::")[0] not in self.changed)
        left = self.seconds - sum(durations.get(unit, UNKNOWN).processor for unit in cheap)
        chosen = cheap
        for unit in dear:
            if durations[unit].processor <= left:
                left -= durations[unit].processor
                chosen.add(unit)
        return chosen


# In each process: units in place of tests.


class Unit(pytest.Item):
    """A file's tests, a part of them, or those of them that run alone; to xdist it looks like the test it runs."""

    running: pytest.Item | None = None

    @property
    def nodeid(self) -> str:
        """Its own id, or that of the test that runs: xdist compares it with each report's."""
        return self.running.nodeid if self.running else super().nodeid

    def tests(self) -> list[pytest.Item]:
        """Collect its tests."""
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)
        items = list(self.session.genitems(module))
        self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=items)
        alone = self.name == _ALONE
        chosen = [item for item in items if alone == (item.get_closest_marker("alone") is not None)]
        part, _, parts = self.name.partition("/")
        if parts:
            first, last = ((int(part) - at) * len(chosen) // int(parts) for at in (1, 0))
            return chosen[first:last]
        return chosen

    def runtest(self) -> None:
        """Do nothing; only the one behind the last unit of a process comes here."""


class UnitFile(pytest.File):
    """A file in which nothing has been looked for yet."""

    def collect(self) -> Iterator[Unit]:
        parts = PARTS.get(self.nodeid, 1)
        for part in range(parts):
            yield Unit.from_parent(self, name=f"{part + 1}/{parts}" if parts > 1 else "all")
        if "mark.alone" in self.path.read_text():
            yield Unit.from_parent(self, name=_ALONE)


class Worker:
    """Collects and runs units in a process of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._measured: dict[str, list[float]] = {}
        config.workeroutput["durations"] = self._measured
        self._collecting = True
        # A unit knows its tests only when it runs.
        self._named, config.args = config.args, list(dict.fromkeys(name.partition("::")[0] for name in config.args))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> UnitFile:
        return UnitFile.from_parent(parent, path=module_path)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> Generator[None]:
        """Keep `-k`, `-m` and the like from choosing among units; they choose among the tests of each."""
        if not self._collecting:
            return (yield)
        self._collecting = False
        units, items[:] = list(items), []
        result = yield
        # A process of xdist starts a test when it knows the next one. This one stands behind each, and is nothing.
        items[:] = [Unit.from_parent(session, name=_IDLE), *units]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        # The last one is run as a test, so that what fails in the fixtures of the whole process is reported.
        if not isinstance(item, Unit) or nextitem is None:
            return None
        if item.name != _IDLE:
            unit, before = item.nodeid, Usage.now()
            self._run(item, nextitem)
            self._measured[unit] = list(before.until_now())
        return True

    def _run(self, unit: Unit, nextitem: pytest.Item | None) -> None:
        tests = [test for test in unit.tests() if self._is_named(test)]
        for test, following in zip(tests, [*tests[1:], nextitem], strict=False):
            if unit.session.shouldfail or unit.session.shouldstop:
                break
            unit.running = test
            unit.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        unit.running = None

    def _is_named(self, test: pytest.Item) -> bool:
        """Return whether one of the arguments names the test, or anything that it is in."""
        return any(
            test.nodeid == name or test.nodeid.startswith((f"{name}::", f"{name}["))
            if "::" in name
            else test.path.is_relative_to(Path.cwd() / name)
            for name in self._named
        )


class Usage(NamedTuple):
    """Seconds so far of the clock, of this process and all its descendants, and of their waits for a processor."""

    clock: float
    processor: float
    delayed: float

    @classmethod
    def now(cls) -> Usage:
        """Read what the system has counted (proc(5)); where it counts nothing, a unit seems to use one processor."""
        processor, delayed = 0.0, 0.0
        for process in _tree(os.getpid()) if Path("/proc/self/schedstat").exists() else ():
            try:
                times = (process / "stat").read_bytes().rpartition(b")")[2].split()[11:15]
                waited = (process / "schedstat").read_bytes().split()[1]
            except OSError:
                continue
            processor += sum(map(int, times)) / _TICKS
            delayed += int(waited) / 1e9
        return cls(time.monotonic(), processor, delayed)

    def until_now(self) -> Duration:
        """Return what has been used since. On a busy machine the time by the clock is corrected."""
        now = Usage.now()
        clock, processor, delayed = (after - before for after, before in zip(now, self, strict=True))
        if not now.processor:
            return Duration(clock, clock)
        # Several processes may have waited for a processor at the same time; mostly one works while the others wait.
        return Duration(max(clock - max(delayed, 0.0), processor, 0.1), processor)


def _tree(root: int) -> Iterator[Path]:
    children: dict[bytes, list[Path]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[1]
            except OSError:
                continue
            children.setdefault(parent, []).append(process)
    found = [Path(f"/proc/{root}")]
    for process in found:
        yield process
        found += children.get(process.name.encode(), [])


# In the process that distributes:


class Scheduler:
    """What xdist asks for work (`xdist.scheduler.protocol.Scheduling`)."""

    def __init__(self, durations: dict[str, Duration], cores: int, budget: Budget | None = None) -> None:
        self._durations = durations
        self._cores = cores
        self._budget = budget
        self._running: dict[WorkerController, str | None] = {}
        self._indices: dict[WorkerController, dict[str, int]] = {}
        self._waiting: list[str] | None = None
        self._alone: list[str] = []
        self.left: list[str] = []
        """Units that are left to other runs."""

    @property
    def nodes(self) -> list[WorkerController]:
        """The processes."""
        return list(self._running)

    @property
    def collection_is_completed(self) -> bool:
        """Whether the names of the units are known; the first process that has them may start."""
        return self._waiting is not None

    @property
    def has_pending(self) -> bool:
        """Whether a unit waits or runs."""
        return bool(self._waiting or self._alone or any(self._running.values()))

    @property
    def tests_finished(self) -> bool:
        """Whether all is done."""
        return self.collection_is_completed and not self.has_pending

    def add_node(self, node: WorkerController) -> None:
        """Add a process that has started."""
        self._running[node] = None

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Add the names of the units as a process knows them."""
        self._indices[node] = {unit: index for index, unit in enumerate(collection)}
        if self._waiting is None:
            units = sorted(collection[_IDLE_INDEX + 1 :], key=self._duration, reverse=True)
            if self._budget:
                chosen = self._budget.chosen(units, self._durations, SEED)
                self.left = [unit for unit in units if unit not in chosen]
                units = [unit for unit in units if unit in chosen]
            self._alone = [unit for unit in units if unit.endswith(f"::{_ALONE}")]
            self._waiting = [unit for unit in units if unit not in self._alone]

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Give a process that has run a unit the next one."""
        if item_index == self._indices[node].get(self._running[node] or ""):
            self._running[node] = None
            self.schedule()

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a process that has ended; return the unit that it ran."""
        self._indices.pop(node, None)
        running = self._running.pop(node)
        self.schedule()
        return running

    def schedule(self) -> None:
        """Give each process that has nothing to do a unit, as long as the processors have room."""
        for node in self._free():
            if self._waiting and (unit := self._next()):
                self._waiting.remove(unit)
                self._run(node, unit)
        if not self._waiting and not any(self._running.values()):
            self._schedule_alone()

    def _schedule_alone(self) -> None:
        if free := self._free():
            if not self._alone or len(self._running) > 1:
                for node in free[1:] if self._alone else free:
                    node.shutdown()
            else:
                self._run(free[0], self._alone.pop(0))

    def _free(self) -> list[WorkerController]:
        return [
            node
            for node, unit in self._running.items()
            if unit is None and node in self._indices and not node.shutting_down
        ]

    def _next(self) -> str | None:
        loads = [self._durations.get(unit, UNKNOWN).load for unit in self._running.values() if unit]
        room = self._cores * _CAPACITY - sum(loads)
        fitting = (unit for unit in self._waiting or () if self._durations.get(unit, UNKNOWN).load <= room)
        # While fewer units run than there are processors, none of these is left without.
        return next(fitting, self._waiting[0] if self._waiting and len(loads) < self._cores else None)

    def _run(self, node: WorkerController, unit: str) -> None:
        self._running[node] = unit
        indices = self._indices[node]
        node.send_runtest_some([indices[unit], _IDLE_INDEX])

    def _duration(self, unit: str) -> float:
        return self._durations.get(unit, UNKNOWN).seconds


class Controller:
    """Makes the scheduler, records the durations, and tells what was left to other runs."""

    def __init__(self, config: pytest.Config) -> None:
        # A part of a file says nothing about the whole.
        chosen = config.getoption("-k") or config.getoption("-m") or any("::" in name for name in config.args)
        self._record = config.getoption("--record-durations") and not chosen
        self._measured: dict[str, Duration] = {}
        self._scheduler: Scheduler | None = None
        # Whoever names tests wants those.
        is_all = not config.option.file_or_dir and not chosen and not WHOLE
        cores = os.cpu_count() or 1
        seconds, changed = config.getoption("--budget"), config.getoption("--changed")
        self._budget = Budget(seconds * cores, set(changed.split())) if seconds and is_all else None
        self._cores = cores

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self) -> Scheduler:
        self._scheduler = Scheduler(read_durations(), self._cores, self._budget)
        return self._scheduler

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        measured = getattr(node, "workeroutput", {}).get("durations", {})
        self._measured |= {unit: Duration(*duration) for unit, duration in measured.items()}

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        if self._record:
            write_durations(self._measured)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._scheduler and (left := self._scheduler.left):
            terminalreporter.section("left to other runs")
            files = len({unit.partition("::")[0] for unit in left})
            terminalreporter.write(f"{files} files whose turn comes with other commits; `make test-all` runs all.\n")


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    parser.addoption("--longest-first", action="store_true", help="distribute files by `tests/longest_first.py`")
    parser.addoption("--record-durations", action="store_true", help="rewrite `tests/durations.json`")
    parser.addoption(
        "--budget", type=float, metavar="SECONDS", help="of each processor, that a run of all tests may take"
    )
    parser.addoption("--changed", default="", metavar="FILES", help="those that such a run does before others")


def configure(config: pytest.Config) -> None:
    """Take over the distribution where `--longest-first` asks for it."""
    if not config.getoption("--longest-first"):
        return
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config), "longest-first")
    elif config.getoption("numprocesses"):
        config.pluginmanager.register(Controller(config), "longest-first")
