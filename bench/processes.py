"""Processor time and memory of a tree of processes, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_POSTGRES = "postgres"


class Tree(NamedTuple):
    """Figures of a tree of processes, those of PostgreSQL apart from those of everything else."""

    python: float
    postgres: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.python + self.postgres

    def __sub__(self, other: Tree) -> Tree:
        """Return what was added since `other`."""
        return Tree(self.python - other.python, self.postgres - other.postgres)

    def per(self, count: float) -> Tree:
        """Return the figures divided by a number of requests."""
        return Tree(self.python / count, self.postgres / count)


def processor_seconds(pids: Sequence[int]) -> Tree:
    """Return the processor time of processes and all below them, ended ones that were waited for included."""
    sums = [0.0, 0.0]
    for pid, name in _below(pids):
        # One that has just ended is counted with its parent.
        with contextlib.suppress(OSError):
            sums[name == _POSTGRES] += sum(map(int, _stat(pid)[1][11:15])) * _TICK
    return Tree(*sums)


def memory(pids: Sequence[int]) -> Tree:
    """Return the proportional set size of processes and all below them, in megabytes (10^6 bytes).

    Pages that several processes share are divided among them, so that the sum counts each page once.
    """
    sums = [0.0, 0.0]
    for pid, name in _below(pids):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        pss = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        sums[name == _POSTGRES] += pss * 1024 / 1e6
    return Tree(*sums)


def names(pids: Sequence[int]) -> list[str]:
    """Return the names of the processes and all below them."""
    return sorted(name for _, name in _below(pids))


def _below(pids: Sequence[int]) -> Iterator[tuple[int, str]]:
    children: dict[int, list[int]] = {}
    named: dict[int, str] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        pid = int(file.parent.name)
        try:
            name, fields = _stat(pid)
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        named[pid] = name
    waiting = [*pids]
    while waiting:
        one = waiting.pop()
        if one in named:
            yield one, named[one]
        waiting += children.get(one, [])


def _stat(pid: int) -> tuple[str, list[str]]:
    """Return a process' name, and the fields of its status after the name (proc_pid_stat(5))."""
    head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return head.partition("(")[2], rest.split()
