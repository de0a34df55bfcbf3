"""The distribution of test files: none is lost, the longest come first, and those that run alone do."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.longest_first import UNKNOWN, Budget, Duration, Scheduler
from tests.waiting import PATIENCE

CONFTEST = """
import pytest
from tests import longest_first

longest_first.PARTS["test_many.py"] = 3

def pytest_addoption(parser):
    longest_first.add_options(parser)

def pytest_configure(config):
    longest_first.configure(config)

@pytest.fixture(scope="session")
def shared():
    yield
    assert False, "the shared fixture's end"
"""
FILES = {
    "test_many.py": "import pytest\n@pytest.mark.parametrize('number', range(10))\ndef test_it(number): pass\n",
    "test_mixed.py": """
import time, pytest
from pathlib import Path

def test_beside(): pass

@pytest.mark.alone
def test_alone(request): pass

class TestGroup:
    def test_in_it(self, shared): pass
""",
    "inner/test_broken.py": "raise ValueError('broken')\n",
}
OPTIONS = ["-n", "2", "--longest-first", "-v", "-o", "markers=alone", "-p", "no:cacheprovider", "-p", "no:schemathesis"]


def run(folder: Path, *arguments: str) -> str:
    """Run the files above, distributed."""
    for name, text in {"conftest.py": CONFTEST, **FILES}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": root, "PATH": ""}, capture_output=True, text=True, timeout=PATIENCE
    )
    assert "INTERNAL" not in done.stdout, done.stdout
    return done.stdout


def test_every_test_runs_once_and_every_failure_is_told(tmp_path: Path):
    output = run(tmp_path)
    passed = sorted(line.split("PASSED ")[1].strip() for line in output.splitlines() if "PASSED " in line)
    several = [f"test_many.py::test_it[{number}]" for number in range(10)]
    mixed = ["test_mixed.py::TestGroup::test_in_it", "test_mixed.py::test_alone", "test_mixed.py::test_beside"]
    assert [name for name in passed if "end of a process" not in name] == several + mixed, output
    assert "ValueError: broken" in output
    assert "the shared fixture's end" in output


def test_names_and_marks_choose_among_the_tests(tmp_path: Path):
    output = run(tmp_path, "test_mixed.py::TestGroup", "test_many.py::test_it[3]", "-k", "not group")
    assert output.count("PASSED test_") == 1, output
    assert "PASSED test_many.py::test_it[3]" in output


class Process:
    """What the scheduler sees of a process."""

    shutting_down = False

    def __init__(self) -> None:
        self.ran: list[int] = []

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.ran.append(indices[0])

    def shutdown(self) -> None:
        self.shutting_down = True


UNITS = ["idle", "a::all", "a::alone", "b::all", "c::all", "d::all"]
DURATIONS = {
    "a::all": Duration(10, 10),
    "b::all": Duration(30, 3),
    "c::all": Duration(20, 20),
    "d::all": Duration(40, 40),
}


def scheduled(cores: int, processes: int, budget: Budget | None = None) -> tuple[Scheduler, list[Process]]:
    scheduler, nodes = Scheduler(DURATIONS, cores, budget), [Process() for _ in range(processes)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, UNITS)
        scheduler.schedule()
    return scheduler, nodes


def names(node: Process) -> list[str]:
    return [UNITS[index] for index in node.ran]


def finish(scheduler: Scheduler, node: Process) -> None:
    scheduler.mark_test_complete(node, node.ran[-1])
    scheduler.mark_test_complete(node, 0)  # the one behind it


def test_the_longest_runs_first_and_one_that_waits_beside_it():
    scheduler, nodes = scheduled(cores=1, processes=3)
    assert [names(node) for node in nodes] == [["d::all"], ["b::all"], []], "a third would take processor time"
    finish(scheduler, nodes[1])
    assert [names(node) for node in nodes] == [["d::all"], ["b::all"], []]
    finish(scheduler, nodes[0])
    assert [names(node) for node in nodes] == [["d::all", "c::all"], ["b::all"], []]


def test_what_runs_alone_comes_last_and_when_the_other_processes_have_ended():
    scheduler, nodes = scheduled(cores=4, processes=4)
    assert sum(len(node.ran) for node in nodes) == 4
    for node in nodes:
        assert not scheduler.tests_finished
        finish(scheduler, node)
    assert not any("a::alone" in names(node) for node in nodes)
    for node in [node for node in nodes if node.shutting_down]:
        assert scheduler.remove_node(node) is None
    (left,) = scheduler.nodes
    assert names(left)[-1] == "a::alone"
    finish(scheduler, left)
    assert scheduler.tests_finished


def test_a_process_that_dies_takes_its_file_along_and_no_other():
    scheduler, nodes = scheduled(cores=1, processes=2)
    assert scheduler.remove_node(nodes[0]) == "d::all"
    assert names(nodes[1]) == ["b::all"]
    replacing = Process()
    scheduler.add_node(replacing)
    scheduler.add_node_collection(replacing, UNITS)
    scheduler.schedule()
    finish(scheduler, replacing)
    for node in (replacing, nodes[1], replacing):
        finish(scheduler, node)
    assert sorted(names(nodes[1]) + names(replacing)) == ["a::all", "b::all", "c::all"]


def test_a_budget_holds_what_is_cheap_and_new_then_what_changed_then_what_has_its_turn():
    durations = {"cheap::all": Duration(9, 2), "changed::1/2": Duration(9, 30)} | {
        f"dear{number}::all": Duration(40, 40) for number in range(10)
    }
    units = [*durations, "new::all"]
    budget = Budget(2 + 30 + UNKNOWN.processor + 130, {"changed"})
    turns = [budget.chosen(units, durations, str(seed)) for seed in range(40)]
    for chosen in turns:
        assert {"cheap::all", "changed::1/2", "new::all"} < chosen
        assert len(chosen) == 3 + 3
    assert turns[0] != turns[1]
    assert set().union(*turns) == {*units}, "each has its turn"
    assert budget.chosen(units, durations, "7") == turns[7]


def test_what_a_budget_leaves_out_is_told_and_not_run():
    scheduler, nodes = scheduled(cores=4, processes=4, budget=Budget(3 + 20 + UNKNOWN.processor))
    ran = [name for node in nodes for name in names(node)]
    assert {"d::all"} < {*scheduler.left}
    assert {*UNITS[1:]} - {*scheduler.left} == {*ran, "a::alone"}
