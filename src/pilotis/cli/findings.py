"""The findings of `pilotis doctor`: what each is about, how serious it is, and what mends it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from pilotis.kit.reports import Report


class Level(enum.Enum):
    """How serious a finding is; only a problem makes the command exit with 1."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(enum.StrEnum):
    """What a finding is about. Scripts rely on these names, and docs/operating.md lists them."""

    DATA_DIRECTORY = enum.auto()
    DISK_SPACE = enum.auto()
    DISK_TREND = enum.auto()
    OBJECT_STORE = enum.auto()
    PREVIOUS_OBJECT_STORE = enum.auto()
    MISSING_FILES = enum.auto()
    ORPHANED_FILES = enum.auto()
    FUNCTIONS = enum.auto()
    MAIL = enum.auto()
    ADDRESS = enum.auto()
    BACKUPS = enum.auto()
    BACKUP_AGE = enum.auto()
    BACKUP_PROOF = enum.auto()
    BACKUP_SPOOL = enum.auto()
    BACKUP_KEY = enum.auto()
    DATABASE = enum.auto()
    EXTENSIONS = enum.auto()
    CLOCK = enum.auto()
    POOLER = enum.auto()
    CITUS = enum.auto()
    MIGRATIONS = enum.auto()
    MASTER_KEY = enum.auto()
    CONNECTIONS = enum.auto()
    STATISTICS = enum.auto()
    INDEXES = enum.auto()
    DEAD_JOBS = enum.auto()
    OVERDUE_WORK = enum.auto()
    EVENTS = enum.auto()
    NODE_WORK = enum.auto()
    NODE_VERSIONS = enum.auto()
    NODE_CLOCKS = enum.auto()
    ACCESS = enum.auto()
    PROXY = enum.auto()
    CERTIFICATE = enum.auto()


class Finding(NamedTuple):
    """The result of one check; `fix` says what mends it, and is None only if nothing is wrong."""

    id: Check
    level: Level
    sentence: str
    fix: str | None = None

    @property
    def text(self) -> str:
        """The finding as one line."""
        return f"{self.level.value:7}  {self.sentence}{f' {self.fix}' if self.fix else ''}"

    @property
    def fields(self) -> dict[str, str | None]:
        """The finding as JSON has it."""
        return {"id": self.id.value, "level": self.level.value, "sentence": self.sentence, "fix": self.fix}


def ok(check: Check, sentence: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check, Level.OK, sentence)


def warning(check: Check, sentence: str, fix: str) -> Finding:
    """Return a finding about what may be intended, or may become a problem."""
    return Finding(check, Level.WARNING, sentence, fix)


def problem(check: Check, sentence: str, fix: str) -> Finding:
    """Return a finding about what does not work, or endangers data."""
    return Finding(check, Level.PROBLEM, sentence, fix)


def warnings(check: Check, reports: Iterable[Report]) -> list[Finding]:
    """Return a warning for each report of a part of the server."""
    return [warning(check, *report) for report in reports]


def problems(check: Check, reports: Iterable[Report]) -> list[Finding]:
    """Return a problem for each report of a part of the server."""
    return [problem(check, *report) for report in reports]
