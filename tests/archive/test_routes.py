"""Owners have archives written in the console, download them, and make apps of them."""

import asyncio
import io
import resource
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from pilotis.archive.format import ArchiveReader
from tests.archive.shop import PASSPHRASE, Shop, check
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until


@pytest.fixture(scope="module")
async def shop(server: Server, console: dict[str, str]) -> Shop:
    return await Shop(new_app(server, console)).fill()


def console_client(app: App) -> httpx.AsyncClient:
    return plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}")


async def ended(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """What a route says of an archive or an import, once it has ended."""
    found: dict[str, Any] = {}

    async def is_ended() -> bool:
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        found.update(answer.json())
        return found["status"] not in {"pending", "running"}

    await until(is_ended)
    return found


async def written(app: App, **body: Any) -> dict[str, Any]:
    async with console_client(app) as client:
        answer = await client.post(f"/v1/apps/{app.app_id}/archives", json=body)
        assert answer.status_code == 202, answer.text
        return await ended(client, f"/v1/apps/{app.app_id}/archives/{answer.json()['id']}")


async def downloaded(app: App, archive_id: str) -> httpx.Response:
    async with console_client(app) as client:
        answer = await client.post(f"/v1/apps/{app.app_id}/archives/{archive_id}/link")
        assert answer.status_code == 200, answer.text
    async with plain_client(app.server.url) as anybody:
        return await anybody.get(answer.json()["url"])


async def imported(app: App, data: bytes, **fields: str) -> dict[str, Any]:
    async with console_client(app) as client:
        answer = await client.post("/v1/apps/import", files={"file": ("a.pilotis", data)}, data=fields)
        assert answer.status_code == 202, answer.text
        return await ended(client, f"/v1/apps/import/{answer.json()['id']}")


async def test_an_archive_is_downloaded_and_becomes_an_app(shop: Shop):
    app = shop.app
    archive = await written(app, passphrase=PASSPHRASE)
    assert (archive["status"], archive["error"], archive["has_passphrase"]) == ("completed", None, True)
    assert (archive["tables"], archive["rows"], archive["files"], archive["missing_files"]) == (3, 3, 2, 0)
    stored = "select array[passphrase is null, state = 'completed'] from pilotis.app_archives where archive_id = $1"
    assert await run_sql(app.server, stored, archive["id"]) == [True, True]
    got = await downloaded(app, archive["id"])
    assert (got.status_code, len(got.content)) == (200, archive["bytes"])
    assert 'filename="' in got.headers["content-disposition"]
    assert ".pilotis" in got.headers["content-disposition"]

    wrong = await imported(app, got.content, passphrase="another passphrase")
    assert (wrong["status"], wrong["code"]) == ("failed", "ARCHIVE_PASSPHRASE")
    none = await imported(app, got.content)
    assert "Give its passphrase" in none["error"]
    made = await imported(app, got.content, name="From the console", passphrase=PASSPHRASE)
    assert (made["status"], made["error"], made["rows"], made["files"]) == ("completed", None, 3, 2)
    async with console_client(app) as client:
        there = (await client.get(f"/v1/apps/{made['app_id']}")).json()
        assert (there["name"], there["role"]) == ("From the console", "owner")
        secret = (await client.get(f"/v1/apps/{made['app_id']}/keys/secret")).json()
        assert secret["data"] == []
        public = (await client.get(f"/v1/apps/{made['app_id']}/keys/public")).json()["data"][0]
    copy = App(app.server, made["app_id"], public["key"], "", app.console)
    query = """
        select array[f.storage_id::text, f.file_id::text, s.slug]
        from pilotis.files f, pilotis.web_storages s where f.app_id = $1 and s.app_id = $1
    """
    storage, file, slug = await run_sql(app.server, query, copy.app_id)
    await check(shop, copy, (storage, file), slug)
    assert list(app.server.data_dir.glob("scratch-*")) == []


async def test_an_app_with_secrets_needs_a_passphrase_or_goes_without(shop: Shop):
    failed = await written(shop.app)
    assert failed["status"] == "failed"
    assert "Give a passphrase" in failed["error"]
    async with console_client(shop.app) as client:
        answer = await client.post(f"/v1/apps/{shop.app.app_id}/archives/{failed['id']}/link")
    assert answer.json()["code"] == "ARCHIVE_NOT_READY"
    bare = await written(shop.app, with_secrets=False)
    got = await downloaded(shop.app, bare["id"])
    made = await imported(shop.app, got.content)
    assert made["status"] == "completed"
    assert "function_variables: secrets were left out" in made["left_out"]


async def test_a_link_downloads_once_and_only_for_an_owner(app: App):
    archive = await written(app)
    async with console_client(app) as client:
        url = (await client.post(f"/v1/apps/{app.app_id}/archives/{archive['id']}/link")).json()["url"]
        second = (await client.post(f"/v1/apps/{app.app_id}/archives/{archive['id']}/link")).json()["url"]
        third = (await client.post(f"/v1/apps/{app.app_id}/archives/{archive['id']}/link")).json()["url"]
    async with plain_client(app.server.url) as anybody:
        assert (await anybody.get(url)).status_code == 200
        again = await anybody.get(url)
        assert (again.status_code, again.json()["code"]) == (404, "ARCHIVE_LINK_INVALID")
        await run_sql(app.server, "update pilotis.app_users set role = 'editor' where app_id = $1", app.app_id)
        try:
            assert (await anybody.get(second)).status_code == 404
        finally:
            await run_sql(app.server, "update pilotis.app_users set role = 'owner' where app_id = $1", app.app_id)
        async with console_client(app) as client:
            gone = await client.delete(f"/v1/apps/{app.app_id}/archives/{archive['id']}")
            assert gone.status_code == 200, gone.text
            assert (await client.get(f"/v1/apps/{app.app_id}/archives")).json()["data"] == []
        assert (await anybody.get(third)).status_code == 404
    due = "select count(*) from pilotis.pending_deletions where key = $1"
    assert await run_sql(app.server, due, f"blobs/{app.app_id}/{archive['id']}") == 1


async def test_the_oldest_archives_go_and_there_is_one_at_a_time(app: App):
    async with console_client(app) as client:
        limit = await client.patch(f"/v1/apps/{app.app_id}/limits", json={"app_archives": 2})
        assert limit.status_code == 200, limit.text
    first, second, third = [await written(app) for _ in range(3)]
    async with console_client(app) as client:
        listed = (await client.get(f"/v1/apps/{app.app_id}/archives")).json()
        assert [one["id"] for one in listed["data"]] == [third["id"], second["id"]]
        assert listed["kept"] == 2
        read = await client.get(f"/v1/apps/{app.app_id}/archives/{first['id']}")
        assert read.json()["code"] == "ARCHIVE_NOT_FOUND"
        both = await asyncio.gather(*(client.post(f"/v1/apps/{app.app_id}/archives", json={}) for _ in range(3)))
        codes = sorted(answer.status_code for answer in both)
        assert codes[0] == 202
        assert {answer.json()["code"] for answer in both if answer.status_code != 202} <= {"ARCHIVE_PENDING"}
        pending = next(answer.json()["id"] for answer in both if answer.status_code == 202)
        await ended(client, f"/v1/apps/{app.app_id}/archives/{pending}")


async def asked_for(app: App, passphrase: bytes | None, age: str) -> str:
    """An archive that was asked for, without its job."""
    archive_id = str(uuid4())
    statement = """
        insert into pilotis.app_archives (app_id, archive_id, passphrase, has_passphrase, with_secrets, created_at)
        values ($1, $2, $3::bytea, $3::bytea is not null, false, now() - $4::text::interval)
    """
    await run_sql(app.server, statement, app.app_id, archive_id, passphrase, age)
    return archive_id


async def run_job(app: App, app_id: str, queue: str, kind: str, payload: str = "{}", attempts: int = 0) -> None:
    """Have a node run a job that was tried before."""
    statement = """
        insert into pilotis.jobs (app_id, job_id, queue, kind, payload, run_at, attempts)
        values ($1, gen_random_uuid(), $2, $3, $4::text::jsonb, now(), $5)
    """
    await run_sql(app.server, statement, app_id, queue, kind, payload, attempts)
    await run_sql(app.server, "select pg_notify('pilotis', 'work:' || $1)", queue)


async def test_an_archive_that_cannot_be_written_has_failed_after_the_last_attempt(app: App):
    archive_id = await asked_for(app, b"what nobody can decrypt", "0")
    payload = f'{{"archive_id": "{archive_id}"}}'
    await run_job(app, app.app_id, "archives", "archives.write", payload, attempts=3)
    async with console_client(app) as client:
        failed = await ended(client, f"/v1/apps/{app.app_id}/archives/{archive_id}")
    assert (failed["status"], "The server's log says why" in failed["error"]) == ("failed", True)
    assert (await written(app, with_secrets=False))["status"] == "completed"


async def test_an_archive_whose_job_was_given_up_has_failed(app: App, other_app: App):
    lost, recent = await asked_for(app, None, "3 days"), await asked_for(other_app, None, "1 hour")
    await run_job(app, str(UUID(int=0)), "light", "archives.fail_lost")
    async with console_client(app) as client:
        assert (await ended(client, f"/v1/apps/{app.app_id}/archives/{lost}"))["status"] == "failed"
        waiting = (await client.get(f"/v1/apps/{other_app.app_id}/archives/{recent}")).json()
        assert waiting["status"] == "pending"
        await client.delete(f"/v1/apps/{other_app.app_id}/archives/{recent}")


async def test_an_upload_that_is_no_archive_says_so_and_leaves_nothing(app: App):
    apps = await run_sql(app.server, "select count(*) from pilotis.apps")
    failed = await imported(app, b"nothing of the kind" * 100)
    assert (failed["status"], failed["code"]) == ("failed", "INVALID_APP_ARCHIVE")
    async with console_client(app) as client:
        for files, data in (
            ({"other": ("a", b"x")}, {}),
            ({"file": ("a", b"x")}, {"name": "x" * 101}),
            ({"file": ("a", b"x")}, {"with_secrets": "perhaps"}),
            ({}, {"name": "no file"}),
        ):
            answer = await client.post("/v1/apps/import", files=files or {"": ("", b"")}, data=data)
            assert answer.status_code == 400, answer.text
        unknown = await client.get(f"/v1/apps/import/{uuid4()}")
        assert unknown.json()["code"] == "APP_IMPORT_NOT_FOUND"
    assert await run_sql(app.server, "select count(*) from pilotis.apps") == apps
    assert list(app.server.data_dir.glob("scratch-*")) == []


async def test_an_import_whose_process_is_gone_has_failed(app: App):
    failed = await imported(app, b"x")
    query = """
        update pilotis.app_imports set state = 'running', code = null, error = null, seen_at = now() - interval '2 min'
        where import_id = $1
    """
    await run_sql(app.server, query, failed["id"])
    async with console_client(app) as client:
        silent = (await client.get(f"/v1/apps/import/{failed['id']}")).json()
    assert (silent["status"], silent["code"]) == ("failed", "STOPPING")


async def test_an_import_and_its_app_are_completed_together_or_not_at_all(shop: Shop):
    server = shop.app.server
    archive = await written(shop.app, with_secrets=False)
    got = await downloaded(shop.app, archive["id"])
    apps = await run_sql(server, "select count(*) from pilotis.apps")
    stored = {path for path in (server.data_dir / "blobs").rglob("*") if path.is_file()}
    assert stored
    await run_sql(
        server, "alter table pilotis.app_imports add constraint never_completed check (state <> 'completed') not valid"
    )
    try:
        failed = await imported(shop.app, got.content)
    finally:
        await run_sql(server, "alter table pilotis.app_imports drop constraint never_completed")
    assert (failed["status"], failed["app_id"]) == ("failed", None)
    assert await run_sql(server, "select count(*) from pilotis.apps") == apps
    assert {path for path in (server.data_dir / "blobs").rglob("*") if path.is_file()} <= stored


async def test_an_import_too_large_is_refused_while_it_arrives(tmp_path: Path):
    environment = {"PILOTIS_LIMITS_ARCHIVE_BYTES": str(1 << 20)}
    server = Server(tmp_path / "data", environment=environment).start()
    try:
        app = new_app(server, first_console_user(server))
        async with console_client(app) as client:
            answer = await client.post("/v1/apps/import", files={"file": ("a", bytes((1 << 20) + 1))})
        assert answer.status_code == 413, answer.text
        assert list(server.data_dir.glob("scratch-*")) == []
    finally:
        server.stop()


async def test_an_import_for_which_there_is_no_room_says_so(tmp_path: Path):
    server = Server(tmp_path / "data").start()
    try:
        app = new_app(server, first_console_user(server))
        assert server.process is not None
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (2 << 20, resource.RLIM_INFINITY))
        async with console_client(app) as client:
            answer = await client.post("/v1/apps/import", files={"file": ("a", bytes(4 << 20))})
        assert_error(answer, 507, "STORAGE_FULL")
        assert list(server.data_dir.glob("scratch-*")) == []
    finally:
        server.stop()


async def test_an_archive_of_the_console_is_that_of_the_command_line(app: App):
    await app.table({"name": "string"}, title="things")
    archive = await written(app)
    got = await downloaded(app, archive["id"])
    path = app.server.data_dir / "downloaded.pilotis"
    path.write_bytes(got.content)
    with path.open("rb") as file:
        assert ArchiveReader(file).whole("manifest.json", 1 << 20)
    path.unlink()
    assert io.BytesIO(got.content).read(512)[257:262] == b"ustar"
