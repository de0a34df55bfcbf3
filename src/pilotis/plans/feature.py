"""Plans and quotas."""

from __future__ import annotations

from typing import ClassVar

from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut
from pilotis.mail.feature import MailFeature
from pilotis.plans.events import EVENT_TYPES
from pilotis.plans.service import Plans
from pilotis.plans.tasks import periodic


class PlansFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Plans."""

    archived: ClassVar[Archived] = {"quota_notices": LeftOut("what an app has used is of its server")}

    plans: Plans


def feature(floor: Floor, apps: AppsFeature, mail: MailFeature) -> PlansFeature:
    """Return the feature."""
    plans = Plans(floor.database, apps.apps, floor.events, floor.jobs, mail.operator_mail)
    return PlansFeature(
        name="plans",
        jobs=[plans.kind],
        periodic=periodic(floor.database, plans),
        event_types=EVENT_TYPES,
        plans=plans,
    )
