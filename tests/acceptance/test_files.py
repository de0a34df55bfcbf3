"""Uploads in three steps, files, folders and their delivery (interface: File storage)."""

import hashlib
from typing import Any

import httpx

from tests.console import owner_of
from tests.support import App, assert_error, plain_client

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


async def storage(app: App, **settings: Any) -> str:
    """Make a storage and return the address of its public routes."""
    async with owner_of(app).client(app) as console:
        answer = await console.post("/storages/files", json={"name": f"files {len(settings)}", **settings})
    assert answer.status_code == 201, answer.text
    return f"/v1/public/storages/files/{answer.json()['id']}"


async def permit(client: httpx.AsyncClient, base: str, data: bytes = PNG, **given: Any) -> dict[str, Any]:
    body = {"file_name": "a.png", "file_size": len(data), "mime_type": "image/png", **given}
    answer = await client.post(f"{base}/presigned-url", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send(permitted: dict[str, Any], data: bytes = PNG, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=30) as client:
        return await client.put(permitted["upload_url"], content=data, headers=permitted["headers"] | headers)


async def complete(client: httpx.AsyncClient, base: str, permitted: dict[str, Any]) -> httpx.Response:
    return await client.post(f"{base}/complete-upload", json={"file_id": permitted["file_id"]})


async def upload(client: httpx.AsyncClient, base: str, data: bytes = PNG, **given: Any) -> dict[str, Any]:
    permitted = await permit(client, base, data, **given)
    assert (await send(permitted, data)).status_code == 200
    answer = await complete(client, base, permitted)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_three_steps(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        assert {"file_id", "upload_url", "public_url"} <= permitted.keys()
        assert permitted["method"] == "PUT"
        assert_error(await client.get(permitted["public_url"]), 404, "FILE_NOT_FOUND")
        sent = await send(permitted)
        assert sent.status_code == 200, sent.text
        assert sent.headers["etag"] == f'"{hashlib.sha256(PNG).hexdigest()}"'
        assert_error(await client.get(permitted["public_url"]), 404, "FILE_NOT_FOUND")
        assert (await client.get(f"{base}/items")).json()["files"] == []
        answer = await complete(client, base, permitted)
        assert answer.status_code == 200, answer.text
        item = answer.json()
        assert item["id"] == permitted["file_id"]
        assert item["url"] == permitted["public_url"]
        assert (item["name"], item["path"], item["type"]) == ("a.png", "a.png", "file")
        assert (item["mime_type"], item["size"], item["parent_id"]) == ("image/png", len(PNG), None)
        assert (await complete(client, base, permitted)).json() == item
        assert (await client.get(f"{base}/items")).json() == {
            "files": [item],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        }
    async with plain_client(app.server.url) as anybody:
        served = await anybody.get(item["url"])
    assert served.status_code == 200
    assert served.content == PNG
    assert served.headers["content-type"] == "image/png"
    assert served.headers["cache-control"] == "public, max-age=31536000, immutable"
