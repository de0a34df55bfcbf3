"""What links a member to others, for the app's team: its accounts at vendors, and the clients it has connected."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.oauth.flow.connections import Connections
from pilotis.oauth.flow.types import Connection as ConnectedTo
from pilotis.oauth.social import store
from pilotis.oauth.social.types import MemberIdentity
from pilotis.security.audit.service import record


class IdentityNotFoundError(NotFoundError):
    """404: the member has no account at this vendor."""

    code = "IDENTITY_NOT_FOUND"
    message = "The member has no account at this vendor."


class MemberLinks:
    """Lists and revokes a member's identities and consents; all methods raise `MemberNotFoundError`."""

    def __init__(self, database: Database, connections: Connections) -> None:
        self._database = database
        self._connections = connections

    async def identities(self, app_id: UUID, member_id: str) -> list[MemberIdentity]:
        """Return the accounts at vendors by which a member signs in, the one used last first."""
        await self._require(app_id, member_id)
        return [_identity(row) for row in await store.identities(self._database, app_id, member_id)]

    async def unlink(self, app_id: UUID, actor: Actor, member_id: str, provider: str) -> None:
        """Unlink a member's accounts at a vendor; raises `IdentityNotFoundError`."""
        await self._require(app_id, member_id)
        async with self._database.transaction(app_id) as connection:
            await self.unlink_own(connection, app_id, actor, member_id, provider)

    async def unlink_own(
        self, connection: Connection, app_id: UUID, actor: Actor, member_id: str, provider: str
    ) -> None:
        """Unlink accounts of a member that there is, in the caller's transaction; raises `IdentityNotFoundError`."""
        if not await store.delete_identities(connection, app_id, member_id, provider):
            raise IdentityNotFoundError
        await record(connection, app_id, actor, "member.unlink", member_id, provider=provider)

    async def link(
        self, connection: Connection, app_id: UUID, member_id: str, provider: str, subject: str, email: str | None
    ) -> bool:
        """Link an account at a vendor to a member, in the caller's transaction; False if it is another member's."""
        return await store.insert_identity(
            connection, app_id, provider, subject, member_id, email, email is not None, None
        )

    async def end_all(self, connection: Connection, app_id: UUID, actor: Actor, member_id: str) -> None:
        """Unlink all of a member's accounts at vendors and end all its connections, in the caller's transaction."""
        await store.delete_all_identities(connection, app_id, member_id)
        await self._connections.end_all(connection, app_id, actor, member_id)

    async def has_identity(self, connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> bool:
        """Return whether a member signs in with an account at a vendor."""
        return await store.has_identity(connection, app_id, member_id)

    async def consents(
        self, app: AppInfo, member_id: str, paging: Paging, wanted_language: str | None
    ) -> ItemPage[ConnectedTo]:
        """Return a page of a member's connections, newest first."""
        await self._require(app.app_id, member_id)
        return await self._connections.page(app, member_id, paging, wanted_language)

    async def disconnect(self, app_id: UUID, actor: Actor, member_id: str, consent_id: UUID) -> None:
        """End a member's connection to a client; raises `ConsentNotFoundError`."""
        await self._require(app_id, member_id)
        await self._connections.end(app_id, actor, member_id, consent_id)

    async def _require(self, app_id: UUID, member_id: str) -> None:
        if not await store.is_member(self._database, app_id, member_id):
            raise MemberNotFoundError


def _identity(row: store.Identity) -> MemberIdentity:
    return MemberIdentity(
        provider=row.provider,
        subject=row.subject,
        email=row.email,
        email_verified=row.email_verified,
        linked_at=rfc3339(row.created_at),
        last_used_at=rfc3339(row.last_used_at),
    )
