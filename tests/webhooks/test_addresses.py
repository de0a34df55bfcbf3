"""Where deliveries of a server on the open network may go: never inside, whatever a URL or a name server says.

The server has a name server of the test's, which changes its answers, and one allowed network, 127.0.0.2/32, which
plays the public internet. What listens at any other address of loopback is a canary.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.conftest import first_console_user, new_app
from tests.console import database_of
from tests.http.test_outgoing_guard import LITERALS
from tests.name_server import SILENT, name_server
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks.world import FAST, Webhook, console, create, status

NAME_SERVER = "127.77.0.53"
GOOD = "127.0.0.2"
INSIDE = {
    "loopback": ["127.0.0.1"],
    "here": ["0.0.0.0"],
    "metadata": ["169.254.169.254"],
    "private": ["10.0.0.1"],
    "shared": ["100.64.0.1"],
    "six": ["::1"],
    "mapped": ["::ffff:127.0.0.1"],
    "nat64": ["64:ff9b::7f00:1"],
    "local": ["fd12:3456::1"],
    "good-and-bad": [GOOD, "127.0.0.1"],
    "bad-and-good": ["127.0.0.1", GOOD],
    "good-and-six": [GOOD, "::1"],
}
"""What names change to once they were checked."""
SLOW = {f"slow-{number}.test": [[GOOD], SILENT] for number in range(24)}
"""Names about which no questions are answered once they were checked."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root may listen on port 53 and replace a file"
)


@pytest.fixture(scope="module")
async def outside(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app on a server that is not on loopback, as far as it knows, and asks the test's name server."""
    folder = tmp_path_factory.mktemp("outside")
    environment = {
        **FAST,
        "PILOTIS_BASE_URL": "https://api.example.com",
        "PILOTIS_OUTGOING_NETWORKS": f"{GOOD}/32",
    }
    names = {f"{name}.test": [[GOOD], found] for name, found in INSIDE.items()}
    async with name_server(addresses={**names, "good.test": [[GOOD]], **SLOW}, listening=(NAME_SERVER, 53)):
        server = Server(folder / "data", environment=environment, wrapper=resolving_by(NAME_SERVER, folder))
        await asyncio.to_thread(server.start)
        try:
            yield new_app(server, first_console_user(server))
        finally:
            await asyncio.to_thread(server.stop)


def resolving_by(address: str, folder: Path) -> list[str | Path]:
    """A command whose mount namespace (mount_namespaces(7)) has other files that say how names are resolved."""
    (folder / "resolv.conf").write_text(f"nameserver {address}\n")
    (folder / "nsswitch.conf").write_text("hosts: files dns\n")
    script = 'for file in resolv.conf nsswitch.conf; do mount --bind "$0/$file" "/etc/$file"; done; exec "$@"'
    return ["unshare", "--mount", "sh", "-euc", script, folder]


async def reasons(webhook: Webhook) -> set[tuple[str, str | None]]:
    """How the attempts of all the webhook's deliveries have ended."""
    return {(one["status"], attempt["error"]) for one in await webhook.ended() for attempt in one["attempts"]}


async def test_a_name_of_an_allowed_address_is_called(outside: App):
    """Otherwise the refusals below could have any reason."""
    table_id = await outside.table({"n": "int"})
    async with Receiver.listening(host=GOOD) as receiver:
        webhook = await create(outside, receiver.url(host="good.test"), ["row.created"], table_ids=[table_id])
        await outside.row(table_id, {"n": 1})
        assert await reasons(webhook) == {("succeeded", None)}
        assert receiver.received[0].headers["host"] == f"good.test:{receiver.port}"


async def test_a_name_that_is_rebound_after_its_check_is_not_called(outside: App):
    """DNS rebinding: the name was good when the webhook was saved. Each attempt asks again, and connects nowhere."""
    table_id = await outside.table({"n": "int"})
    async with Receiver.listening(host="0.0.0.0") as canary, Receiver.listening(host="::1") as other:
        webhooks = {}
        for name, found in INSIDE.items():
            listening = other if any(":" in one for one in found) else canary
            url = listening.url(host=f"{name}.test")
            webhooks[name] = await create(outside, url, ["row.created"], table_ids=[table_id])
        await outside.row(table_id, {"n": 1})
        for name, webhook in webhooks.items():
            assert await reasons(webhook) == {("failed", "ADDRESS_NOT_ALLOWED")}, name
            result = await webhook.call("POST", "/test", json={})
            assert (result["error"], result["status_code"]) == ("ADDRESS_NOT_ALLOWED", None), name
            assert result["response_excerpt"] is None
        assert canary.connections == other.connections == 0


async def test_slow_name_servers_of_one_app_delay_no_other(outside: App):
    """Their lookups take 5 seconds each, which only this app waits for."""
    slow, table_id = new_app(outside.server, outside.console), await outside.table({"n": "int"})
    attack_id = await slow.table({"n": "int"})
    attack = [await create(slow, f"https://{name}/", ["row.created"], table_ids=[attack_id]) for name in SLOW]
    async with Receiver.listening(host=GOOD) as receiver:
        webhook = await create(outside, receiver.url(host="good.test"), ["row.created"], table_ids=[table_id])
        for number in range(10):
            await slow.row(attack_id, {"n": number})
            await outside.row(table_id, {"n": number})
        ended = await webhook.ended(10)
        assert [(one["status"], len(one["attempts"])) for one in ended] == [("succeeded", 1)] * 10
    for one in attack:
        await one.call("DELETE", "")


async def test_no_spelling_of_an_inside_address_is_saved(outside: App):
    async with Receiver.listening(host="0.0.0.0") as canary, console(outside) as client:
        for host in LITERALS:
            for scheme in ("http", "https"):
                body = {"url": f"{scheme}://{host}:{canary.port}/", "event_types": ["*"]}
                answer = await client.post("/webhooks", json=body)
                assert answer.status_code == 400, host
                assert answer.json()["code"] in {"ADDRESS_NOT_ALLOWED", "INVALID_URL"}, host
        assert canary.connections == 0


async def test_one_that_was_saved_nevertheless_is_not_called(outside: App):
    """As a URL that was saved while a network was allowed, and is not any more."""
    table_id = await outside.table({"n": "int"})
    async with Receiver.listening(host="0.0.0.0") as canary:
        webhook = await create(outside, canary.url(host=GOOD), ["row.created"], table_ids=[table_id])
        for host in ("127.0.0.1", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]"):
            async with database_of(outside.server) as database:
                await database.execute(
                    "update pilotis.webhooks set url = $2 where webhook_id = $1",
                    UUID(webhook.id),
                    canary.url(host=host),
                )
            result = await webhook.call("POST", "/test", json={})
            assert result["error"] == "ADDRESS_NOT_ALLOWED", host
        # What a process has read of a webhook counts for a second.
        await asyncio.sleep(1.1)
        await outside.row(table_id, {"n": 1})

        async def failed() -> bool:
            found = [one for one in await webhook.logs() if not one["is_test"]]
            return bool(found) and found[0]["status"] == "failed"

        await until(failed)
        assert canary.connections == 0


async def test_a_redirect_leads_nowhere(outside: App):
    async with Receiver.listening(host="127.0.0.1") as canary, Receiver.listening(host=GOOD) as receiver:
        for location in (canary.url(), receiver.url("/other", host=GOOD), "//127.0.0.1/", "file:///etc/passwd"):
            receiver.answers["/"] = status(302, f"Location: {location}")
            webhook = await create(outside, receiver.url(host=GOOD))
            result = await webhook.call("POST", "/test", json={})
            assert (result["status_code"], result["error"]) == (302, "REDIRECT")
        assert canary.connections == 0
        assert {request.path for request in receiver.received} == {"/"}
