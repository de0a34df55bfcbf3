"""Small public files are cached, and a change on any node applies to the very next request."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.test_files import PNG, put_at, storage, upload
from tests.console import client_of, owner_of, second_node
from tests.services import Node
from tests.support import App, assert_error


async def read(url: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(url)


def bytes_of(app: App) -> list[Path]:
    """The files in which the object store keeps the app's."""
    return [path for path in (app.server.data_dir / "blobs" / "objects").rglob("*") if app.app_id in str(path)]


async def test_a_file_that_is_read_again_comes_out_of_memory(app: App):
    base = await storage(app)
    async with app.client() as client:
        small, large = await upload(client, base), await upload(client, base, PNG * 100, file_name="large.png")
    first = await read(small["url"])
    assert (await read(large["url"])).content == PNG * 100
    stored = [path for path in bytes_of(app) if path.is_file()]
    assert len(stored) == 2
    for path in stored:
        path.unlink()
    again = await read(small["url"])
    assert (again.status_code, again.content, again.headers["etag"]) == (200, PNG, first.headers["etag"])
    assert (await read(large["url"])).status_code == 404
    assert (await read(small["url"] + "?other=1")).status_code == 404


async def deleted(app: App, node: Node, base: str, item: dict) -> None:
    async with client_of(node, **{"X-Public-Key": app.public_key}) as there:
        assert (await there.delete(f"{base}/items/{item['id']}")).status_code == 200


async def folder_deleted(app: App, node: Node, base: str, item: dict) -> None:
    async with client_of(node, **{"X-Public-Key": app.public_key}) as there:
        url = f"{base}/items/{item['parent_id']}"
        assert (await there.delete(url, params={"recursive": "true"})).status_code == 200


async def console(app: App, node: Node, method: str, path: str, **options: object) -> None:
    async with client_of(node, Authorization=f"Bearer {owner_of(app).access_token}") as there:
        answer = await there.request(method, f"/v1/apps/{app.app_id}{path}", **options)
        assert answer.status_code == 200, answer.text


async def made_private(app: App, node: Node, base: str, item: dict) -> None:
    path = f"/storages/files/{base.rpartition('/')[2]}"
    await console(app, node, "PATCH", path, json={"read_access": "AppMember"})


async def storage_deleted(app: App, node: Node, base: str, item: dict) -> None:
    await console(app, node, "DELETE", f"/storages/files/{base.rpartition('/')[2]}", params={"force": "true"})


async def app_deleted(app: App, node: Node, base: str, item: dict) -> None:
    await console(app, node, "DELETE", "")


@pytest.mark.parametrize(
    ("change", "status"),
    [(deleted, 404), (folder_deleted, 404), (made_private, 401), (storage_deleted, 404), (app_deleted, 404)],
)
async def test_what_another_node_takes_away_is_gone_at_once(
    app: App, change: Callable[[App, Node, str, dict], Awaitable[None]], status: int
):
    base = await storage(app)
    async with app.client() as client:
        by_path = await put_at(client, base, "folder/logo.png")
        folder = by_path["parent_id"]
        by_id = await upload(client, base, file_name="other.png", parent_id=folder)
    urls = [by_path["url"]] if change is deleted else [by_path["url"], by_id["url"]]
    for url in urls * 2:
        assert (await read(url)).content == PNG
    async with second_node(app.server, listening=False) as node:
        await change(app, node, base, by_path)
    for url in urls * 2:
        assert (await read(url)).status_code == status


async def test_what_another_node_replaces_is_new_at_once(app: App):
    base = await storage(app)
    async with (
        second_node(app.server, listening=False) as node,
        app.client() as client,
        client_of(node, **{"X-Public-Key": app.public_key}) as there,
    ):
        url = (await put_at(client, base, "logo.png", b"0"))["url"]
        for number in range(1, 20):
            assert (await read(url)).content == b"%d" % (number - 1)
            item = await put_at(there, base, "logo.png", b"%d" % number)
            assert urlsplit(item["url"]).path == urlsplit(url).path
            now = await read(url)
            assert (now.content, now.headers["cache-control"]) == (
                b"%d" % number,
                "public, max-age=0, must-revalidate",
            )
        assert "immutable" in (await read(f"{url}?v=20")).headers["cache-control"]
        assert "immutable" in (await read(f"{url}?v=20")).headers["cache-control"]
        await put_at(there, base, "logo.png", b"last")
        old = await read(f"{url}?v=20")
        assert (old.content, "immutable" in old.headers["cache-control"]) == (b"last", False)


async def test_what_is_kept_asks_for_no_token_and_gives_none_away(app: App):
    base = await storage(app, read_access="AppMember")
    async with app.client((await app.member())["access_token"]) as client:
        item = await upload(client, base)
        for _ in range(3):
            assert (await client.get(item["url"])).content == PNG
    assert_error(await read(item["url"]), 401, "MEMBER_TOKEN_REQUIRED")
