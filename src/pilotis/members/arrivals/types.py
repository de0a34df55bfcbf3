"""The types of rows that are made with members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from asyncpg import Connection

from pilotis.http.api.principals import AppInfo

MAX_ROWS = 5
R = TypeVar("R")

MadeRow = tuple[str, str]
"""The id of a table and that of a row in it."""


class HookRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row that a hook adds to those of the settings: a table by its id or title, and what its columns get."""

    table: str
    data: dict[str, Any]


class Newcomer(NamedTuple):
    """A member that is being made, or a guest that becomes one."""

    member_id: str
    login_id: str | None = None
    email: str | None = None
    nickname: str | None = None
    is_guest: bool = False
    profile: Mapping[str, Any] = {}
    """What the sign-up says for its rows."""


class MemberRows(Protocol):
    """Makes rows in the transaction of a member."""

    async def make(self, connection: Connection, newcomer: Newcomer, made: Sequence[MadeRow] = ()) -> Sequence[MadeRow]:
        """Make the rows of a member, but those that it still has from when it was a guest, and return all.

        Raises 4xx errors.
        """


Run = Callable[[MemberRows], Awaitable[R]]


class Maker(Protocol):
    """Prepares rows before a transaction and runs it, again where a table has just changed."""

    async def __call__(self, app: AppInfo, rows: Sequence[HookRow], run: Run[R]) -> R:
        """Run a transaction with what makes its rows."""
