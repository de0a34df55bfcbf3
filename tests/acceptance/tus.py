"""A client of tus 1.0.0, header by header."""

import base64
import hashlib
from typing import Any
from uuid import UUID

import httpx

from tests.background import run_task
from tests.console import second_node
from tests.support import App

TUS = {"Tus-Resumable": "1.0.0"}
DATA = bytes(range(256)) * 1200


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def metadata(**pairs: str) -> str:
    return ",".join(f"{name} {encoded(value)}" for name, value in pairs.items())


def creation(size: int | str = len(DATA), **pairs: str) -> dict[str, str]:
    """The headers that begin an upload."""
    named = pairs if "path" in pairs else {"filename": "a.png", **pairs}
    return TUS | {"Upload-Length": str(size), "Upload-Metadata": metadata(**{"filetype": "image/png", **named})}


async def create(client: httpx.AsyncClient, base: str, size: int = len(DATA), **pairs: str) -> httpx.Response:
    answer = await client.post(f"{base}/tus", headers=creation(size, **pairs))
    assert answer.status_code == 201, answer.text
    return answer


async def begin(client: httpx.AsyncClient, base: str, size: int = len(DATA), **pairs: str) -> str:
    """Begin an upload and return where its bytes go."""
    return (await create(client, base, size, **pairs)).headers["location"]


async def append(url: str, offset: int, data: Any, **headers: str) -> httpx.Response:
    sent = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"} | headers
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        return await client.patch(url, content=data, headers=sent)


async def head(url: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        return await client.head(url, headers=TUS)


async def offset_of(url: str) -> int:
    answer = await head(url)
    assert answer.status_code == 200, answer.headers
    return int(answer.headers["upload-offset"])


async def delete(url: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as client:
        return await client.delete(url, headers=TUS)


def upload_id(url: str) -> UUID:
    return UUID(httpx.URL(url).path.rpartition("/")[2])


def checksum(algorithm: str, data: bytes) -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


async def tidy(app: App) -> None:
    """End what has expired, and delete the bytes of it, as if ten minutes had passed."""
    async with second_node(app.server, listening=False) as node, node.database.connection() as connection:
        await node.services.files.cleaning.expire_uploads(connection)
        await connection.execute(
            "update pilotis.pending_deletions set due_at = now() where app_id = $1", UUID(app.app_id)
        )
        await run_task(node, "blobs.delete")


async def drafts(app: App) -> list[int]:
    """The sizes of the app's unfinished uploads in the object store."""
    async with second_node(app.server, listening=False) as node:
        return [info.size async for info in node.services.blobs.list(f"drafts/{app.app_id}")]
