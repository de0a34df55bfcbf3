"""A server whose webhooks retry within a second, apps on it, and a receiver."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.certificates import Authority
from tests.conftest import first_console_user, new_app
from tests.console import second_node
from tests.receiver import Receiver
from tests.services import Node
from tests.support import App, Server
from tests.waiting import reserved_port
from tests.webhooks.world import FAST


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority whose certificates the server accepts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def fast_server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Server]:
    """A server with a short schedule."""
    with reserved_port() as port:
        environment = {
            **FAST,
            "PILOTIS_OUTGOING_CA_FILE": str(authority.ca_file),
            "PILOTIS_METRICS_PORT": str(port),
        }
        running = Server(tmp_path_factory.mktemp("webhooks") / "data", environment=environment).start()
        yield running
        running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="session")
def fast_console(fast_server: Server) -> dict[str, str]:
    return first_console_user(fast_server)


@pytest.fixture
def app(fast_server: Server, fast_console: dict[str, str]) -> App:
    """A fresh app."""
    return new_app(fast_server, fast_console)


@pytest.fixture
def other_app(fast_server: Server, fast_console: dict[str, str]) -> App:
    """A second fresh app."""
    return new_app(fast_server, fast_console)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver on loopback."""
    async with Receiver.listening() as listening:
        yield listening


@pytest.fixture
async def node(fast_server: Server) -> AsyncIterator[Node]:
    """A second node on the server's database."""
    async with second_node(fast_server) as started:
        yield started
