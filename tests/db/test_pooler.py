"""Behind PgBouncer in transaction mode many clients share few connections, and what needs its own connection has it."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from pilotis.db.connecting import session_parameters
from tests import forked
from tests.acceptance.test_files import storage, upload
from tests.conftest import first_console_user, new_app
from tests.database_proxy import proxied
from tests.services import connected
from tests.support import GENEROUS, App, Server
from tests.waiting import reserved_port, until

OLDEST = (1, 21)
POOLED = 3


def pgbouncer() -> str | None:
    """The program, if it is there and keeps prepared statements."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/bin:/usr/local/sbin")
    if program is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", told)
    return program if version and (int(version[1]), int(version[2])) >= OLDEST else None


pytestmark = [
    pytest.mark.embedded("it makes a role"),
    pytest.mark.skipif(pgbouncer() is None, reason="needs PgBouncer 1.21 or newer"),
]


class Pooled(NamedTuple):
    """A server behind a pooler, and the name of its role and database."""

    server: Server
    name: str
    settings: dict[str, str]


@pytest.fixture
async def pooled(server: Server, tmp_path: Path) -> AsyncIterator[Pooled]:
    name = f"pooled_{uuid4().hex[:12]}"
    parameters = session_parameters(float(GENEROUS["PILOTIS_STATEMENT_SECONDS"]))
    async with connected(server) as connection:
        await connection.execute(f"create role {name} login createdb")
        await connection.execute(f"create database {name} owner {name}")
        for parameter, value in parameters.items():
            await connection.execute(f"alter role {name} set {parameter} = '{value}'")
    async with AsyncExitStack() as stack:
        _, direct = await stack.enter_async_context(proxied(server))
        # PgBouncer binds to it as well: both allow that (`reserved_port`).
        port = stack.enter_context(reserved_port())
        config = tmp_path / "pgbouncer.ini"
        config.write_text(
            f"""
            [databases]
            {name} = host=127.0.0.1 port={direct["port"]} user={name}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {port}
            unix_socket_dir =
            auth_type = any
            pool_mode = transaction
            default_pool_size = {POOLED}
            max_prepared_statements = 300
            user = nobody
            """.replace("            ", "")
        )
        process = await asyncio.create_subprocess_exec(str(pgbouncer()), "-q", str(config))
        try:
            await until(lambda: _listens(port))
            settings = {
                "PILOTIS_DATABASE_URL": f"postgresql://{name}@127.0.0.1:{port}/{name}",
                "PILOTIS_DIRECT_DATABASE_URL": f"postgresql://{name}@127.0.0.1:{direct['port']}/{name}",
                "PILOTIS_DATABASE_POOLER": "transaction",
                "PILOTIS_POOL_SIZE": "12",
            }
            running = Server(tmp_path / "data", environment=settings)
            # The proxy runs here.
            await asyncio.to_thread(running.start)
            yield Pooled(running, name, settings)
            assert await asyncio.to_thread(running.stop) == 0
            running.assert_no_failure()
        finally:
            process.terminate()
            await process.wait()
    async with connected(server) as connection:
        await connection.execute(f"drop database {name} with (force)")
        await connection.execute(f"drop role {name}")


def doctor(pooled: Pooled) -> str:
    """What `pilotis doctor` prints."""
    environment = {**os.environ, **GENEROUS, **pooled.settings}
    return forked.run("pilotis", "doctor", "--data-dir", str(pooled.server.data_dir), environment=environment).stdout


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_everything_works_through_few_connections(pooled: Pooled, server: Server):
    console = await asyncio.to_thread(first_console_user, pooled.server)
    app: App = await asyncio.to_thread(new_app, pooled.server, console)
    table = await app.table({"number": "int", "text": "string"})
    rows = f"/v1/public/tables/{table}/data"
    base = await storage(app)
    async with app.client() as client:

        async def work(number: int) -> None:
            made = await app.row(table, {"number": number, "text": "some words"})
            row = await client.get(f"{rows}/{made['id']}")
            assert row.json()["data"] == {"number": number, "text": "some words"}, row.text
            found = await client.post(f"{rows}/query", json={"where": {"number": number}})
            assert found.json()["total_count"] == 1, found.text
            changed = await client.patch(f"{rows}/{made['id']}", json={"data": {"text": "other words"}})
            assert changed.status_code == 200, changed.text
            if number % 10 == 0:
                await app.member(f"member {number}")
                await upload(client, base, b"bytes", file_name=f"file {number}")

        await asyncio.gather(*(work(number) for number in range(60)))
        # A change of the schema, through the caches of a process that listens past the pooler.
        added = await client.post(f"/v1/public/tables/{table}/columns", json={"name": "added", "data_type": "int"})
        assert added.status_code == 201, added.text
        await asyncio.gather(*(app.row(table, {"number": number, "added": 1}) for number in range(20)))
        assert (await client.get(rows)).json()["total_count"] == 80
    async with connected(server) as connection:
        connections = await connection.fetch(
            "select application_name from pg_stat_activity where datname = $1", pooled.name
        )
    names = [row["application_name"] for row in connections]
    assert sum(not name.startswith("pilotis") for name in names) <= POOLED
    assert "pilotis control" in names


async def test_doctor_compares_the_parameters_of_the_role(pooled: Pooled, server: Server):
    assert "its role has the parameters" in await asyncio.to_thread(doctor, pooled)
    async with connected(server) as connection:
        await connection.execute(f"alter role {pooled.name} set jit = on")
        await connection.execute(f"alter role {pooled.name} reset lock_timeout")
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = $1 and application_name not like 'pilotis%'",
            pooled.name,
        )
    told = await asyncio.to_thread(doctor, pooled)
    assert f"alter role {pooled.name} set jit = 'off';" in told
    assert f"alter role {pooled.name} set lock_timeout = '48000';" in told
    assert "statement_timeout" not in told
