"""The types of proofs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pilotis.http.api.schemas import Email
from pilotis.kit.errors import invalid
from pilotis.members.types import LoginId, Password, Profile

Token = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Code = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{6}$")]


class NewEmail(msgspec.Struct, forbid_unknown_fields=True):
    """An address to verify for the signed-in member."""

    email: Email


class EmailTicket(msgspec.Struct, frozen=True, kw_only=True):
    """What the mailed code is entered with; both are valid until `expires_at`."""

    ticket: str
    expires_at: str


class EmailConfirmation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The mailed code, with its ticket unless the session asked for it by signing up; or the token of the link."""

    code: Code | None = None
    ticket: Token | None = None
    token: Token | None = None

    def __post_init__(self) -> None:
        """Require one proof."""
        if (self.code is None) == (self.token is None) or (self.ticket is not None and self.code is None):
            raise invalid("code", "Either code, perhaps with ticket, or token is expected.")


class EmailSignIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who wants to sign in by mail; the mailed link leads to `redirect_uri`, one of the app's `login_redirect_uris`.

    With `code_challenge` it leads to a page of the server with a button, which goes to `redirect_uri` with a `code` for
    `/v1/auth/oauth/exchange` and `state`: for an app whose own server begins the session.
    """

    email: Email
    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    code_challenge: Annotated[str, msgspec.Meta(min_length=43, max_length=128)] | None = None
    state: Annotated[str, msgspec.Meta(max_length=500)] | None = None

    def __post_init__(self) -> None:
        """Require the page of a challenge."""
        if self.redirect_uri is None and (self.code_challenge is not None or self.state is not None):
            raise invalid("redirect_uri", "redirect_uri is expected beside code_challenge and state.")


class EmailSignInConfirmation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The mailed code with the ticket of the browser that asked for it, or the token of the mailed link.

    `profile` says what the app's `sign_up_fields` ask for, should the sign-in make the member.
    """

    code: Code | None = None
    ticket: Token | None = None
    token: Token | None = None
    profile: Profile = {}

    def __post_init__(self) -> None:
        """Require one proof."""
        if (self.code is None) != (self.ticket is None) or (self.code is None) == (self.token is None):
            raise invalid("code", "Either code and ticket, or token is expected.")


class FirstPassword(msgspec.Struct, forbid_unknown_fields=True):
    """The password of a member that has none yet."""

    password: Password


class EmailVerification(msgspec.Struct, forbid_unknown_fields=True):
    """The token of the mailed link, and the account's password."""

    token: Token
    password: Password


class MailedToken(msgspec.Struct, forbid_unknown_fields=True):
    """The token of a mailed link."""

    token: Token


class ResetRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whose password was forgotten: the member with this login_id, or with this verified address."""

    login_id: LoginId | None = None
    email: Email | None = None

    def __post_init__(self) -> None:
        """Require one of them."""
        if (self.login_id is None) == (self.email is None):
            raise invalid("email", "Either login_id or email is expected.")


class MailedReset(msgspec.Struct, forbid_unknown_fields=True):
    """The token of the mailed link, and the new password."""

    token: Token
    password: Password
