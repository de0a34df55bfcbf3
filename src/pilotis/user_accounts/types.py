"""The types of second factors of console users, and of their forgotten passwords."""

from __future__ import annotations

from typing import Any

import msgspec

from pilotis.accounts.factors.types import RecoveryCode, RecoveryCodesLeft, TotpFactor
from pilotis.accounts.passkeys.types import Passkey
from pilotis.accounts.types import Code, Token
from pilotis.kit.errors import invalid
from pilotis.users.types import Email, Password


class UserFactors(msgspec.Struct, frozen=True, kw_only=True):
    """A console user's second factors."""

    totp: TotpFactor | None
    recovery_codes: RecoveryCodesLeft
    passkeys: list[Passkey]


class UserSecondFactor(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The ticket of a sign-in that needs a second factor, and a code of the authenticator app or of recovery."""

    ticket: Token
    totp: Code | None = None
    recovery_code: RecoveryCode | None = None

    def __post_init__(self) -> None:
        """Require one factor."""
        if (self.totp is None) == (self.recovery_code is None):
            raise invalid("totp", "Either totp or recovery_code is expected.")


class UserReauthentication(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What proves again who the console user is: the second factor if it has one, else its password.

    A `passkey`, the answer of `navigator.credentials.get`, has the ticket of `passkey-sign-in/start`.
    """

    password: Password | None = None
    totp: Code | None = None
    recovery_code: RecoveryCode | None = None
    passkey: dict[str, Any] | None = None
    ticket: Token | None = None

    def __post_init__(self) -> None:
        """Require one proof."""
        if [self.password, self.totp, self.recovery_code, self.passkey].count(None) != 3:
            raise invalid("password", "One of password, totp, recovery_code and passkey is expected.")
        if (self.ticket is None) != (self.passkey is None):
            raise invalid("ticket", "A ticket is expected with passkey, and with nothing else.")


class Reproved(msgspec.Struct, frozen=True):
    """When the console user has proved again who it is."""

    auth_time: str


class UserResetRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The address of the console user who has forgotten the password."""

    email: Email
