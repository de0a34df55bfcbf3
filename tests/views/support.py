"""What the tests of views share."""

from __future__ import annotations

from typing import Any

import httpx

from tests.rules.test_rules import manager
from tests.support import App


async def save(app: App, **view: Any) -> dict[str, Any]:
    """Save a view and return it."""
    async with manager(app) as client:
        answer = await client.post("/views", json=view)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def change(app: App, view: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Change a view and return it."""
    async with manager(app) as client:
        answer = await client.patch(f"/views/{view['id']}", json=changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def shown(app: App, view: dict[str, Any]) -> dict[str, Any]:
    """Return a view as it is now."""
    async with manager(app) as client:
        answer = await client.get(f"/views/{view['id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def called(client: httpx.AsyncClient, name: str, **params: Any) -> list[dict[str, Any]]:
    """Call a view and return its documents."""
    answer = await client.post(f"/v1/public/views/{name}", json={"params": params})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["total_count"] == len(body["data"])
    return body["data"]
