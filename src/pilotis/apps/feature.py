"""Apps, their settings, keys and statistics."""

from __future__ import annotations

from typing import ClassVar

from pilotis.apps.endpoints import AppEndpoints, AppSettingsEndpoints, KeyEndpoints
from pilotis.apps.keyring import Keyring
from pilotis.apps.meter.service import Meter
from pilotis.apps.requests.endpoints import RequestEndpoints, recording
from pilotis.apps.requests.service import Requests
from pilotis.apps.service import Apps
from pilotis.apps.settings import CHALLENGE_SECRET, AppSettings
from pilotis.apps.stats.endpoints import AppStatsEndpoints, StatsEndpoints
from pilotis.apps.stats.service import Statistics
from pilotis.apps.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn
from pilotis.security.encryption.types import Purpose
from pilotis.users.service import AppPolicy


class AppsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Apps."""

    described = (AppEndpoints, AppSettingsEndpoints, KeyEndpoints, StatsEndpoints, AppStatsEndpoints, RequestEndpoints)
    archived: ClassVar[Archived] = {
        "apps": LeftOut("the manifest has the settings"),
        "challenge_secrets": Copied(
            columns="secret", secrets=[SecretColumn("secret", Purpose.CHALLENGE_SECRET, CHALLENGE_SECRET)]
        ),
        "public_keys": LeftOut("a key names its app; a copy gets its own"),
        "secret_keys": LeftOut("a key names its app; a copy gets its own"),
        "request_stats": LeftOut("statistics are of the server that counted them"),
        "metered": LeftOut("what an app has used is of its server"),
        "request_durations": LeftOut("statistics are of the server that counted them"),
        "requests": LeftOut("the log of requests is of the server that answered them"),
    }

    apps: Apps
    keyring: Keyring
    statistics: Statistics
    requests: Requests
    settings: AppSettings
    meter: Meter


def feature(floor: Floor) -> AppsFeature:
    """Return the feature."""
    settings_ = floor.settings
    policy = AppPolicy(settings_.app_creation, settings_.apps_per_user, settings_.default_plan)
    apps = Apps(floor.database, floor.control, floor.limits, policy)
    meter = Meter(floor.database)
    keyring = Keyring(floor.database, apps)
    statistics = Statistics(floor.database)
    requests = Requests(floor.database)
    settings = AppSettings(floor.database, apps, floor.secrets, floor.limits, floor.base_url.rstrip("/"))

    async def start() -> None:
        statistics.requests.start()
        requests.logger.start()
        meter.start()

    async def close() -> None:
        await statistics.requests.stop()
        await requests.logger.stop()
        await meter.stop()
        await apps.stop()

    return AppsFeature(
        name="apps",
        endpoints=[
            AppEndpoints(apps),
            AppSettingsEndpoints(settings),
            KeyEndpoints(keyring),
            StatsEndpoints(statistics),
            AppStatsEndpoints(statistics),
            RequestEndpoints(requests),
        ],
        periodic=periodic(floor.database, apps, statistics, requests),
        finished=recording(statistics, requests),
        start=start,
        close=close,
        apps=apps,
        keyring=keyring,
        statistics=statistics,
        requests=requests,
        settings=settings,
        meter=meter,
    )
