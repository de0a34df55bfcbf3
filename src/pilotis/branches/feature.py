"""Branches of apps."""

from __future__ import annotations

from pathlib import Path

from pilotis.apps.feature import AppsFeature
from pilotis.archive.feature import ArchiveFeature
from pilotis.branches.endpoints import BranchEndpoints
from pilotis.branches.service import Branches
from pilotis.branches.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor


class BranchesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Branches."""

    described = (BranchEndpoints,)

    branches: Branches


def feature(floor: Floor, apps: AppsFeature, archive: ArchiveFeature) -> BranchesFeature:
    """Return the feature."""
    branches = Branches(floor.database, apps.apps, archive.archives, floor.jobs, Path(floor.settings.data_dir))
    return BranchesFeature(
        name="branches",
        endpoints=[BranchEndpoints(branches)],
        jobs=[branches.kind],
        periodic=periodic(floor.database, branches),
        attach=lambda application: branches.attach(application.call_inside),
        branches=branches,
    )
