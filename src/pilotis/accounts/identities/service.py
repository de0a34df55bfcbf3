"""What a member does with its accounts at vendors."""

from __future__ import annotations

from pilotis.accounts.errors import LastWayInError
from pilotis.accounts.passkeys import store as passkey_store
from pilotis.accounts.service import require_fresh
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, MemberInfo
from pilotis.members.service import Members
from pilotis.oauth.links.service import MemberLinks
from pilotis.oauth.social.types import MemberIdentities


class OwnIdentities:
    """Lists and unlinks the accounts at vendors by which a member signs in."""

    def __init__(self, database: Database, members: Members, links: MemberLinks) -> None:
        self._database = database
        self._members = members
        self._links = links

    async def all(self, app: AppInfo, member: MemberInfo) -> MemberIdentities:
        """Return the signed-in member's accounts at vendors."""
        return MemberIdentities(await self._links.identities(app.app_id, member.member_id))

    async def unlink(self, app: AppInfo, actor: Actor, member: MemberInfo, provider: str) -> None:
        """Unlink the signed-in member's accounts at a vendor.

        Raises `IdentityNotFoundError`, `LastWayInError` and `ReauthenticationRequiredError`.
        """
        async with self._database.transaction(app.app_id) as connection:
            # Whoever removes a passkey meanwhile waits for this, and counts what is left then.
            state = await self._members.lock_own(connection, app, member)
            await require_fresh(self._members, connection, app, member)
            await self._links.unlink_own(connection, app.app_id, actor, member.member_id, provider)
            by_mail = state.email is not None and (app.accounts.email_code or app.accounts.email_link)
            if by_mail or state.password_hash is not None:
                return
            if await self._links.has_identity(connection, app.app_id, member.member_id):
                return
            if not await passkey_store.of_member(connection, app.app_id, member.member_id):
                raise LastWayInError
