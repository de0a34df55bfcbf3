"""Running a request again whose transaction lost against another one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from pilotis.kit import effects
from pilotis.kit.errors import ConflictError, UnavailableError

T = TypeVar("T")

_MAX_TRIES = 5
_PAUSE_SECONDS = 0.01


class ContendedError(UnavailableError):
    """503: other requests changed the same things at the same time, again and again; nothing was changed."""

    message = "Other requests change the same at the same time. Nothing was changed; try again shortly."


ROLLED_BACK = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, ContendedError)
"""40P01 and 40001: PostgreSQL rolled the transaction back so that another one could go on."""
OUTDATED = (asyncpg.UniqueViolationError, asyncpg.ForeignKeyViolationError)
"""What was checked before has changed: run again, the request finds that its name is taken, or its object gone."""


async def repeated(run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `run`, which runs again while it loses against others and has had no effect.

    Raises `ContendedError`, for a unique violation that stays a `ConflictError`, and what `run` raises.
    """
    for number in range(1, _MAX_TRIES + 1):
        done, token = effects.begin()
        try:
            return await run()
        except (*ROLLED_BACK, *OUTDATED) as error:
            if done.exist or number == _MAX_TRIES:
                raise settled(error) from error
        finally:
            effects.end(token)
        await asyncio.sleep(_PAUSE_SECONDS * 2**number * random.random())  # noqa: S311 - no secret
    raise AssertionError


def settled(error: Exception) -> Exception:
    """Return the error for a caller whose request lost against others and cannot run again."""
    if isinstance(error, asyncpg.UniqueViolationError):
        return ConflictError("Another request made the same thing at the same time.")
    return ContendedError() if isinstance(error, ROLLED_BACK) else error
