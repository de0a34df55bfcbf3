"""Functions, sections 8 and 14: several nodes run the same functions."""

import asyncio
import itertools
from typing import Any

import httpx

from pilotis.functions.feature import FunctionsFeature
from tests.console import client_of, second_node
from tests.functions.support import Functions
from tests.support import App
from tests.waiting import PATIENCE, until

CALLS_PER_SECOND = 50
# So many may wait, on a machine on which calls take longer than their pace.
MAX_RUNNING = 40


async def result(client: httpx.AsyncClient, payload: dict[str, Any] | None = None, **fields: Any) -> Any:
    answer = await client.post("/v1/public/functions/greet/invoke", json={"payload": payload or {}, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def console_of(app: App) -> dict[str, str]:
    return {"Authorization": f"Bearer {app.console['access_token']}", "X-Public-Key": app.public_key}


async def test_what_one_node_changes_the_others_call(functions: Functions):
    app = functions.app
    source = "export default (p, ctx) => [%d, ctx.version, ctx.env.WORD ?? null];"
    async with second_node(app.server) as node, client_of(node, **console_of(app)) as there, app.client() as here:
        function_id = await functions.made("greet", source % 1)
        path = f"{functions.base}/{function_id}"
        # Notifications take a moment, and without one a function is read again after a second.
        for client in (here, there):
            assert await until(lambda client=client: _is(client, [1, 1, None]))
        assert (await functions.deploy(function_id, source % 2)).status_code == 201
        assert await result(here) == [2, 2, None]
        assert await until(lambda: _is(there, [2, 2, None]))
        assert (await there.post(f"{path}/versions/1/activate")).status_code == 200
        assert await result(there) == [1, 1, None]
        assert await until(lambda: _is(here, [1, 1, None]))
        assert (await there.put(f"{path}/env/WORD", json={"value": "hello"})).status_code == 200
        for client in (here, there):
            assert await until(lambda client=client: _is(client, [1, 1, "hello"]))
        called = (await there.post(f"{path}/invoke", json={})).json()["execution_id"]

        async def recorded() -> bool:
            return (await functions.console.get(f"{path}/executions/{called}")).status_code == 200

        assert await until(recorded)
        assert (await functions.console.patch(path, json={"is_active": False})).status_code == 200

        async def is_inactive() -> bool:
            answer = await there.post("/v1/public/functions/greet/invoke", json={})
            return answer.status_code == 403

        assert await until(is_inactive)


async def _is(client: httpx.AsyncClient, wanted: list[Any]) -> bool:
    return await result(client) == wanted


async def test_of_fifty_calls_a_second_none_fails_or_mixes_versions_while_new_ones_are_deployed(functions: Functions):
    app = functions.app
    both = {
        "index.js": "import { n } from './n.js'; export default (p, ctx) => [VERSION, n, ctx.version];",
        "n.js": "export const n = VERSION;",
    }

    def version(number: int) -> dict[str, str]:
        return {name: text.replace("VERSION", str(number)) for name, text in both.items()}

    function_id = await functions.made("greet", version(1))
    results: list[list[int]] = []
    async with second_node(app.server) as node, client_of(node, **console_of(app)) as there, app.client() as here:
        here.timeout = there.timeout = PATIENCE

        async def call(client: httpx.AsyncClient) -> None:
            results.append(await result(client, timeout=PATIENCE))

        async def call_on(group: asyncio.TaskGroup) -> None:
            """Call fifty times a second, by turns, until the newest version has answered for a while."""
            clients, running = itertools.cycle((here, there)), set()
            while results.count([3, 3, 3]) < CALLS_PER_SECOND:
                running = {task for task in running if not task.done()}
                if len(running) < MAX_RUNNING:
                    running.add(group.create_task(call(next(clients))))
                await asyncio.sleep(1 / CALLS_PER_SECOND)

        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call_on(group))
            for number in (2, 3):
                before = len(results)
                assert await until(lambda before=before: len(results) >= before + CALLS_PER_SECOND)
                assert (await functions.deploy(function_id, version(number))).status_code == 201
            await calling
    assert {tuple(one) for one in results} == {(n, n, n) for n in (1, 2, 3)}


async def test_three_nodes_call_an_earlier_version_again_and_see_a_variable_even_without_being_told(
    functions: Functions,
):
    app = functions.app
    source = "export default (p, ctx) => [%d, ctx.version, ctx.env.WORD ?? null];"
    async with (
        second_node(app.server) as second,
        # It hears of no change, and reads a function again after a second.
        second_node(app.server, listening=False) as third,
        client_of(second, **console_of(app)) as at_second,
        client_of(third, **console_of(app)) as at_third,
        app.client() as here,
    ):
        clients = (here, at_second, at_third)

        async def all_are(wanted: list[Any]) -> bool:
            return [await result(client) for client in clients] == [wanted] * 3

        function_id = await functions.made("greet", source % 1)
        path = f"{functions.base}/{function_id}"
        assert (await functions.deploy(function_id, source % 2)).status_code == 201
        assert await until(lambda: all_are([2, 2, None]))
        assert (await functions.console.post(f"{path}/versions/1/activate")).status_code == 200
        assert await until(lambda: all_are([1, 1, None]))
        assert (await functions.console.put(f"{path}/env/WORD", json={"value": "hello"})).status_code == 200
        assert await until(lambda: all_are([1, 1, "hello"]))
        assert (await functions.console.delete(f"{path}/env/WORD")).status_code == 200
        assert await until(lambda: all_are([1, 1, None]))
        assert await all_are([1, 1, None])


async def test_a_node_that_stops_ends_its_calls_and_starts_no_more(functions: Functions):
    app = functions.app
    gate = await app.table({"n": "int"}, title="gate")
    source = """
        export default async ({ wait }, ctx) => {
          while (wait && !(await ctx.api.rows("gate").query({ limit: 1 })).total_count)
            await new Promise((done) => setTimeout(done, 100));
          return 1;
        };"""
    await functions.made("greet", source)
    async with second_node(app.server) as node, client_of(node, **console_of(app)) as there, app.client() as here:
        waiting = asyncio.create_task(result(there, {"wait": True}))
        assert await until(lambda: _busy(node))
        node.begin_stop()

        async def is_refused() -> bool:
            return (await there.post("/v1/public/functions/greet/invoke", json={})).status_code == 503

        assert await until(is_refused)
        await app.row(gate, {"n": 1})
        assert await waiting == 1
        assert await result(here) == 1


def _busy(node: Any) -> bool:
    return node.made.get(FunctionsFeature).calls.pool.by_runtime().get(("javascript", "busy"), 0) == 1
