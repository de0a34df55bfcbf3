"""The routes of passkeys."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.errors import LastWayInError
from pilotis.accounts.factors.errors import LastFactorError, UpgradeUnfinishedError
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError, TooManyPasskeysError
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.accounts.passkeys.types import (
    DeletedPasskey,
    NewPasskey,
    Passkey,
    PasskeyChallenge,
    PasskeyChange,
    PasskeySignIn,
)
from pilotis.http.api.endpoint import Endpoints, delete, patch, post
from pilotis.http.api.principals import Access, ReauthenticationRequiredError
from pilotis.http.api.request import Call
from pilotis.members.gate.service import MemberBannedError, MemberInactiveError
from pilotis.members.service import LoginDisabledError
from pilotis.members.types import SignedIn

_MEMBERS = "/v1/public/app-members"


class PasskeyEndpoints(Endpoints, tag="App member authentication"):
    """Sign-in by passkeys, and a member's own."""

    def __init__(self, passkeys: Passkeys) -> None:
        self._passkeys = passkeys

    @post(f"{_MEMBERS}/passkey-sign-in/start", access=Access.PUBLIC_KEY, rate="guest", errors=[LoginDisabledError])
    async def begin_sign_in(self, call: Call) -> PasskeyChallenge:
        """Begin a sign-in by a passkey: the browser knows whose it is, so that nobody is named."""
        return await self._passkeys.begin_sign_in(call.app)

    @post(
        f"{_MEMBERS}/passkey-sign-in",
        access=Access.PUBLIC_KEY,
        rate="guest",
        errors=[LoginDisabledError, InvalidPasskeyError, MemberInactiveError, MemberBannedError],
    )
    async def sign_in(self, call: Call, body: PasskeySignIn) -> SignedIn:
        """Sign in by a passkey, which is two factors by itself."""
        return await self._passkeys.sign_in(call.app, call.client, body, call.user_agent)

    @post(
        f"{_MEMBERS}/me/passkeys/start",
        access=Access.ACCOUNT,
        errors=[
            MemberInactiveError,
            LoginDisabledError,
            ReauthenticationRequiredError,
            TooManyPasskeysError,
            UpgradeUnfinishedError,
        ],
    )
    async def begin(self, call: Call) -> PasskeyChallenge:
        """Begin to add a passkey to the signed-in member's account."""
        return await self._passkeys.begin(call.app, call.member)

    @post(
        f"{_MEMBERS}/me/passkeys",
        access=Access.ACCOUNT,
        status=201,
        creates="passkey_id",
        again="created",
        errors=[
            MemberInactiveError,
            LoginDisabledError,
            InvalidPasskeyError,
            ReauthenticationRequiredError,
            TooManyPasskeysError,
        ],
    )
    async def add(self, call: Call, body: NewPasskey) -> Passkey:
        """Add a passkey to the signed-in member's account, which is told by mail."""
        return await self._passkeys.add(call.app, call.actor, call.member, UUID(call.new_id()), body)

    async def created(self, call: Call, passkey_id: UUID) -> Passkey:
        """Return a passkey that was added."""
        return await self._passkeys.read(call.app, call.member, passkey_id)

    @patch(
        f"{_MEMBERS}/me/passkeys/:passkey_id",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, PasskeyNotFoundError],
    )
    async def rename(self, call: Call, passkey_id: UUID, body: PasskeyChange) -> Passkey:
        """Rename a passkey of the signed-in member."""
        return await self._passkeys.rename(call.app, call.member, passkey_id, body.name)

    @delete(
        f"{_MEMBERS}/me/passkeys/:passkey_id",
        access=Access.ACCOUNT,
        errors=[
            MemberInactiveError,
            PasskeyNotFoundError,
            LastWayInError,
            LastFactorError,
            ReauthenticationRequiredError,
        ],
    )
    async def remove(self, call: Call, passkey_id: UUID) -> DeletedPasskey:
        """Remove a passkey of the signed-in member, unless it is its last way in."""
        await self._passkeys.remove(call.app, call.actor, call.member, passkey_id)
        return DeletedPasskey("Passkey removed.", passkey_id)
