"""Archives of apps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pilotis.account_pages.feature import AccountPagesFeature
from pilotis.accounts.feature import AccountsFeature
from pilotis.apps.feature import AppsFeature
from pilotis.archive.endpoints import ArchiveEndpoints
from pilotis.archive.imports import AppImports
from pilotis.archive.requested import RequestedArchives
from pilotis.archive.scheduled import ScheduledArchives
from pilotis.archive.service import Archives
from pilotis.archive.writer import Sources
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.realtime.feature import RealtimeFeature
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.transfer.feature import TransferFeature
from pilotis.data.views.feature import ViewsFeature
from pilotis.events.feature import EventsFeature
from pilotis.feature import Feature
from pilotis.files.feature import FilesFeature
from pilotis.floor import Floor
from pilotis.functions.feature import FunctionsFeature
from pilotis.hosting.feature import HostingFeature
from pilotis.integrations.feature import IntegrationsFeature
from pilotis.jobs.tasks import on_connection
from pilotis.kit.archiving import Archived, Copied, LeftOut
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.oauth.feature import OAuthFeature
from pilotis.plans.feature import PlansFeature
from pilotis.security.feature import SecurityFeature
from pilotis.teams.feature import TeamsFeature
from pilotis.users.feature import UsersFeature
from pilotis.webhooks.feature import WebhooksFeature
from pilotis.workflows.feature import WorkflowsFeature

DECLARING: tuple[type[Feature], ...] = (
    MembersFeature,
    UsersFeature,
    AppsFeature,
    SecurityFeature,
    MailFeature,
    AccountsFeature,
    AccountPagesFeature,
    TeamsFeature,
    TablesFeature,
    RulesFeature,
    IndexesFeature,
    ViewsFeature,
    RealtimeFeature,
    TransferFeature,
    FilesFeature,
    OAuthFeature,
    HostingFeature,
    IntegrationsFeature,
    WebhooksFeature,
    FunctionsFeature,
    WorkflowsFeature,
    PlansFeature,
    EventsFeature,
)
"""The features whose tables archives have, those first to whose tables others refer."""


class ArchiveFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Archives of apps."""

    described = (ArchiveEndpoints,)
    archived: ClassVar[Archived] = {
        "app_archives": LeftOut("an archive has no archives"),
        "archive_schedules": LeftOut("what acts at times is switched on again at the copy"),
        "branches": LeftOut("branches are of the server that has them"),
        "jobs": LeftOut("work is done by the server that was asked for it"),
        "lanes": LeftOut("work is done by the server that was asked for it"),
        "schedules": LeftOut("what acts at times is switched on again at the copy"),
    }

    archives: Archives
    scheduled: ScheduledArchives


def declared() -> Mapping[str, Copied | LeftOut]:
    """Return the tables of all features."""
    kinds: list[type[Feature]] = [*DECLARING, ArchiveFeature]
    return {table: how for kind in kinds for table, how in kind.archived.items()}


def feature(
    floor: Floor,
    apps: AppsFeature,
    users: UsersFeature,
    tables: TablesFeature,
    views: ViewsFeature,  # noqa: ARG001 - it guards tables which views name
) -> ArchiveFeature:
    """Return the feature."""
    sources = Sources(floor.database, floor.blobs, floor.encryption, tables.tables, declared())
    archives = Archives(sources, apps.apps, floor.room)
    folder = Path(floor.settings.data_dir)
    requested = RequestedArchives(
        floor.database,
        archives,
        floor.blobs,
        floor.secrets,
        floor.jobs,
        apps.apps,
        users.users,
        floor.base_url,
        folder,
    )
    scheduled = ScheduledArchives(floor.database, requested, floor.secrets)
    imports = AppImports(floor.database, apps.apps, archives, floor.room, floor.limits.archive_bytes, folder)
    return ArchiveFeature(
        name="archive",
        endpoints=[ArchiveEndpoints(requested, scheduled, imports)],
        jobs=[requested.kind],
        schedules=[scheduled.kind],
        periodic=[
            on_connection(floor.database, "archives.expire", 24 * 3600, imports.delete_old),
            on_connection(floor.database, "archives.fail_lost", 24 * 3600, requested.fail_lost),
        ],
        start=imports.start,
        close=imports.stop,
        archives=archives,
        scheduled=scheduled,
    )
