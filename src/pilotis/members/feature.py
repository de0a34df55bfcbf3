"""The members of apps, for themselves and for the console."""

from __future__ import annotations

from typing import ClassVar

from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, check_password_hash
from pilotis.kit.metrics import CounterOf
from pilotis.members.administration.endpoints import MemberAdministrationEndpoints
from pilotis.members.administration.service import MemberAdministration
from pilotis.members.challenges.endpoints import ChallengeEndpoints
from pilotis.members.challenges.service import Challenges
from pilotis.members.challenges.vendors import VendorChallenges
from pilotis.members.endpoints import MemberEndpoints
from pilotis.members.events import EVENT_TYPES
from pilotis.members.hooks import Hooks
from pilotis.members.known_devices.service import KnownDevices
from pilotis.members.password_rules import PasswordRules
from pilotis.members.service import Members
from pilotis.members.tasks import periodic


class MembersFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Members."""

    described = (MemberEndpoints, ChallengeEndpoints, MemberAdministrationEndpoints)
    archived: ClassVar[Archived] = {
        "members": Copied(
            columns="member_id login_id password_hash nickname is_guest is_active custom_data created_at updated_at"
            " last_active_at roles claims email email_folded language factors banned_until ban_reason teams"
            " made_rows password_by_mail deletes_at deletion_remains",
            part="members",
            checks={"password_hash": check_password_hash},
        ),
    }

    members: Members
    challenges: Challenges


def feature(floor: Floor) -> MembersFeature:
    """Return the feature."""
    rules = PasswordRules(lambda: floor.outgoing, floor.settings.breached_passwords)
    hooks = Hooks()
    challenges = Challenges(
        floor.database, floor.rate_limits, floor.signing_keys, VendorChallenges(lambda: floor.outgoing), hooks
    )
    members = Members(
        floor.database,
        floor.sessions,
        floor.passwords,
        floor.rate_limits,
        floor.events,
        rules,
        challenges,
        KnownDevices(floor.database, floor.rate_limits, floor.signing_keys),
        hooks,
    )
    administration = MemberAdministration(floor.database, floor.sessions, floor.passwords, floor.events, members)
    return MembersFeature(
        name="members",
        endpoints=[
            MemberEndpoints(members),
            ChallengeEndpoints(challenges),
            MemberAdministrationEndpoints(administration),
        ],
        event_types=EVENT_TYPES,
        periodic=periodic(floor, members),
        members=members,
        challenges=challenges,
        metrics=[
            CounterOf(
                "pilotis_breached_password_checks",
                "Passwords looked up among breached ones, by outcome.",
                "outcome",
                lambda: rules.asked,
            )
        ],
    )
