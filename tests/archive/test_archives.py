"""An app moves to another server, or is cloned beside itself, with everything that it has."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pilotis.archive.feature import declared
from pilotis.archive.format import ArchiveReader
from pilotis.files.uploads import store as upload_store
from pilotis.kit.archiving import Copied
from pilotis.server import FEATURES
from tests import commands, databases
from tests.archive.shop import PASSPHRASE, Shop, app_of, check, imported
from tests.backstage import run_sql
from tests.conftest import new_app
from tests.services import connected
from tests.support import App, Server
from tests.waiting import until, wait_until
from tests.whole import sample


@pytest.fixture(scope="module")
async def shop(server: Server, console: dict[str, str]) -> Shop:
    return await Shop(new_app(server, console)).fill()


@pytest.fixture(scope="module")
def archive(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "shop.pilotis"
    done = shop.export(path)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["tables"], made["rows"], made["blobs"], made["missing_blobs"]) == (3, 3, 2, 0)
    assert path.stat().st_mode & 0o777 == 0o600
    return path


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Another server with another master key."""
    running = Server(tmp_path_factory.mktemp("elsewhere") / "data").start()
    yield running
    running.stop()
    running.assert_no_failure()


async def test_every_table_of_an_app_is_declared_once(server: Server):
    query = """
        select array_agg(c.relname::text) from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'pilotis'::regnamespace and c.relkind = 'r' and a.attname = 'app_id'
    """
    tables = await run_sql(server, query)
    named = [table for kind in FEATURES for table in kind.archived]
    assert sorted(named) == sorted(tables)
    assert set(named) == declared().keys()


async def test_every_column_is_copied_or_has_a_default(server: Server):
    query = """
        select json_object_agg(a.attname, a.attnotnull and not a.atthasdef)
        from pg_attribute a where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped
    """
    for table, how in declared().items():
        if isinstance(how, Copied):
            columns = json.loads(await run_sql(server, query, f"pilotis.{table}"))
            given = {"app_id", *how.names, *how.replaced}
            assert given <= columns.keys(), table
            assert {name for name, needed in columns.items() if needed} <= given, table
            assert {secret.column for secret in how.secrets} <= set(how.names), table


async def test_an_app_moves_to_another_server_with_its_addresses(shop: Shop, archive: Path, elsewhere: Server):
    copy = app_of(elsewhere, imported(elsewhere, archive, "--same-id"))
    assert copy.app_id == shop.app.app_id
    await check(shop, copy, (shop.storage, shop.file), shop.site.slug)
    again = imported(elsewhere, archive, "--same-id")
    assert again.returncode == 1
    assert "the app with this id" in again.stderr


async def test_a_clone_beside_the_original_has_addresses_of_its_own(shop: Shop, elsewhere: Server):
    server = shop.app.server
    done = commands.run("app", "clone", shop.app.app_id, "--as", "A copy", *server.place, "--json")
    copy = app_of(server, done)
    assert copy.app_id != shop.app.app_id
    query = """
        select array[f.storage_id::text, f.file_id::text, s.slug]
        from pilotis.files f, pilotis.web_storages s where f.app_id = $1 and s.app_id = $1
    """
    storage, file, slug = await run_sql(server, query, copy.app_id)
    assert storage != shop.storage
    assert file != shop.file
    assert slug != shop.site.slug
    await check(shop, copy, (storage, file), slug)
    await check(shop, shop.app, (shop.storage, shop.file), shop.site.slug)
    twice = "select storage_id, file_id from pilotis.files group by 1, 2 having count(distinct app_id) > 1"
    assert await run_sql(server, twice) is None
    assert list(server.data_dir.glob("scratch-*")) == []


async def test_an_archive_without_its_passphrase_is_refused_and_has_no_secrets_without(shop: Shop, tmp_path: Path):
    server = shop.app.server
    refused = commands.run("app", "export", shop.app.app_id, "--to", str(tmp_path / "a.pilotis"), *server.place)
    assert refused.returncode == 1
    assert "Give a passphrase" in refused.stderr
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240
    path = tmp_path / "b.pilotis"
    assert shop.export(path).returncode == 0
    for passphrase, sentence in (("", "Give its passphrase"), ("another passphrase", "not the passphrase")):
        done = imported(server, path, passphrase=passphrase)
        assert done.returncode == 1
        assert sentence in done.stderr
    bare = tmp_path / "c.pilotis"
    done = commands.run(
        "app", "export", shop.app.app_id, "--to", str(bare), "--without-secrets", *server.place, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert "function_variables: secrets were left out" in json.loads(done.stdout)["left_out"]
    copy = app_of(server, imported(server, bare, passphrase=""))
    async with copy.client() as client:
        (row,) = (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["data"]
    assert row["data"] == {**shop.row["data"], "note": None} or "note" not in row["data"]


async def test_an_app_that_does_not_exist_and_files_that_are_none(app: App, tmp_path: Path):
    place = app.server.place
    unknown = "01900000-0000-7000-8000-000000000000"
    done = commands.run("app", "export", unknown, "--to", str(tmp_path / "a"), *place)
    assert (done.returncode, done.stderr) == (1, "pilotis: The app does not exist.\n")
    done = commands.run("app", "import", str(tmp_path / "none"), *place)
    assert done.returncode == 1
    assert "No such file" in done.stderr
    (tmp_path / "there").write_text("x")
    assert commands.run("app", "export", app.app_id, "--to", str(tmp_path / "there"), *place).returncode == 2
    assert commands.run("app", "import", str(tmp_path / "there"), *place).returncode == 1


async def test_an_import_that_was_killed_leaves_no_app_and_runs_again(shop: Shop, archive: Path, tmp_path: Path):
    server = shop.app.server
    passphrase = tmp_path / "passphrase"
    passphrase.write_text(PASSPHRASE)
    words = ["app", "import", str(archive), "--passphrase-file", str(passphrase), *server.place, "--json"]
    apps = await run_sql(server, "select count(*) from pilotis.apps")
    working = "select count(*) from pg_stat_activity where application_name = 'pilotis archive'"

    stored = {path for path in (server.data_dir / "blobs").rglob("*") if path.is_file()}

    def copies_files() -> bool:
        return any(path not in stored for path in (server.data_dir / "blobs" / "objects").glob("blobs/*/*"))

    def kill(is_due: Callable[[], Any]) -> None:
        process = subprocess.Popen([sys.executable, "-m", "pilotis", *words], stdout=subprocess.PIPE)
        wait_until(lambda: is_due() or process.poll() is not None)
        process.kill()
        process.communicate()
        wait_until(lambda: not asyncio.run(run_sql(server, working)))

    for is_due in sample([lambda: asyncio.run(run_sql(server, working)), copies_files], 0.5):
        await asyncio.to_thread(kill, is_due)
        left = await run_sql(server, "select count(*) from pilotis.apps")
        # Files are copied shortly before the end, which may come before the kill: then there is a whole app.
        assert left == apps or (is_due is copies_files and left == apps + 1)
        apps = left
        # Whatever it has stored is deleted soon, or belongs to that app.
        objects = server.data_dir / "blobs" / "objects"
        new = [str(path.relative_to(objects)) for path in objects.glob("blobs/*/*") if path not in stored]
        database = await asyncpg.connect(**databases.address(server.data_dir))
        try:
            assert await upload_store.known_keys(database, new) == set(new)
        finally:
            await database.close()
    copy = app_of(server, await asyncio.to_thread(commands.run, *words))
    assert await run_sql(server, "select count(*) from pilotis.apps") == apps + 1
    assert copy.app_id != shop.app.app_id


async def test_an_export_that_was_killed_leaves_no_archive_and_runs_again(shop: Shop, tmp_path: Path):
    passphrase, archive = tmp_path / "passphrase", tmp_path / "shop.pilotis"
    passphrase.write_text(PASSPHRASE)
    words = ["app", "export", shop.app.app_id, "--to", str(archive), "--passphrase-file", str(passphrase)]
    words += shop.app.server.place

    def kill() -> None:
        process = subprocess.Popen([sys.executable, "-m", "pilotis", *words], stdout=subprocess.PIPE)
        wait_until(lambda: (tmp_path / "shop.pilotis.part").exists() or process.poll() is not None)
        process.kill()
        process.communicate()

    await asyncio.to_thread(kill)
    assert not archive.exists()
    done = await asyncio.to_thread(commands.run, *words)
    assert done.returncode == 0, done
    assert not (tmp_path / "shop.pilotis.part").exists()
    with archive.open("rb") as file:
        assert ArchiveReader(file).whole("manifest.json", 1 << 20)


async def test_an_archive_of_a_table_that_changes_meanwhile_begins_again(
    server: Server, console: dict[str, str], tmp_path: Path
):
    app = new_app(server, console)
    table_id = await app.table({"name": "string"})
    await app.row(table_id, {"name": "x"})
    archive = tmp_path / "a.pilotis"
    async with connected(server) as connection, app.client(app.secret_key) as client:
        async with connection.transaction():
            # An archive reads teams, once it has its snapshot, before rows.
            await connection.execute("lock table pilotis.teams in access exclusive mode")
            words = ["app", "export", app.app_id, "--to", str(archive), *server.place]
            exporting = asyncio.create_task(asyncio.to_thread(commands.run, *words))
            waits = "application_name = 'pilotis archive' and wait_event_type = 'Lock'"
            await until(lambda: run_sql(server, f"select count(*) from pg_stat_activity where {waits}"))
            column = {"name": "year", "data_type": "int"}
            added = await client.post(f"/v1/public/tables/{table_id}/columns", json=column)
            assert added.is_success, added.text
        done = await exporting
    assert done.returncode == 0, done.stderr
    with archive.open("rb") as file:
        manifest = json.loads(ArchiveReader(file).whole("manifest.json", 1 << 20))
    (rows,) = [part for part in manifest["parts"] if part["name"].startswith("rows/")]
    assert rows["rows"] == 1
    assert len(rows["columns"]) == len(set(rows["columns"])) >= 2


async def test_a_table_that_changes_while_it_is_archived_makes_no_half_archive(
    server: Server, console: dict[str, str], tmp_path: Path
):
    app = new_app(server, console)
    table_id = await app.table({"name": "string"})
    await app.row(table_id, {"name": "x"})
    schema = f"app_{app.app_id.replace('-', '')}"
    table = f"{schema}.t_{table_id.replace('-', '')}"
    async with connected(server) as connection:
        async with connection.transaction():
            await connection.execute(f"lock table {table} in access exclusive mode")
            words = ["app", "export", app.app_id, "--to", str(tmp_path / "a.pilotis"), *server.place]
            exporting = asyncio.create_task(asyncio.to_thread(commands.run, *words))
            named = "application_name = 'pilotis archive' and wait_event_type = 'Lock'"
            await until(lambda: run_sql(server, f"select count(*) from pg_stat_activity where {named}"))
            await connection.execute(f'alter table {table} rename column "__v1" to "__v2"')
        done = await exporting
    assert done.returncode == 1
    assert "changed while the archive was being written" in done.stderr
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240
