"""What is stored of members."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from pilotis.kit.account_settings import Remains
from pilotis.kit.languages import Language


class Entrant(msgspec.Struct, frozen=True):
    """A member that signs in; `email` is verified, `factors` are the kinds of second factors that it has set up.

    With `deletes_at` it is not active, but may come back until then.
    """

    member_id: str
    nickname: str | None
    password_hash: str | None
    is_active: bool
    is_guest: bool
    email: str | None
    factors: list[str]
    banned_until: datetime | None
    password_by_mail: bool
    deletes_at: datetime | None


class Facts(msgspec.Struct, frozen=True):
    """What rules ask of a member, and whether it is active; `claims` is a JSON object, a team `id:role,role`."""

    is_active: bool
    is_guest: bool
    roles: list[str]
    claims: str
    teams: list[str]


class SessionMember(Facts, frozen=True):
    """The member of a session; `active_again` tells whether its last activity was recorded more than an hour ago.

    `awaits` are the proofs without which the session is provisional, `unused_successor` is that of
    `pilotis.security.sessions`. In one that is `impersonated` somebody of the app's team acts as the member.
    """

    session_id: UUID
    subject: str
    active_again: bool
    level: int
    awaits: list[str]
    unused_successor: UUID | None
    impersonated: bool


class OwnRecord(msgspec.Struct, frozen=True):
    """A member's own record; `custom_data` is a JSON object."""

    member_id: str
    nickname: str | None
    is_active: bool
    custom_data: str


class OwnAccount(OwnRecord, frozen=True):
    """All that a member may know of its own account; `claims` is a JSON object, `deletes_at` when it is deleted."""

    login_id: str | None
    is_guest: bool
    roles: list[str]
    claims: str
    created_at: datetime
    email: str | None
    pending_email: str | None
    language: str | None
    has_password: bool
    deletes_at: datetime | None


class MailedAccount(msgspec.Struct, frozen=True):
    """A member with a verified address, and the language of its mails.

    `may_enter` says whether it is active, or may come back from its deletion.
    """

    member_id: str
    email: str
    language: Language | None
    password_hash: str | None
    may_enter: bool


class AccountState(msgspec.Struct, frozen=True):
    """What a proof depends on, as it is when the proof is used; `may_enter` is that of `MailedAccount`."""

    password_hash: str | None
    may_enter: bool
    email: str | None
    email_folded: str | None
    language: Language | None
    login_id: str | None
    is_guest: bool
    factors: list[str]


class MergedData(msgspec.Struct, frozen=True):
    """A member's custom_data after a change, a JSON object; `emitted` tells whether the event was written."""

    custom_data: str
    emitted: bool


class DueDeletion(msgspec.Struct, frozen=True):
    """A member whose time to come back is over, and what becomes of what it has created."""

    app_id: UUID
    member_id: str
    deletion_remains: Remains


class OldGuest(msgspec.Struct, frozen=True):
    """A guest, and when it was last active."""

    member_id: str
    last_active_at: datetime
