"""The errors of teams."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError


class TeamNotFoundError(NotFoundError):
    """404: the app has no such team, or the member is not in it."""

    code = "TEAM_NOT_FOUND"
    message = "There is no such team."


class TeamMemberNotFoundError(NotFoundError):
    """404: the member is not in the team."""

    code = "TEAM_MEMBER_NOT_FOUND"
    message = "This member is not in the team."


class TeamInvitationNotFoundError(NotFoundError):
    """404: the invitation is unknown, used, revoked or expired; the answer does not say which."""

    code = "TEAM_INVITATION_NOT_FOUND"
    message = "This invitation was used, was revoked, has expired or does not exist."


class TeamOwnerRequiredError(ForbiddenError):
    """403: only an owner of the team may do this."""

    code = "TEAM_OWNER_REQUIRED"
    message = "Only an owner of the team may do this."


class TeamCreationClosedError(ForbiddenError):
    """403: members of the app do not create teams; the app's server does."""

    code = "TEAM_CREATION_CLOSED"
    message = "Members of this app do not create teams themselves."


class InvitationForAnotherAddressError(ForbiddenError):
    """403: the invitation was mailed to an address that the member has not verified."""

    code = "INVITATION_FOR_ANOTHER_ADDRESS"
    message = "This invitation is for another e-mail address. Verify that address first."


class TeamLastOwnerError(ConflictError):
    """409: a team keeps at least one owner."""

    code = "TEAM_LAST_OWNER"
    message = "A team keeps at least one owner. Make another member an owner first, or delete the team."


class SlugTakenError(ConflictError):
    """409: another team of the app has this slug."""

    code = "SLUG_TAKEN"
    message = "Another team has this slug. Choose another one."


class TooManyTeamsError(ConflictError):
    """409: a member is in at most 100 teams."""

    code = "TOO_MANY_TEAMS"
    message = "A member is in at most 100 teams."


class TeamFullError(ConflictError):
    """409: a team has at most 10,000 members, and 200 open invitations."""

    code = "TEAM_FULL"
    message = "A team has at most 10,000 members and 200 open invitations."
