"""One app comes back out of the backup of its server, beside the present one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.scratch import remove_remains, scratch
from tests import commands
from tests.archive.shop import Shop, app_of, check
from tests.backstage import run_sql
from tests.backup.test_backups import backup, backup_beside, environment, moment, shipped
from tests.conftest import first_console_user, new_app
from tests.support import Server


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("one-app")
    running = Server(folder / "data", environment=environment(folder)).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.mark.embedded("base backups are of the embedded database")
async def test_an_app_comes_back_as_it_was_before_a_mistake(source: Server):
    console = first_console_user(source)
    shop = await Shop(new_app(source, console)).fill()
    beside = new_app(source, console)
    kept = await beside.table({"name": "string"})
    await backup_beside(source, "create")
    earlier = await moment(source)
    later = new_app(source, console)
    then = await moment(source)
    # The mistake: every row is deleted, and a table is dropped.
    async with shop.app.client() as client:
        wrong = {"where": {}, "all": True}
        answer = await client.post(f"/v1/public/tables/{shop.goods}/data/delete-where", json=wrong)
        assert answer.json()["deleted_count"] == 1, answer.text
    await beside.row(kept, {"name": "goes on"})
    await shipped(source)

    asked = ["restore", "--app", shop.app.app_id, "--at", then, *source.place, "--json"]
    done = commands.run("backup", *asked, **source.environment)
    copy = app_of(source, done)
    made = json.loads(done.stdout)
    assert made["name"].endswith(" (restored)")
    assert parse_rfc3339(made["last_commit"]) <= parse_rfc3339(then)
    assert copy.app_id != shop.app.app_id
    query = """
        select array[f.storage_id::text, f.file_id::text, s.slug]
        from pilotis.files f, pilotis.web_storages s where f.app_id = $1 and s.app_id = $1
    """
    storage, file, slug = await run_sql(source, query, copy.app_id)
    await check(shop, copy, (storage, file), slug)
    # The present one and the others are as they were.
    async with shop.app.client() as client:
        assert (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["total_count"] == 0
    async with beside.client() as client:
        assert (await client.get(f"/v1/public/tables/{kept}/data")).json()["total_count"] == 1
    assert list(source.data_dir.glob("scratch-*")) == []

    said = backup(source, "restore", "--app", later.app_id, "--at", earlier, status=1)
    assert f"had no app {later.app_id}" in said
    both = ["restore", "--app", later.app_id, "--to", "somewhere"]
    assert "Give --to" in backup(source, *both, status=2)
    assert "Give --to" in backup(source, "restore", status=2)
    assert "belong to --app" in backup(source, "restore", "--to", "somewhere", "--as", "x", status=2)
    wrong_key = source.data_dir.parent / "wrong.key"
    wrong_key.write_text("00" * 32)
    asked = ["restore", "--app", shop.app.app_id, "--master-key-file", str(wrong_key)]
    assert "another master key" in backup(source, *asked, status=3)
    assert list(source.data_dir.glob("scratch-*")) == []


async def test_a_folder_in_use_is_no_remains(tmp_path: Path):
    async with scratch(tmp_path) as folder:
        (tmp_path / "scratch-of-a-killed-one" / "restored").mkdir(parents=True)
        remove_remains(tmp_path)
        assert folder.is_dir()
        assert len(list(tmp_path.iterdir())) == 1  # noqa: ASYNC240
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240
