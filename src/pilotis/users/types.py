"""The shapes of console users."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

Email = Annotated[str, msgspec.Meta(max_length=254, pattern=r"^[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,189}$")]
RoleName = Literal["owner", "editor", "viewer"]
Password = Annotated[str, msgspec.Meta(max_length=4096)]


def normalised(email: str) -> str:
    """Return an e-mail address as it is stored and compared: in lower case."""
    return email.strip().lower()


class UserSignUp(msgspec.Struct, forbid_unknown_fields=True):
    """A new console user. `token` is the one of the first-run link or of an invitation."""

    email: Email
    password: Password
    token: str


class UserSignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A console user's credentials."""

    email: Email
    password: Password


class User(msgspec.Struct):
    """A console user."""

    user_id: UUID
    email: str
    is_active: bool
    created_at: str


class SignedInUser(msgspec.Struct):
    """A signed-in console user with its tokens."""

    user_id: UUID
    email: str
    access_token: str
    refresh_token: str


class AppUser(msgspec.Struct, frozen=True):
    """A console user with its role on an app, and since when it has one."""

    user_id: UUID
    email: str
    role: RoleName
    created_at: str


class RoleChange(msgspec.Struct, forbid_unknown_fields=True):
    """The role that a console user is to have on an app."""

    role: RoleName


class NewInvitation(msgspec.Struct, forbid_unknown_fields=True):
    """Whom to invite to an app, and with which role."""

    email: Email
    role: RoleName


class Invitation(msgspec.Struct, frozen=True):
    """An open invitation. `invited_by` is an e-mail address."""

    invitation_id: UUID
    email: str
    role: RoleName
    invited_by: str | None
    created_at: str
    expires_at: str


class ShownInvitation(msgspec.Struct, frozen=True):
    """A new invitation. Its token, and the link that carries it to a new user's sign-up page, are shown this once."""

    invitation_id: UUID
    email: str
    role: RoleName
    expires_at: str
    token: str
    link: str


class InvitationToken(msgspec.Struct, forbid_unknown_fields=True):
    """The token of an invitation."""

    token: Annotated[str, msgspec.Meta(max_length=200)]


class Accepted(msgspec.Struct, frozen=True):
    """The app that a console user now has a role on."""

    app_id: UUID
    role: RoleName
