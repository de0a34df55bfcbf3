"""Teams."""

from __future__ import annotations

from typing import ClassVar

from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, LeftOut
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.teams.endpoints import TeamAdministration, TeamEndpoints
from pilotis.teams.events import EVENT_TYPES
from pilotis.teams.service import Teams
from pilotis.teams.tasks import periodic


class TeamsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Teams."""

    described = (TeamEndpoints, TeamAdministration)
    archived: ClassVar[Archived] = {
        "team_settings": Copied(columns="members_create"),
        "teams": Copied(columns="team_id name slug data created_by created_at", part="members"),
        "team_members": Copied(columns="team_id member_id roles joined_at", part="members"),
        "team_invitations": LeftOut("invitations are for the server that sent them"),
    }

    teams: Teams


def feature(floor: Floor, members: MembersFeature, mail: MailFeature) -> TeamsFeature:
    """Return the feature."""
    teams = Teams(floor.database, floor.events, members.members, mail.mails, floor.rate_limits, floor.base_url)
    return TeamsFeature(
        name="teams",
        endpoints=[TeamEndpoints(teams), TeamAdministration(teams)],
        event_types=EVENT_TYPES,
        periodic=periodic(floor.database),
        teams=teams,
    )
