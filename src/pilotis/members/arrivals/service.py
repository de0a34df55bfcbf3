"""The rows that an app has made with each member, in the transaction that makes the member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncpg import Connection

from pilotis.http.api.principals import AppInfo
from pilotis.kit import json
from pilotis.kit.errors import Detail, PilotisError, ValidationError, invalid
from pilotis.members.arrivals.types import HookRow, MadeRow, Maker, MemberRows, Newcomer, R, Run

_PROFILE_BYTES = 4096


class _NoRows:
    async def make(self, connection: Connection, newcomer: Newcomer, made: Sequence[MadeRow] = ()) -> Sequence[MadeRow]:
        del connection, newcomer
        return made


NO_ROWS: MemberRows = _NoRows()


class Arrivals:
    """Makes the rows that apps want with their members."""

    def __init__(self) -> None:
        self._maker: Maker | None = None

    def attach(self, maker: Maker) -> None:
        """Set what makes rows."""
        self._maker = maker

    async def making(self, app: AppInfo, rows: Sequence[HookRow], run: Run[R]) -> R:
        """Run a transaction that perhaps makes a member, with what makes its rows; `rows` are those of the app's hook.

        Raises what the transaction does.
        """
        if self._maker is None or not (app.accounts.on_sign_up or rows):
            return await run(NO_ROWS)
        return await self._maker(app, rows, run)


def require_profile(app: AppInfo, profile: Mapping[str, Any] | None) -> None:
    """Raise a validation error for a profile that the app's settings do not ask for."""
    if not profile:
        return
    if len(json.encode(profile)) > _PROFILE_BYTES:
        raise invalid("profile", f"profile has at most {_PROFILE_BYTES} bytes.", "TOO_LARGE")
    known = {field.name for field in app.accounts.sign_up_fields}
    if unknown := [name for name in profile if name not in known]:
        listed = ", ".join(sorted(known)) or "none"
        details = [
            Detail(f"profile.{name}", "NOT_ACCEPTED", f"profile.{name[:64]}: this app asks for {listed}.")
            for name in unknown[:10]
        ]
        raise ValidationError(details[0].message, details=details)


def is_about_profile(error: PilotisError) -> bool:
    """Return whether another profile may make the member that this one did not."""
    return any(detail.field.startswith("profile.") for detail in error.details)
