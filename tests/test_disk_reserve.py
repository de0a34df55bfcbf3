"""A disk that fills: uploads stop first, other writes later, reads and deletes go on, and room brings it back."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pilotis.kit.disk import DiskReserve
from pilotis.kit.errors import StorageFullError
from pilotis.settings import Settings
from tests.acceptance.test_files import complete, permit, send, storage, upload
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE, until

MIB = 1 << 20
DISK = 480 * MIB
WRITE_RESERVE = 80 * MIB
UPLOAD_RESERVE = 2 * WRITE_RESERVE
"""On so small a disk: 5 % of it would be 24 MiB."""


def free(directory: Path) -> int:
    return shutil.disk_usage(directory).free


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def app(disk: Path) -> Iterator[App]:
    """An app of a server whose whole data directory is on the small disk."""
    running = Server(disk, environment={"PILOTIS_WRITE_RESERVE_BYTES": str(WRITE_RESERVE)}).start()
    yield new_app(running, first_console_user(running))
    assert running.stop() == 0
    running.assert_no_failure()


def fill(disk: Path, until_free: int) -> Path:
    """Take room with a file, until only so much is free."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free(disk) - until_free)
    return filler


async def test_uploads_stop_at_their_reserve_and_everything_else_goes_on(app: App, disk: Path):
    filler = fill(disk, free(disk) - 32 * MIB)
    base, table = await storage(app), await app.table({"text": "string"})
    begun = {"Tus-Resumable": "1.0.0", "Upload-Length": str(24 * MIB), "Upload-Metadata": "filename YQ=="}
    async with app.client() as client:
        small = await upload(client, base, b"small", file_name="small")
        waiting = await permit(client, base, file_name="waiting", file_size=24 * MIB)
        resumable = await client.post(f"{base}/tus", headers=begun)
        assert resumable.status_code == 201, resumable.text

        answers = [201]
        for number in range(40):
            permitted = await client.post(
                f"{base}/presigned-url",
                json={"file_name": str(number), "file_size": 20 * MIB, "mime_type": "image/png"},
            )
            if permitted.status_code != 200:
                break
            sent = await send(permitted.json(), os.urandom(20 * MIB))
            assert sent.status_code == 200, sent.text
            assert (await complete(client, base, permitted.json())).status_code == 200
            answers.append(201)
        assert 3 < len(answers) < 40
        assert "free disk space" in assert_error(permitted, 507, "STORAGE_FULL")["message"]
        assert free(disk) >= UPLOAD_RESERVE

        # What was permitted while there was room is refused as well, before it takes any.
        assert_error(await send(waiting, b"x" * 24 * MIB), 507, "STORAGE_FULL")
        begin = await client.post(f"{base}/tus", headers=begun)
        assert_error(begin, 507, "STORAGE_FULL")
        onward = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        more = await client.patch(resumable.headers["location"], headers=onward, content=b"x" * 24 * MIB)
        assert_error(more, 507, "STORAGE_FULL")
        assert free(disk) >= UPLOAD_RESERVE - 20 * MIB

        assert (await client.get(small["url"])).content == b"small"
        row = await app.row(table, {"text": "written"})
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).status_code == 200
        assert (await client.delete(f"{base}/items/{small['id']}")).status_code == 200
        # The write-ahead log may have grown below the reserve meanwhile.
        filler.unlink()
        await upload(client, base, b"fits", file_name="fits")


@pytest.mark.embedded("the database is to be on the disk that fills")
async def test_an_archive_leaves_the_reserve_to_others(app: App, disk: Path):
    base = await storage(app)
    async with app.client() as client:
        for number in range(6):
            await upload(client, base, os.urandom(20 * MIB), file_name=str(number))
    # Less than the files have: without a reserve the archive would end where the disk does.
    fill(disk, WRITE_RESERVE + 20 * MIB)
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with httpx.AsyncClient(base_url=app.server.url, headers=headers, timeout=PATIENCE) as owner:
        answer = await owner.post(f"/v1/apps/{app.app_id}/archives", json={})
        assert answer.status_code == 202, answer.text

    async def error() -> str | None:
        query = "select error ->> 'code' from pilotis.jobs where kind = 'archives.write'"
        found: str | None = await run_sql(app.server, query)
        return found

    assert await until(error) == "STORAGE_FULL"
    assert free(disk) >= WRITE_RESERVE
    assert list(app.server.data_dir.glob("scratch-*")) == []


@pytest.mark.embedded("the database is to be on the disk that fills")
async def test_other_writes_stop_at_theirs_and_reads_and_deletes_go_on(app: App, disk: Path):
    base, table = await storage(app), await app.table({"text": "string"})
    member = await app.member("ada")
    rows = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        file = await upload(client, base, b"small", file_name="small")
        first, second, third = [await app.row(table, {"text": str(number)}) for number in range(3)]
        filler = fill(disk, WRITE_RESERVE - MIB)

        def operations(*types: str) -> dict[str, list[dict[str, object]]]:
            made = {"create": {"data": {"text": "x"}}, "delete": {"doc_id": third["id"]}}
            return {"operations": [{"type": kind, "table_id": table, **made[kind]} for kind in types]}

        refused: list[tuple[str, str, dict[str, object]]] = [
            ("POST", rows, {"data": {"text": "x"}}),
            ("POST", f"{rows}/bulk", {"data": [{"text": "x"}]}),
            ("PATCH", f"{rows}/{first['id']}", {"data": {"text": "x"}}),
            ("POST", "/v1/public/batch", operations("delete", "create")),
            ("POST", "/v1/public/transactions", operations("create")),
            ("POST", "/v1/public/tables", {"title": "t", "schema": {}, "access_level": "Public"}),
            ("POST", "/v1/public/app-members", {}),
            ("POST", f"{base}/folders", {"name": "folder"}),
            ("POST", f"{base}/presigned-url", {"file_name": "a", "file_size": 1, "mime_type": "a/b"}),
        ]
        for method, path, body in refused:
            assert_error(await client.request(method, path, json=body), 507, "STORAGE_FULL")

        for path in (rows, f"{rows}/{first['id']}", file["url"], f"{base}/items", "/v1/public/tables"):
            assert (await client.get(path)).status_code == 200, path
        for path, body in (
            (f"{rows}/query", {"where": {"text": "1"}}),
            ("/v1/public/aggregate", {"table_id": table, "pipeline": [{"$count": "n"}]}),
            ("/v1/public/app-members/signin", {"login_id": "ada", "password": "correct horse"}),
            (f"{rows}/delete-where", {"where": {"text": "1"}}),
            ("/v1/public/batch", operations("delete")),
        ):
            answer = await client.post(path, json=body)
            assert answer.status_code in {200, 201}, answer.text
        assert (await client.delete(f"{rows}/{first['id']}")).status_code == 200
        assert (await client.delete(f"{base}/items/{file['id']}")).status_code == 200
        assert (await client.get(rows)).json()["total_count"] == 0
        assert second["id"]
        bearer = {"Authorization": f"Bearer {member['access_token']}"}
        assert (await client.get("/v1/public/app-members/me", headers=bearer)).status_code == 200

        filler.unlink()
        await app.row(table, {"text": "again"})
        await upload(client, base, b"small", file_name="again")


@pytest.mark.embedded("the database is to be on the disk that fills")
async def test_an_import_stops_at_the_reserve_with_what_it_has_written(app: App, disk: Path):
    table = await app.table({"text": "string"})
    url = f"{app.server.url}/v1/apps/{app.app_id}/tables/{table}/import?format=csv"
    headers = {"Authorization": f"Bearer {app.console['access_token']}", "Content-Type": "text/csv"}
    filler: list[Path] = []

    async def lines():
        yield b"text\n" + b"row\n" * 5000
        filler.append(fill(disk, WRITE_RESERVE - MIB))
        for _ in range(20):
            yield b"row\n" * 5000

    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(url, headers=headers, content=lines())
    assert answer.status_code == 507, answer.text
    assert answer.json()["code"] == "STORAGE_FULL"
    filler[0].unlink()


def test_the_lesser_of_the_two_reserves_holds(tmp_path: Path):
    everything = 1 << 60
    assert DiskReserve(tmp_path, everything, 0).has_room()
    assert DiskReserve(tmp_path, 0, 100).has_room()
    assert not DiskReserve(tmp_path, everything, 100).has_room()
    assert not DiskReserve(tmp_path, 0, 100).has_room(everything)
    assert not DiskReserve(tmp_path, everything, 0, everything).has_room()
    with pytest.raises(StorageFullError):
        DiskReserve(tmp_path, everything, 100).require()
    assert DiskReserve(tmp_path / "absent", everything, 100).has_room()


def test_requests_that_arrive_together_ask_the_file_system_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked, now, full = [], [100.0], [False]
    found = os.statvfs(tmp_path)

    def statvfs(path: Path) -> os.statvfs_result:
        asked.append(path)
        return os.statvfs_result((*found[:4], 0, *found[5:])) if full[0] else found

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reserve = DiskReserve(tmp_path, 1)
    for _ in range(100):
        reserve.require()
    assert len(asked) == 1
    full[0] = True
    with pytest.raises(StorageFullError):
        reserve.require(1)
    now[0] += 0.1
    for _ in range(2):
        with pytest.raises(StorageFullError):
            reserve.require()
    assert len(asked) == 4


def test_the_defaults():
    settings = Settings()
    assert settings.upload_reserve_bytes == 1024 * MIB
    assert settings.upload_reserve_percent == 5
    assert settings.write_reserve_bytes == 128 * MIB
