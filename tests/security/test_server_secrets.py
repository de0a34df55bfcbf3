"""The server's own secrets, under the master key: stored under the current one, and re-encrypted by a rotation."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from pilotis.kit.crypto import MasterKeyring, MasterKeys, fingerprint
from pilotis.security.encryption.cipher import DecryptionError
from pilotis.security.encryption.server_secrets import MasterKeyUnavailableError, Renewal, ServerSecrets, renew
from pilotis.security.encryption.types import EncryptedColumn, Purpose
from tests.backstage import master_key
from tests.services import connected
from tests.support import Server
from tests.waiting import until

PURPOSE = Purpose.OAUTH_SIGNING_KEY
NEW = bytes(range(32))


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    async with connected(server) as made:
        yield made


@pytest.fixture
async def column(connection: asyncpg.Connection) -> AsyncIterator[EncryptedColumn]:
    """A table of a feature with secrets of the server."""
    table = f"test_secrets_{uuid4().hex}"
    await connection.execute(f"create table pilotis.{table} (kid text primary key, private_key bytea)")
    yield EncryptedColumn(table, "private_key", "kid", PURPOSE)
    await connection.execute(f"drop table pilotis.{table}")


async def fill(connection: asyncpg.Connection, column: EncryptedColumn, secrets: ServerSecrets, count: int) -> None:
    rows = [(f"k{n}", await secrets.encrypt(connection, PURPOSE, f"k{n}", f"v{n}".encode())) for n in range(count)]
    await connection.executemany(f"insert into pilotis.{column.table} values ($1, $2)", rows)


async def values(connection: asyncpg.Connection, column: EncryptedColumn, secrets: ServerSecrets) -> dict[str, bytes]:
    rows = await connection.fetch(f"select * from pilotis.{column.table} where private_key is not null")
    return {row["kid"]: secrets.decrypt(PURPOSE, row["kid"], row["private_key"]) for row in rows}


def ring(*keys: bytes) -> MasterKeyring:
    return MasterKeyring(MasterKeys(*keys))


async def test_a_rotation_reencrypts_each_secret(server: Server, connection, column: EncryptedColumn):
    old = ServerSecrets(ring(master_key(server)))
    await fill(connection, column, old, 250)
    await connection.execute(f"insert into pilotis.{column.table} values ('none', null)")
    before = await values(connection, column, old)
    keys = MasterKeys(NEW, master_key(server))
    assert await renew(connection, keys, column) == Renewal(250, [])
    assert await values(connection, column, ServerSecrets(ring(NEW))) == before
    with pytest.raises(DecryptionError):
        await values(connection, column, old)
    assert await renew(connection, keys, column) == Renewal(0, [])


async def test_what_opens_under_neither_key_is_named_and_left(server: Server, connection, column: EncryptedColumn):
    await fill(connection, column, ServerSecrets(ring(master_key(server))), 3)
    await connection.execute(f"update pilotis.{column.table} set private_key = $1 where kid = 'k1'", bytes(40))
    done = await renew(connection, MasterKeys(NEW, master_key(server)), column)
    assert done == Renewal(2, ["k1"])
    assert await connection.fetchval(f"select private_key from pilotis.{column.table} where kid = 'k1'") == bytes(40)


async def test_a_secret_that_changes_during_a_rotation_is_not_overwritten(
    server: Server, connection, column: EncryptedColumn
):
    secrets = ServerSecrets(ring(master_key(server)))
    await fill(connection, column, secrets, 1)
    newer = await secrets.encrypt(connection, PURPOSE, "k0", b"newer")
    async with connected(server) as writer, connected(server) as rotating:
        change = writer.transaction()
        await change.start()
        await writer.execute(f"update pilotis.{column.table} set private_key = $1", newer)
        running = asyncio.create_task(renew(rotating, MasterKeys(NEW, master_key(server)), column))
        await until(lambda: waits_for_a_lock(connection, rotating.get_server_pid()))
        await change.commit()
        assert (await running).unreadable == []
    both = ServerSecrets(ring(NEW, master_key(server)))
    assert await values(connection, column, both) == {"k0": b"newer"}


async def test_nothing_is_stored_under_a_key_that_a_rotation_has_passed(server: Server, connection):
    """Storing a secret locks the fingerprint until the commit, and a rotation waits for it."""
    old, known = master_key(server), ServerSecrets(ring(master_key(server)))
    late = ServerSecrets(MasterKeyring(MasterKeys(old), lambda: MasterKeys(NEW, old)))
    async with connected(server) as rotating:
        change = rotating.transaction()
        await change.start()
        await rotating.execute(
            "update pilotis.installation set value = jsonb_build_object('fingerprint', $1::text) "
            "where key = 'master_key'",
            fingerprint(NEW),
        )
        storing = asyncio.create_task(known.encrypt(connection, PURPOSE, "k", b"v"))
        await until(lambda: waits_for_a_lock(rotating, connection.get_server_pid()))
        with pytest.raises(MasterKeyUnavailableError):
            await known.encrypt(rotating, PURPOSE, "k", b"v")
        encrypted = await late.encrypt(rotating, PURPOSE, "k", b"v")
        assert ServerSecrets(ring(NEW)).decrypt(PURPOSE, "k", encrypted) == b"v"
        await change.rollback()
        assert known.decrypt(PURPOSE, "k", await storing) == b"v"


async def test_a_node_that_has_not_heard_of_the_new_key_looks_for_it(connection):
    """As a node does that meets a secret which another one stored a moment ago."""
    old, new = bytes(32), NEW
    behind = ServerSecrets(MasterKeyring(MasterKeys(old), lambda: MasterKeys(new, old)))
    encrypted = await _stored_under(connection, new)
    assert behind.decrypt(PURPOSE, "k", encrypted) == b"v"
    with pytest.raises(DecryptionError):
        ServerSecrets(ring(old)).decrypt(PURPOSE, "k", encrypted)


async def test_without_a_master_key_nothing_opens_and_nothing_is_stored(connection):
    without = ServerSecrets(None)
    with pytest.raises(MasterKeyUnavailableError):
        await without.encrypt(connection, PURPOSE, "k", b"v")
    with pytest.raises(DecryptionError):
        without.decrypt(PURPOSE, "k", b"v")


async def _stored_under(connection: asyncpg.Connection, key: bytes) -> bytes:
    """A secret as it is stored while `key` is in force."""
    change = connection.transaction()
    await change.start()
    await connection.execute(
        "update pilotis.installation set value = jsonb_build_object('fingerprint', $1::text) where key = 'master_key'",
        fingerprint(key),
    )
    encrypted = await ServerSecrets(ring(key)).encrypt(connection, PURPOSE, "k", b"v")
    await change.rollback()
    return encrypted


async def waits_for_a_lock(connection: asyncpg.Connection, process: int) -> bool:
    return bool(
        await connection.fetchval("select wait_event_type = 'Lock' from pg_stat_activity where pid = $1", process)
    )
