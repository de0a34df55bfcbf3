"""A node that subscribes to events, and the events that it receives."""

from collections.abc import AsyncIterator

import pytest

from tests.events.listening import Recorder, listening_node
from tests.services import Node
from tests.support import App, Server


@pytest.fixture
async def recorder(app: App, other_app: App) -> Recorder:
    return Recorder(app, other_app)


@pytest.fixture
async def node(server: Server, recorder: Recorder) -> AsyncIterator[Node]:
    async with listening_node(server, recorder) as node:
        yield node
