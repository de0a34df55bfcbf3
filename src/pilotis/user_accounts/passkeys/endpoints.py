"""The routes of passkeys of console users."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.factors.errors import UpgradeUnfinishedError
from pilotis.accounts.passkeys.errors import InvalidPasskeyError, PasskeyNotFoundError, TooManyPasskeysError
from pilotis.accounts.passkeys.types import NewPasskey, Passkey, PasskeyChallenge, PasskeySignIn
from pilotis.http.api.endpoint import Endpoints, delete, post
from pilotis.http.api.principals import Access, ReauthenticationRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted
from pilotis.user_accounts.passkeys.service import UserPasskeys
from pilotis.users.service import UserInactiveError
from pilotis.users.types import SignedInUser

_PASSKEYS = "/v1/auth/factors/passkeys"


class UserPasskeyEndpoints(Endpoints, tag="Console users"):
    """Passkeys of console users."""

    def __init__(self, passkeys: UserPasskeys) -> None:
        self._passkeys = passkeys

    @post("/v1/auth/passkey-sign-in/start", access=Access.OPEN, console=True, needs_room=False, rate="signup")
    async def begin_sign_in(self, _call: Call) -> PasskeyChallenge:
        """Begin a console user's sign-in by a passkey, or its proof that it is still there: nobody is named."""
        return await self._passkeys.begin_sign_in()

    @post(
        "/v1/auth/passkey-sign-in",
        access=Access.OPEN,
        console=True,
        needs_room=False,
        rate="signup",
        errors=[InvalidPasskeyError, UserInactiveError],
    )
    async def sign_in(self, call: Call, body: PasskeySignIn) -> SignedInUser:
        """Sign a console user in by a passkey, which is two factors by itself."""
        return await self._passkeys.sign_in(call.client, body, call.user_agent)

    @post(
        f"{_PASSKEYS}/start",
        access=Access.CONSOLE_FRESH,
        errors=[TooManyPasskeysError, UpgradeUnfinishedError, ReauthenticationRequiredError],
    )
    async def begin(self, call: Call) -> PasskeyChallenge:
        """Begin to add a passkey to the signed-in console user's account."""
        return await self._passkeys.begin(call.user)

    @post(
        _PASSKEYS,
        access=Access.CONSOLE_FRESH,
        status=201,
        creates="user_passkey_id",
        again="created",
        errors=[InvalidPasskeyError, TooManyPasskeysError, ReauthenticationRequiredError],
    )
    async def add(self, call: Call, body: NewPasskey) -> Passkey:
        """Add a passkey to the signed-in console user's account: from then on a password alone signs nobody in."""
        return await self._passkeys.add(call.actor, call.user, UUID(call.new_id()), body)

    async def created(self, call: Call, user_passkey_id: UUID) -> Passkey:
        """Return a passkey that was added."""
        return await self._passkeys.read(call.user, user_passkey_id)

    @delete(
        f"{_PASSKEYS}/:user_passkey_id",
        access=Access.CONSOLE_FRESH,
        errors=[PasskeyNotFoundError, ReauthenticationRequiredError],
    )
    async def remove(self, call: Call, user_passkey_id: UUID) -> Deleted:
        """Remove a passkey of the signed-in console user."""
        await self._passkeys.remove(call.actor, call.user, user_passkey_id)
        return Deleted("Passkey removed.", user_passkey_id)
