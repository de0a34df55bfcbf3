"""The types of teams."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import Email, Paging
from pilotis.kit.errors import invalid
from pilotis.members.types import MemberId

OWNER = "owner"
"""The role that may change a team, invite and remove; a team keeps at least one."""

TeamName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Slug = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{3,40}$", examples=["night-owls"])]
TeamRole = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}$", examples=["editor"])]
TeamRoles = Annotated[list[TeamRole], msgspec.Meta(max_length=20)]
InvitationToken = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team of members; `data` is the app's, `created_by` the member that created it, null if the app did."""

    team_id: UUID
    name: str
    slug: str | None
    data: dict[str, Any]
    member_count: int
    created_by: str | None
    created_at: str


class OwnTeam(Team, frozen=True, kw_only=True):
    """A team of the signed-in member, with its roles there."""

    roles: list[str]
    joined_at: str


class OwnTeams(msgspec.Struct, frozen=True):
    """All teams of a member, by name."""

    teams: list[OwnTeam]


class TeamPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an app's teams, by name."""

    data: list[Team]
    total_count: int
    limit: int
    offset: int


class TeamQuery(Paging, forbid_unknown_fields=True):
    """Which teams of an app to list: those whose name or slug contains a text."""

    search: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class NewTeam(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A team to create; `slug` is unique in the app."""

    name: TeamName
    slug: Slug | None = None
    data: dict[str, Any] = {}


class TeamChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to change of a team; absent fields stay as they are."""

    name: TeamName | msgspec.UnsetType = msgspec.UNSET
    slug: Slug | msgspec.UnsetType | None = msgspec.UNSET
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class DeletedTeam(msgspec.Struct, frozen=True):
    """The team that was deleted."""

    message: str
    id: UUID


class TeamMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a team, with its roles there."""

    member_id: str
    nickname: str | None
    roles: list[str]
    joined_at: str


class TeamMemberPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a team's members, those who joined first first."""

    data: list[TeamMember]
    total_count: int
    limit: int
    offset: int


class TeamMemberChange(msgspec.Struct, forbid_unknown_fields=True):
    """All roles of a member in a team; `owner` may change the team."""

    roles: TeamRoles


class RemovedTeamMember(msgspec.Struct, frozen=True):
    """The member that is not in the team any more."""

    message: str
    id: MemberId


class NewTeamInvitation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An invitation by mail to `email`, or with `link` one for anybody who has the link.

    A link is used at most `max_uses` times. `roles` are those that who accepts gets; a link never makes an owner.
    """

    email: Email | None = None
    link: bool = False
    roles: TeamRoles = []
    max_uses: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    expires_seconds: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)] = 7 * 86_400

    def __post_init__(self) -> None:
        """Require one kind of invitation."""
        if (self.email is None) != self.link:
            raise invalid("email", "Either email or link is expected.")
        if self.email is not None and self.max_uses != 1:
            raise invalid("max_uses", "A mailed invitation is used once.")
        if self.link and OWNER in self.roles:
            raise invalid("roles", "A link does not make owners.")


class TeamInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An open invitation to a team; without `email` it is a link."""

    team_invitation_id: UUID
    email: str | None
    roles: list[str]
    max_uses: int
    uses: int
    created_at: str
    expires_at: str


class CreatedTeamInvitation(TeamInvitation, frozen=True, kw_only=True):
    """A new invitation; `token` is that of a link, shown once, and null if it was mailed."""

    token: str | None


class TeamInvitations(msgspec.Struct, frozen=True):
    """All open invitations to a team, the newest first."""

    invitations: list[TeamInvitation]


class RevokedTeamInvitation(msgspec.Struct, frozen=True):
    """The invitation that was revoked."""

    message: str
    id: UUID


class InvitedTo(msgspec.Struct, frozen=True, kw_only=True):
    """What an invitation is for."""

    team_id: UUID
    name: str
    slug: str | None
    roles: list[str]
    expires_at: str


class TeamInvitationUse(msgspec.Struct, forbid_unknown_fields=True):
    """The token of an invitation."""

    token: InvitationToken


class TeamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether members create teams themselves; otherwise only the app's server does."""

    members_create: bool
