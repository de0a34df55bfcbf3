"""Functions of an app that decide on sign-ups and sign-ins: called before anything is locked or costly.

A transaction that finds out that a hook is due is rolled back with `HookDueError`; `Hooks.passing` calls the hook and
runs the transaction again. So no connection waits for a function, and what the transaction has used up is usable again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec

from pilotis.http.api.principals import AppInfo, Client
from pilotis.kit.account_settings import ChallengedAction, HookName
from pilotis.kit.errors import ForbiddenError, PilotisError, UnavailableError
from pilotis.members.arrivals.types import MAX_ROWS, HookRow
from pilotis.members.types import Nickname, Roles

_TURNS = 4
R = TypeVar("R")


class RejectedByHookError(ForbiddenError):
    """403: a function of the app rejects the sign-up, sign-in or solved challenge; the message is the function's."""

    code = "REJECTED_BY_HOOK"
    message = "The app rejects this sign-in."


class HookFailedError(UnavailableError):
    """503: a function that decides on sign-ups, sign-ins or challenges has failed, or gave no valid answer in time."""

    code = "HOOK_FAILED"
    message = "The app cannot decide on this now. Try again later."


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a hook rejects; the message is shown to the member."""

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of a hook; what it gives to a new member counts for `before_sign_up` alone."""

    reject: Rejection | None = None
    nickname: Nickname | None = None
    roles: Roles = []
    claims: dict[str, Any] = {}
    custom_data: dict[str, Any] = {}
    rows: Annotated[list[HookRow], msgspec.Meta(max_length=MAX_ROWS)] = []


_PASSES = Verdict()
Run = Callable[[AppInfo, UUID, HookName, dict[str, Any], Client], Awaitable[Any]]
"""Calls a function with a payload, and returns its result; raises `PilotisError`."""


class HookDueError(Exception):
    """A hook has to be asked before this transaction may go on."""

    def __init__(self, hook: HookName, payload: dict[str, Any]) -> None:
        super().__init__(hook)
        self.hook = hook
        self.payload = payload


class Passes:
    """What hooks have decided in the course of one request."""

    def __init__(self, *members: str) -> None:
        """`members` may sign in without another question."""
        self._members = set(members)
        self._sign_up: Verdict | None = None

    @property
    def rows(self) -> Sequence[HookRow]:
        """The rows that the hook adds to those that are made with a new member."""
        return () if self._sign_up is None else self._sign_up.rows

    def require_sign_in(self, app: AppInfo, member_id: str, payload: dict[str, Any]) -> None:
        """Raise `HookDueError` unless the member may sign in."""
        if app.accounts.hooks.before_sign_in is not None and member_id not in self._members:
            raise HookDueError("before_sign_in", {"member_id": member_id, **payload})

    def sign_up(self, app: AppInfo, payload: dict[str, Any]) -> Verdict:
        """Return what the hook gives to a new member; raises `HookDueError` where it was not asked yet."""
        if app.accounts.hooks.before_sign_up is None:
            return Verdict()
        if self._sign_up is None:
            raise HookDueError("before_sign_up", payload)
        return self._sign_up

    def note(self, due: HookDueError, verdict: Verdict) -> None:
        """Record what a hook has decided."""
        if due.hook == "before_sign_up":
            self._sign_up = verdict
        else:
            self._members.add(due.payload["member_id"])


class Hooks:
    """Asks the hooks of apps."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def attach(self, run: Run) -> None:
        """Set what calls functions."""
        self._run = run

    async def passing(self, app: AppInfo, client: Client, attempt: Callable[[Passes], Awaitable[R]]) -> R:
        """Run a transaction, and again after each hook that it turns out to need; raises `RejectedByHookError`."""
        passes = Passes()
        for _ in range(_TURNS):
            try:
                return await attempt(passes)
            except HookDueError as due:
                passes.note(due, await self._ask(app, client, due))
        raise HookFailedError

    async def verify_challenge(self, app: AppInfo, client: Client, token: str, action: ChallengedAction) -> None:
        """Ask whether a token solves the challenge that the app sets for an action; raises `RejectedByHookError`."""
        payload = {"token": token, "on": action}
        if await self._ask(app, client, HookDueError("verify_challenge", payload)) != _PASSES:
            raise HookFailedError

    async def _ask(self, app: AppInfo, client: Client, due: HookDueError) -> Verdict:
        function_id = getattr(app.accounts.hooks, due.hook)
        if self._run is None:
            raise HookFailedError
        try:
            answer = await self._run(app, function_id, due.hook, {**due.payload, "address": client.address}, client)
            verdict = msgspec.convert(answer or {}, Verdict)
        except (PilotisError, msgspec.ValidationError) as error:
            raise HookFailedError from error
        if verdict.reject is not None:
            raise RejectedByHookError(verdict.reject.message)
        return verdict
