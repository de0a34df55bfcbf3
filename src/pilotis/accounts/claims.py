"""The end of an earlier holder: who proves the address of an account that never proved it gets it without its past.

Without this, somebody could sign up with another's address, and keep a way into the account that the owner later proves
to be theirs.
"""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.factors import store as factor_store
from pilotis.accounts.passkeys import store as passkey_store
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.members.service import Members
from pilotis.oauth.links.service import MemberLinks


class Claims:
    """Gives accounts to those who prove their addresses."""

    def __init__(self, database: Database, members: Members, links: MemberLinks) -> None:
        self._database = database
        self._members = members
        self._links = links

    async def signs_in_otherwise(self, connection: Connection, app_id: UUID, member_id: str) -> bool:
        """Return whether a member signs in with an account at a vendor, or with a passkey."""
        return await self._links.has_identity(connection, app_id, member_id) or bool(
            await passkey_store.of_member(connection, app_id, member_id)
        )

    async def claim(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        member_id: str,
        email: str,
        password_hash: str | None,
    ) -> None:
        """Set a member's address and its password, or none, and end all by which its earlier holder could come back.

        Sessions, second factors, accounts at vendors, consents and open proofs end, in the caller's transaction. Raises
        `EmailTakenError`.
        """
        await store.end_of_member(connection, app.app_id, member_id)
        await factor_store.delete_all(connection, app.app_id, member_id)
        await passkey_store.delete_all(connection, app.app_id, member_id)
        await self._links.end_all(connection, app.app_id, actor, member_id)
        await self._members.hand_over(connection, app, actor, member_id, email, password_hash)
