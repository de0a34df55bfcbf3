"""Live subscriptions."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from pilotis.apps.feature import AppsFeature
from pilotis.data.realtime.channel_rules import ChannelRules
from pilotis.data.realtime.channels import Channels
from pilotis.data.realtime.endpoints import ChannelEndpoints, RealtimeEndpoints
from pilotis.data.realtime.hub import Hub
from pilotis.data.realtime.inspection import Inspection
from pilotis.data.realtime.live_settings import LiveAccess
from pilotis.data.realtime.occupancy import EVENT_TYPES, Occupancy
from pilotis.data.realtime.service import Realtime
from pilotis.data.realtime.tasks import periodic
from pilotis.data.realtime.tickets import Tickets
from pilotis.data.realtime.types import Openness
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.db.topics import Topic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit import json
from pilotis.kit.archiving import Archived, Copied, LeftOut
from pilotis.kit.metrics import CounterOf, Gauge
from pilotis.members.feature import MembersFeature


def _check_tables(text: str) -> None:
    """Raise an error for what is no setting by table."""
    json.decode(text.encode(), json.decoder(dict[UUID, Openness]))


class RealtimeFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Live subscriptions."""

    described = (RealtimeEndpoints, ChannelEndpoints)
    archived: ClassVar[Archived] = {
        "channels": Copied(columns="patterns updated_at"),
        "channel_messages": LeftOut("messages last seconds"),
        "channel_nodes": LeftOut("who listens is known again at once"),
        "change_logs": LeftOut("changes are logged for who listens"),
        "watches": LeftOut("who listens is known again at once"),
        "live_tickets": LeftOut("tickets last minutes"),
        "kept_messages": LeftOut("messages are kept for days only, rows until they are deleted"),
        "occupied_channels": LeftOut("who listens is known again at once"),
        "live_reports": LeftOut("reports live for seconds"),
        "live_settings": Copied(columns="live tables", checks={"tables": _check_tables}),
    }

    hub: Hub


def feature(
    floor: Floor,
    apps: AppsFeature,
    tables: TablesFeature,
    rules: RulesFeature,
    rows: RowsFeature,
    members: MembersFeature,
) -> RealtimeFeature:
    """Return the feature."""
    prepared = rows.prepared_tables
    channel_rules = ChannelRules(floor.database, tables.tables, prepared, rules.rules)
    occupancy = Occupancy(floor.database, floor.events, floor.jobs.node_id)
    channels = Channels(floor.database, channel_rules, floor.control, floor.jobs.node_id, occupancy)
    live = LiveAccess(floor.database, tables.tables)
    hub = Hub(
        floor.database,
        tables.tables,
        prepared,
        members.members,
        floor.control,
        floor.jobs.node_id,
        floor.limits,
        channels,
        live,
    )

    inspection = Inspection(floor.database, hub, floor.control, floor.jobs.node_id)
    realtime = Realtime(hub, prepared, floor.rate_limits)
    tickets = Tickets(floor.database, apps.apps, members.members, realtime, floor.control, floor.base_url)

    def channels_changed(app_id: str) -> None:
        channel_rules.forget(app_id)
        live.forget(app_id)
        hub.channels_changed(app_id)

    def everything_changed() -> None:
        channel_rules.forget_all()
        live.forget_all()

    async def close() -> None:
        await inspection.close()
        await hub.close()
        await channels.close()

    prepared.on_logged(hub.committed)
    floor.control.subscribe(Topic.APP, hub.app_changed, lambda: None)
    floor.control.subscribe(Topic.CHANGES, hub.wake, hub.wake_all)
    floor.control.subscribe(Topic.TABLE, hub.table_changed, hub.tables_changed)
    floor.control.subscribe(Topic.CHANNEL_RULES, channels_changed, everything_changed)
    floor.control.subscribe(Topic.LIVE_TICKETS, tickets.taken_over, lambda: None)
    floor.control.subscribe(Topic.LIVE_QUESTIONS, inspection.asked, lambda: None)
    floor.control.subscribe(Topic.CHANNELS, channels.wake, channels.wake_all)
    return RealtimeFeature(
        name="realtime",
        endpoints=[
            RealtimeEndpoints(realtime, tickets, channels),
            ChannelEndpoints(channel_rules, live, inspection),
        ],
        periodic=periodic(floor.database, tables.tables, floor.limits, occupancy),
        event_types=EVENT_TYPES,
        metrics=[
            Gauge("pilotis_live_streams", "Open live streams.", lambda: hub.streams),
            Gauge("pilotis_live_subscriptions", "Subscriptions of the open live streams.", lambda: hub.subscriptions),
            CounterOf(
                "pilotis_live_events_total",
                "Events of live streams: changes of rows, and messages of channels as they were sent.",
                "kind",
                lambda: {"change": hub.delivered, "message": channels.sent},
            ),
            hub.delays,
        ],
        close=close,
        hub=hub,
    )
