"""Functions, section 14, case 6: a server killed in calls and in a build leaves no process and loses no work."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx

from tests.conftest import first_console_user, new_app
from tests.functions.support import Functions
from tests.functions.test_triggers import make_due, seen
from tests.serving import serving
from tests.support import Server
from tests.waiting import children, is_running, until

CALLS = 97
WAITS = """
export default async (payload, ctx) => {
  const isOpen = async () => (await ctx.api.rows("gate").query({ limit: 1 })).total_count;
  while (!(await isOpen())) await new Promise((done) => setTimeout(done, 500));
  await ctx.api.rows("seen").create({ payload, trigger: ctx.trigger.type, key: ctx.idempotencyKey });
};"""


class _Held(BaseHTTPRequestHandler):
    """A registry that answers nothing until it is told to, and then knows no package."""

    asked = threading.Event()
    answers = threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.answers.wait()
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def sandboxes_of(pid: int) -> list[int]:
    """The processes below a server's that run a function or a build."""
    found = []
    for child in children(pid):
        found += sandboxes_of(child)
        if any(name in _command(child) for name in (b"harness.", b"builder.", b"bwrap")):
            found.append(child)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_killed_server_leaves_no_sandbox_and_its_work_goes_on(tmp_path: Path):
    with serving(_Held) as url:
        environment = {"PILOTIS_EGRESS_NETWORKS": "127.0.0.0/8", "PILOTIS_FUNCTIONS_NPM_REGISTRY": f"{url}/"}
        server = Server(tmp_path / "data", environment=environment).start()
        try:
            functions = Functions(new_app(server, first_console_user(server)))
            await _killed_in_the_middle(server, functions)
        finally:
            _Held.answers.set()
            server.kill()


async def _killed_in_the_middle(server: Server, functions: Functions) -> None:
    app = functions.app
    orders, gate = await app.table({"n": "int"}, title="orders"), await app.table({"n": "int"}, title="gate")
    table = await app.table({"payload": "object", "trigger": "string", "key": "string"}, title="seen")
    await functions.made("spins", "export default () => { for (;;); }", timeout_seconds=300)
    called = [asyncio.create_task(functions.call("spins"))]
    function_id = await functions.made("waits", WAITS, timeout_seconds=300)
    triggers = f"{functions.base}/{function_id}/triggers"
    by_event = {"type": "event", "events": ["row.created"], "table_id": orders}
    for trigger in (by_event, {"type": "schedule", "cron": "* * * * *"}):
        made = await functions.console.post(triggers, json=trigger)
        assert made.status_code == 201
    await make_due(app, made.json()["id"])
    await app.row(orders, {"n": 1})
    packaged = await functions.create("packaged")
    source = {"index.js": 'import "npm:zod@3"; export default () => 1;'}
    version = (await functions.deploy(packaged, source)).json()["version"]
    assert await until(_Held.asked.is_set)
    assert server.process
    # One for each trigger, one that spins, the build, and those that wait for calls.
    assert await until(lambda: len(sandboxes_of(server.process.pid)) >= 6 and _spin(server.process.pid))
    # With one that spins and those of the triggers a hundred: some run, the others wait.
    called += [asyncio.create_task(functions.call("spins")) for _ in range(CALLS)]
    assert await until(lambda: _connections(server.process.pid) > CALLS)
    found, killed_at = sandboxes_of(server.process.pid), datetime.now(UTC)

    server.kill()
    ends = await asyncio.gather(*called, return_exceptions=True)
    assert all(isinstance(end, httpx.HTTPError) for end in ends)
    assert await until(lambda: not any(is_running(pid) for pid in found))

    _Held.answers.set()
    server.start()
    await functions.console.aclose()
    functions = Functions(app)
    await app.row(gate, {"n": 1})

    async def arrived() -> bool:
        rows = await seen(app, table)
        events = [row for row in rows if row["trigger"] == "event"]
        before = [row for row in rows if row["trigger"] == "schedule" and _planned(row) < killed_at]
        return bool(events and before)

    assert await until(arrived)
    path = f"{functions.base}/{packaged}/versions/{version}"

    async def is_decided() -> bool:
        return (await functions.console.get(path)).json()["status"] == "failed"

    assert await until(is_decided)
    assert await functions.value("waits", {}) is None

    async def all_succeeded() -> bool:
        listed = (await functions.console.get(f"{functions.base}/{function_id}/executions?limit=100")).json()["data"]
        return {one["status"] for one in listed} == {"success"}

    # Executions are recorded a moment after their end.
    assert await until(all_succeeded)
    await functions.console.aclose()


def _connections(pid: int) -> int:
    """The number of sockets that a process has open."""
    found = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += str(file.readlink()).startswith("socket:")
    return found


async def test_a_killed_sandbox_ends_its_call_and_no_other(functions: Functions):
    server = functions.app.server
    assert server.process
    pid = server.process.pid
    await functions.made("ones", "let calls = 0; export default () => ++calls;")
    await functions.made("waits", "export default ({ ms }) => new Promise((end) => setTimeout(() => end(1), ms));")
    assert await functions.value("ones") == 1
    assert await functions.value("waits", {"ms": 0}) == 1
    others = set(sandboxes_of(pid))
    await functions.made("spins", "export default ({ on }) => { while (on); return 1; }")
    calling = asyncio.create_task(functions.result("spins", {"on": True}))
    assert await until(lambda: _spin(pid))
    for one in set(sandboxes_of(pid)) - others:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    result = await calling
    assert (result["status"], result["error_code"]) == ("error", "SANDBOX_ENDED")
    assert await functions.value("spins", {"on": False}) == 1
    assert await functions.value("ones") == 2
    assert await functions.value("waits", {"ms": 0}) == 1


def _planned(row: dict) -> datetime:
    return datetime.fromisoformat(row["payload"]["scheduled_for"])


def _spin(pid: int) -> bool:
    """Whether a sandbox has taken half a second of processor time, as one that loops does."""
    tick = os.sysconf("SC_CLK_TCK")
    for child in sandboxes_of(pid):
        # One that is being started ends processes of its own.
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if (int(fields[11]) + int(fields[12])) / tick > 0.5:
                return True
    return False
