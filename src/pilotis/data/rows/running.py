"""Runs statements that were compiled from requests, and tells what is wrong with a request by what PostgreSQL says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg

from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable
from pilotis.data.where.compiler import InvalidRegexError
from pilotis.http.api.direct import StartOverError
from pilotis.kit.errors import BadRequestError, UnavailableError

Ended = TypeVar("Ended")

_TRY_PATTERNS = "select count('' ~ pattern) from unnest($1::text[]) pattern"


class QueryTooLargeError(BadRequestError):
    """400: the request needs more memory, or a longer statement, than the database allows."""

    code = "QUERY_TOO_LARGE"
    message = "The query needs more memory than one request may use. Ask for less, or compute less in it."


async def run_compiled(table: PreparedTable, compiled: CompiledQuery, *, read_only: bool = True) -> asyncpg.Record:
    """Run a statement that was compiled from a request and returns one row; raises as `fetch_compiled` does."""
    (row,) = await fetch_compiled(table, compiled, read_only=read_only)
    return row


async def run_shared(table: PreparedTable, compiled: CompiledQuery) -> Sequence[Any]:
    """Return the columns of the row that a query answers, alone or together with others; raises as `run_compiled`."""
    if not compiled.places:
        return tuple(await run_compiled(table, compiled))
    with telling_what_is_too_large():
        return await table.shared_queries.run(compiled)


async def fetch_compiled(
    table: PreparedTable, compiled: CompiledQuery, *, read_only: bool = True
) -> list[asyncpg.Record]:
    """Run a statement that was compiled from a request; raises `InvalidRegexError` for an invalid pattern.

    Raises `QueryTooLargeError` if the statement exceeds the database's limits.
    """
    await try_patterns(table, compiled.patterns)
    with telling_what_is_too_large():
        # Not fetchrow, because with its row limit PostgreSQL starts no parallel workers.
        return await table.fetch_compiled(compiled.sql, compiled.arguments, compiled.access, read_only=read_only)


def or_start_over(ended: asyncio.Future[Ended]) -> Ended:
    """Return the result; raises `StartOverError` if PostgreSQL rejected the statement, which then changed nothing."""
    try:
        return ended.result()
    except asyncpg.PostgresError:
        raise StartOverError from None


@contextmanager
def telling_what_is_too_large() -> Iterator[None]:
    """Raise `QueryTooLargeError` where a statement that was compiled from a request exceeds the database's limits."""
    try:
        yield
    except asyncpg.ProgramLimitExceededError:
        raise QueryTooLargeError from None
    except UnavailableError as error:
        # The most likely cause of so much memory is the request from which the query was compiled.
        if isinstance(error.__cause__, asyncpg.OutOfMemoryError):
            raise QueryTooLargeError from None
        raise


async def try_patterns(table: PreparedTable, patterns: Sequence[str]) -> None:
    """Raise `InvalidRegexError` for a pattern that PostgreSQL cannot read: without rows it would not evaluate one."""
    if patterns:
        try:
            await table.fetchval(_TRY_PATTERNS, patterns)
        except asyncpg.InvalidRegularExpressionError:
            raise InvalidRegexError from None
