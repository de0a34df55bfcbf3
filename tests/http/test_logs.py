"""One event a request, and nothing in the logs that is anybody's secret."""

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import structlog

from pilotis.http import logs
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.kit.errors import UnavailableError
from tests.http.bare import application
from tests.support import Server, assert_error
from tests.waiting import PATIENCE

PASSWORD = "correct-horse-9f2c"
ROW = "row-value-71ab"
GUIDE = Path(__file__).parents[2] / "docs" / "operating.md"


async def journey(server: Server, answered: list[str]) -> list[str]:
    """Use every kind of credential, well and badly, and return all that must not be logged."""

    async def note(answer: httpx.Response) -> None:
        answered.append(answer.headers["x-request-id"])

    secrets = [PASSWORD, ROW, server.setup_token]
    async with httpx.AsyncClient(base_url=server.url, event_hooks={"response": [note]}) as client:
        user = {"email": "log@example.com", "password": PASSWORD, "token": server.setup_token}
        signed_in = (await client.post("/v1/auth/signup", json=user)).json()
        secrets += [signed_in["access_token"], signed_in["refresh_token"], "log@example.com"]
        bearer = {"Authorization": f"Bearer {signed_in['access_token']}"}
        app = (await client.post("/v1/apps", json={"name": "logged"}, headers=bearer)).json()
        secrets += [app["secret_key"]]
        client.headers["X-Public-Key"] = app["public_key"]
        new = {"login_id": "login-55aa", "password": PASSWORD}
        member = (await client.post("/v1/public/app-members/signup", json=new)).json()
        secrets += [member["access_token"], member["refresh_token"], "login-55aa"]
        await client.post("/v1/public/app-members/signup", json=new)
        await client.post("/v1/public/app-members/signin", json={**new, "password": f"wrong {PASSWORD}"})
        await client.post("/v1/public/app-members/signin", content=f'{{"password": "{PASSWORD}"')
        await client.post("/v1/auth/re-issue", headers={"Authorization": f"Bearer {member['refresh_token']}"})
        await client.get("/v1/auth/me", headers={"Authorization": f"Bearer {member['access_token']}"})
        table = {"title": "t", "schema": {"name": "string", "n": "int"}, "access_level": "Public"}
        table_id = (await client.post("/v1/public/tables", json=table)).json()["id"]
        rows = f"/v1/public/tables/{table_id}/data"
        for key in (app["secret_key"], app["secret_key"] + "x", member["access_token"]):
            bearer = {"Authorization": f"Bearer {key}"}
            for data in ({"name": ROW}, {"n": ROW}, {ROW: 1}):
                await client.post(rows, json={"data": data}, headers=bearer)
        await client.post(f"{rows}/query", json={"where": {"name": {"$matches": f"({ROW}"}}})
        await client.get(f"{rows}?limit=1&secret={ROW}&token={PASSWORD}")
        await client.get(f"/nowhere/{PASSWORD}?token={PASSWORD}")
    return secrets


async def test_no_secret_reaches_the_logs(tmp_path: Path):
    server = Server(tmp_path / "data", environment={"PILOTIS_LOG_LEVEL": "debug", **EVERY_STATEMENT}).start()
    try:
        answered: list[str] = []
        secrets = await journey(server, answered)
    finally:
        server.stop()
    text = server.logs()
    events = [json.loads(line) for line in text.splitlines()]
    requests = [event for event in events if event["event"] == "request"]
    assert [event["request_id"] for event in requests] == answered
    assert {event["status"] for event in requests} >= {200, 201, 400, 401, 404, 409}
    assert {"member", "secret_key", "public", "console_user"} <= {event["actor"] for event in requests}
    assert [secret for secret in secrets if secret in text] == []
    documented = fields_in_the_guide()
    assert {*requests[0]} == documented - {"error", "reason", "exception"}
    slow = [event for event in events if event["event"] == "slow statement"]
    assert all({*event} == {*SLOW} | {"timestamp", "level", "event"} for event in slow)
    rows = "/v1/public/tables/:table_id/data"
    assert {rows, f"{rows}/query", "/v1/public/app-members/signup"} <= {event["route"] for event in slow}
    assert {event["request_id"] for event in slow} - {None} <= set(answered)
    assert {"rows", "members", "security.sessions", "jobs"} <= {event["feature"] for event in slow}
    assert not [event for event in slow if re.search(r"'|(?<![$\w\"])\d", event["statement"])]


SLOW = ("feature", "ms", "statement", "route", "request_id")
EVERY_STATEMENT = {"PILOTIS_SLOW_STATEMENT_MS": "0.001"}


def fields_in_the_guide() -> set[str]:
    section = GUIDE.read_text().partition("### Logs\n")[2].partition("\n### ")[0]
    assert all(f"`{name}`" in section for name in SLOW)
    return {
        name for cells in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", cells)
    }


class Refusing(Endpoints, tag="Failures"):
    """Endpoints that fail in the ways a real one may."""

    @post("/unexpected", access=Access.OPEN)
    async def unexpected(self, _call: Call, body: dict[str, Any]) -> None:
        """Fail like an unexpected database error, whose message quotes the row."""
        password = body["password"]
        try:
            raise asyncpg.UniqueViolationError(f"Key (login_id)=({password}) already exists.")
        except asyncpg.UniqueViolationError as error:
            raise RuntimeError(f"could not store {password}") from error

    @post("/unavailable", access=Access.OPEN)
    async def unavailable(self, _call: Call, body: dict[str, Any]) -> None:
        """Fail as an unreachable database does."""
        raise UnavailableError from ConnectionError(f"password={body['password']}")


async def test_what_fails_is_logged_without_values(monkeypatch: Any):
    raw = io.BytesIO()
    previous = structlog.get_config()
    handlers, level = logging.root.handlers[:], logging.root.level
    stream = io.TextIOWrapper(raw, write_through=True)
    logs.configure("json", "info", stream)
    for module in ("pilotis.http.api.application", "pilotis.http.logs"):
        monkeypatch.setattr(f"{module}._log", structlog.get_logger(module))
    try:
        transport = httpx.ASGITransport(application(Refusing(), logs.log_request))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            failed = await client.post("/unexpected", json={"password": PASSWORD})
            refused = await client.post("/unavailable", json={"password": PASSWORD})
        try:
            raise ValueError(PASSWORD)
        except ValueError as error:
            logging.getLogger("asyncio").exception("Task failed\nfuture: %r", error)
        await asyncio.sleep(0.01)  # lines leave at the loop's next turn
    finally:
        structlog.configure(**previous)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    body = assert_error(failed, 500, "INTERNAL_ERROR")
    assert_error(refused, 503, "UNAVAILABLE")
    text = raw.getvalue().decode()
    for held in (text, failed.text, refused.text):
        assert PASSWORD not in held
    events = [json.loads(line) for line in text.splitlines()]
    assert [event["event"] for event in events] == ["failed", "request", "unavailable", "request", "Task failed"]
    trace = events[0]["exception"]
    assert events[0]["request_id"] == body["request_id"]
    assert trace[0] == "builtins.RuntimeError"
    assert any(line.startswith("  tests.http.test_logs:") and line.endswith(" unexpected") for line in trace)
    assert any("UniqueViolationError (23505)" in line for line in trace)
    assert events[2]["exception"][0] == "builtins.ConnectionError"
    assert events[4]["exception"][0] == "builtins.ValueError"


def test_text_for_people_holds_no_values_either():
    raw = io.StringIO()
    previous = structlog.get_config()
    handlers, level = logging.root.handlers[:], logging.root.level
    logs.configure("console", "info", raw)
    try:
        try:
            raise ValueError(PASSWORD)
        except ValueError:
            structlog.get_logger("people").exception("failed", route="/x")
    finally:
        structlog.configure(**previous)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    assert "failed" in raw.getvalue()
    assert "ValueError" in raw.getvalue()
    assert PASSWORD not in raw.getvalue()


async def test_threads_lose_no_lines_of_each_other() -> None:
    written = io.BytesIO()
    lines = logs._Lines(written)

    def write(name: str) -> None:
        for number in range(2000):
            lines.write(f"{name} {number}\n".encode())
            lines.flush()

    threads = [threading.Thread(target=write, args=(f"thread {number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        write_one = f"loop {number}\n".encode()
        lines.write(write_one)
        lines.flush()
        await asyncio.sleep(0)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    lines.write_held()
    found = written.getvalue().decode().splitlines()
    assert len(found) == 6000
    for name in ("thread 0", "thread 1", "loop"):
        own = [line for line in found if line.startswith(name)]
        assert own == [f"{name} {number}" for number in range(2000)]


FORKED = """
import asyncio, os, sys
from pilotis.http import logs

async def main() -> None:
    logs.log_area_request("held", 200, 0.001)
    if not os.fork():
        asyncio._set_running_loop(None)
        asyncio.run(child())
        os._exit(0)
    os.wait()
    await asyncio.sleep(0.1)

async def child() -> None:
    logs.log_area_request("forked", 200, 0.001)
    await asyncio.sleep(0.1)

logs.configure("json", "info")
asyncio.run(main())
"""


def test_a_forked_process_writes_its_own_lines_alone() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True, timeout=PATIENCE)
    assert [json.loads(line)["request_id"] for line in ran.stderr.splitlines()] == ["forked", "held"]
