"""Functions of an app under test: deployed and called as a user would."""

import asyncio
import functools
from typing import Any

import httpx
import pytest

from pilotis.functions.runtime.isolation import probe
from pilotis.functions.runtime.policy import Isolation, Runtime
from tests.support import App, plain_client

ENTRY = {"javascript": "index.js", "python": "main.py"}


@functools.cache
def isolation_of(runtime: Runtime) -> tuple[Isolation | None, str | None]:
    """How this machine confines functions, and why not."""
    found = asyncio.run(probe(runtime, 701_000))
    return found.isolation, found.reason


def require_sandboxes() -> None:
    """Skip the tests of a machine on which no sandbox has all that functions can use, such as packages and egress."""
    for runtime in Runtime:
        isolation, reason = isolation_of(runtime)
        if isolation is None or not isolation.has_namespaces:
            pytest.skip(f"no sandbox for {runtime.value} here: {reason}")


class Functions:
    """The functions of an app, by its owner."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.console = plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}")
        self.base = f"/v1/apps/{app.app_id}/functions"

    async def create(self, name: str, runtime: str = "javascript", **fields: Any) -> str:
        """Create a function and return its id."""
        answer = await self.console.post(self.base, json={"name": name, "runtime": runtime, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def deploy(self, function_id: str, source: str | dict[str, str], **fields: Any) -> httpx.Response:
        """Deploy a version of a function."""
        if isinstance(source, str):
            runtime = (await self.console.get(f"{self.base}/{function_id}")).json()["runtime"]
            source = {ENTRY[runtime]: source}
        return await self.console.post(f"{self.base}/{function_id}/versions", json={"files": source, **fields})

    async def made(self, name: str, source: str | dict[str, str], runtime: str = "javascript", **fields: Any) -> str:
        """Create and deploy a function and return its id."""
        function_id = await self.create(name, runtime, **fields)
        answer = await self.deploy(function_id, source)
        assert answer.status_code == 201, answer.text
        return function_id

    async def call(self, name: str, payload: Any = None, token: str | None = None, **fields: Any) -> httpx.Response:
        """Call a function as a client."""
        body = fields if payload is None else {"payload": payload, **fields}
        async with self.app.client(token) as client:
            return await client.post(f"/v1/public/functions/{name}/invoke", json=body)

    async def result(self, name: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
        """Call a function and return the invocation result."""
        answer = await self.call(name, payload, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def value(self, name: str, payload: Any = None, **fields: Any) -> Any:
        """Call a function that succeeds and return its result."""
        result = await self.result(name, payload, **fields)
        assert result["success"], result
        return result["result"]
