"""Branches of an app, as its owner."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support import App, plain_client
from tests.waiting import until


@asynccontextmanager
async def owner(app: App) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the console."""
    async with plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}") as client:
        yield client


async def begin(app: App, name: str = "pr-17", **more: Any) -> httpx.Response:
    """Ask for a branch."""
    async with owner(app) as client:
        return await client.post(f"/v1/apps/{app.app_id}/branches", json={"name": name, **more})


async def ended(app: App, branch_id: str) -> dict[str, Any]:
    """A branch that is no longer being created."""
    async with owner(app) as client:

        async def is_done() -> bool:
            answer = await client.get(f"/v1/apps/{app.app_id}/branches/{branch_id}")
            assert answer.status_code == 200, answer.text
            return answer.json()["state"] != "creating"

        await until(is_done)
        return (await client.get(f"/v1/apps/{app.app_id}/branches/{branch_id}")).json()


async def branch_of(app: App, name: str = "pr-17", **more: Any) -> App:
    """A new branch of an app, as an app."""
    answer = await begin(app, name, **more)
    assert answer.status_code == 202, answer.text
    branch = await ended(app, answer.json()["branch_id"])
    assert branch["state"] == "ready", branch
    return App(app.server, branch["branch_id"], branch["public_key"], "", app.console)


async def diff(app: App, branch: App) -> dict[str, Any]:
    """What differs between a branch and its parent."""
    async with owner(app) as client:
        answer = await client.get(f"/v1/apps/{app.app_id}/branches/{branch.app_id}/diff")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def steps(app: App, branch: App) -> list[tuple[str, str, str]]:
    """The differences in short."""
    return [(one["step"], one["part"], one["title"]) for one in (await diff(app, branch))["differences"]]


async def merge(app: App, branch: App, **more: Any) -> httpx.Response:
    """Merge all that differs now."""
    body = {"digest": (await diff(app, branch))["digest"], **more}
    async with owner(app) as client:
        return await client.post(f"/v1/apps/{app.app_id}/branches/{branch.app_id}/merge", json=body)
