"""The shapes of app members."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

LOGIN_ID_LENGTH = 255

LoginId = Annotated[str, msgspec.Meta(min_length=1, max_length=LOGIN_ID_LENGTH)]
Nickname = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
# Longer than any limit on passwords; the limits in force are the service's to check.
Password = Annotated[str, msgspec.Meta(max_length=4096)]


class SignUp(msgspec.Struct, forbid_unknown_fields=True):
    """A new member. The login_id is normalised to NFC and compared exactly."""

    login_id: LoginId
    password: Password
    nickname: Nickname | None = None


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A member's credentials."""

    login_id: LoginId
    password: Password


class SignedIn(msgspec.Struct):
    """A signed-in member with its tokens."""

    member_id: str
    nickname: str | None
    access_token: str
    refresh_token: str


class SignedInGuest(msgspec.Struct):
    """A new guest with its tokens."""

    member_id: str
    access_token: str
    refresh_token: str


class OwnRecord(msgspec.Struct):
    """A member as it sees itself."""

    member_id: str
    nickname: str | None
    is_active: bool
    custom_data: msgspec.Raw


class CustomDataChange(msgspec.Struct, forbid_unknown_fields=True):
    """Keys to merge into the member's custom_data; a key set to null is deleted."""

    custom_data: dict[str, Any]


class CustomData(msgspec.Struct):
    """The merged custom_data."""

    member_id: str
    custom_data: msgspec.Raw


class Message(msgspec.Struct):
    """A sentence that says what was done."""

    message: str
