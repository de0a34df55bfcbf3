"""The server without what macOS lacks: `portable/sitecustomize.py` takes it away.

It shows that nothing of Linux is needed, and what stands in its place works; a Mac it does not replace.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotis.db.embedded.lockfile import read_postmaster
from tests.conftest import first_console_user, new_app
from tests.console import database_of
from tests.functions.support import Functions
from tests.hosting.sites import PAGES, new_site
from tests.receiver import Receiver
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import is_running, wait_until
from tests.webhooks.world import create
from tests.workflows.support import Workflows

pytestmark = pytest.mark.embedded("it is about the embedded database")
PORTABLE = {"PYTHONPATH": str(Path(__file__).parent / "portable")}
# As deep as a folder of a user's may lie, with spaces and letters that file systems write in several ways.
DEEP = f"Bücher und Möbel {'é' * 60}/{'x' * 80}"
SOURCES = {
    "javascript": "export default async ({ n }, ctx) =>\n"
    "    ({ twice: n * 2, row: await ctx.api.rows('notes').create({ n }) });\n",
    "python": "async def handler(payload, ctx):\n"
    "    return {'twice': payload['n'] * 2, 'row': await ctx.api.rows('notes').create(payload)}\n",
}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # Only through /proc could root's server give its directory to the user of PostgreSQL.
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o711)
        data = Path(base, DEEP, "data")
        data.mkdir(parents=True)
        yield data


@pytest.fixture(scope="module")
def portable(place: Path) -> Iterator[Server]:
    running = Server(place, environment=PORTABLE).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def own(portable: Server) -> App:
    return new_app(portable, first_console_user(portable))


def test_the_server_is_told_that_it_runs_on_macos() -> None:
    program = "import pilotis.functions.runtime.users as a, pilotis.db.embedded.account as b, sys\n"
    program += "print(a.platform.system(), b.sys.platform, sys.platform, hasattr(b.os, 'pidfd_open'))"
    printed = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | PORTABLE, capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["Darwin", "darwin", "linux", "False"]


async def test_members_rows_and_sites_work(own: App) -> None:
    table = await own.table({"text": "string"})
    member = await own.member()
    row = await own.row(table, {"text": "Hello"}, member["access_token"])
    async with own.client() as client:
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()["data"] == {"text": "Hello"}
    site = await new_site(own)
    await site.deploy(PAGES)
    await site.promote()
    assert (await site.get("/about")).content == PAGES["about.html"]
    # Safari may not find names below localhost: the site has a port of its own.
    url = site.storage["url"]
    assert re.fullmatch(r"http://localhost:\d+", url)
    async with plain_client(url) as client:
        assert (await client.get("/about")).content == PAGES["about.html"]
        assert (await client.get("/about", headers={"Host": "evil.example"})).status_code == 404
        # Nothing of the server itself is there.
        assert (await client.get("/console")).content == PAGES["index.html"]


@pytest.mark.parametrize("runtime", SOURCES)
async def test_functions_and_workflows_run_as_ones_own_code(own: App, runtime: str) -> None:
    await own.table({"n": "number"}, title="notes") if runtime == "javascript" else None
    functions, workflows = Functions(own), Workflows(own)
    async with functions.console, workflows.console:
        function_id = await functions.made(f"twice-{runtime}", SOURCES[runtime], runtime, scopes=["rows:write"])
        result = await functions.value(f"twice-{runtime}", {"n": 21})
        assert (result["twice"], result["row"]["data"]) == (42, {"n": 21})
        step = {"id": "twice", "step_type": "function", "function_id": function_id, "input_mapping": {"n": 4}}
        ran = await workflows.ran([step], name=f"flow-{runtime}")
        assert ran["status"] == "completed", ran
        states = (await functions.console.get(f"/v1/apps/{own.app_id}/runtime")).json()["runtimes"]
    found = next(one for one in states if one["name"] == runtime)
    assert found["isolation"] == {"javascript": "permissions", "python": "own-code"}[runtime]
    assert "for your own code only" in found["reason"]


async def test_a_webhook_is_delivered_also_after_the_lid_was_closed(portable: Server, own: App) -> None:
    async with Receiver.listening() as receiver, own.client() as client, database_of(portable) as connection:
        webhook = await create(own, receiver.url(), ["member.created"])
        await own.member("grace")
        await webhook.ended()
        # Stopped for ten minutes, as far as the database knows: all that the server has leased is over.
        portable.process.send_signal(signal.SIGSTOP)
        await connection.execute("update pilotis.nodes set lease_until = now() - interval '10 minutes'")
        portable.process.send_signal(signal.SIGCONT)
        assert (await client.get("/readyz")).status_code == 200
        await own.member("linus")
        await webhook.ended(2)
    assert len(receiver.received) == 2


def test_a_second_server_on_the_directory_names_the_first(portable: Server) -> None:
    second = Server(portable.data_dir, environment=PORTABLE)
    with pytest.raises(AssertionError, match=str(portable.process.pid)):
        second.start()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_postgresql_and_workers_end_with_a_killed_server(portable: Server, own: App, workers: str) -> None:
    site = await new_site(own)
    await site.deploy(PAGES)
    portable.stop()
    # It takes the disk for full from the beginning: nothing is written, and reading goes on.
    full = {**PORTABLE, "PILOTIS_WRITE_RESERVE_BYTES": str(2**50)}
    again = Server(portable.data_dir, "--workers", workers, environment=full).start()
    async with plain_client(again.url, **{"X-Public-Key": own.public_key}) as client:
        assert (await client.get("/v1/public/tables")).status_code == 200
        body = {"title": "no room", "schema": {}, "access_level": "Public"}
        assert_error(await client.post("/v1/public/tables", json=body), 507, "STORAGE_FULL")
    postmaster = read_postmaster(portable.data_dir / "postgres")
    forked = [int(pid) for pid in _printed("pgrep", "-P", str(again.process.pid)).split()]
    assert postmaster.pid in forked
    again.kill()
    wait_until(lambda: not any(map(is_running, forked)))
    begun = time.monotonic()
    portable.start()
    assert time.monotonic() - begun < 60
    # A site's own port is the same again, once the server has begun to answer.
    assert (await site.get("/")).content == PAGES["index.html"]
    async with plain_client(site.storage["url"]) as client:
        assert (await client.get("/style.css")).content == PAGES["style.css"]


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
