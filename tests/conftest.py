"""One server for the whole run, a fresh app for each test."""

import functools
import gc
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
from httpx import _client as clients
from httpx._transports import default as transports
from playwright.async_api import Browser, expect

from pilotis.blobs.check import send
from pilotis.blobs.presign import Presigner
from tests import connections, databases, longest_first, skipped
from tests.blobs import swift, versity
from tests.chromium import chromium
from tests.functions.support import Functions, require_sandboxes
from tests.support import App, Server
from tests.waiting import PATIENCE, reserved_port
from tests.whole import WHOLE, left_out, times
from tests.workflows.support import Workflows

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)

# Tests started in the background ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What has been imported stays; to look through it again and again takes a tenth of the time of a process with tests.
gc.freeze()
gc.set_threshold(50_000, 20, 100)

# The same examples each time, and none refused for taking long; `pytest --hypothesis-profile default` looks for others.
_usual = hypothesis.settings(hypothesis.settings.get_profile("ci"), max_examples=times(15, whole=100))
hypothesis.settings.register_profile("usual", _usual)
hypothesis.settings.load_profile("usual")

# A busy machine takes longer than the 5 seconds that a client has where a test names no other time.
_default: httpx.Timeout = httpx.get.__kwdefaults__["timeout"]
for _phase in ("connect", "read", "write", "pool"):
    setattr(_default, _phase, PATIENCE)
expect.set_options(timeout=PATIENCE * 1000)

connections.use()

# Each client would load the certificates again, which only HTTPS needs: 17 ms, thousands of times.
_load = functools.cache(lambda of, *arguments: _create(*arguments))
_create = transports.create_ssl_context
transports.create_ssl_context = lambda verify=True, cert=None, trust_env=True: _load(
    os.environ.get("SSL_CERT_FILE"), verify, cert, trust_env
)

# Each client would look through the whole environment for proxies, of which no test names one.
clients.get_environment_proxies = functools.cache(clients.get_environment_proxies)

# httpcore looks for this optional package several times in each request, and Python then searches every directory.
sys.modules["sniffio"] = None  # type: ignore[assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--database-url", help="run on fresh databases beside this one, in place of embedded ones")
    parser.addoption("--failures", metavar="FILE", help="append the names of failed tests to the file")
    parser.addoption("--again", metavar="FILE", help="append to this file those of them that may run once more")
    longest_first.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    longest_first.configure(config)
    if url := config.getoption("--database-url"):
        databases.use(url)
        config.option.reportchars += "s"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("with_citus") and not databases.have_citus():
            item.add_marker(pytest.mark.skip(reason="needs a database with Citus, by --database-url"))
        if config.getoption("--database-url") and (mark := item.get_closest_marker("embedded")):
            item.add_marker(pytest.mark.skip(reason=f"needs the embedded database: {mark.args[0]}"))
        if databases.have_citus() and (mark := item.get_closest_marker("without_citus")):
            item.add_marker(pytest.mark.skip(reason=f"needs a database without Citus: {mark.args[0]}"))
    if not WHOLE:
        left = {item for item in items if item.get_closest_marker("whole")}
        # What is named runs, whichever cases the sample has.
        if not any("::" in name for name in config.option.file_or_dir):
            left |= left_out(items)
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if told := skipped.lines(terminalreporter.getreports("skipped")):
        terminalreporter.section("skipped")
        terminalreporter.write("\n".join(told) + "\n")
    failures = config.getoption("--failures")
    # What a shared server's end tells, such as an answer of 500, would not come back.
    again = config.getoption("--again") or failures
    for kind in ("failed", "error"):
        for report in terminalreporter.getreports(kind):
            if path := again if report.when in {"setup", "call"} else failures:
                with Path(path).open("a") as file:
                    file.write(f"{report.nodeid}\n")


def pytest_unconfigure() -> None:
    databases.drop_all()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The running server that most tests share."""
    running = Server(tmp_path_factory.mktemp("server") / "data").start()
    yield running
    running.stop()
    running.assert_no_failure()


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


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A browser; each context that it opens has its own cookies and cache."""
    async with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def measured_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the module's own that serves `/metrics`."""
    with reserved_port() as port:
        environment = {"PILOTIS_METRICS_PORT": str(port)}
        running = Server(tmp_path_factory.mktemp("metrics") / "data", environment=environment).start()
        yield running
        running.stop()


@pytest.fixture(scope="session")
def sandboxes() -> None:
    """Skip where no function can run."""
    require_sandboxes()


@pytest.fixture
async def functions(app: App, sandboxes: None) -> AsyncIterator[Functions]:
    """The app's functions."""
    made = Functions(app)
    yield made
    await made.console.aclose()


@pytest.fixture
async def workflows(app: App) -> AsyncIterator[Workflows]:
    """The app's workflows."""
    made = Workflows(app)
    yield made
    await made.console.aclose()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[swift.Swift | versity.Versity]:
    """A real server that speaks S3, with one bucket: Swift, or the one that `TEST_S3_SERVER` names."""
    root, name = tmp_path_factory.mktemp("s3"), os.environ.get("TEST_S3_SERVER", "swift")
    try:
        running = versity.Versity(root) if name == "versitygw" else swift.Swift(root)
    except swift.UnavailableError as error:
        pytest.skip(str(error))
    make_bucket = Presigner(running.endpoint, swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)
    status, _ = send("PUT", make_bucket.sign("PUT", swift.BUCKET, expires_seconds=60), {})
    assert status == 200
    if isinstance(running, versity.Versity):
        running.allow_browsers()
    yield running
    running.stop()


@pytest.fixture
def s3_url(s3_server: swift.Swift | versity.Versity) -> str:
    return s3_server.url(swift.BUCKET, f"test-{next(_numbers)}")
