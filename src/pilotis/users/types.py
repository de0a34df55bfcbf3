"""The shapes of console users."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

Email = Annotated[str, msgspec.Meta(max_length=254, pattern=r"^[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,189}$")]
Password = Annotated[str, msgspec.Meta(max_length=4096)]


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
