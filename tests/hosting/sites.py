"""Sites for tests: archives, deploys, and a client that asks by host name as a browser does."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support import App, Server, plain_client

PAGES = {
    "index.html": b"<!doctype html><html><head><meta charset=utf-8><title>Home</title></head><body>home</body></html>",
    "about.html": b"<!doctype html><title>About</title><p>about",
    "docs/index.html": b"<!doctype html><title>Docs</title><p>docs",
    "assets/app-3f9Ad2c1.js": b"console.log('app')\n" * 200,
    "style.css": b"body { color: black }\n",
}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip archive of files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Site:
    """A web storage of an app, with the clients that deploy to it and visit it."""

    def __init__(self, app: App, storage: dict[str, Any]) -> None:
        self.app = app
        self.storage = storage
        self.id = storage["id"]
        self.slug = storage["slug"]
        self.path = f"/v1/public/storages/webs/{self.id}"

    def client(self, **headers: str) -> httpx.AsyncClient:
        return self.app.client(self.app.secret_key, **headers)

    async def deploy(self, files: Mapping[str, bytes], status: int = 201, **params: str) -> dict[str, Any]:
        """Deploy an archive; `params` are those of the query, `target` and `branch`."""
        async with self.client() as client:
            answer = await client.post(
                f"{self.path}/deploy", params=params, files={"file": ("site.zip", zipped(files), "application/zip")}
            )
        assert answer.status_code == status, answer.text
        return answer.json()

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, f"{self.path}{path}", **options)

    async def promote(self, deployment_id: str | None = None) -> dict[str, Any]:
        body = {"deployment_id": deployment_id} if deployment_id else {}
        answer = await self.send("POST", "/promote", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def get(self, path: str = "/", suffix: str = "", method: str = "GET", **headers: str) -> httpx.Response:
        """What a visitor gets; `suffix` is `--qa` or `--v2`."""
        return await visit(self.app.server, f"{self.slug}{suffix}.localhost", path, method, **headers)


async def visit(server: Server, host: str, path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
    """Ask for a path of a host, which no resolver needs to know."""
    port = urlsplit(server.url).port
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with plain_client(server.url) as client:
        # Otherwise httpx would send its own list of encodings.
        sent.setdefault("accept-encoding", "identity")
        url = httpx.URL(server.url).copy_with(raw_path=path.encode())
        request = client.build_request(method, url, headers={**sent, "host": f"{host}:{port}"})
        return await client.send(request)


async def new_site(app: App, **options: Any) -> Site:
    """Create a web storage by the console's route."""
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(app.server.url, **headers) as client:
        answer = await client.post(f"/v1/apps/{app.app_id}/storages/webs", json={"name": "Cafe guide", **options})
    assert answer.status_code == 201, answer.text
    return Site(app, answer.json())
