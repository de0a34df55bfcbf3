"""The graphical console."""

from __future__ import annotations

from pilotis import __version__
from pilotis.apps.feature import AppsFeature
from pilotis.archive.feature import ArchiveFeature
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
from pilotis.console.types import Attention, Usage
from pilotis.console.usage import usage_of
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.views.feature import ViewsFeature
from pilotis.dead_jobs.feature import DeadJobsFeature
from pilotis.feature import Feature
from pilotis.files.feature import FilesFeature
from pilotis.floor import Floor
from pilotis.functions.feature import FunctionsFeature
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.principals import AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.plans.feature import PlansFeature
from pilotis.user_accounts.feature import UserAccountsFeature
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
    user_accounts: UserAccountsFeature,
    apps: AppsFeature,
    tables: TablesFeature,
    rules: RulesFeature,
    views: ViewsFeature,
    files: FilesFeature,
    hosting: HostingFeature,
    functions: FunctionsFeature,
    webhooks: WebhooksFeature,
    workflows: WorkflowsFeature,
    dead_jobs: DeadJobsFeature,
    plans: PlansFeature,
    archive: ArchiveFeature,
) -> ConsoleFeature:
    """Return the feature."""
    assets = Assets()
    sessions = BrowserSessions(users.users, user_accounts.factors, user_accounts.passkeys, floor.sessions, floor.limits)

    async def exposure(app: AppInfo) -> Exposure:
        keys = await apps.keyring.in_force(app.app_id, secret=False)
        return Exposure(
            app,
            [key.allowed_origins or [] for key in keys],
            await tables.tables.all(app),
            await files.files.storages.all(app.app_id),
            (await hosting.hosting.storages.page(app, Paging(limit=1))).total_count,
            [*await rules.rules.exposed(app), *await views.views.exposed(app)],
        )

    async def attention(app: AppInfo) -> Attention:
        return Attention(
            running=await workflows.executions.unfinished(app.app_id),
            failing=await webhooks.webhooks.failing(app.app_id),
            dead_jobs=await dead_jobs.dead_jobs.count(app.app_id),
            exposure=sum(finding.severity == "high" for finding in findings(await exposure(app))),
            archives=await archive.scheduled.failing(app.app_id),
            quotas=int(app.exceeded is not None),
        )

    async def usage(app: AppInfo, days: int) -> Usage:
        totals = {
            "sites": hosting.hosting.storages.total,
            "functions": functions.functions.total,
            "workflows": workflows.workflows.total,
            "webhooks": webhooks.webhooks.total,
        }
        by_day = {
            "calls": functions.executions.by_day,
            "executions": workflows.executions.by_day,
            "deliveries": webhooks.deliveries.by_day,
            "deployments": hosting.hosting.deployments.by_day,
        }
        plan = await plans.plans.use(app.app_id)
        return await usage_of(floor.database, app.app_id, days, totals, by_day, plan)

    return ConsoleFeature(
        name="console",
        endpoints=[
            ConsolePageEndpoints(assets, _sources(floor)),
            ConsoleEndpoints(
                assets, sessions, users.users, floor.base_url, __version__, sends_mail=user_accounts.sends_mail
            ),
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
