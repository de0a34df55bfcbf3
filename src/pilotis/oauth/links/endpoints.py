"""The console routes of a member's accounts at vendors and connected clients."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get
from pilotis.http.api.principals import Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage, Paging, Whole
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.oauth.flow.connections import ConsentNotFoundError
from pilotis.oauth.flow.types import Connection, Disconnected
from pilotis.oauth.links.service import IdentityNotFoundError, MemberLinks
from pilotis.oauth.social.types import MemberIdentities, UnlinkedIdentity

_MEMBER = "/v1/apps/:app_id/members/:member_id"
_READ = console(Role.VIEWER, scope="members:read")
_WRITE = console(Role.EDITOR, scope="members:write")


class MemberLinkEndpoints(Endpoints, tag="App member administration"):
    """What links an app's member to others, for console users."""

    def __init__(self, links: MemberLinks) -> None:
        self._links = links

    @get(f"{_MEMBER}/identities", access=_READ, errors=[MemberNotFoundError])
    async def identities(self, call: Call, app_id: UUID, member_id: str, query: Whole) -> MemberIdentities:
        """List the accounts at vendors by which a member signs in, the one used last first."""
        return MemberIdentities(await self._links.identities(app_id, member_id))

    @delete(f"{_MEMBER}/identities/:provider", access=_WRITE, errors=[MemberNotFoundError, IdentityNotFoundError])
    async def unlink(self, call: Call, app_id: UUID, member_id: str, provider: str) -> UnlinkedIdentity:
        """Unlink a member's accounts at a vendor: they no longer sign in as this member.

        The member's sessions go on; without another way to sign in, the member gets no new ones.
        """
        await self._links.unlink(app_id, call.actor, member_id, provider.upper())
        return UnlinkedIdentity("Account unlinked.", provider.upper())

    @get(f"{_MEMBER}/consents", access=_READ, errors=[MemberNotFoundError])
    async def consents(self, call: Call, app_id: UUID, member_id: str, query: Paging) -> ItemPage[Connection]:
        """List the OAuth clients that a member has connected, newest first."""
        return await self._links.consents(call.app, member_id, query, call.header(b"accept-language"))

    @delete(f"{_MEMBER}/consents/:consent_id", access=_WRITE, errors=[MemberNotFoundError, ConsentNotFoundError])
    async def disconnect(self, call: Call, app_id: UUID, member_id: str, consent_id: UUID) -> Disconnected:
        """Revoke a member's consent to an OAuth client, with all its grants, codes and tokens.

        The client's next sign-in of the member asks for consent again.
        """
        await self._links.disconnect(app_id, call.actor, member_id, consent_id)
        return Disconnected("Disconnected.", consent_id)
