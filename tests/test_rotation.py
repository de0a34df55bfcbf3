"""Rotating the master key beside a running server."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from pilotis.kit.crypto import MasterKeyring, MasterKeys, fingerprint
from pilotis.kit.ids import uuid7
from pilotis.oauth.feature import OAuthFeature
from pilotis.security import master_key
from pilotis.security.encryption.cipher import DecryptionError, key_name, wrap
from pilotis.security.encryption.server_secrets import ServerSecrets
from pilotis.security.encryption.service import Encryption, wrapping_key
from pilotis.security.encryption.types import Purpose
from pilotis.settings import Settings
from tests import forked
from tests.backstage import master_key as the_key
from tests.backstage import me, run_sql
from tests.conftest import first_console_user, new_app
from tests.services import connected, stale_node
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until, wait_until

SCHEMA = {"name": "string", "ssn": {"type": "string", "encrypted": True}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Two workers, which must agree at every moment."""
    running = Server(tmp_path / "data", "--workers", "2").start()
    yield running
    running.stop()
    running.assert_no_failure()


def rotate(server: Server, *arguments: str, status: int = 0, **environment: str) -> str:
    words = ["pilotis", "key", "rotate-master", *server.place, *arguments]
    done = forked.run(*words, environment={**os.environ, **environment})
    assert done.returncode == status, done
    return done.stdout + done.stderr


async def rotate_beside(server: Server, *arguments: str) -> str:
    return await asyncio.to_thread(rotate, server, *arguments)


async def read(app: App, table: str) -> list[str]:
    async with app.client() as client:
        answer = await client.get(f"/v1/public/tables/{table}/data")
    assert answer.status_code == 200, answer.text
    return [row["data"]["ssn"] for row in answer.json()["data"]]


async def many_data_keys(server: Server, count: int) -> None:
    """Make apps with a data key, so that re-wrapping them takes a while."""
    key = wrapping_key(the_key(server))
    apps = [(app_id := uuid7(), wrap(bytes(32), key, app_id)) for _ in range(count)]
    query = """
        insert into pilotis.apps (app_id, name, encryption_key)
        select id, 'one of many', wrapped from unnest($1::uuid[], $2::bytea[]) as a(id, wrapped)
    """
    await run_sql(server, query, [app_id for app_id, _ in apps], [wrapped for _, wrapped in apps])


async def wrapped_under(server: Server) -> set[bytes]:
    query = "select array_agg(distinct substr(encryption_key, 2, 4)) from pilotis.apps where encryption_key is not null"
    return set(await run_sql(server, query))


async def test_rotation_beside_traffic(server: Server):
    console = await asyncio.to_thread(first_console_user, server)
    app = await asyncio.to_thread(new_app, server, console)
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "a", "ssn": "secret"})
    member = await app.member()
    before = await wrapped_under(server)
    tokens = [member["access_token"]]
    stop, passes = asyncio.Event(), 0

    async def traffic() -> None:
        nonlocal passes
        while not stop.is_set():
            # A new connection each time, so that either worker gets its turn.
            answer = await me(server, tokens[passes % len(tokens)])
            assert answer.status_code == 200, answer.text
            assert await read(app, table) == ["secret"]
            tokens.append((await app.guest())["access_token"])
            assert (await me(server, tokens[-1])).status_code == 200
            fresh = await asyncio.to_thread(new_app, server, console)
            encrypted = await fresh.table(SCHEMA)
            await fresh.row(encrypted, {"name": "b", "ssn": fresh.app_id})
            assert await read(fresh, encrypted) == [fresh.app_id]
            passes += 1

    running = [asyncio.create_task(traffic()) for _ in range(2)]
    try:
        await until(lambda: passes >= 4 or failed(running))
        at_rotation = passes
        said = await rotate_beside(server)
        assert "A new master key is in use" in said
        await until(lambda: passes >= at_rotation + 4 or failed(running))
    finally:
        stop.set()
        await asyncio.gather(*running)

    assert len(await wrapped_under(server)) == 1
    assert await wrapped_under(server) != before
    refresh = {"Authorization": f"Bearer {member['refresh_token']}"}
    async with plain_client(server.url) as client:
        renewed = await client.post("/v1/auth/re-issue", headers=refresh)
    assert renewed.status_code == 200, renewed.text

    assert "forget-previous" in rotate(server, status=1)
    assert "forgotten" in await rotate_beside(server, "--forget-previous")

    async def refused_everywhere() -> bool:
        """By whichever worker: they are told, and each hears it in its own time."""
        return all([(await me(server, member["access_token"])).status_code == 401 for _ in range(10)])

    await until(refused_everywhere)
    for _ in range(10):
        assert_error(await me(server, member["access_token"]), 401, "INVALID_TOKEN")
        assert (await me(server, renewed.json()["access_token"])).status_code == 200
        assert await read(app, table) == ["secret"]

    server.stop()
    server.start()
    assert await read(app, table) == ["secret"]
    assert (await me(server, renewed.json()["access_token"])).status_code == 200


async def test_a_data_key_is_made_though_its_node_hears_of_a_rotation_meanwhile(server: Server):
    app = await asyncio.to_thread(new_app, server, await asyncio.to_thread(first_console_user, server))
    old, new = the_key(server), bytes(range(32))
    keyring = MasterKeyring(MasterKeys(old), lambda: MasterKeys(new, old))
    replace = "update pilotis.installation set value = value || jsonb_build_object('fingerprint', $1::text)"
    async with stale_node(server) as node, connected(server) as holder:
        async with holder.transaction():
            await holder.execute(f"{replace} where key = 'master_key'", fingerprint(new))
            making = asyncio.create_task(Encryption(node.database, keyring).data_key(UUID(app.app_id)))
            waiting = "select exists (select from pg_stat_activity where $1 = any(pg_blocking_pids(pid)))"
            await until(lambda: run_sql(server, waiting, holder.get_server_pid()))
            assert keyring.refresh()
        assert len(await making) == 32
        assert await wrapped_under(server) == {key_name(wrapping_key(new))}
        await holder.execute(f"{replace} where key = 'master_key'", fingerprint(old))


def failed(tasks: list[asyncio.Task[None]]) -> bool:
    return any(task.done() for task in tasks)


def begin_to_rotate(server: Server) -> forked.Program:
    return forked.Program("pilotis", "key", "rotate-master", *server.place)


def kill(process: forked.Program) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def kill_in_the_middle(server: Server, delay: float) -> None:
    """Kill a rotation so many seconds after it has replaced the file."""
    before = (server.data_dir / "master.key").read_text()
    process = begin_to_rotate(server)
    wait_until(lambda: (server.data_dir / "master.key").read_text() != before)
    time.sleep(delay)
    kill(process)


@pytest.mark.parametrize("delay", [0.2, *(pytest.param(delay, marks=pytest.mark.whole) for delay in (0.0, 0.6))])
async def test_a_rotation_killed_in_the_middle_is_finished_by_the_next(server: Server, delay: float):
    console = await asyncio.to_thread(first_console_user, server)
    app = await asyncio.to_thread(new_app, server, console)
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "a", "ssn": "secret"})
    member = await app.member()
    await many_data_keys(server, 2000)
    await asyncio.to_thread(kill_in_the_middle, server, delay)
    assert await read(app, table) == ["secret"]
    assert (await me(server, member["access_token"])).status_code == 200
    server.stop()
    server.start()
    assert await read(app, table) == ["secret"]
    stored = await run_sql(server, "select value::text from pilotis.installation where key = 'master_key'")
    keys = master_key.existing_keys(Settings(data_dir=str(server.data_dir)))
    assert keys is not None
    finished = json.loads(stored) == {"fingerprint": fingerprint(keys.current)}
    said = rotate(server, status=1 if finished else 0)
    assert ("--forget-previous` ends it first" if finished else "interrupted rotation is finished") in said
    assert len(await wrapped_under(server)) == 1
    rotate(server, "--forget-previous")
    server.stop()
    server.start()
    assert await read(app, table) == ["secret"]
    assert not (server.data_dir / "master.key.previous").exists()


async def encrypted_secrets(server: Server, count: int) -> dict[str, bytes]:
    """Store secrets of the server beside its signing key, as older keys, and return their values by name."""
    secrets = ServerSecrets(MasterKeyring(MasterKeys(the_key(server))))
    values = {f"k{number:04}": os.urandom(16) for number in range(count)}
    async with connected(server) as connection:
        rows = [
            (kid, await secrets.encrypt(connection, Purpose.OAUTH_SIGNING_KEY, kid, value))
            for kid, value in values.items()
        ]
        await connection.executemany(
            """
            insert into pilotis.oauth_keys (kid, public_key, private_key, signs_from)
            select $1, (select public_key from pilotis.oauth_keys limit 1), $2, '-infinity'
            """,
            rows,
        )
    return values


async def decrypted_secrets(server: Server, *keys: bytes) -> dict[str, bytes]:
    """Return the values that open under the keys."""
    secrets = ServerSecrets(MasterKeyring(MasterKeys(*keys)))
    found = {}
    async with connected(server) as connection:
        for row in await connection.fetch("select kid, private_key from pilotis.oauth_keys where kid like 'k____'"):
            with suppress(DecryptionError):
                found[row["kid"]] = secrets.decrypt(Purpose.OAUTH_SIGNING_KEY, row["kid"], row["private_key"])
    return found


async def signing_key(server: Server) -> str:
    """Return the signing key that a further node uses, which was just started."""
    async with stale_node(server) as node:
        return (await node.features.get(OAuthFeature).keys.signing()).kid


async def test_a_rotation_killed_among_the_servers_secrets_is_finished_by_the_next(server: Server):
    async with stale_node(server) as node:
        kid = (await node.features.get(OAuthFeature).keys.create()).kid
    values, old = await encrypted_secrets(server, 250), the_key(server)
    async with connected(server) as holder:
        change = holder.transaction()
        await change.start()
        await holder.execute("select from pilotis.oauth_keys where kid = 'k0120' for update")
        process = begin_to_rotate(server)
        waiting = "select exists (select from pg_stat_activity where $1 = any(pg_blocking_pids(pid)))"
        await until(lambda: run_sql(server, waiting, holder.get_server_pid()))
        kill(process)
        await change.rollback()
    new = the_key(server)
    # PostgreSQL may finish the statement that waited, though nobody waits for its answer any more.
    assert len(await decrypted_secrets(server, old)) in {129, 130}
    assert len(await decrypted_secrets(server, new)) in {120, 121}
    assert await decrypted_secrets(server, new, old) == values
    assert await signing_key(server) == kid
    assert "interrupted rotation is finished" in await rotate_beside(server)
    assert await decrypted_secrets(server, new) == values
    await rotate_beside(server, "--forget-previous")
    assert await signing_key(server) == kid
    server.stop()
    server.start()
    async with plain_client(server.url) as client:
        published = (await client.get("/.well-known/jwks.json")).json()["keys"]
        assert {key["kid"] for key in published} == {kid}


async def test_each_state_that_a_crash_leaves_is_finished(server: Server):
    """The states between the steps, made by hand: files changed or half changed, fingerprint taken."""
    console = await asyncio.to_thread(first_console_user, server)
    app = await asyncio.to_thread(new_app, server, console)
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "a", "ssn": "secret"})
    settings = Settings(data_dir=str(server.data_dir))
    key = server.data_dir / "master.key"
    previous = server.data_dir / "master.key.previous"

    previous.write_bytes(key.read_bytes())
    previous.chmod(0o600)
    assert "A new master key is in use; 1 data keys" in rotate(server)
    rotate(server, "--forget-previous")

    keys = master_key.existing_keys(settings)
    assert keys is not None
    master_key.replace_file(settings, keys)
    assert "rotation is incomplete" in rotate(server, "--forget-previous", status=1)
    assert previous.exists()
    assert "interrupted rotation is finished; 1 data keys" in rotate(server)
    rotate(server, "--forget-previous")

    keys = master_key.existing_keys(settings)
    assert keys is not None
    new = master_key.replace_file(settings, keys)
    value = json.dumps({"fingerprint": fingerprint(new.current), "rewrapping": True})
    await run_sql(server, "update pilotis.installation set value = $1 where key = 'master_key'", value)
    assert "interrupted rotation is finished; 1 data keys" in rotate(server)
    rotate(server, "--forget-previous")
    server.stop()
    server.start()
    assert await read(app, table) == ["secret"]


async def test_a_data_key_that_opens_under_neither_key_keeps_the_previous_one(server: Server):
    console = await asyncio.to_thread(first_console_user, server)
    app = await asyncio.to_thread(new_app, server, console)
    await run_sql(server, "update pilotis.apps set encryption_key = $1 where app_id = $2", bytes(65), UUID(app.app_id))
    assert "open under no master key" in rotate(server, status=1)
    assert "open under no master key" in rotate(server, "--forget-previous", status=1)
    assert (server.data_dir / "master.key.previous").exists()


async def test_rotation_of_keys_in_settings(tmp_path: Path):
    """As docs/design/encryption.md tells: a rolling restart twice, then the command."""
    old, new = "ab" * 32, "cd" * 32
    server = Server(tmp_path / "data", environment={"PILOTIS_MASTER_KEY": old}).start()
    try:
        app = await asyncio.to_thread(lambda: new_app(server, first_console_user(server)))
        table = await app.table(SCHEMA)
        await app.row(table, {"name": "a", "ssn": "secret"})
        member = await app.member()
        for current, previous in ((old, new), (new, old)):
            server.stop()
            server.environment = {"PILOTIS_MASTER_KEY": current, "PILOTIS_PREVIOUS_MASTER_KEY": previous}
            server.start()
            assert await read(app, table) == ["secret"]
            assert (await me(server, member["access_token"])).status_code == 200
            fresh = await asyncio.to_thread(lambda: new_app(server, console_of(app)))
            await fresh.row(await fresh.table(SCHEMA), {"ssn": "new"})
        alone = {"PILOTIS_MASTER_KEY": old}
        assert "PILOTIS_PREVIOUS_MASTER_KEY" in rotate(server, status=1, **alone)
        assert "re-encrypted" in rotate(server, **server.environment)
        rotate(server, "--forget-previous", **server.environment)
        server.stop()
        server.environment = {"PILOTIS_MASTER_KEY": new}
        server.start()
        assert await read(app, table) == ["secret"]
        assert_error(await me(server, member["access_token"]), 401, "INVALID_TOKEN")
        assert "is not the one this database was set up with" in examined(server, PILOTIS_MASTER_KEY=old)
        assert "is the one for this database" in examined(server)
    finally:
        server.stop()


def console_of(app: App) -> dict[str, str]:
    return app.console


def examined(server: Server, **environment: str) -> str:
    given = {**os.environ, **server.environment, **environment}
    return forked.run("pilotis", "doctor", *server.place, environment=given).stdout
