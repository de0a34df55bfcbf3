"""The routes of a member's own accounts at vendors."""

from __future__ import annotations

from pilotis.accounts.errors import LastWayInError
from pilotis.accounts.identities.service import OwnIdentities
from pilotis.http.api.endpoint import Endpoints, delete, get
from pilotis.http.api.principals import Access, ReauthenticationRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Whole
from pilotis.members.gate.service import MemberInactiveError
from pilotis.oauth.links.service import IdentityNotFoundError
from pilotis.oauth.social.types import MemberIdentities, UnlinkedIdentity

_IDENTITIES = "/v1/public/app-members/me/identities"


class OwnIdentityEndpoints(Endpoints, tag="App member authentication"):
    """The accounts at vendors by which a member signs in."""

    def __init__(self, identities: OwnIdentities) -> None:
        self._identities = identities

    @get(_IDENTITIES, access=Access.ACCOUNT, errors=[MemberInactiveError])
    async def all(self, call: Call, query: Whole) -> MemberIdentities:
        """List the accounts at vendors by which the signed-in member signs in, the one used last first."""
        return await self._identities.all(call.app, call.member)

    @delete(
        f"{_IDENTITIES}/:provider",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, IdentityNotFoundError, LastWayInError, ReauthenticationRequiredError],
    )
    async def unlink(self, call: Call, provider: str) -> UnlinkedIdentity:
        """Unlink the signed-in member's accounts at a vendor, unless they are its last way in.

        The member's sessions go on.
        """
        await self._identities.unlink(call.app, call.actor, call.member, provider.upper())
        return UnlinkedIdentity("Account unlinked.", provider.upper())
