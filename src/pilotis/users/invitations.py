"""Invitations to an app: a token, shown once, for one use by one e-mail address within a few days."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import CONSOLE
from pilotis.http.api.principals import Actor, AppInfo, UserInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record
from pilotis.users import role_store
from pilotis.users.role_store import OpenInvitation, UsedInvitation
from pilotis.users.types import AcceptedInvitation, Invitation, NewInvitation, ShownInvitation, normalised


class InvitationNotFoundError(NotFoundError):
    """404: the app has no such invitation, or it has been accepted."""

    code = "INVITATION_NOT_FOUND"
    message = "The app has no such invitation, or it has been accepted."


class InvalidInvitationError(ForbiddenError):
    """403: the token is invalid: used, expired, or for another e-mail address."""

    code = "INVALID_INVITATION"
    message = "The token has been used, has expired, or is for another e-mail address."


class AlreadyOnAppError(ConflictError):
    """409: the console user already has a role on the app."""

    code = "ALREADY_ON_APP"
    message = "This console user already has a role on the app."


class Invitations:
    """Creates, lists and revokes invitations, and accepts them for console users."""

    def __init__(self, database: Database, base_url: str) -> None:
        self._database = database
        self._base_url = base_url

    async def create(self, app: AppInfo, user: UserInfo, actor: Actor, new: NewInvitation) -> ShownInvitation:
        """Invite an e-mail address, and invalidate an open invitation of the same address."""
        app_id, email, token, invitation_id = app.app_id, normalised(new.email), random_token(), uuid7()
        lifetime = timedelta(days=app.limits.invitation_days)
        async with self._database.transaction(CONSOLE) as connection:
            if await role_store.has_role_by_email(connection, app_id, email):
                raise AlreadyOnAppError
            expires_at = await role_store.put_invitation(
                connection, app_id, invitation_id, email, new.role, secret_hash(token), user.user_id, lifetime
            )
            await record(connection, app_id, actor, "invitation.create", invitation_id, email=email, role=new.role)
        link = f"{self._base_url}/setup#{token}"
        return ShownInvitation(
            invitation_id=invitation_id,
            email=email,
            role=new.role,
            expires_at=rfc3339(expires_at),
            token=token,
            link=link,
        )

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[Invitation]:
        """Return a page of the app's open invitations."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await role_store.open_invitations(self._database, app.app_id, limit, paging.offset)
        return ItemPage(data=[_invitation(row) for row in rows], total_count=total, limit=limit, offset=paging.offset)

    async def revoke(self, app_id: UUID, actor: Actor, invitation_id: UUID) -> None:
        """Revoke an invitation."""
        async with self._database.transaction(CONSOLE) as connection:
            email = await role_store.delete_invitation(connection, app_id, invitation_id)
            if email is None:
                raise InvitationNotFoundError
            await record(connection, app_id, actor, "invitation.revoke", invitation_id, email=email)

    async def accept(self, user: UserInfo, actor: Actor, token: str) -> AcceptedInvitation:
        """Grant a console user the role of its invitation; raises `InvalidInvitationError` or `AlreadyOnAppError`."""
        async with self._database.transaction(CONSOLE) as connection:
            invitation = await take(connection, user.email, token)
            await join(connection, invitation, user.user_id, user.email, actor)
        return AcceptedInvitation(invitation.app_id, invitation.role)


async def take(connection: Connection, email: str, token: str) -> UsedInvitation:
    """Consume an invitation in the caller's transaction; raises `InvalidInvitationError`."""
    invitation = await role_store.take_invitation(connection, secret_hash(token), email)
    if invitation is None:
        raise InvalidInvitationError
    return invitation


async def join(connection: Connection, invitation: UsedInvitation, user_id: UUID, email: str, actor: Actor) -> None:
    """Grant a console user the role of a consumed invitation; raises `AlreadyOnAppError`."""
    app_id, role = invitation.app_id, invitation.role
    if not await role_store.insert_role(connection, app_id, user_id, role):
        raise AlreadyOnAppError
    await record(connection, app_id, actor, "invitation.accept", invitation.invitation_id, email=email, role=role)


def _invitation(row: OpenInvitation) -> Invitation:
    return Invitation(
        invitation_id=row.invitation_id,
        email=row.email,
        role=row.role,
        invited_by=row.inviter,
        created_at=rfc3339(row.created_at),
        expires_at=rfc3339(row.expires_at),
    )
