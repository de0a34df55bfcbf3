"""The types of app members."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import Email
from pilotis.kit.account_settings import Remains
from pilotis.kit.languages import Language

Method = Literal["password", "social", "guest", "email_code", "email_link", "passkey", "totp", "recovery_code", "app"]
"""How a member has proved who it is; for `app` the app's own server vouches."""

# Longer than any limit on login_ids; the service checks the limit in force.
LOGIN_ID_LENGTH = 500

LoginId = Annotated[str, msgspec.Meta(min_length=1, max_length=LOGIN_ID_LENGTH)]
# A UUID; a member who began as a guest keeps the prefix `guest_` permanently.
MemberId = Annotated[str, msgspec.Meta(pattern=r"^(guest_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Nickname = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
# What the app says of a member, which rules ask for; the service checks the claims' size and depth.
MemberRole = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9_-]+$")]
Roles = Annotated[list[MemberRole], msgspec.Meta(max_length=20)]
# Longer than any limit on passwords; the service checks the limits in force.
Password = Annotated[str, msgspec.Meta(max_length=4096)]

# What the rows take that are made with a member; `pilotis.members.arrivals.service` checks the size and the names.
Profile = dict[str, Any]


class SignUp(msgspec.Struct, forbid_unknown_fields=True):
    """A new member. The login_id is normalised to NFC and compared exactly.

    To `email` a code and a link are mailed that verify it, in `language` or the one that the request accepts. `profile`
    says what the app's `sign_up_fields` ask for. `invitation` is the token of a mailed invitation: its address is the
    member's, and verified, so that no other `email` is accepted.
    """

    login_id: LoginId
    password: Password
    nickname: Nickname | None = None
    email: Email | None = None
    language: Language | None = None
    profile: Profile = {}
    invitation: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A member's credentials."""

    login_id: LoginId
    password: Password


class SignedIn(msgspec.Struct, kw_only=True):
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


RETURN = "return"
"""What a session awaits whose member has deleted its account: that it comes back."""


class CurrentMember(msgspec.Struct, kw_only=True):
    """A member's own record."""

    member_id: str
    nickname: str | None
    is_active: bool
    custom_data: JsonObject


class Account(CurrentMember, kw_only=True):
    """All that a member may know of its own account. The app alone sets `roles` and `claims`.

    `email` is verified; `pending_email` is an address that was asked for and is not verified yet. `deletes_at` is when
    the account is deleted, if the member has asked for it and may still come back.
    """

    login_id: str | None
    is_guest: bool
    roles: list[str]
    claims: JsonObject
    created_at: str
    email: str | None
    pending_email: str | None
    language: str | None
    has_password: bool
    deletes_at: str | None


class PasswordChange(msgspec.Struct, forbid_unknown_fields=True):
    """The current and the new password."""

    current_password: Password
    new_password: Password


class OwnChange(msgspec.Struct, forbid_unknown_fields=True):
    """A member's changes to its own record; null removes the nickname."""

    nickname: Nickname | None


class AccountDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """The password of the account to delete; a guest has none.

    `data` says whether the rows and files that the member has created are deleted too, or lose their creator, where the
    app lets it choose.
    """

    password: Password | None = None
    data: Remains | None = None


class DeletedAccount(msgspec.Struct):
    """The member that was deleted, or that something of was."""

    message: str
    id: MemberId


class EndedAccount(DeletedAccount):
    """The member that was deleted, or that will be: until `deletes_at` it may come back; null if it cannot."""

    deletes_at: str | None


class CustomDataChange(msgspec.Struct, forbid_unknown_fields=True):
    """Keys to merge into the member's custom_data; a key set to null is deleted."""

    custom_data: dict[str, Any]


class CustomDataResult(msgspec.Struct):
    """The merged custom_data."""

    member_id: str
    custom_data: JsonObject


class Confirmation(msgspec.Struct):
    """A sentence that describes the result."""

    message: str


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A member as another product has known it; `email` is verified, `password_hash` perhaps not one of ours."""

    member_id: str
    login_id: str | None
    email: str | None
    password_hash: str | None
    nickname: str | None
    custom_data: dict[str, Any]
    roles: list[str]
    claims: dict[str, Any]
    language: Language | None
    is_active: bool
    created_at: datetime | None
