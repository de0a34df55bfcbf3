"""The types of console users."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import ActiveSession

Email = Annotated[
    str,
    msgspec.Meta(
        max_length=254, pattern=r"^[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,189}$", examples=["ada@example.com"]
    ),
]
RoleName = Literal["owner", "editor", "viewer"]
Password = Annotated[str, msgspec.Meta(max_length=4096)]


def normalised(email: str) -> str:
    """Return an e-mail address as it is stored and compared: in lower case."""
    return email.strip().lower()


class UserSignUp(msgspec.Struct, forbid_unknown_fields=True):
    """A new console user. `token` comes from the first-run link or an invitation."""

    email: Email
    password: Password
    token: str


class UserSignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A console user's credentials."""

    email: Email
    password: Password


class UserPasswordChange(msgspec.Struct, forbid_unknown_fields=True):
    """The console user's current and new password."""

    current_password: Password
    new_password: Password


class PasswordReset(msgspec.Struct, forbid_unknown_fields=True):
    """A new password, with the token of a link from `pilotis user reset`."""

    token: Annotated[str, msgspec.Meta(max_length=200)]
    password: Password


class UserChange(msgspec.Struct, forbid_unknown_fields=True):
    """Whether the console user may sign in and act."""

    is_active: bool


class User(msgspec.Struct, kw_only=True):
    """A console user."""

    user_id: UUID
    email: str
    is_active: bool
    created_at: str


class SignedInUser(msgspec.Struct, kw_only=True):
    """A signed-in console user with its tokens."""

    user_id: UUID
    email: str
    access_token: str
    refresh_token: str


class UserSession(ActiveSession, frozen=True, kw_only=True):
    """A console user's session: where it was begun, and whether it is the one that asks."""

    address: str | None
    is_current: bool


class UserSessions(msgspec.Struct, frozen=True):
    """A console user's active sessions, the one used last first."""

    sessions: list[UserSession]


class UserPreferences(msgspec.Struct, forbid_unknown_fields=True):
    """What the console remembers for a user, such as saved filters: any object of at most 16 KiB as JSON."""

    preferences: dict[str, Any]


class AppUser(msgspec.Struct, frozen=True, kw_only=True):
    """A console user with its role on an app, and when it got the role."""

    user_id: UUID
    email: str
    role: RoleName
    created_at: str


class RoleChange(msgspec.Struct, forbid_unknown_fields=True):
    """A console user's new role on an app."""

    role: RoleName


class NewInvitation(msgspec.Struct, forbid_unknown_fields=True):
    """The e-mail address to invite to an app, and the role."""

    email: Email
    role: RoleName


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """An open invitation. `invited_by` is an e-mail address."""

    invitation_id: UUID
    email: str
    role: RoleName
    invited_by: str | None
    created_at: str
    expires_at: str


class ShownInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """A new invitation. Its token, and the link to the sign-up page with it, are shown only once."""

    invitation_id: UUID
    email: str
    role: RoleName
    expires_at: str
    token: str
    link: str


class InvitationToken(msgspec.Struct, forbid_unknown_fields=True):
    """The token of an invitation."""

    token: Annotated[str, msgspec.Meta(max_length=200)]


class AcceptedInvitation(msgspec.Struct, frozen=True):
    """The app on which the console user now has a role."""

    app_id: UUID
    role: RoleName
