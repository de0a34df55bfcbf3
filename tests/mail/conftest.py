"""A server that trusts an authority of the tests, and apps on it."""

import hashlib
from collections.abc import Iterator

import pytest

from tests.backstage import run_sql
from tests.certificates import Authority
from tests.conftest import first_console_user, new_app
from tests.support import App, Server

BREACHED_PASSWORD = "wrong horse battery staple"
BREACHED = hashlib.sha1(BREACHED_PASSWORD.encode(), usedforsecurity=False).hexdigest().upper()
"""The digest of a password that was found in a breach, as the server's directory says."""
PADDING = BREACHED[:5] + "F" * 35


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority whose certificates the server accepts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def mail_server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Server]:
    """A server without SMTP of its own, with short budgets' windows left as they are."""
    environment = {"PILOTIS_OUTGOING_CA_FILE": str(authority.ca_file)}
    environment["PILOTIS_LIMITS_MAIL_REQUESTS_PER_MINUTE"] = "100000"
    breached = tmp_path_factory.mktemp("breached")
    (breached / BREACHED[:5]).write_text(f"{'0' * 35}:9\r\n{BREACHED[5:]}:12\r\n{PADDING[5:]}:0\r\n", "ascii")
    environment["PILOTIS_BREACHED_PASSWORDS"] = str(breached)
    running = Server(tmp_path_factory.mktemp("mail") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="session")
def mail_console(mail_server: Server) -> dict[str, str]:
    return first_console_user(mail_server)


@pytest.fixture
async def app(mail_server: Server, mail_console: dict[str, str]) -> App:
    """A fresh app, for whose mails those of other tests do not count: an address has one budget at all apps."""
    await run_sql(mail_server, "delete from pilotis.rate_limits where key like 'proof:%'")
    return new_app(mail_server, mail_console)


@pytest.fixture
def other_app(mail_server: Server, mail_console: dict[str, str]) -> App:
    """A second fresh app."""
    return new_app(mail_server, mail_console)
