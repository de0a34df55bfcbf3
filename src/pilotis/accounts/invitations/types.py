"""The types of invitations of members."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.accounts.types import Token
from pilotis.http.api.schemas import Email, Paging
from pilotis.kit.errors import invalid
from pilotis.kit.languages import Language
from pilotis.members.types import Roles
from pilotis.teams.types import TeamRoles

InvitationState = Literal["open", "accepted", "expired", "revoked"]


class NewMemberInvitation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whom to invite, by mail. Who accepts gets `roles` in the app, and `team_roles` in the team, if there is one.

    The mail is in `language`, or in English.
    """

    email: Email
    roles: Roles = []
    team_id: UUID | None = None
    team_roles: TeamRoles = []
    language: Language | None = None

    def __post_init__(self) -> None:
        """Require a team for roles in it."""
        if self.team_roles and self.team_id is None:
            raise invalid("team_roles", "team_roles: team_id is expected beside them.")


class MemberInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation to become a member. Its token is in the mail alone."""

    invitation_id: UUID
    email: str
    roles: list[str]
    team_id: UUID | None
    team_roles: list[str]
    language: Language | None
    state: InvitationState
    created_at: str
    expires_at: str


class MemberInvitationQuery(Paging, forbid_unknown_fields=True):
    """Filters of the list of invitations."""

    state: InvitationState | None = None


class MemberInvitationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an app's invitations, newest first."""

    data: list[MemberInvitation]
    total_count: int
    limit: int
    offset: int


class MemberInvitationUse(msgspec.Struct, forbid_unknown_fields=True):
    """The token of a mailed invitation."""

    token: Annotated[Token, msgspec.Meta(examples=["mi_…"])]


class InvitedAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What an invitation is for: the address that becomes the member's, and the name of the team that it joins."""

    email: str
    team: str | None
    expires_at: str
