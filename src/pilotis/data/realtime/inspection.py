"""What an app's live streams are told, on all processes: for those who look after the app.

Streams are in the memory of the process that holds them. Whoever asks notifies the others, each of which leaves a
report of its own, and waits until all that are alive have answered, or for a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import asyncpg
import structlog

from pilotis.data.realtime import report_store
from pilotis.data.realtime.hub import Hub
from pilotis.data.realtime.stream import LiveStream, Subscription
from pilotis.data.realtime.types import InspectedChannel, InspectedStream, InspectedSubscription, LiveNode, LiveStreams
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import PilotisError

MAX_SHOWN = 200
"""How many streams are shown at most, those first that read too slowly, then the newest."""
_WAIT_SECONDS = 1.0
_LOOK_SECONDS = 0.03

_log = structlog.get_logger("pilotis.realtime")
_reports = json.decoder(LiveStreams)


class Inspection:
    """Reports of the live streams of this process and of all."""

    def __init__(self, database: Database, hub: Hub, control: Control, node_id: Callable[[], UUID]) -> None:
        self._database = database
        self._hub = hub
        self._control = control
        self._node_id = node_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: set[UUID] = set()

    async def shown(self, app_id: UUID) -> LiveStreams:
        """Return the streams of an app on all processes."""
        nodes = await report_store.nodes(self._database, app_id)
        own = self._node_id()
        reports = {own: self._report(app_id, own, nodes.get(own, ""))}
        if others := nodes.keys() - {own}:
            for node_id, report in (await self._answers(app_id, others)).items():
                reports[node_id] = _named(report, nodes.get(node_id, ""))
        return LiveStreams(
            nodes=[node for report in reports.values() for node in report.nodes],
            silent=sorted(nodes[node_id] for node_id in nodes.keys() - reports.keys()),
            total_count=sum(report.total_count for report in reports.values()),
            streams=_first([stream for report in reports.values() for stream in report.streams]),
        )

    async def _answers(self, app_id: UUID, others: set[UUID]) -> dict[UUID, LiveStreams]:
        question = uuid4()
        self._questions.add(question)
        try:
            self._control.publish_soon(Topic.LIVE_QUESTIONS, f"{app_id}/{question}", at_once=True)
            deadline = time.monotonic() + _WAIT_SECONDS
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                found = await report_store.answers(self._database, app_id, question)
                if found.keys() >= others or time.monotonic() >= deadline:
                    return {node_id: json.decode(report.encode(), _reports) for node_id, report in found.items()}
        finally:
            self._questions.discard(question)

    def asked(self, key: str) -> None:
        """Answer the question of a process, unless it is of this one."""
        app_id, _, question = key.partition("/")
        if UUID(question) not in self._questions:
            task = asyncio.create_task(self._answer(UUID(app_id), UUID(question)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, app_id: UUID, question: UUID) -> None:
        report = json.encode(self._report(app_id, self._node_id(), "")).decode()
        try:
            await report_store.answer(self._database, app_id, question, self._node_id(), report)
        except (PilotisError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            _log.warning("live streams not reported")

    async def close(self) -> None:
        """Let the answers end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                await asyncio.gather(*self._tasks)

    def _report(self, app_id: UUID, node_id: UUID, name: str) -> LiveStreams:
        feed = self._hub.feed(app_id)
        streams = [] if feed is None else list(feed.streams)
        node = LiveNode(
            node_id=str(node_id),
            name=name,
            streams=len(streams),
            subscriptions=sum(len(stream.subscriptions) for stream in streams),
            channels=len({name for stream in streams for name in stream.channels}),
            told=0 if feed is None else feed.told,
            delay_ms=None if feed is None else feed.delay_ms(0.5),
            slowest_ms=None if feed is None else feed.delay_ms(1.0),
        )
        shown = _first([_stream(stream, str(node_id)) for stream in _chosen(streams)])
        return LiveStreams(nodes=[node], silent=[], total_count=len(streams), streams=shown)


def _chosen(streams: Sequence[LiveStream]) -> list[LiveStream]:
    by_age = sorted(streams, key=lambda stream: stream.opened_at, reverse=True)
    return sorted(by_age, key=lambda stream: -stream.unsent)[:MAX_SHOWN]


def _first(streams: list[InspectedStream]) -> list[InspectedStream]:
    by_age = sorted(streams, key=lambda stream: stream.opened_at, reverse=True)
    return sorted(by_age, key=lambda stream: -stream.unsent_bytes)[:MAX_SHOWN]


def _named(report: LiveStreams, name: str) -> LiveStreams:
    for node in report.nodes:
        node.name = name
    return report


def _stream(stream: LiveStream, node_id: str) -> InspectedStream:
    return InspectedStream(
        id=stream.shown_id,
        node_id=node_id,
        caller=stream.principal.kind,
        member_id=stream.member_id,
        address=stream.address,
        opened_at=rfc3339(stream.opened_at),
        told=stream.told,
        told_at=None if stream.told_at is None else rfc3339(stream.told_at),
        unsent_bytes=stream.unsent,
        is_slow=stream.is_slow,
        subscriptions=[_subscription(one) for one in stream.subscriptions.values()],
        channels=[
            InspectedChannel(name=one.name, is_present=one.presence is not None) for one in stream.channels.values()
        ],
    )


def _subscription(one: Subscription) -> InspectedSubscription:
    return InspectedSubscription(
        id=one.name,
        table_id=str(one.table_id),
        where=None if one.where is None else dict(one.where),
        row_id=None if one.row_id is None else str(one.row_id),
        told=one.told,
        resets=one.resets,
        reset_reason=one.reset_reason,
    )
