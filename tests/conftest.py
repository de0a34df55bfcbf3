"""One server for the whole run, a fresh app for each test."""

import itertools
import signal
from collections.abc import Iterator

import httpx
import hypothesis
import pytest
from playwright.async_api import expect

from tests.support import App, Server
from tests.waiting import PATIENCE

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)

# Whoever starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, and none refused for taking long; `pytest --hypothesis-profile default` looks for others.
hypothesis.settings.load_profile("ci")

# A busy machine takes longer than the 5 seconds that a client has where a test names no other time.
_default: httpx.Timeout = httpx.get.__kwdefaults__["timeout"]
for _phase in ("connect", "read", "write", "pool"):
    setattr(_default, _phase, PATIENCE)
expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The running server that most tests share."""
    running = Server(tmp_path_factory.mktemp("server") / "data").start()
    yield running
    running.stop()
    assert '"event":"failed"' not in running.logs(), "The server answered a request with a 500; see its log."


@pytest.fixture(scope="session")
def console(server: Server) -> dict[str, str]:
    """The first console user's sign-in: its tokens, id and e-mail."""
    return first_console_user(server)


def first_console_user(server: Server) -> dict[str, str]:
    """Make a server's first console user and return its sign-in."""
    body = {"email": "first@example.com", "password": PASSWORD, "token": server.setup_token}
    answer = httpx.post(f"{server.url}/v1/auth/signup", json=body, verify=False)
    assert answer.status_code == 201, answer.text
    return answer.json()


def new_app(server: Server, console: dict[str, str]) -> App:
    """Make an app that the console user owns."""
    headers = {"Authorization": f"Bearer {console['access_token']}"}
    body = {"name": f"app {next(_numbers)}"}
    answer = httpx.post(f"{server.url}/v1/apps", json=body, headers=headers, verify=False)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return App(server, made["app_id"], made["public_key"], made["secret_key"], console)


@pytest.fixture
def app(server: Server, console: dict[str, str]) -> App:
    """A fresh app."""
    return new_app(server, console)


@pytest.fixture
def other_app(server: Server, console: dict[str, str]) -> App:
    """A second fresh app."""
    return new_app(server, console)
