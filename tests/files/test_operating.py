"""An operator's work with files: the commands, and a separate host name for files."""

import json
import subprocess
import uuid

import httpx

from pilotis.settings import Settings
from tests import databases, forked
from tests.acceptance.test_files import PNG, storage, upload
from tests.console import client_of
from tests.services import Node
from tests.support import App, Server


def pilotis(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `pilotis storage …` while the server runs."""
    return forked.run("pilotis", "storage", *arguments, *server.place)


async def test_a_storage_made_on_the_command_line(app: App):
    made = pilotis(app.server, "create", "pictures", "--app", app.app_id, "--access", "AppMember", "--json")
    assert made.returncode == 0, made.stderr
    base = f"/v1/public/storages/files/{json.loads(made.stdout)['id']}"
    async with app.client((await app.member())["access_token"]) as client:
        await upload(client, base)
    listed = json.loads(pilotis(app.server, "list", "--app", app.app_id, "--json").stdout)
    assert [(one["id"], one["name"], one["files"], one["bytes"], one["read"]) for one in listed] == [
        (json.loads(made.stdout)["id"], "pictures", 1, len(PNG), "AppMember")
    ]
    again = pilotis(app.server, "create", "pictures", "--app", app.app_id)
    assert (again.returncode, "has that name" in again.stderr) == (1, True)
    refused = pilotis(app.server, "create", "x", "--app", app.app_id, "--access", "Nobody")
    expected = '--access: "Public", "AppMember", "Creator" or "Secret" is expected, not "Nobody".'
    assert (refused.returncode, expected in refused.stderr) == (1, True), refused.stderr


def test_reconciling_tells_and_deletes_only_when_asked(server: Server):
    stray = server.data_dir / "blobs" / "objects" / "blobs" / str(uuid.uuid4()) / str(uuid.uuid4())
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"stray")
    key = f"blobs/{stray.parent.name}/{stray.name}"
    assert key not in json.loads(pilotis(server, "reconcile", "--json").stdout)["orphans"]
    told = json.loads(pilotis(server, "reconcile", "--before", "0s", "--json").stdout)
    assert key in told["orphans"]
    assert stray.exists()
    pilotis(server, "reconcile", "--before", "0s", "--apply")
    assert not stray.exists()
    assert pilotis(server, "reconcile", "--before", "soon").returncode == 2


def test_checking_the_store(server: Server):
    assert "The object store works." in pilotis(server, "check").stdout


async def test_a_host_name_of_files_own(app: App):
    base = await storage(app)
    settings = Settings(data_dir=str(app.server.data_dir), files_base_url="https://files.example")
    node = Node(settings, databases.address(app.server.data_dir), app.server.url)
    try:
        async with app.client() as client, client_of(node, **{"X-Public-Key": app.public_key}) as here:
            stored = await upload(client, base)
            item = (await here.get(f"{base}/path/a.png")).json()
            assert item["url"] == stored["url"].replace(app.server.url, "https://files.example")
            path = httpx.URL(item["url"]).raw_path.decode()
            redirect = await here.get(path + "?v=1")
            assert redirect.status_code == 308
            assert redirect.headers["location"] == f"https://files.example{path}?v=1"
            served = await here.get(path, headers={"Host": "files.example"})
            assert (served.status_code, served.content) == (200, PNG)
    finally:
        await node.stop()
