"""The short form of `tests/files/crash.py`, and what is left of an upload whose process was killed."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from tests import databases
from tests.acceptance.test_files import PNG, permit, send, storage
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.files.crash import Crash
from tests.support import Server
from tests.waiting import until


async def test_a_killed_server_loses_nothing_and_leaves_nothing(tmp_path: Path):
    outcome = await Crash(tmp_path, uploads=15, seed=2).run()
    assert outcome.kills >= 1
    assert outcome.completed >= 3
    assert outcome.pieces >= 3


async def test_an_upload_that_a_killed_process_was_receiving_can_be_repeated_at_once(tmp_path: Path):
    """The successor of a dead process does not wait for the end of the lease on an upload.

    On a database that outlives the server it waits for the end of the dead process' own lease, which is shorter: there
    the process may be another server's, and alive.
    """
    server = Server(tmp_path / "data").start()
    try:
        app = new_app(server, first_console_user(server))
        base = await storage(app)
        async with app.client() as client:
            permitted = await permit(client, base)
        address = urlsplit(permitted["upload_url"])
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        head = [f"PUT {address.path}?{address.query} HTTP/1.1", f"Host: {address.netloc}", "Content-Type: image/png"]
        writer.write("\r\n".join([*head, f"Content-Length: {len(PNG)}", "", ""]).encode() + PNG[:10])
        receiving = "select state = 'receiving' from pilotis.uploads"
        await until(lambda: run_sql(server, receiving))
        await run_sql(server, "update pilotis.uploads set lease_until = now() + interval '1 day'")
        await asyncio.to_thread(server.kill)
        writer.close()
        await asyncio.to_thread(server.start)
        moved = urlsplit(server.url).netloc
        permitted["upload_url"] = address._replace(netloc=moved).geturl()
        if databases.is_embedded():
            sent = await send(permitted)
            assert sent.status_code == 200, sent.text
        else:

            async def is_sent() -> bool:
                return (await send(permitted)).status_code == 200

            await until(is_sent)
    finally:
        await asyncio.to_thread(server.stop)
