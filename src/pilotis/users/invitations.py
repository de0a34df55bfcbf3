"""Inviting console users to an app: a token shown once, good for 7 days, one use and one e-mail address."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo, UserInfo
from pilotis.http.shapes import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError
from pilotis.kit.ids import uuid7
from pilotis.users import role_store
from pilotis.users.types import Accepted, Invitation, NewInvitation, ShownInvitation, normalised

LIFETIME = timedelta(days=7)


class InvitationNotFoundError(NotFoundError):
    """404: the app has no such invitation, or it has been accepted."""

    code = "INVITATION_NOT_FOUND"
    message = "The app has no such invitation, or it has been accepted."


class InvalidInvitationError(ForbiddenError):
    """403: the token is not the first-run link's, nor a valid invitation of this e-mail address."""

    code = "INVALID_INVITATION"
    message = "The token is used up, expired, or meant for another e-mail address."


class AlreadyOnAppError(ConflictError):
    """409: the console user has a role on the app already."""

    code = "ALREADY_ON_APP"
    message = "This console user has a role on the app already."


class Invitations:
    """Makes, lists and revokes invitations, and lets console users accept them."""

    def __init__(self, database: Database, base_url: str) -> None:
        self._database = database
        self._base_url = base_url

    async def create(self, app_id: UUID, user: UserInfo, actor: Actor, new: NewInvitation) -> ShownInvitation:
        """Invite an e-mail address; an open invitation of the same address is replaced and its token dies."""
        email, token, invitation_id = normalised(new.email), random_token(), uuid7()
        async with self._database.transaction() as connection:
            if await role_store.has_role_by_email(connection, app_id, email):
                raise AlreadyOnAppError
            row = await role_store.put_invitation(
                connection, app_id, invitation_id, email, new.role, secret_hash(token), user.user_id, LIFETIME
            )
            await record(connection, app_id, actor, "invitation.create", invitation_id, email=email, role=new.role)
        link = f"{self._base_url}/setup#{token}"
        return ShownInvitation(invitation_id, email, new.role, rfc3339(row["expires_at"]), token, link)

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[Invitation]:
        """Return a page of the app's open invitations."""
        limit = min(paging.limit, app.limits.page_rows)
        rows, total = await role_store.open_invitations(self._database, app.app_id, limit, paging.offset)
        return ItemPage([_invitation(row) for row in rows], total, limit, paging.offset)

    async def revoke(self, app_id: UUID, actor: Actor, invitation_id: UUID) -> None:
        """Make an invitation useless."""
        async with self._database.transaction() as connection:
            row = await role_store.delete_invitation(connection, app_id, invitation_id)
            if row is None:
                raise InvitationNotFoundError
            await record(connection, app_id, actor, "invitation.revoke", invitation_id, email=row["email"])

    async def accept(self, user: UserInfo, actor: Actor, token: str) -> Accepted:
        """Give a console user the role it is invited to; raises `InvalidInvitationError` or `AlreadyOnAppError`."""
        async with self._database.transaction() as connection:
            invitation = await take(connection, user.email, token)
            await join(connection, invitation, user.user_id, user.email, actor)
        return Accepted(invitation["app_id"], invitation["role"])


async def take(connection: Connection, email: str, token: str) -> Record:
    """Use up an invitation in the caller's transaction; raises `InvalidInvitationError`."""
    invitation = await role_store.take_invitation(connection, secret_hash(token), email)
    if invitation is None:
        raise InvalidInvitationError
    return invitation


async def join(connection: Connection, invitation: Record, user_id: UUID, email: str, actor: Actor) -> None:
    """Give a console user the role of an invitation that was taken; raises `AlreadyOnAppError`."""
    app_id, role = invitation["app_id"], invitation["role"]
    if not await role_store.insert_role(connection, app_id, user_id, role):
        raise AlreadyOnAppError
    await record(connection, app_id, actor, "invitation.accept", invitation["invitation_id"], email=email, role=role)


def _invitation(row: Record) -> Invitation:
    return Invitation(
        row["invitation_id"],
        row["email"],
        row["role"],
        row["inviter"],
        rfc3339(row["created_at"]),
        rfc3339(row["expires_at"]),
    )
