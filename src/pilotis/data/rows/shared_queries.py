"""Queries that differ in their values alone and arrive together: one statement answers them.

A statement of a fraction of a millisecond costs more to send and to receive than to run. So those that arrive while
others with the same text are under way wait for each other, but only as long as the text is known to be quick: whoever
waits behind a slow one would wait for nothing. What PostgreSQL rejects or takes long for is asked again by each caller
alone, who so gets its own error and its own time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, NamedTuple

from asyncpg import Record

from pilotis.data.rows import shared_reads
from pilotis.data.where.access_patterns import AccessPatterns
from pilotis.db.batching import Batchers, NotBegunError
from pilotis.kit.errors import UnavailableError
from pilotis.limits import Limits

_MAX_TOGETHER = 16
_QUICK_SECONDS = 0.05
"""How long a quick statement takes at most for one caller, also on a busy machine."""
_SECONDS_OF_EACH = 0.002
"""How much longer it may take for each further one."""
_PATIENCE_SECONDS = 0.3
"""How long a caller waits for others before it asks alone."""
_MAX_BYTES = 2_000_000
"""The size of the answers to all callers, beyond which they get their own."""
_MAX_VALUES_BYTES = 10_000
_QUICK_FOR_SECONDS, _APART_FOR_SECONDS = 60.0, 10.0
_MAX_KNOWN = 500
_MAX_KEPT = 1000
MAX_KEPT_BYTES = 1000
"""The size of queries whose compiled form is kept."""


class CompiledQuery(NamedTuple):
    """A statement that yields `total_count` and `data`, its arguments, and its `$matches` patterns.

    `access` records how it reads the table. `places` are the typed placeholders of the arguments, where queries that
    differ in these alone may be answered together.
    """

    sql: str
    arguments: list[object]
    patterns: list[str]
    access: AccessPatterns | None = None
    places: tuple[str, ...] = ()


Answer = tuple[Any, ...]
"""The columns of the row that answers a query."""
Fetch = Callable[[str, Sequence[Any], AccessPatterns | None], Awaitable[tuple[list[Record], float]]]
"""Returns the rows of a statement, and the seconds that it took on its connection."""


class _Known:
    """Statements of which something is known for some seconds; when there are many, all are forgotten.

    A statement is known with the number of the `SharedQueries`: the next one of a table begins when it has new indexes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[tuple[int, str], float] = {}

    def add(self, statement: tuple[int, str]) -> None:
        """Know it of a statement from now on."""
        if len(self._until) >= _MAX_KNOWN:
            self._until.clear()
        self._until[statement] = time.monotonic() + self._seconds

    def discard(self, statement: tuple[int, str]) -> None:
        """Know it no more."""
        self._until.pop(statement, None)

    def __contains__(self, statement: tuple[int, str]) -> bool:
        until = self._until.get(statement)
        return until is not None and time.monotonic() < until


# Of all tables together, so that many of these take no more memory.
_quick, _apart = _Known(_QUICK_FOR_SECONDS), _Known(_APART_FOR_SECONDS)
_kept: dict[tuple[int, Hashable], tuple[Limits, CompiledQuery]] = {}
_numbers = itertools.count()


class _Together(NamedTuple):
    """A query with its values as a member of a list, and the statement for such lists."""

    query: CompiledQuery
    values: bytes
    shared: str


class SharedQueries:
    """Answers queries of one table by `fetch`, together where that is quicker.

    `took` is told how each of them read the table, and its share of the seconds.
    """

    def __init__(self, fetch: Fetch, took: Callable[[AccessPatterns, float], None]) -> None:
        self._fetch = fetch
        self._took = took
        self._batchers: Batchers[str, _Together, Answer | None] = Batchers(
            self._run, max_batch=_MAX_TOGETHER, wait_seconds=_PATIENCE_SECONDS
        )
        self._number = next(_numbers)

    def kept(self, key: Hashable, limits: Limits, compile_: Callable[[], CompiledQuery]) -> CompiledQuery:
        """Return what a query was compiled to before, under the same limits; `key` tells it from all others."""
        kept = _kept.get((self._number, key))
        if kept is not None and kept[0] is limits:
            return kept[1]
        compiled = compile_()
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[self._number, key] = limits, compiled
        return compiled

    async def run(self, query: CompiledQuery) -> Answer:
        """Return the row that answers a query."""
        if (self._number, query.sql) in _quick and (together := _together(query)) is not None:
            try:
                # Not `submit`, which notes an effect: reading has none.
                answer = await self._batchers.begin(query.sql, together)
            except NotBegunError:  # Those before it take too long.
                answer = None
            if answer is not None:
                return answer
        return await self._alone(query)

    async def _alone(self, query: CompiledQuery) -> Answer:
        (row,), seconds = await self._fetch(query.sql, query.arguments, query.access)
        statement = self._number, query.sql
        if seconds > _QUICK_SECONDS:
            _quick.discard(statement)
        elif statement not in _apart:
            _quick.add(statement)
        return tuple(row)

    async def _run(self, asked: Sequence[_Together]) -> Sequence[Answer | None]:
        statement = self._number, asked[0].query.sql
        if statement not in _quick:
            return [None] * len(asked)
        if len(asked) == 1:
            return [await self._alone(asked[0].query)]
        values = b"[" + b",".join(one.values for one in asked) + b"]"
        try:
            rows, seconds = await self._fetch(asked[0].shared, [values.decode()], None)
        except UnavailableError as error:
            if error.__cause__ is None:
                # There was no connection for it: asking again would make many wait where one did.
                raise
            _keep_apart(statement)
            return [None] * len(asked)
        except Exception:  # Each of them gets its own.
            _keep_apart(statement)
            return [None] * len(asked)
        found = {number: tuple(answer) for number, *answer in rows}
        for one in asked:
            if one.query.access is not None:
                self._took(one.query.access, seconds / len(asked))
        size = sum(len(column) for answer in found.values() for column in answer if isinstance(column, str))
        if seconds > _QUICK_SECONDS + _SECONDS_OF_EACH * len(asked) or size > _MAX_BYTES:
            _keep_apart(statement)
        return [found.get(number) for number in range(1, len(asked) + 1)]


def _keep_apart(statement: tuple[int, str]) -> None:
    _quick.discard(statement)
    _apart.add(statement)


def _together(query: CompiledQuery) -> _Together | None:
    """Return a query as one of several; None where its values have no form in a list."""
    if len(query.places) != len(query.arguments):
        return None
    shared = shared_reads.shared_query(query.sql, query.places)
    values = shared_reads.values(query.arguments) if shared is not None else None
    if shared is None or values is None or len(values) > _MAX_VALUES_BYTES:
        return None
    return _Together(query, values, shared)
