"""Console users, their roles on apps and invitations to them."""

from __future__ import annotations

from typing import ClassVar

from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut
from pilotis.security.audit.service import AuditLog
from pilotis.users.activation import Activation
from pilotis.users.endpoints import InvitationEndpoints, RoleEndpoints, UserEndpoints
from pilotis.users.invitations import Invitations
from pilotis.users.roles import Roles
from pilotis.users.service import Users
from pilotis.users.tasks import periodic


class UsersFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Console users."""

    described = (UserEndpoints, RoleEndpoints, InvitationEndpoints)
    archived: ClassVar[Archived] = {
        "app_users": LeftOut("console users belong to their server"),
        "invitations": LeftOut("console users belong to their server"),
    }

    users: Users
    activation: Activation


def feature(floor: Floor) -> UsersFeature:
    """Return the feature."""
    database = floor.database
    users = Users(database, floor.sessions, floor.passwords, floor.rate_limits, floor.limits)
    activation = Activation(database)
    return UsersFeature(
        name="users",
        endpoints=[
            UserEndpoints(users, activation, AuditLog(database)),
            RoleEndpoints(Roles(database)),
            InvitationEndpoints(Invitations(database, floor.base_url)),
        ],
        periodic=periodic(database),
        users=users,
        activation=activation,
    )
