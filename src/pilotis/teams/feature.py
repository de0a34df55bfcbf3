"""Teams."""

from __future__ import annotations

from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.teams.endpoints import TeamAdministration, TeamEndpoints
from pilotis.teams.service import Teams
from pilotis.teams.tasks import periodic


class TeamsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Teams."""

    described = (TeamEndpoints, TeamAdministration)


def feature(floor: Floor, members: MembersFeature, mail: MailFeature) -> TeamsFeature:
    """Return the feature."""
    teams = Teams(floor.database, members.members, mail.mails, floor.rate_limits, floor.base_url)
    return TeamsFeature(
        name="teams",
        endpoints=[TeamEndpoints(teams), TeamAdministration(teams)],
        periodic=periodic(floor.database),
    )
