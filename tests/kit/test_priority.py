"""Work that gives way to requests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pilotis.kit import priority
from pilotis.kit.priority import SpareTime, give_way
from tests.waiting import wait_until

GROUPS = Path("/proc/self/autogroup")
needs_groups = pytest.mark.skipif(not GROUPS.exists(), reason="this kernel does not schedule sessions as groups")


def session_priority(pid: int | str) -> str:
    return Path(f"/proc/{pid}/autogroup").read_text().split()[-1]


@pytest.fixture
def sleeper() -> Iterator[Callable[[bool], int]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(has_own_session: bool) -> int:
        started.append(subprocess.Popen(["sleep", "60"], start_new_session=has_own_session))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


@needs_groups
def test_the_session_of_another_process_gives_way_and_ours_does_not(sleeper: Callable[[bool], int]):
    ours = session_priority("self")
    other, fellow = sleeper(True), sleeper(False)
    give_way(other, 7)
    give_way(fellow, 7)
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in (other, fellow)} == {7}
    assert session_priority(other) == "7"
    assert session_priority(fellow) == session_priority("self") == ours


def test_a_process_that_has_ended_is_passed_over(sleeper: Callable[[bool], int]):
    pid = sleeper(True)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    give_way(pid, 7)


@needs_groups
@pytest.mark.parametrize("has_own_session", [True, False])
def test_a_process_sets_its_session_only_if_it_began_it(has_own_session: bool):
    code = "from pilotis.kit.priority import process_gives_way as it; it(3); print(open('/proc/self/autogroup').read())"
    before = session_priority("self")
    ended = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, start_new_session=has_own_session
    )
    assert ended.stdout.split()[-1] == ("3" if has_own_session else before)


class Machine:
    """A clock, and processors of which so many are idle."""

    def __init__(self, idle: float) -> None:
        self.now = self.idle_seconds = 0.0
        self.idle = idle

    def work(self, spare: SpareTime, seconds: float = 0.01) -> float:
        self._pass(seconds)
        pause = spare.pause_after(seconds)
        self._pass(pause)
        return pause / seconds

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.idle_seconds += seconds * self.idle


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(idle=1)
    monkeypatch.setattr(priority.time, "monotonic", lambda: made.now)
    return made


def test_there_are_no_pauses_while_a_processor_is_idle(machine: Machine):
    spare = SpareTime(lambda: machine.idle_seconds)
    assert {machine.work(spare) for _ in range(200)} == {0}


def test_pauses_become_longer_while_none_is_idle_up_to_a_twentieth_of_a_processor(machine: Machine):
    machine.idle = 0.2
    spare = SpareTime(lambda: machine.idle_seconds)
    pauses = [machine.work(spare) for _ in range(200)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0
    assert pauses[-1] == 19
    machine.idle = 1
    assert [machine.work(spare) for _ in range(1000)][-1] == 0


def test_there_are_none_where_the_system_does_not_tell(machine: Machine):
    spare = SpareTime(lambda: None)
    assert {machine.work(spare) for _ in range(200)} == {0}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/stat")
def test_what_linux_tells_is_idle_time_of_its_processors():
    first = priority._idle_seconds()
    assert first is not None
    wait_until(lambda: (priority._idle_seconds() or 0) > first)
