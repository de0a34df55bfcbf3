"""The types of members as console users see them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import ActiveSession, Email
from pilotis.kit.account_settings import Remains
from pilotis.members.types import LoginId, MemberId, MemberRole, Nickname, Password, Profile, Roles

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Search = Annotated[str, msgspec.Meta(max_length=255)]


class MemberQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which members to list, newest first.

    `search` matches in login_id, nickname, member_id and verified address, in either case. `email` is a whole verified
    address, `provider` a vendor by which members sign in. `limit` 0 asks for the total only, one above the largest is
    lowered to it.
    """

    search: Search | None = None
    is_guest: bool | None = None
    is_active: bool | None = None
    email: Email | None = None
    role: MemberRole | None = None
    team_id: UUID | None = None
    provider: Annotated[str, msgspec.Meta(max_length=50, examples=["GOOGLE"])] | None = None
    factor: Literal["totp", "passkey", "recovery_code"] | None = None
    created_after: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    active_after: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    limit: Count | None = None
    offset: Count = 0


class MemberItem(msgspec.Struct, kw_only=True):
    """A member in a list. `roles` are what the app says of it, which rules of tables ask for."""

    member_id: str
    login_id: str | None
    nickname: str | None
    is_guest: bool
    is_active: bool
    roles: list[str]
    created_at: str
    updated_at: str
    last_active_at: str


class MemberRecord(MemberItem, kw_only=True):
    """All fields of a member; `last_active_at` is accurate to the hour, `sessions` counts its active sessions.

    `email` is verified, `factors` are the kinds of second factors that it has set up. A member that has deleted its
    account is not active, and is deleted at `deletes_at` unless it comes back or is activated.
    """

    sessions: int
    custom_data: JsonObject
    claims: JsonObject
    email: str | None
    factors: list[str]
    banned_until: str | None
    ban_reason: str | None
    deletes_at: str | None


class MemberPage(msgspec.Struct, kw_only=True):
    """A page of the app's members, and the total number that match the query."""

    data: list[MemberItem]
    total_count: int
    limit: int
    offset: int


class MemberChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to a member; absent fields keep their values.

    A null nickname removes it; custom_data, roles and claims are replaced as a whole. `roles` are at most 20, `claims`
    have at most 4096 bytes and are at most 4 objects or lists deep. Until `banned_until` the member cannot sign in, and
    its sessions end; null lifts the ban. `ban_reason` is for the app's team. `email` counts as verified: the app's own
    side vouches for it; null removes it.
    """

    is_active: bool | msgspec.UnsetType = msgspec.UNSET
    nickname: Nickname | msgspec.UnsetType | None = msgspec.UNSET
    custom_data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    roles: Roles | msgspec.UnsetType = msgspec.UNSET
    claims: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    email: Email | msgspec.UnsetType | None = msgspec.UNSET
    banned_until: str | msgspec.UnsetType | None = msgspec.UNSET
    ban_reason: Annotated[str, msgspec.Meta(max_length=500)] | msgspec.UnsetType | None = msgspec.UNSET


class NewMember(msgspec.Struct, forbid_unknown_fields=True):
    """A member to create, with what rules of tables may ask for: its roles and claims.

    `profile` says what the app's `sign_up_fields` ask for.
    """

    login_id: LoginId
    password: Password
    nickname: Nickname | None = None
    roles: Roles = []
    claims: dict[str, Any] = {}
    profile: Profile = {}


class MemberToken(msgspec.Struct, frozen=True):
    """An access token of a member, which is valid for `expires_in` seconds, and the session that it belongs to."""

    access_token: str
    expires_in: int
    session_id: UUID


class MemberDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """What becomes of the rows and files that the member has created; by default what the account settings say."""

    data: Remains | None = None


class Impersonation(msgspec.Struct, forbid_unknown_fields=True):
    """Why somebody of the app's team acts as a member, which the audit log and the event have, and for how long."""

    reason: Annotated[str, msgspec.Meta(min_length=3, max_length=500)]
    seconds: Annotated[int, msgspec.Meta(ge=60, le=900)] = 900


class ImpersonationToken(msgspec.Struct, frozen=True):
    """An access token of a member, for who acts as it; there is no refresh token."""

    access_token: str
    expires_at: str
    session_id: UUID


class MemberSessions(msgspec.Struct, frozen=True):
    """A member's active sessions, the one used last first."""

    sessions: list[ActiveSession]


class NewMemberPassword(msgspec.Struct, forbid_unknown_fields=True):
    """A member's new password."""

    password: Password


class MemberResult(msgspec.Struct):
    """The result of an operation, and the member it changed."""

    message: str
    id: MemberId


class SignedOut(msgspec.Struct):
    """The member that was signed out, and how many sessions were ended."""

    message: str
    id: MemberId
    sessions: int
