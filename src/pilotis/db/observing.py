"""The time of statements by feature, and the statements that are slow.

Each statement costs two readings of the clock, a coroutine and a dictionary lookup: 1.2 µs of a processor. The text
of a statement is examined only when it is new. A statement belongs to the feature that owns the first table that it
names, one on an app's rows to `rows`.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping
from importlib import resources
from typing import Any

import structlog
from asyncpg import Connection

from pilotis.kit import origin

ROWS = "rows"
OTHER = "other"
_MAX_TEXTS = 1024
_MAX_TEXT = 4096  # characters; texts that callers' conditions make long would take too much memory
_MAX_SHAPE = 600
# They begin with a text that `re` looks for by itself; with a boundary of words before it they took six times as long.
_APP = re.compile(r"app_[0-9a-f]{32}\.")
_TABLE = re.compile(r"pilotis\.(\w+)")
_CREATED = re.compile(r"^create (?:unlogged )?table (?:if not exists )?pilotis\.(\w+)", re.MULTILINE)
_OWNER = re.compile(r"^-- owner: ([\w.]+)", re.MULTILINE)
_RENAMED = re.compile(r"alter table pilotis\.(\w+) rename to (\w+)")
# The first migration is older than the rule that a migration names its owner.
_FIRST = {
    "migrations": "db",
    "installation": "serve",
    "apps": "apps",
    "public_keys": "apps",
    "secret_keys": "apps",
    "request_stats": "apps",
    "users": "users",
    "app_users": "users",
    "invitations": "users",
    "members": "members",
    "sessions": "security.sessions",
    "rate_limits": "security.rate_limits",
    "audit_log": "security.audit",
    "tables": "data.tables",
    "columns": "data.tables",
    "indexes": "data.indexes",
    "index_uses": "data.indexes",
    "imports": "data.transfer",
    "file_storages": "files",
    "files": "files",
    "uploads": "files",
    "variants": "files",
    "dead_blobs": "files",
}
_VALUES = re.compile(r"'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|(?<![\w$\"])\d+(?:\.\d+)?\b", re.DOTALL)

_log = structlog.get_logger("pilotis.database")


@functools.cache
def owners() -> Mapping[str, str]:
    """Return the feature that owns each table of the server, by the migrations that create them."""
    found = dict(_FIRST)
    folder = resources.files("pilotis.db") / "sql"
    for file in sorted((one for one in folder.iterdir() if one.name.endswith(".sql")), key=lambda one: one.name):
        text = file.read_text("utf-8")
        if owner := _OWNER.search(text):
            found |= dict.fromkeys(_CREATED.findall(text), owner[1])
        found |= {new: found[old] for old, new in _RENAMED.findall(text)}
    return found


def feature_of(query: str) -> str:
    """Return the feature to which a statement belongs."""
    if _APP.search(query):
        return ROWS
    known = owners()
    return next((known[found[1]] for found in _TABLE.finditer(query) if found[1] in known), OTHER)


def shape_of(query: str) -> str:
    """Return a statement's text on one line, without the values that it has beside its parameters, and not too long."""
    text = " ".join(_VALUES.sub("?", query).split())
    return text if len(text) <= _MAX_SHAPE else f"{text[:_MAX_SHAPE]} …"


class Statements:
    """The number of statements and their seconds, by feature, in one process.

    A statement that takes `slow_seconds` or longer is logged; 0 = none.
    """

    def __init__(self, slow_seconds: float = 0) -> None:
        self._slow_seconds = slow_seconds or float("inf")
        self._sums: dict[str, list[float]] = {}
        self._known: dict[str, list[float]] = {}

    def ended(self, query: str, seconds: float) -> None:
        """Count a statement."""
        sums = self._known.get(query) or self._learned(query)
        sums[0] += 1
        sums[1] += seconds
        if seconds >= self._slow_seconds:
            report_slow(query, seconds)

    def counts(self) -> dict[str, int]:
        """Return the number of statements by feature."""
        return {feature: int(sums[0]) for feature, sums in self._sums.items()}

    def seconds(self) -> dict[str, float]:
        """Return the seconds by feature, from the moment a statement is sent until its answer is there."""
        return {feature: sums[1] for feature, sums in self._sums.items()}

    def _learned(self, query: str) -> list[float]:
        sums = self._sums.setdefault(feature_of(query), [0, 0.0])
        if len(query) <= _MAX_TEXT:
            if len(self._known) >= _MAX_TEXTS:
                self._known.clear()
            self._known[query] = sums
        return sums


def report_slow(query: str, seconds: float) -> None:
    """Log a slow statement with the request on whose behalf it ran; of several that share it, the first."""
    _log.warning(
        "slow statement",
        feature=feature_of(query),
        ms=round(seconds * 1000, 1),
        statement=shape_of(query),
        route=origin.route(),
        request_id=origin.current(),
    )


_execute: Any = vars(Connection)["_execute"]


class ObservedConnection(Connection):
    """A connection whose statements are counted by `observer`, once it is set; `is_old` if it is to be replaced."""

    observer: Statements | None = None
    is_old = False

    async def _execute(self, query: str, *arguments: Any, **options: Any) -> Any:
        # Every fetch of asyncpg passes here. Its query loggers would cost ten times as much.
        started = time.perf_counter()
        try:
            return await _execute(self, query, *arguments, **options)
        finally:
            if self.observer is not None:
                self.observer.ended(query, time.perf_counter() - started)

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109
        """Run statements; with arguments, `_execute` counts them."""
        if arguments or self.observer is None:
            return await super().execute(query, *arguments, timeout=timeout)
        started = time.perf_counter()
        try:
            return await super().execute(query, timeout=timeout)
        finally:
            self.observer.ended(query, time.perf_counter() - started)
