"""Certificates from Pebble, Let's Encrypt's own test server: two nodes, 200 domains, rejected nonces, refused names.

`go install github.com/letsencrypt/pebble/v2/cmd/pebble@latest`, and `python -m tests.long https`.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest

from tests import databases
from tests.certificates import Authority
from tests.conftest import first_console_user, new_app
from tests.database import connect
from tests.hosting.sites import new_site
from tests.http.test_proxies import running
from tests.https.servers import NAME, HttpsServer
from tests.https.test_acme import serial
from tests.name_server import name_server
from tests.waiting import reserved_port, until

DOMAINS = [f"shop{number}.example" for number in range(200)]
REFUSED = "blocked.example"
LOST = "moved.example"
MASTER_KEY = "5a" * 32

pytestmark = [pytest.mark.whole, pytest.mark.embedded("a second node is given its address")]


def database_url(server: HttpsServer) -> str:
    """The URL of a server's embedded database."""
    address = dict(databases.address(server.data_dir))
    database = address.pop("database", "pilotis")
    return f"postgresql:///{database}?{urlencode({key: str(value) for key, value in address.items()}, quote_via=quote)}"


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[tuple[HttpsServer, HttpsServer, Path]]:
    """Two nodes on one database, of which the second does no background work but is the one that Pebble looks at."""
    pebble = shutil.which("pebble")
    if pebble is None:
        pytest.skip("pebble is not installed")
    authority = Authority(tmp_path)
    pem = authority.certificate("127.0.0.1", "localhost", days=10).read_text()
    key, _, chain = pem.partition("-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "chain.pem").write_text("-----BEGIN CERTIFICATE-----" + chain)
    found = {name: [["127.0.0.1"]] for name in (NAME, REFUSED, *DOMAINS)} | {LOST: [["127.0.0.2"]]}
    async with AsyncExitStack() as opened:
        ports = [opened.enter_context(reserved_port()) for _ in range(7)]
        names = await opened.enter_async_context(name_server(addresses=found, by_tcp=True))
        configuration = {
            "listenAddress": f"127.0.0.1:{ports[0]}",
            "managementListenAddress": f"127.0.0.1:{ports[1]}",
            "certificate": str(tmp_path / "chain.pem"),
            "privateKey": str(tmp_path / "key.pem"),
            "httpPort": ports[5],
            "tlsPort": ports[6],
            "domainBlocklist": [REFUSED],
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "six days", "validityPeriod": 518400}},
        }
        (tmp_path / "pebble.json").write_text(json.dumps({"pebble": configuration}))
        command = [pebble, "-strict", "-config", str(tmp_path / "pebble.json"), "-dnsserver", names]
        variables = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "15"}
        opened.enter_context(running(command, ports[0], tmp_path / "pebble.log", **variables))
        settings = {
            "PILOTIS_HTTPS_DIRECTORY": f"https://127.0.0.1:{ports[0]}/dir",
            "PILOTIS_OUTGOING_CA_FILE": str(authority.ca_file),
            "PILOTIS_LIMITS_CERTIFICATES_PER_HOUR": "100000",
            "PILOTIS_MASTER_KEY": MASTER_KEY,
            "PILOTIS_BLOB_STORE": str(tmp_path / "blobs"),
        }
        first = HttpsServer(tmp_path / "first", ports[2], ports[3], "--https", NAME, **settings)
        first.start()
        opened.callback(first.stop)
        settings["PILOTIS_BACKGROUND"] = "none"
        arguments = ("--https", NAME, "--database-url", database_url(first))
        second = HttpsServer(tmp_path / "second", ports[4], ports[5], *arguments, **settings)
        second.start()
        opened.callback(second.stop)
        async with httpx.AsyncClient(verify=False) as client:
            root = (await client.get(f"https://127.0.0.1:{ports[1]}/roots/0")).text
        (tmp_path / "root.pem").write_text(root)
        yield first, second, tmp_path / "root.pem"


async def test_two_nodes_get_certificates_for_200_domains(nodes: tuple[HttpsServer, HttpsServer, Path]):
    first, second, root = nodes
    # An order that comes before the second node is repeated after a minute.
    await until(lambda: serial(first) is not None and serial(first) == serial(second), 300)
    assert second.get("/healthz", ca_file=root).status_code == 200

    site = await new_site(new_app(first, first_console_user(second)))
    await site.deploy({"index.html": b"home"})
    connection = await connect(first)
    await connection.executemany(
        """
        insert into pilotis.web_domains (app_id, storage_id, hostname, token, verified_at)
        values ($1, $2, $3, 'x', now())
        """,
        [(site.app.app_id, site.id, name) for name in (REFUSED, LOST, *DOMAINS)],
    )
    await connection.execute("select pg_notify('pilotis', 'site:domains')")

    async def all_served() -> bool:
        for name in (REFUSED, LOST, *DOMAINS):
            with suppress(OSError):
                await asyncio.to_thread(serial, first, name)
        issued = "select count(*) from pilotis.https_certificates where chain is not null"
        return await connection.fetchval(issued) == len(DOMAINS) + 1

    await until(all_served, 1200)
    for name in DOMAINS[::10]:
        assert second.get("/", name, root).text == "home"
    failed = await connection.fetch("select name, error from pilotis.https_certificates where chain is null")
    assert {name for name, _ in failed} == {REFUSED, LOST}
    assert all(error for _, error in failed)
    for node in (first, second):
        assert serial(node, REFUSED) is None
        assert serial(node, "stranger.example") is None
    ends = await connection.fetchrow("select not_before, not_after, renew_at from pilotis.https_certificates limit 1")
    assert ends["not_before"] < ends["renew_at"] < ends["not_after"]
    await connection.close()
    first.assert_no_failure()
    second.assert_no_failure()
