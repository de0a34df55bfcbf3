"""Invitations as sign-ups see them: an address that was invited, and what its member gets."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase
from pilotis.http.api.principals import Actor
from pilotis.kit.errors import UnauthorizedError


class TokenExpiredError(UnauthorizedError):
    """401: the token of a mailed link is unknown, used or expired; the answer does not say which."""

    code = "TOKEN_EXPIRED"
    message = "This link was used, has expired or does not exist. Ask for another one."


class Invited(msgspec.Struct, frozen=True):
    """An open invitation of an address: the roles that its member gets, and perhaps a team with those in it."""

    invitation_id: UUID
    email: str
    email_folded: str
    roles: list[str]
    team_id: UUID | None
    team_roles: list[str]


class Invitations(Protocol):
    """Finds open invitations, and grants what they promise."""

    async def by_token(
        self, connection: Connection | TenantDatabase, app_id: UUID, token: str, *, lock: bool = False
    ) -> Invited:
        """Return the invitation of a mailed link; `lock` keeps it from others until the transaction ends.

        Raises `TokenExpiredError`.
        """

    async def by_email(
        self, connection: Connection, app_id: UUID, email_folded: str, *, lock: bool = True
    ) -> Invited | None:
        """Return the invitation of an address, and lock it until the transaction ends; None without one."""

    async def accept(
        self, connection: Connection, app_id: UUID, actor: Actor, invited: Invited, member_id: str
    ) -> None:
        """Use up a locked invitation, and give the member that has proved its address what it promises."""
