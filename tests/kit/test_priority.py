"""Work that gives way to requests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pilotis.kit import priority
from pilotis.kit.priority import SpareTime, family_gives_way, give_way
from tests.waiting import wait_until

GROUPS = Path("/proc/self/autogroup")
needs_groups = pytest.mark.skipif(not GROUPS.exists(), reason="this kernel does not schedule sessions as groups")


def session_priority(pid: int | str) -> str | None:
    """Return the priority of a process's session; None for the session of the system's first process."""
    told = Path(f"/proc/{pid}/autogroup").read_text().split()
    return told[-1] if told else None


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


@needs_groups
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_without_privileges_it_is_told_when_to_try_again():
    code = """if 1:
        import os, subprocess, time
        from pathlib import Path
        from pilotis.kit.priority import give_way
        os.setuid(65534)
        sleepers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(3)]
        tries = 0
        for sleeper in sleepers:
            while not give_way(sleeper.pid, 7):
                tries += 1
                time.sleep(0.02)
            print(Path(f"/proc/{sleeper.pid}/autogroup").read_text().split()[-1])
            sleeper.kill()
        print(tries > 0)
    """
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert ended.stdout.split() == ["7", "7", "7", "True"]


@needs_groups
def test_the_children_give_way_that_begin_sessions_of_their_own():
    """As those of PostgreSQL do, one after the other."""
    code = """if 1:
        import subprocess, sys
        children = []
        for line in sys.stdin:
            children.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
            print(children[-1].pid, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        done: set[int] = set()
        pids = [parent.pid]
        try:
            for _ in range(2):
                print(file=parent.stdin, flush=True)
                pids.append(int(parent.stdout.readline()))
                family_gives_way(parent.pid, 7, done)
                assert done == set(pids)
                assert {session_priority(pid) for pid in pids} == {"7"}
        finally:
            for pid in reversed(pids):
                os.kill(pid, 9)


def test_a_process_that_has_ended_is_passed_over(sleeper: Callable[[bool], int]):
    pid = sleeper(True)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    give_way(pid, 7)


@needs_groups
@pytest.mark.parametrize("has_own_session", [True, False])
def test_a_process_sets_its_session_only_if_it_began_it(has_own_session: bool):
    code = "from pilotis.kit.priority import process_gives_way as it; it(3); print(); input()"
    before = session_priority("self")
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=has_own_session,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
        assert session_priority(process.pid) == ("3" if has_own_session else before)
        process.communicate(b"\n")


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


def test_pauses_become_longer_while_none_is_idle_up_to_a_tenth_of_a_processor(machine: Machine):
    machine.idle = 0.2
    spare = SpareTime(lambda: machine.idle_seconds)
    pauses = [machine.work(spare) for _ in range(200)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0
    assert pauses[-1] == 9
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
