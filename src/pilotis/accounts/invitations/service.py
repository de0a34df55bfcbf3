"""Invitations of members: the app's team mails them to addresses, and whoever proves the address accepts.

The mailed token proves the address, and so does each other proof of it: a mailed code or link, or a vendor that has
verified it. Where `sign_up` is `invited`, nobody else becomes a member by itself.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.accounts.invitations import store
from pilotis.accounts.invitations.store import InvitationRow, StoredInvitation
from pilotis.accounts.invitations.types import (
    InvitedAddress,
    MemberInvitation,
    MemberInvitationPage,
    MemberInvitationQuery,
    NewMemberInvitation,
)
from pilotis.accounts.mailing import write_within_budget
from pilotis.db.locks import lock_apps
from pilotis.db.pool import Database, TenantDatabase
from pilotis.http.api.principals import Actor, AppInfo, Client
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import ConflictError, NotFoundError, invalid
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import Mails, NewMail, require_address
from pilotis.members.invitations.types import Invited, TokenExpiredError
from pilotis.members.service import AddressTakenError, Members, SignUpClosedError, distinct
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import app_of, mint
from pilotis.teams.service import Teams

LIFETIME = timedelta(days=7)
_PREFIX = "mi_"


class MemberInvitationNotFoundError(NotFoundError):
    """404: the app has no such invitation, or it was accepted or revoked."""

    code = "MEMBER_INVITATION_NOT_FOUND"
    message = "The app has no such invitation, or it was accepted or revoked."


class TooManyMemberInvitationsError(ConflictError):
    """409: the app has the maximum number of open invitations."""

    code = "TOO_MANY_MEMBER_INVITATIONS"
    message = "The app has the maximum number of open invitations. Revoke one first, or wait until some are accepted."


class MemberInvitations:
    """Creates, lists and revokes invitations, and grants what they promise."""

    def __init__(
        self,
        database: Database,
        members: Members,
        teams: Teams,
        mails: Mails,
        rate_limits: RateLimits,
        base_url: str,
    ) -> None:
        self._database = database
        self._members = members
        self._teams = teams
        self._mails = mails
        self._rate_limits = rate_limits
        self._base_url = base_url

    async def create(
        self, app: AppInfo, actor: Actor, client: Client, new: NewMemberInvitation, invitation_id: UUID
    ) -> MemberInvitation:
        """Mail an invitation to an address; an open one of the address ends.

        Raises `AddressTakenError` for the address of a member, `SignUpClosedError` where nobody signs up, and
        `TooManyMemberInvitationsError`.
        """
        require_address("email", new.email)
        if app.accounts.sign_up == "closed":
            raise SignUpClosedError
        app_id, address = app.app_id, folded(new.email)
        writer, token = await self._mails.writer(app_id), mint(_PREFIX, app_id)
        async with self._database.transaction(app_id) as connection:
            await lock_apps(connection, [app_id])
            if await self._members.by_email(connection, app_id, address) is not None:
                raise AddressTakenError
            if await store.count_others(connection, app_id, address) >= app.limits.member_invitations:
                raise TooManyMemberInvitationsError
            if new.team_id is not None and not await self._teams.lock(connection, app_id, new.team_id):
                raise invalid("team_id", "team_id: the app has no such team.", "TEAM_NOT_FOUND")
            row = await store.insert(
                connection,
                app_id,
                InvitationRow(
                    invitation_id=invitation_id,
                    token_hash=token.hash,
                    email=new.email,
                    email_folded=address,
                    roles=distinct(new.roles),
                    team_id=new.team_id,
                    team_roles=distinct(new.team_roles),
                    language=new.language,
                    lifetime=LIFETIME,
                ),
            )
            link = f"{self._base_url}/account/{app_id}/invite#{token.text}"
            mail = NewMail("invitation", new.email, new.language or "en", link=link, lifetime=LIFETIME)
            network = one_client(client.address)
            await write_within_budget(self._rate_limits, connection, writer, mail, network)
            given = {"email": new.email, "roles": row.roles, "team_id": row.team_id, "team_roles": row.team_roles}
            details = {name: value for name, value in given.items() if value}
            await record(connection, app_id, actor, "member.invite", invitation_id, **details)
        return _shown(row)

    async def page(self, app: AppInfo, query: MemberInvitationQuery) -> MemberInvitationPage:
        """Return a page of the app's invitations, newest first."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(self._database, app.app_id, query.state, limit, query.offset)
        return MemberInvitationPage(
            data=[_shown(row) for row in rows], total_count=total, limit=limit, offset=query.offset
        )

    async def read(self, app_id: UUID, invitation_id: UUID) -> MemberInvitation:
        """Return an invitation; raises `MemberInvitationNotFoundError`."""
        row = await store.read(self._database.of(app_id), app_id, invitation_id)
        if row is None:
            raise MemberInvitationNotFoundError
        return _shown(row)

    async def revoke(self, app_id: UUID, actor: Actor, invitation_id: UUID) -> None:
        """Revoke an invitation; raises `MemberInvitationNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            email = await store.revoke(connection, app_id, invitation_id)
            if email is None:
                raise MemberInvitationNotFoundError
            await record(connection, app_id, actor, "member.revoke_invitation", invitation_id, email=email)

    async def look(self, app_id: UUID, token: str) -> InvitedAddress:
        """Return what an invitation is for; this uses nothing up. Raises `TokenExpiredError`."""
        database = self._database.of(app_id)
        invited = await self.by_token(database, app_id, token)
        expires_at = await store.expiry(database, app_id, invited.invitation_id)
        if expires_at is None:
            raise TokenExpiredError
        team = None if invited.team_id is None else await self._teams.name(app_id, invited.team_id)
        return InvitedAddress(email=invited.email, team=team, expires_at=rfc3339(expires_at))

    async def by_token(
        self, connection: Connection | TenantDatabase, app_id: UUID, token: str, *, lock: bool = False
    ) -> Invited:
        """Return the open invitation of a mailed link, perhaps locked; raises `TokenExpiredError`."""
        found = None
        if app_of(_PREFIX, token) == app_id:
            found = await store.by_token(connection, app_id, secret_hash(token), lock=False)
            if found is not None and lock:
                await self._lock_team(connection, app_id, found)
                found = await store.by_token(connection, app_id, secret_hash(token), lock=True)
        if found is None:
            raise TokenExpiredError
        return found

    async def by_email(
        self, connection: Connection, app_id: UUID, email_folded: str, *, lock: bool = True
    ) -> Invited | None:
        """Return the open invitation of an address, perhaps locked; None without one."""
        found = await store.by_email(connection, app_id, email_folded, lock=False)
        if found is not None and lock:
            await self._lock_team(connection, app_id, found)
            found = await store.by_email(connection, app_id, email_folded, lock=True)
        return found

    async def _lock_team(self, connection: Connection | TenantDatabase, app_id: UUID, invited: Invited) -> None:
        """Lock the team of an invitation before this is locked, as the deletion of the team does."""
        assert not isinstance(connection, TenantDatabase)
        if invited.team_id is not None:
            await self._teams.lock(connection, app_id, invited.team_id)

    async def accept(
        self, connection: Connection, app_id: UUID, actor: Actor, invited: Invited, member_id: str
    ) -> None:
        """Use up a locked invitation: its roles and its team are the member's. A team that is full is left out."""
        await store.accept(connection, app_id, invited.invitation_id)
        await self._members.add_roles(connection, app_id, actor, member_id, invited.roles)
        if invited.team_id is not None:
            await self._teams.welcome(connection, app_id, actor, invited.team_id, member_id, invited.team_roles)
        await record(
            connection, app_id, actor, "member.accept_invitation", member_id, invitation_id=invited.invitation_id
        )


def _shown(row: StoredInvitation) -> MemberInvitation:
    return MemberInvitation(
        invitation_id=row.invitation_id,
        email=row.email,
        roles=row.roles,
        team_id=row.team_id,
        team_roles=row.team_roles,
        language=row.language,
        state=row.state,
        created_at=rfc3339(row.created_at),
        expires_at=rfc3339(row.expires_at),
    )
