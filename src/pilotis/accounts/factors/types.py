"""The types of second factors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from pilotis.accounts.passkeys.types import Passkey
from pilotis.accounts.types import Code, Token
from pilotis.http.api.json_schemas import JsonObject
from pilotis.kit.errors import invalid
from pilotis.members.types import Password

RecoveryCode = Annotated[str, msgspec.Meta(min_length=10, max_length=20)]


class NewTotp(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticator app to set up: `uri` for the app, `qr` is the same as an SVG element, `secret` to type."""

    secret: str
    uri: str
    qr: str


class TotpCode(msgspec.Struct, forbid_unknown_fields=True):
    """A code of the authenticator app."""

    code: Code


class NewRecoveryCodes(msgspec.Struct, frozen=True):
    """Codes for when the second factor is lost. Each works once; they are shown only now."""

    recovery_codes: list[str]


class TotpFactor(msgspec.Struct, frozen=True):
    """An authenticator app."""

    created_at: str


class RecoveryCodesLeft(msgspec.Struct, frozen=True):
    """How many recovery codes are left."""

    left: int


class OwnFactors(msgspec.Struct, frozen=True, kw_only=True):
    """A member's second factors."""

    totp: TotpFactor | None
    recovery_codes: RecoveryCodesLeft
    passkeys: list[Passkey]


class SecondFactor(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The ticket of a sign-in that needs a second factor, and one: a code of the authenticator app or of recovery.

    A passkey is the answer of `navigator.credentials.get` to the options of `second-factor/start`, which also mails the
    `email_code`.
    """

    ticket: Token
    totp: Code | None = None
    recovery_code: RecoveryCode | None = None
    passkey: dict[str, Any] | None = None
    email_code: Code | None = None

    def __post_init__(self) -> None:
        """Require one factor."""
        if [self.totp, self.recovery_code, self.passkey, self.email_code].count(None) != 3:
            raise invalid("totp", "One of totp, recovery_code, passkey and email_code is expected.")


class Reauthentication(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What proves again who the member is: the second factor if it has one, else its password, or a mailed code.

    A mailed `code`, and a `passkey`, the answer of `navigator.credentials.get`, have the ticket of
    `reauthenticate/start`.
    """

    password: Password | None = None
    totp: Code | None = None
    recovery_code: RecoveryCode | None = None
    code: Code | None = None
    passkey: dict[str, Any] | None = None
    ticket: Token | None = None

    def __post_init__(self) -> None:
        """Require one proof."""
        if [self.password, self.totp, self.recovery_code, self.code, self.passkey].count(None) != 4:
            raise invalid("password", "One of password, totp, recovery_code, code and passkey is expected.")
        if (self.ticket is None) == (self.code is not None or self.passkey is not None):
            raise invalid("ticket", "A ticket is expected with code or passkey, and with nothing else.")


class ReauthenticationStart(msgspec.Struct, forbid_unknown_fields=True):
    """By what the member wants to prove again who it is: a code that is mailed to it, or a passkey."""

    method: Literal["email_code", "passkey"]


class ReauthenticationTicket(msgspec.Struct, frozen=True, kw_only=True):
    """What the proof is sent with; `options` are for `navigator.credentials.get`, null for a mailed code."""

    ticket: str
    options: JsonObject | None


class Reauthenticated(msgspec.Struct, frozen=True, kw_only=True):
    """An access token of the same session, which counts as begun at `auth_time`."""

    access_token: str
    auth_time: str
