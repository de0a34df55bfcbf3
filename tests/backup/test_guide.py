"""The commands of docs/backups.md, as a reader types them: a server is backed up, lost, and restored."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backstage import run_sql
from tests.backup.test_backups import environment, moment, shipped
from tests.conftest import first_console_user, new_app
from tests.support import Server
from tests.waiting import until

GUIDE = Path(__file__).parents[2] / "docs" / "backups.md"
BLOCK = re.compile(r"^```sh backup\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pasted(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )


ONE_APP = re.compile(r"^```sh one-app\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.embedded("base backups are of the embedded database")
async def test_a_reader_restores_a_lost_server(tmp_path: Path):
    variables = environment(tmp_path)
    server = Server(tmp_path / "pilotis-data", environment=variables).start()
    app = new_app(server, first_console_user(server))
    table_id = await app.table({"name": "string"})
    await app.row(table_id, {"name": "kept"})
    making, restoring = BLOCK.findall(GUIDE.read_text("utf-8"))
    done = pasted(making, tmp_path, **variables)
    assert done.returncode == 0, done
    assert "No backup was ever restored" in done.stdout
    then = await moment(server)
    await app.row(table_id, {"name": "too late"})
    await shipped(server)
    (one_app,) = ONE_APP.findall(GUIDE.read_text("utf-8"))
    done = pasted(one_app, tmp_path, MOMENT=then, APP=app.app_id, **variables)
    assert done.returncode == 0, done
    assert "Shop, before the mistake has 1 rows" in done.stdout
    (tmp_path / "saved").mkdir()
    shutil.copy(server.data_dir / "master.key", tmp_path / "saved" / "master.key")
    server.kill()
    await until(lambda: not (server.data_dir / "postgres" / "postmaster.pid").exists())
    shutil.rmtree(server.data_dir)
    done = pasted(restoring, tmp_path, MOMENT=then, **variables)
    assert done.returncode == 0, done
    assert app.app_id in done.stdout
    restored = Server(tmp_path / "restored", environment=variables, from_nothing=True).start()
    try:
        query = f'select array_agg(name) from "app_{app.app_id.replace("-", "")}"."t_{table_id.replace("-", "")}"'
        assert await run_sql(restored, query) == ["kept"]
        # Accepted, it works again: its log goes to the store, on a timeline of its own.
        await shipped(restored)
    finally:
        restored.stop()
    restored.assert_no_failure()
