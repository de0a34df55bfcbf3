"""A target kind for tests, and a separate node that supports it."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from pilotis.events.types import Event, Target
from pilotis.kit.ids import uuid7
from pilotis.settings import Settings
from tests.database import DEFAULTS
from tests.services import Node, address
from tests.support import App, Server
from tests.waiting import PATIENCE


class Recorder:
    """A kind of target that keeps what it is given in memory, once the transaction has committed.

    With `apps` it passes over the events of others, such as what an earlier test has left in the shared database.
    """

    name = "test"

    def __init__(self, *apps: App) -> None:
        self.app_ids = {UUID(app.app_id) for app in apps}
        # Two dispatches of one node may overlap; each runs in its own task.
        self.pending: dict[asyncio.Task[Any] | None, list[Event]] = {}
        self.events: list[Event] = []
        self.failing: set[int] = set()

    async def take(self, connection: Any, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:
        rows = [json.loads(event.data).get("row", {"data": {}}) for event, _ in matched]
        if any(row["data"].get("n") in self.failing for row in rows):
            raise ValueError("cannot be taken")
        wanted = not self.app_ids or app_id in self.app_ids
        self.pending[asyncio.current_task()] = [event for event, _ in matched if wanted]

    def taken(self, app_id: UUID) -> None:
        self.events += self.pending.pop(asyncio.current_task())

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def data(self) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.events]


@asynccontextmanager
async def listening_node(server: Server, recorder: Recorder) -> AsyncIterator[Node]:
    """A separate node on the server's database, which supports the test's target kind and does background work."""
    settings = Settings(data_dir=str(server.data_dir), limits=DEFAULTS, statement_seconds=PATIENCE, stop_seconds=1)
    node = Node(settings, address(server), server.url, targets=[recorder])
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def target(app: App, types: Sequence[str] = ("row.*",), table_ids: Sequence[str] | None = None) -> Target:
    tables = None if table_ids is None else [UUID(table_id) for table_id in table_ids]
    return Target(app_id=UUID(app.app_id), kind="test", target_id=uuid7(), types=list(types), table_ids=tables)
