"""Examples of the routes of teams."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_TEAMS = "/v1/public/app-members/teams"
_INVITATIONS = "/v1/public/app-members/invitations"
_APP = "/v1/apps/:app_id"
_TEAM: dict[str, object] = {
    "team_id": _ID,
    "name": "Night owls",
    "slug": None,
    "data": {},
    "member_count": 1,
    "created_by": _ID,
    "created_at": _TIME,
}
_OWN = {**_TEAM, "roles": ["owner"], "joined_at": _TIME}
_OF_APP = {**_TEAM, "member_count": 0, "created_by": None}
_MEMBER = {"member_id": _ID, "nickname": "Grace", "roles": ["owner"], "joined_at": _TIME}
_PAGE = {"total_count": 1, "limit": 20, "offset": 0}
_LINK = {
    "team_invitation_id": _ID,
    "email": None,
    "roles": ["editor"],
    "max_uses": 5,
    "uses": 0,
    "created_at": _TIME,
    "expires_at": _TIME,
}
_OF_OWN = {"team_id": "$OWN_TEAM_ID"}
_OF = {"team_id": "$TEAM_ID"}

EXAMPLES = [
    Example(route=f"GET {_TEAMS}", operation="listOwnTeams", answer={"teams": ["…"]}),
    Example(
        route=f"POST {_TEAMS}",
        operation="createOwnTeam",
        body={"name": "Night owls"},
        answer=_OWN,
    ),
    Example(route=f"GET {_TEAMS}/:team_id", operation="getOwnTeam", path=_OF_OWN, answer=_OWN),
    Example(
        route=f"PATCH {_TEAMS}/:team_id",
        operation="updateOwnTeam",
        path=_OF_OWN,
        body={"data": {"colour": "green"}},
        answer={**_OWN, "data": {"colour": "green"}},
    ),
    Example(
        route=f"DELETE {_TEAMS}/:team_id",
        operation="deleteOwnTeam",
        path=_OF_OWN,
        answer={"message": "Team deleted.", "id": _ID},
    ),
    Example(
        route=f"GET {_TEAMS}/:team_id/members",
        operation="listOwnTeamMembers",
        path=_OF_OWN,
        answer={"data": [_MEMBER], **_PAGE},
    ),
    Example(
        route=f"PATCH {_TEAMS}/:team_id/members/:member_id",
        operation="updateOwnTeamMember",
        path={**_OF_OWN, "member_id": "$TEAM_MEMBER_ID"},
        body={"roles": ["owner", "editor"]},
        answer={**_MEMBER, "roles": ["owner", "editor"]},
    ),
    Example(
        route=f"DELETE {_TEAMS}/:team_id/members/:member_id",
        operation="deleteOwnTeamMember",
        path={**_OF_OWN, "member_id": "$OTHER_TEAM_MEMBER_ID"},
        answer={"message": "Member removed from the team.", "id": "guest_…"},
    ),
    Example(
        route=f"POST {_TEAMS}/:team_id/invitations",
        operation="createTeamInvitation",
        path=_OF_OWN,
        body={"link": True, "roles": ["editor"], "max_uses": 5},
        answer={**_LINK, "token": "ti_…"},
    ),
    Example(
        route=f"GET {_TEAMS}/:team_id/invitations",
        operation="listTeamInvitations",
        path=_OF_OWN,
        answer={"invitations": []},
    ),
    Example(
        route=f"DELETE {_TEAMS}/:team_id/invitations/:team_invitation_id",
        operation="deleteTeamInvitation",
        path={"team_id": "$INVITING_TEAM_ID", "team_invitation_id": "$TEAM_INVITATION_ID"},
        answer={"message": "Invitation revoked.", "id": _ID},
    ),
    Example(
        route=f"GET {_INVITATIONS}/:team_invitation_token",
        operation="getTeamInvitation",
        path={"team_invitation_token": "$TEAM_INVITATION_TOKEN"},
        answer={"team_id": _ID, "name": "Night owls", "slug": None, "roles": ["editor"], "expires_at": _TIME},
    ),
    Example(
        route=f"POST {_INVITATIONS}/accept",
        operation="acceptTeamInvitation",
        body={"token": "$TEAM_INVITATION_TOKEN"},
        answer=_OWN,
    ),
    Example(route=f"GET {_APP}/team-settings", operation="getTeamSettings", answer={"members_create": True}),
    Example(
        route=f"PUT {_APP}/team-settings",
        operation="replaceTeamSettings",
        body={"members_create": True},
        answer={"members_create": True},
    ),
    Example(
        route=f"GET {_APP}/teams",
        operation="listTeams",
        query={"search": "night"},
        answer={"data": ["…"], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(route=f"POST {_APP}/teams", operation="createTeam", body={"name": "Night owls"}, answer=_OF_APP),
    Example(route=f"GET {_APP}/teams/:team_id", operation="getTeam", path=_OF, answer=_OF_APP),
    Example(
        route=f"PATCH {_APP}/teams/:team_id",
        operation="updateTeam",
        path=_OF,
        body={"name": "Early birds"},
        answer={**_OF_APP, "name": "Early birds"},
    ),
    Example(
        route=f"DELETE {_APP}/teams/:team_id",
        operation="deleteTeam",
        path=_OF,
        answer={"message": "Team deleted.", "id": _ID},
    ),
    Example(
        route=f"GET {_APP}/teams/:team_id/members",
        operation="listTeamMembers",
        path=_OF,
        answer={"data": [], "total_count": 0, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"PUT {_APP}/teams/:team_id/members/:member_id",
        operation="replaceTeamMember",
        path={**_OF, "member_id": "$TEAM_MEMBER_ID"},
        body={"roles": ["owner"]},
        answer=_MEMBER,
    ),
    Example(
        route=f"DELETE {_APP}/teams/:team_id/members/:member_id",
        operation="deleteTeamMember",
        path={"team_id": "$FULL_TEAM_ID", "member_id": "$TEAM_MEMBER_ID"},
        answer={"message": "Member removed from the team.", "id": _ID},
    ),
    Example(
        route=f"GET {_APP}/members/:member_id/teams",
        operation="listTeamsOfMember",
        path={"member_id": "$TEAM_MEMBER_ID"},
        answer={"teams": ["…"]},
    ),
]
