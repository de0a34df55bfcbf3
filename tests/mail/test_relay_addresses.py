"""A18: an app's SMTP server whose name leads inside once it was checked, and one from which STARTTLS is taken away."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import first_console_user, new_app
from tests.mail.smtp_server import SmtpServer
from tests.mail.test_settings import test_mail, use
from tests.name_server import name_server
from tests.support import App, Server
from tests.webhooks.test_addresses import GOOD, INSIDE, resolving_by

NAME_SERVER = "127.78.0.53"
OUTSIDE = "203.0.113.25"
"""An address for documentation (RFC 5737), which is this machine's own in the network namespace of a test."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root may listen on port 53 and replace a file"
)


@pytest.fixture(scope="module")
async def outside(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app on a server that is not on loopback, as far as it knows, and asks the test's name server."""
    folder = tmp_path_factory.mktemp("relays")
    environment = {"PILOTIS_BASE_URL": "https://api.example.com", "PILOTIS_OUTGOING_NETWORKS": f"{GOOD}/32"}
    names = {f"{name}.test": [[GOOD], found] for name, found in INSIDE.items()}
    async with name_server(addresses={**names, "good.test": [[GOOD]]}, listening=(NAME_SERVER, 53)):
        server = Server(folder / "data", environment=environment, wrapper=resolving_by(NAME_SERVER, folder))
        await asyncio.to_thread(server.start)
        try:
            yield new_app(server, first_console_user(server))
        finally:
            await asyncio.to_thread(server.stop)


async def test_a_relay_of_an_allowed_address_is_used(outside: App):
    """Otherwise the refusals below could have any reason."""
    async with SmtpServer(host=GOOD).listening() as smtp:
        await use(outside, smtp.url("good.test"))
        assert (await test_mail(outside))["state"] == "sent"


async def test_a18_a_name_that_leads_inside_once_it_was_checked_is_not_followed(outside: App):
    async with SmtpServer().listening() as canary:
        for name in INSIDE:
            await use(outside, canary.url(f"{name}.test"))
            failed = await test_mail(outside)
            reply = "The host has an address that must not be called from here."
            assert (failed["state"], failed["reply"]) == ("failed", reply), name
    assert (canary.connections, canary.commands) == (0, [])


async def test_a18_without_starttls_neither_password_nor_mail_leaves(tmp_path: Path):
    """On an address that is not this machine's: the program is in a network of its own, which has it."""
    setting_up = f'ip link set lo up; ip address add {OUTSIDE}/32 dev lo; exec "$@"'
    program = [sys.executable, "-m", "tests.mail.stripped", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--net", "sh", "-euc", setting_up, "sh", *program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    results: dict[str, dict[str, Any]] = json.loads(told)
    # With TLS it is sent: so the others fail for the want of it.
    assert results.pop("whole") == {"reply": "2.0.0 taken", "taken": [True], "commands": results_of_whole()}
    for name, result in results.items():
        assert result["taken"] == [], name
        assert not {"AUTH", "MAIL", "RCPT", "DATA"} & set(result["commands"]), (name, result)
        assert result["reply"] is None, name
    assert set(results) == {"not offered", "refused", "unknown", "answered ahead"}


def results_of_whole() -> list[str]:
    return ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"]
