"""Lists that are true after processes were killed, after an import, and behind a proxy that collects answers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import databases
from tests.conftest import first_console_user, new_app
from tests.console import owner_of
from tests.http.test_proxies import program, running
from tests.realtime.listening import Event, Listener, TrueList, listening, patched
from tests.realtime.test_channels import declare
from tests.support import App, Server
from tests.test_serve import postgres_of
from tests.transfer.test_command import beside, imported
from tests.transfer.test_routes import resident_megabytes
from tests.waiting import children, reserved_port, until
from tests.whole import times


@pytest.fixture(scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app on a server of two processes."""
    server = Server(tmp_path_factory.mktemp("nodes") / "data", "--workers", "2").start()
    yield new_app(server, first_console_user(server))
    server.stop()


def workers(server: Server) -> set[int]:
    return set(children(server.process.pid)) - ({postgres_of(server)} if databases.is_embedded() else set())


async def followed(client: httpx.AsyncClient, asked: dict[str, Any], true: TrueList, is_over: asyncio.Event) -> None:
    """Follow a list over streams that break, as a page does, until it is over."""
    last: str | None = None
    while not is_over.is_set():
        with suppress(httpx.HTTPError, AssertionError, TimeoutError):
            async with listening(client, asked, after=last) as told:
                if last is None:
                    await true.read()
                seen = 0
                while not told.is_over and not is_over.is_set():
                    for event, data in told.events[seen:]:
                        if event == "reset":
                            await true.read()
                        elif event == "change":
                            true.apply(data)
                    seen = len(told.events)
                    last = told.last_id or last
                    await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)


@pytest.mark.whole
@pytest.mark.embedded("it kills PostgreSQL")
async def test_a_list_is_true_after_processes_and_postgresql_were_killed(nodes: App):
    server, choice, is_over = nodes.server, random.Random(5), asyncio.Event()
    table = await nodes.table({"name": "string", "state": "string"})
    where = {"state": "open"}
    rows = [await nodes.row(table, {"name": str(number), "state": "open"}) for number in range(10)]

    async def write() -> None:
        async with nodes.client() as client:
            while not is_over.is_set():
                path = f"/v1/public/tables/{table}/data/{choice.choice(rows)['id']}"
                with suppress(httpx.HTTPError):
                    await client.patch(path, json={"data": {"state": choice.choice(["open", "closed"])}})
                await asyncio.sleep(0.005)

    async def are_two() -> bool:
        return len(workers(server)) == 2

    async with asyncio.TaskGroup() as group, nodes.client() as client:
        true = TrueList(client, table, where)
        following = group.create_task(followed(client, {"id": "a", "table_id": table, "where": where}, true, is_over))
        writing = group.create_task(write())
        for _ in range(times(1, whole=3)):
            await until(are_two)
            # One of them has the stream, both write.
            for victim in sorted(workers(server)):
                await asyncio.sleep(1.2)
                os.kill(victim, signal.SIGKILL)
                await until(are_two)
            before = postgres_of(server)
            os.kill(before, signal.SIGKILL)

            async def is_back() -> bool:
                with suppress(httpx.HTTPError):
                    return (await client.get("/readyz")).status_code == 200
                return False

            await until(is_back)
            await asyncio.sleep(0.5)
        writing.cancel()

        async def is_true() -> bool:
            with suppress(httpx.HTTPError, AssertionError):
                return true.rows == await true.asked()
            return False

        await until(is_true)
        is_over.set()
        await following


@pytest.mark.whole
@pytest.mark.embedded("it finds the processes by their parent")
async def test_presence_in_a_process_that_was_killed_ends(nodes: App):
    await declare(nodes, {"pattern": "room", "listen": True, "presence": True})
    channels = [{"name": "room", "presence": {"state": {}}}]

    async def are_two() -> bool:
        return len(workers(nodes.server)) == 2

    async with AsyncExitStack() as stack:
        console = await stack.enter_async_context(owner_of(nodes).client(nodes))
        opened: list[Listener] = []

        async def are_on_both() -> bool:
            # A connection of its own, so that both processes get some.
            client = await stack.enter_async_context(nodes.client())
            opened.append(await stack.enter_async_context(listening(client, channels=channels)))
            told = (await console.get("/live-streams")).json()
            return len(told["nodes"]) == 2 and all(node["streams"] for node in told["nodes"])

        await until(are_two)
        await until(are_on_both)
        for one in opened:
            await one.until(lambda events: events[-1:] != [] and events[-1][1]["count"] == len(opened), 30)
        with suppress(httpx.HTTPError):
            os.kill(min(workers(nodes.server)), signal.SIGKILL)

            def are_alone() -> bool:
                # One after the other learns that its stream has ended.
                left = [one for one in opened if not one.is_over]
                return 0 < len(left) < len(opened) and all(one.events[-1][1]["count"] == len(left) for one in left)

            await until(are_alone, 16)
    await until(are_two)


async def test_an_import_into_a_table_that_is_listened_to(app: App, tmp_path: Path):
    number = times(3_000, whole=100_000)
    table = await app.table({"name": "string"})
    file = tmp_path / "rows.csv"
    file.write_text("name\n" + "".join(f"row {n}\n" for n in range(number)))
    async with app.client() as client, listening(client, {"id": "a", "table_id": table}) as told:
        await beside(imported, app, file, "--table", table)
        # Each row, or that there were too many of them.
        await told.until(lambda events: len(events) >= number or any(event == "reset" for event, _ in events), 60)
        assert {data["reason"] for event, data in told.events if event == "reset"} <= {"bulk", "overflow"}
        answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"limit": 0})
        assert answer.json()["total_count"] == number


@pytest.mark.whole
async def test_an_import_beside_many_streams_takes_little_memory(app: App, tmp_path: Path):
    number, streams = 100_000, 100
    table = await app.table({"name": "string", "state": "string"})
    file = tmp_path / "rows.csv"
    file.write_text("name,state\n" + "".join(f"row {n},{n % 2}\n" for n in range(number)))
    async with app.client() as client, AsyncExitStack() as stack:
        listeners: list[Listener] = []
        for each in range(streams):
            asked = {"id": "a", "table_id": table, "where": {"state": str(each % 2)} if each % 3 else None}
            listeners.append(await stack.enter_async_context(listening(client, asked)))
        before = peak = resident_megabytes(app.server.process.pid)
        importing = asyncio.create_task(beside(imported, app, file, "--table", table))
        while not importing.done():
            peak = max(peak, resident_megabytes(app.server.process.pid))
            await asyncio.sleep(0.05)
        await importing
        last = await app.row(table, {"name": "last", "state": "0"})

        def is_told(events: list[Event]) -> bool:
            return any(data.get("row", {}).get("id") == last["id"] for _, data in events[-5:])

        async def are_told() -> bool:
            # Those that are behind may be told only to read again.
            for state in ("1", "0"):
                await patched(app, table, last, state=state)
            await asyncio.sleep(0.5)
            return all(is_told(told.events) for told in listeners)

        await until(are_told, 60)
        for told in listeners:
            changes = sum(event == "change" for event, _ in told.events)
            # Who was not told of each row was told to read them again.
            assert changes >= number // 2 or any(event == "reset" for event, _ in told.events)
            assert {data["reason"] for event, data in told.events if event == "reset"} <= {"bulk", "overflow"}
        async with app.client() as other:
            answer = await other.post(f"/v1/public/tables/{table}/data/query", json={"limit": 0})
        assert answer.json()["total_count"] == number + 1
        peak = max(peak, resident_megabytes(app.server.process.pid))
        assert peak - before < 50, (before, peak)


async def test_streams_come_through_a_proxy_that_collects_answers(app: App, tmp_path: Path):
    table = await app.table({"name": "string"})
    with reserved_port() as port:
        (tmp_path / "nginx.conf").write_text(
            f"""
            daemon off; pid {tmp_path}/pid; error_log stderr;
        events {{}}
            http {{
                access_log off; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;
                fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
                server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {app.server.url}; }} }}
            }}
            """
        )
        command = [program("nginx"), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        with running(command, port, tmp_path / "log"):
            headers = {"X-Public-Key": app.public_key}
            async with (
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as client,
                listening(client, {"id": "a", "table_id": table}) as told,
            ):
                for number in range(3):
                    await app.row(table, {"name": str(number)})
                    assert await told.change() == ("a", "create", {"name": str(number)})
