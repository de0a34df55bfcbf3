"""Screens that follow what happens: 200 events a second keep no key waiting, and nothing is drawn without end.

A task of the page is measured by the processor time that its thread used, out of a trace of the browser: on a machine
that is busy with other things it takes longer by the clock, but hardly uses more of the processor.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from playwright.async_api import Page, Route, expect

from pilotis.kit.ids import earliest_uuid7
from tests.console.conftest import Opening, sign_in
from tests.functions.support import Functions
from tests.receiver import Received, Receiver
from tests.support import App, Server
from tests.whole import times
from tests.workflows.support import Workflows

RATE = 200
SECONDS = times(3, whole=4)
# So many events come first, and the others once the test is ready for them.
FIRST = 20
BUDGET = 50
# Two threads that share a core slow each other down, and tracing costs something too.
MARGIN = 2
TRACED = ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"]


@contextlib.asynccontextmanager
async def streaming(page: Page, pattern: str, make: Callable[[int], str]) -> AsyncIterator[asyncio.Event]:
    """Let the stream at an address be one that brings 200 events a second once the event is set, and then goes on."""
    begin = asyncio.Event()

    async def answer(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write("".join(make(number) for number in range(FIRST)).encode())
        sent = FIRST
        await begin.wait()
        began = asyncio.get_running_loop().time()
        while sent < RATE * SECONDS:
            await asyncio.sleep(0.02)
            due = min(RATE * SECONDS, FIRST + int((asyncio.get_running_loop().time() - began) * RATE))
            writer.write("".join(make(number) for number in range(sent, due)).encode())
            await writer.drain()
            sent = due
        await asyncio.Event().wait()

    async with Receiver.listening({"/stream": answer}) as receiver:

        async def lead(route: Route) -> None:
            await route.continue_(url=receiver.url("/stream"))

        await page.route(pattern, lead)
        yield begin
        await page.unroute(pattern)


def event(type_: str, data: dict[str, Any], number: int) -> str:
    return f"event: {type_}\nid: {number}\ndata: {json.dumps(data)}\n\n"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def keeps_up(page: Page, begin: asyncio.Event) -> None:
    """Check that no task takes longer than its budget while events arrive.

    Playwright looks for nothing in the page meanwhile: its search would be a task of the page too.
    """
    browser = page.context.browser
    assert browser
    await browser.start_tracing(page=page, categories=TRACED)
    begin.set()
    await asyncio.sleep(SECONDS)
    trace = json.loads(await browser.stop_tracing())["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in trace if one["args"].get("name") == "CrRendererMain"}
    tasks = [
        (one["tdur"] / 1000, one["dur"] / 1000)
        for one in trace
        if one["name"].endswith("RunTask") and "tdur" in one and (one["pid"], one["tid"]) in main
    ]
    assert len(tasks) > 100, "The trace says nothing about the page."
    used, took = max(tasks)
    print(f"{len(tasks)} tasks, the longest used {used:.0f} ms and took {took:.0f} ms")
    assert used <= BUDGET * MARGIN


async def test_the_log_of_a_function_follows_200_lines_a_second(
    server: Server, app: App, functions: Functions, visit: Opening
) -> None:
    function = await functions.made("chatty", "export default () => 1;\n")
    call = str(uuid4())

    def line(number: int) -> str:
        level = ("debug", "info", "warn", "error")[number % 4]
        message = f"line {number} <b>of a call</b> {'with more words ' * (number % 7)}"
        data = {"execution_id": call, "index": number, "time": now(), "level": level, "message": message}
        return event("log", data, number)

    async with visit("about:blank") as page, streaming(page, "**/logs/stream", line) as begin:
        await sign_in(page, server, f"/apps/{app.app_id}/functions/{function}/logs")
        log = page.get_by_role("list", name="Live log")
        await expect(log).to_be_visible()
        await keeps_up(page, begin)
        last = RATE * SECONDS - 1
        await expect(log.get_by_text(f"line {last} <b>of a call</b>")).to_be_visible()
        assert await log.get_by_role("listitem").count() <= 500
        # Scrolled up, it stays where it is; what is filtered out is out.
        await log.evaluate("(list) => { list.scrollTop = 0; }")
        await page.get_by_role("button", name="Follow").click()
        await expect(log.get_by_text(f"line {last} <b>of a call</b>")).to_be_in_viewport()
        await page.get_by_label("Level").select_option("error")
        await expect(log.locator("li:not(.error)")).to_have_count(0)


async def test_an_execution_of_many_items_follows_200_steps_a_second(
    server: Server, app: App, functions: Functions, workflows: Workflows, visit: Opening
) -> None:
    await functions.made("item", "export default () => 1;\n")
    steps = [
        {"step_type": "parallel", "id": "each", "items": "$.input.items", "function_id": "item"},
        *({"step_type": "merge", "id": f"after-{number}"} for number in range(30)),
    ]
    workflow = await workflows.made(steps, "many items")
    execution = await workflows.start(workflow, {"items": []})
    done = await workflows.reached(workflow, execution)
    snapshot = {**done, "status": "running", "finished_at": None, "duration": None, "steps": [], "logs": {}}
    common = {"execution_id": execution, "workflow_id": workflow, "attempt": 1, "status": "running"}

    def step(number: int) -> str:
        if number == 0:
            return event("snapshot", snapshot, 0)
        kind = ("started", "completed", "log")[number % 3]
        if number == 1:
            row = {"step_id": "each", "try": 1, "status": "running"}
            data = {**common, "type": "step.started", "timestamp": now(), "step": row}
            return event("step.started", data, 1)
        row = {"step_id": f"each[{number // 3}]", "try": 1, "status": "completed" if kind == "completed" else "running"}
        lines = [[now(), "info", f"item {number}"]] if kind == "log" else None
        progress = {"completed": number // 90, "total": 31}
        data = {**common, "type": f"step.{kind}", "timestamp": now(), "step": row, "progress": progress}
        return event(data["type"], {**data, "lines": lines} if lines else data, number)

    path = f"/apps/{app.app_id}/workflows/{workflow}/runs/{execution}?step=each"
    async with visit("about:blank") as page, streaming(page, "**/executions/*/stream", step) as begin:
        await sign_in(page, server, path)
        panel = page.get_by_role("complementary", name="Step")
        await expect(panel).to_be_visible()
        await keeps_up(page, begin)
        last = max(number for number in range(RATE * SECONDS) if number % 3 == 2)
        await expect(panel.get_by_text(f"item {last}", exact=True)).to_be_visible()


async def test_a_list_of_executions_follows_200_events_a_second(
    server: Server, app: App, workflows: Workflows, visit: Opening
) -> None:
    workflow = await workflows.made([{"step_type": "merge", "id": "only"}], "often")
    ended = [await workflows.start(workflow) for _ in range(50)]
    for execution in ended:
        await workflows.reached(workflow, execution)

    def told(number: int) -> str:
        kind = ("created", "started", "completed", "failed")[number % 4]
        data = {
            "type": f"execution.{kind}",
            "execution_id": ended[number % len(ended)],
            "status": "running" if number % 2 else "completed",
            "timestamp": now(),
            "progress": {"completed": number % 2, "total": 1},
        }
        return event(data["type"], data, number)

    async with visit("about:blank") as page, streaming(page, "**/executions/stream", told) as begin:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow}")
        await expect(page.get_by_text("50 executions")).to_be_visible()
        await keeps_up(page, begin)


async def test_the_list_of_events_follows_200_events_a_second(server: Server, app: App, visit: Opening) -> None:
    def told(number: int) -> str:
        data = {
            "id": str(earliest_uuid7(number + 1)),
            "event_type": ("row.created", "row.updated", "member.signed_in")[number % 3],
            "version": 1,
            "timestamp": now(),
            "subject": f"rows/<b>{number}</b>",
            "member_id": None,
            "actor": {"kind": "member", "id": None},
            "data": {"text": f"event {number} {'with more words ' * (number % 7)}"},
        }
        return event("event", data, number)

    async with visit("about:blank") as page, streaming(page, "**/events/stream*", told) as begin:
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks/events")
        rows = page.locator("main tbody tr")
        await expect(rows.first).to_be_visible()
        await keeps_up(page, begin)
        await expect(page.get_by_text(f"rows/<b>{RATE * SECONDS - 1}</b>")).to_be_visible()
        assert await rows.count() <= 100
