"""The routes of teams: for their members, and for the app."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Paging
from pilotis.kit.languages import preferred
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import MemberInactiveError
from pilotis.teams.errors import (
    InvitationForAnotherAddressError,
    SlugTakenError,
    TeamCreationClosedError,
    TeamFullError,
    TeamInvitationNotFoundError,
    TeamLastOwnerError,
    TeamMemberNotFoundError,
    TeamNotFoundError,
    TeamOwnerRequiredError,
    TooManyTeamsError,
)
from pilotis.teams.service import Teams
from pilotis.teams.types import (
    CreatedTeamInvitation,
    DeletedTeam,
    InvitedTo,
    NewTeam,
    NewTeamInvitation,
    OwnTeam,
    OwnTeams,
    RemovedTeamMember,
    RevokedTeamInvitation,
    Team,
    TeamChange,
    TeamInvitations,
    TeamInvitationUse,
    TeamMember,
    TeamMemberChange,
    TeamMemberPage,
    TeamPage,
    TeamQuery,
    TeamSettings,
)

_MEMBERS = "/v1/public/app-members"
_TEAMS = f"{_MEMBERS}/teams"
_TEAM = f"{_TEAMS}/:team_id"
_INVITATIONS = f"{_MEMBERS}/invitations"
_OF_APP = "/v1/apps/:app_id/teams"

VIEWER = console(Role.VIEWER, secret_key=True)
EDITOR = console(Role.EDITOR, secret_key=True)
_OWNERS = [MemberInactiveError, TeamNotFoundError, TeamOwnerRequiredError]


class TeamEndpoints(Endpoints, tag="Teams"):
    """Teams of the signed-in member."""

    def __init__(self, teams: Teams) -> None:
        self._teams = teams

    @get(_TEAMS, access=Access.MEMBER, errors=[MemberInactiveError])
    async def own(self, call: Call) -> OwnTeams:
        """List the signed-in member's teams, with its roles in each."""
        return await self._teams.of_member(call.app.app_id, call.member.member_id)

    @post(
        _TEAMS,
        access=Access.MEMBER,
        status=201,
        creates="team_id",
        again="read",
        errors=[MemberInactiveError, TeamCreationClosedError, SlugTakenError, TooManyTeamsError],
    )
    async def create(self, call: Call, body: NewTeam) -> OwnTeam:
        """Create a team, if the app lets members do so; the member is its owner."""
        team_id = UUID(call.new_id())
        await self._teams.create(call.app.app_id, call.actor, team_id, body, call.member)
        return await self._teams.own(call.app.app_id, team_id, call.member)

    @get(_TEAM, access=Access.MEMBER, errors=[MemberInactiveError, TeamNotFoundError])
    async def read(self, call: Call, team_id: UUID) -> OwnTeam:
        """Read a team of the signed-in member."""
        return await self._teams.own(call.app.app_id, team_id, call.member)

    @patch(_TEAM, access=Access.MEMBER, errors=[*_OWNERS, SlugTakenError])
    async def change(self, call: Call, team_id: UUID, body: TeamChange) -> OwnTeam:
        """Change a team's name, slug or data, as one of its owners."""
        await self._teams.change(call.app.app_id, call.actor, team_id, body, call.member)
        return await self._teams.own(call.app.app_id, team_id, call.member)

    @delete(_TEAM, access=Access.MEMBER, errors=_OWNERS)
    async def delete_team(self, call: Call, team_id: UUID) -> DeletedTeam:
        """Delete a team, as one of its owners. Its members lose it with their next request."""
        await self._teams.delete(call.app.app_id, call.actor, team_id, call.member)
        return DeletedTeam("Team deleted.", team_id)

    @get(f"{_TEAM}/members", access=Access.MEMBER, errors=[MemberInactiveError, TeamNotFoundError])
    async def members(self, call: Call, team_id: UUID, query: Paging) -> TeamMemberPage:
        """List the members of a team of the signed-in member, those who joined first first."""
        return await self._teams.members(call.app, team_id, query, call.member)

    @patch(
        f"{_TEAM}/members/:member_id",
        access=Access.MEMBER,
        errors=[*_OWNERS, TeamMemberNotFoundError, TeamLastOwnerError],
    )
    async def change_member(self, call: Call, team_id: UUID, member_id: str, body: TeamMemberChange) -> TeamMember:
        """Replace the roles of a member in a team, as one of its owners."""
        return await self._teams.change_member(call.app.app_id, call.actor, team_id, call.member, member_id, body.roles)

    @delete(
        f"{_TEAM}/members/:member_id",
        access=Access.MEMBER,
        errors=[*_OWNERS, TeamMemberNotFoundError, TeamLastOwnerError],
    )
    async def remove_member(self, call: Call, team_id: UUID, member_id: str) -> RemovedTeamMember:
        """Remove a member from a team, as one of its owners, or leave it."""
        await self._teams.remove_member(call.app.app_id, call.actor, team_id, member_id, call.member)
        return RemovedTeamMember("Member removed from the team.", member_id)

    @post(
        f"{_TEAM}/invitations",
        access=Access.MEMBER,
        status=201,
        creates="team_invitation_id",
        rate="mail_requests",
        errors=[*_OWNERS, TeamFullError],
    )
    async def invite(self, call: Call, team_id: UUID, body: NewTeamInvitation) -> CreatedTeamInvitation:
        """Invite somebody to a team, as one of its owners: by mail to an address, or by a link.

        A mailed invitation works for the member that has verified the address. The token of a link is shown once; who
        has it joins with `POST /v1/public/app-members/invitations/accept`.
        """
        language = preferred(call.header(b"accept-language"))
        invitation_id = UUID(call.new_id())
        return await self._teams.invite(call.app.app_id, team_id, call.member, body, invitation_id, language)

    @get(f"{_TEAM}/invitations", access=Access.MEMBER, errors=_OWNERS)
    async def invitations(self, call: Call, team_id: UUID) -> TeamInvitations:
        """List the open invitations to a team, as one of its owners."""
        return await self._teams.invitations(call.app.app_id, team_id, call.member)

    @delete(
        f"{_TEAM}/invitations/:team_invitation_id",
        access=Access.MEMBER,
        errors=[*_OWNERS, TeamInvitationNotFoundError],
    )
    async def revoke_invitation(self, call: Call, team_id: UUID, team_invitation_id: UUID) -> RevokedTeamInvitation:
        """Revoke an invitation to a team, as one of its owners."""
        await self._teams.revoke_invitation(call.app.app_id, team_id, call.member, team_invitation_id)
        return RevokedTeamInvitation("Invitation revoked.", team_invitation_id)

    @get(f"{_INVITATIONS}/:team_invitation_token", access=Access.PUBLIC_KEY, errors=[TeamInvitationNotFoundError])
    async def invited_to(self, call: Call, team_invitation_token: str) -> InvitedTo:
        """Read which team an invitation is for; this uses nothing up."""
        return await self._teams.invited_to(call.app.app_id, team_invitation_token)

    @post(
        f"{_INVITATIONS}/accept",
        access=Access.MEMBER,
        errors=[
            MemberInactiveError,
            TeamInvitationNotFoundError,
            InvitationForAnotherAddressError,
            TeamFullError,
            TooManyTeamsError,
        ],
    )
    async def accept(self, call: Call, body: TeamInvitationUse) -> OwnTeam:
        """Join a team by an invitation; a member that is in it already uses nothing up."""
        return await self._teams.accept(call.app.app_id, call.actor, call.member, body.token)


class TeamAdministration(Endpoints, tag="Teams"):
    """Teams of an app, for the app itself."""

    def __init__(self, teams: Teams) -> None:
        self._teams = teams

    @get("/v1/apps/:app_id/team-settings", access=VIEWER)
    async def settings(self, call: Call, app_id: UUID) -> TeamSettings:
        """Read whether members create teams."""
        return await self._teams.settings(call.app.app_id)

    @put("/v1/apps/:app_id/team-settings", access=Access.APP_EDITOR)
    async def change_settings(self, call: Call, app_id: UUID, body: TeamSettings) -> TeamSettings:
        """Set whether members create teams; without it only the app's server does."""
        return await self._teams.change_settings(call.app.app_id, call.actor, body)

    @get(_OF_APP, access=VIEWER)
    async def page(self, call: Call, app_id: UUID, query: TeamQuery) -> TeamPage:
        """List an app's teams, by name."""
        return await self._teams.page(call.app, query)

    @post(_OF_APP, access=EDITOR, status=201, creates="team_id", again="read", errors=[SlugTakenError])
    async def create(self, call: Call, app_id: UUID, body: NewTeam) -> Team:
        """Create a team without members."""
        team_id = UUID(call.new_id())
        await self._teams.create(call.app.app_id, call.actor, team_id, body)
        return await self._teams.read(call.app.app_id, team_id)

    @get(f"{_OF_APP}/:team_id", access=VIEWER, errors=[TeamNotFoundError])
    async def read(self, call: Call, app_id: UUID, team_id: UUID) -> Team:
        """Read a team."""
        return await self._teams.read(call.app.app_id, team_id)

    @patch(f"{_OF_APP}/:team_id", access=EDITOR, errors=[TeamNotFoundError, SlugTakenError])
    async def change(self, call: Call, app_id: UUID, team_id: UUID, body: TeamChange) -> Team:
        """Change a team's name, slug or data."""
        await self._teams.change(call.app.app_id, call.actor, team_id, body)
        return await self._teams.read(call.app.app_id, team_id)

    @delete(f"{_OF_APP}/:team_id", access=EDITOR, errors=[TeamNotFoundError])
    async def delete_team(self, call: Call, app_id: UUID, team_id: UUID) -> DeletedTeam:
        """Delete a team. Its members lose it with their next request."""
        await self._teams.delete(call.app.app_id, call.actor, team_id)
        return DeletedTeam("Team deleted.", team_id)

    @get(f"{_OF_APP}/:team_id/members", access=VIEWER, errors=[TeamNotFoundError])
    async def members(self, call: Call, app_id: UUID, team_id: UUID, query: Paging) -> TeamMemberPage:
        """List the members of a team, those who joined first first."""
        return await self._teams.members(call.app, team_id, query)

    @put(
        f"{_OF_APP}/:team_id/members/:member_id",
        access=EDITOR,
        errors=[TeamNotFoundError, TeamMemberNotFoundError, TeamLastOwnerError, TeamFullError, TooManyTeamsError],
    )
    async def put_member(
        self, call: Call, app_id: UUID, team_id: UUID, member_id: str, body: TeamMemberChange
    ) -> TeamMember:
        """Add a member to a team at once, or replace its roles there."""
        return await self._teams.put_member(call.app.app_id, call.actor, team_id, member_id, body.roles)

    @delete(
        f"{_OF_APP}/:team_id/members/:member_id",
        access=EDITOR,
        errors=[TeamNotFoundError, TeamMemberNotFoundError, TeamLastOwnerError],
    )
    async def remove_member(self, call: Call, app_id: UUID, team_id: UUID, member_id: str) -> RemovedTeamMember:
        """Remove a member from a team."""
        await self._teams.remove_member(call.app.app_id, call.actor, team_id, member_id)
        return RemovedTeamMember("Member removed from the team.", member_id)

    @get("/v1/apps/:app_id/members/:member_id/teams", access=VIEWER, errors=[MemberNotFoundError])
    async def of_member(self, call: Call, app_id: UUID, member_id: str) -> OwnTeams:
        """List the teams of a member, with its roles in each."""
        return await self._teams.of_member(call.app.app_id, member_id)
