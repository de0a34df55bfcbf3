"""Workflows of an app under test: created and run as a user would."""

from typing import Any

import httpx

from tests.support import App, plain_client
from tests.waiting import until

FINAL = {"completed", "failed", "cancelled", "timeout"}


class Workflows:
    """The workflows of an app, by its owner."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.console = plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}")
        self.base = f"/v1/apps/{app.app_id}/workflows"

    async def made(self, steps: list[dict[str, Any]], name: str = "flow", **fields: Any) -> str:
        """Create a workflow and return its id."""
        answer = await self.console.post(self.base, json={"name": name, "steps": steps, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def start(self, workflow_id: str, given: dict[str, Any] | None = None) -> str:
        """Start an execution and return its id."""
        answer = await self.execute(workflow_id, given)
        assert answer.status_code == 202, answer.text
        return answer.json()["execution_id"]

    async def execute(self, workflow_id: str, given: Any = None, **headers: str) -> httpx.Response:
        """Ask for an execution."""
        body = {} if given is None else {"input": given}
        return await self.console.post(f"{self.base}/{workflow_id}/execute", json=body, headers=headers)

    async def read(self, workflow_id: str, execution_id: str) -> dict[str, Any]:
        """Return an execution."""
        answer = await self.console.get(f"{self.base}/{workflow_id}/executions/{execution_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def reached(self, workflow_id: str, execution_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until an execution has one of the statuses; by default, until it has ended."""
        wanted = set(statuses) or FINAL

        async def found() -> dict[str, Any] | None:
            execution = await self.read(workflow_id, execution_id)
            return execution if execution["status"] in wanted else None

        return await until(found)

    async def ran(
        self, steps: list[dict[str, Any]], given: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a workflow, run it to its end, and return the execution."""
        workflow_id = await self.made(steps, **fields)
        return await self.reached(workflow_id, await self.start(workflow_id, given))


def statuses(execution: dict[str, Any]) -> dict[str, str]:
    """The last status of each step."""
    return {step["step_id"]: step["status"] for step in execution["steps"]}
