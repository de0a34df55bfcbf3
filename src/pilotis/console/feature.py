"""The graphical console."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pilotis import __version__
from pilotis.apps.feature import AppsFeature
from pilotis.console.assets import Assets
from pilotis.console.context import Contexts
from pilotis.console.endpoints import (
    AttentionEndpoints,
    ConsoleEndpoints,
    ConsolePageEndpoints,
    ContextEndpoints,
    ExposureEndpoints,
    UsageEndpoints,
)
from pilotis.console.exposure import Exposure, findings
from pilotis.console.sessions import BrowserSessions
from pilotis.console.types import Attention, DayUsage, Usage
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.dead_jobs.feature import DeadJobsFeature
from pilotis.feature import Feature
from pilotis.files.feature import FilesFeature
from pilotis.floor import Floor
from pilotis.functions.feature import FunctionsFeature
from pilotis.functions.types import FunctionQuery
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.principals import AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit.clock import now
from pilotis.users.feature import UsersFeature
from pilotis.webhooks.feature import WebhooksFeature
from pilotis.workflows.feature import WorkflowsFeature


class ConsoleFeature(Feature, frozen=True, kw_only=True, eq=False):
    """The graphical console."""

    described = (
        ConsolePageEndpoints,
        ConsoleEndpoints,
        ExposureEndpoints,
        AttentionEndpoints,
        UsageEndpoints,
        ContextEndpoints,
    )


def feature(
    floor: Floor,
    users: UsersFeature,
    apps: AppsFeature,
    tables: TablesFeature,
    rules: RulesFeature,
    files: FilesFeature,
    hosting: HostingFeature,
    functions: FunctionsFeature,
    webhooks: WebhooksFeature,
    workflows: WorkflowsFeature,
    dead_jobs: DeadJobsFeature,
) -> ConsoleFeature:
    """Return the feature."""
    assets = Assets()
    sessions = BrowserSessions(users.users, floor.sessions, floor.limits)

    async def exposure(app: AppInfo) -> Exposure:
        keys = await apps.keyring.in_force(app.app_id, secret=False)
        return Exposure(
            app,
            [key.allowed_origins or [] for key in keys],
            await tables.tables.all(app),
            await files.files.storages.all(app.app_id),
            (await hosting.hosting.storages.page(app, Paging(limit=1))).total_count,
            await rules.rules.exposed(app),
        )

    async def attention(app: AppInfo) -> Attention:
        return Attention(
            running=await workflows.executions.unfinished(app.app_id),
            failing=await webhooks.webhooks.failing(app.app_id),
            dead_jobs=await dead_jobs.dead_jobs.count(app.app_id),
            exposure=sum(finding.severity == "high" for finding in findings(await exposure(app))),
        )

    async def usage(app: AppInfo, days: int) -> Usage:
        none = Paging(limit=0)
        # All at once: one after another, each would wait for a database that may be far away.
        counted = asyncio.gather(
            functions.executions.by_day(app.app_id, days),
            workflows.executions.by_day(app.app_id, days),
            webhooks.deliveries.by_day(app.app_id, days),
            hosting.hosting.deployments.by_day(app.app_id, days),
        )
        pages = asyncio.gather(
            hosting.hosting.storages.page(app, none),
            functions.functions.page(app, FunctionQuery(limit=0)),
            workflows.workflows.page(app, none),
            webhooks.webhooks.page(app, none),
        )
        days_of, listed = await asyncio.gather(counted, pages)
        daily = dict(zip(("calls", "executions", "deliveries", "deployments"), days_of, strict=True))
        last = now().date()
        by_day: dict[str, dict[str, int]] = {
            (last - timedelta(days=ago)).isoformat(): {} for ago in reversed(range(days))
        }
        for name, counts in daily.items():
            for count in counts:
                # A day may begin between the questions.
                if count.day in by_day:
                    by_day[count.day] |= {name: count.total, f"failed_{name}": count.failed}
        return Usage(
            sites=listed[0].total_count,
            functions=listed[1].total_count,
            workflows=listed[2].total_count,
            webhooks=listed[3].total_count,
            by_day=[DayUsage(date=day, **counts) for day, counts in by_day.items()],
        )

    return ConsoleFeature(
        name="console",
        endpoints=[
            ConsolePageEndpoints(assets, _sources(floor)),
            ConsoleEndpoints(assets, sessions, users.users, floor.base_url, __version__),
            ExposureEndpoints(exposure),
            AttentionEndpoints(attention),
            UsageEndpoints(usage),
            ContextEndpoints(
                Contexts(
                    apps.requests.of_request,
                    functions.executions.of_request,
                    workflows.executions.of_request,
                    webhooks.deliveries.of_request,
                )
            ),
        ],
    )


def _sources(floor: Floor) -> str:
    """Return the origins, other than the server's, to which files are uploaded and from which they are shown."""
    address = getattr(floor.settings, "files_base_url", None)
    if not address:
        return ""
    from yarl import URL  # here: a start would wait for it

    return str(URL(address).origin())
