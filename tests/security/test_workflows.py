"""Attacks on workflows. The ids are those of the section on attacks in the notes: W02, W05, W07 to W11, W13.

`test_matrix.py` tries every route with other credentials (W01), `workflows/` has the rest.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import asyncpg
import httpx
import msgspec
import pytest

from pilotis.http.replies import streams
from pilotis.workflows.checkpoint_store import Checkpoint, held_checkpoint, write
from pilotis.workflows.definition import normalise
from pilotis.workflows.plan import Context, plan
from pilotis.workflows.types import NewWorkflow
from tests.backstage import run_sql
from tests.conftest import PASSWORD
from tests.console import owner_of, second_node, user_with
from tests.functions.support import Functions
from tests.http.bare import serving
from tests.services import connected
from tests.support import App, assert_error, plain_client
from tests.waiting import PATIENCE, until
from tests.workflows.support import Workflows, statuses

MERGE = {"step_type": "merge", "id": "sum", "input_mapping": {"n": "$.input.n"}}
TOLD = ("execution.created", "execution.started", "step.completed", "execution.completed")


async def refused(workflows: Workflows, *steps: dict[str, Any], **fields: Any) -> list[str]:
    """The codes with which a definition is refused, when it is saved and when it is validated."""
    body = {"name": "attack", "steps": list(steps), **fields}
    answer = await workflows.console.post(workflows.base, json=body)
    assert answer.status_code == 400, answer.text
    validated = (await workflows.console.post(f"{workflows.base}/validate", json=body)).json()
    codes = [detail["code"] for detail in answer.json().get("details", ())]
    # What is nested too deeply for any body is an error there too.
    assert "code" in validated or [error["code"] for error in validated["errors"]] == codes
    return codes


def nested(depth: int, innermost: Any, wrap: str = "$and") -> Any:
    for _ in range(depth):
        innermost = {wrap: [innermost]}
    return innermost


@pytest.mark.alone
async def test_w02_a_token_that_was_rotated_out_takes_as_long_as_one_that_never_was(workflows: Workflows):
    """The three are asked in turns; what one of them reads more would show in the median."""
    urls = {}
    for kind in ("rotated", "deleted"):
        workflow_id = await workflows.made([MERGE], name=kind)
        place = f"{workflows.base}/{workflow_id}"
        urls[kind] = (await workflows.console.post(f"{place}/trigger", json={})).json()["trigger_url"]
        if kind == "rotated":
            await workflows.console.post(f"{place}/trigger/rotate", json={"grace_seconds": 0})
        else:
            await workflows.console.delete(place)
    urls["guessed"] = f"{urls['rotated'].rpartition('/')[0]}/wt_{'A' * 43}"
    taken: dict[str, list[float]] = {kind: [] for kind in urls}
    async with plain_client(workflows.app.server.url) as client:
        for _ in range(60):
            for kind, url in urls.items():
                begun = time.perf_counter()
                assert_error(await client.post(url, content=b"{}"), 404, "TRIGGER_NOT_FOUND")
                taken[kind].append(time.perf_counter() - begun)
    medians = {kind: median(seconds) for kind, seconds in taken.items()}
    assert max(medians.values()) < 1.5 * min(medians.values()), medians


async def test_w05_conditions_and_mappings_have_a_size(workflows: Workflows):
    leaf = {"$.input.n": 1}
    huge = "$.input" + ".a" * 5000
    for condition in (nested(100, leaf), {"$or": [leaf] * 10_000}, {huge: 1}, {"$.input.n": {"$matches": "(a+)+$"}}):
        step = {"step_type": "condition", "condition": condition}
        await refused(workflows, step)
    deep: Any = "$.input.n"
    for _ in range(500):
        deep = {"a": deep}
    for mapping in ({"x": huge}, {"x": ["$.input.n"] * 20_000}, {"x": "{{ $.input..n }}"}, deep):
        answer = await workflows.console.post(
            workflows.base, json={"name": "attack", "steps": [MERGE | {"input_mapping": mapping}]}
        )
        assert answer.status_code in {400, 413}, answer.text


@pytest.mark.alone
async def test_w05_a_mebibyte_of_input_is_evaluated_in_linear_time(app: App, workflows: Workflows):
    """What a workflow evaluates does not keep other requests waiting, and does not multiply."""
    many = {"$or": [{f"$.input.list[{at}]": "absent"} for at in range(40)]}
    steps = [
        {"step_type": "condition", "id": f"c{at}", "condition": many} for at in range(40)
    ]  # fmt: skip
    twice = {"step_type": "merge", "id": "twice", "input_mapping": {"x": ["$.input", "$.input"]}}
    workflow_id = await workflows.made([*steps, twice])
    given = {"list": ["x" * 1000] * 1000}
    started = [await workflows.start(workflow_id, given) for _ in range(5)]
    latencies = []
    async with app.client() as client:
        for execution_id in started:
            while (await workflows.read(workflow_id, execution_id))["status"] not in {"completed", "failed"}:
                begun = time.perf_counter()
                assert (await client.get("/v1/public/tables")).status_code == 200
                latencies.append(time.perf_counter() - begun)
    # Each takes some milliseconds. What is quadratic in the input takes minutes.
    assert max(latencies, default=0.0) < 5
    for execution_id in started:
        execution = await workflows.read(workflow_id, execution_id)
        assert (execution["status"], execution["error"]["code"]) == ("failed", "OUTPUT_TOO_LARGE")
        assert execution["error"]["step_id"] == "twice"
        assert statuses(execution)["c39"] == "completed"


@pytest.mark.alone
def test_w05_the_time_of_an_evaluation_grows_with_its_input_and_no_faster():
    """Processor time of the evaluator alone, on inputs of a sixteenth of a mebibyte and of one."""
    condition = {"$or": [{"$.input.list": {"$contains": f"{at}-absent"}} for at in range(20)]}
    mapping = {"text": "{{ $.input.list }}", "parts": [f"$.input.list[{at}]" for at in range(1000)]}
    definition = msgspec.convert(
        {
            "name": "x",
            "steps": [
                {"step_type": "condition", "id": "c", "condition": condition},
                {"step_type": "merge", "id": "m", "input_mapping": mapping},
            ],
        },
        NewWorkflow,
    )
    normalise(definition)

    def seconds(size: int) -> float:
        """The least processor time of a few evaluations."""
        context = Context({"list": ["x" * 10] * size}, {"type": "manual"})
        taken = []
        for _ in range(5):
            begun = time.process_time()
            for _ in range(5):
                assert plan(definition, context, {}).is_done
            taken.append(time.process_time() - begun)
        return min(taken)

    small, large = seconds(4_000), seconds(64_000)
    assert large < 16 * 6 * small, (small, large)


async def test_w07_outputs_that_add_up_end_the_execution(functions: Functions, workflows: Workflows):
    await functions.made("makes", "export default () => ({ text: 'x'.repeat(1_000_000) })")
    call = {"step_type": "function", "function_id": "makes", "input_mapping": {}}
    steps = [call | {"id": f"s{at}"} for at in range(20)]
    execution = await workflows.ran(steps)
    assert (execution["status"], execution["error"]["code"]) == ("failed", "OUTPUT_TOO_LARGE")
    assert sum(one["status"] == "completed" for one in execution["steps"]) <= 17


async def test_w07_items_and_their_outputs_are_bounded(functions: Functions, workflows: Workflows):
    await functions.made("makes", "export default () => ({ text: 'x'.repeat(1_000_000) })")
    each = {"step_type": "parallel", "id": "each", "function_id": "makes", "items": "$.input.list"}
    execution = await workflows.ran([each], {"list": [1] * 1001}, name="many")
    assert (execution["status"], execution["error"]["code"]) == ("failed", "MAPPING_FAILED")
    execution = await workflows.ran([each], {"list": [1] * 30}, name="large")
    assert (execution["status"], execution["error"]["code"]) == ("failed", "OUTPUT_TOO_LARGE")
    execution = await workflows.ran([each], {"list": {"a": 1}}, name="none")
    assert (execution["status"], execution["error"]["code"]) == ("failed", "MAPPING_FAILED")


async def test_w07_definitions_neither_nest_nor_loop_without_end(workflows: Workflows):
    steps: list[dict[str, Any]] = [MERGE]
    for depth in range(3):
        steps = [{"step_type": "parallel", "id": f"p{depth}", "branches": [{"id": "b", "steps": steps}]}]
    assert await refused(workflows, *steps) == ["TOO_DEEP"]
    assert await refused(workflows, *[MERGE | {"id": f"s{at}"} for at in range(101)])
    wide = {"step_type": "parallel", "branches": [
        {"id": f"b{at}", "steps": [MERGE | {"id": f"s{at}-{n}"} for n in range(11)]} for at in range(10)
    ]}  # fmt: skip
    assert await refused(workflows, wide) == ["TOO_MANY_STEPS"]
    back = {"step_type": "condition", "id": "back", "condition": {}}
    assert await refused(workflows, MERGE, back | {"on_true": ["sum"]}) == ["JUMP"]
    assert await refused(workflows, back | {"on_true": ["back"]}) == ["JUMP"]
    large = [MERGE | {"id": f"s{at}", "input_mapping": {"x": "y" * 5_000}} for at in range(60)]
    answer = await workflows.console.post(workflows.base, json={"name": "attack", "steps": large})
    assert_error(answer, 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    "cron",
    [
        "* * * * * *",
        "@every 1s",
        "@reboot",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "60 * * * *",
        "* * * * * 9999",
        "*/0 * * * *",
        "0-99999999999999999999 * * * *",
        "\u0661 * * * *",
        "* * * *",
    ],
)
async def test_w08_times_that_never_come_or_always(workflows: Workflows, cron: str):
    assert await refused(workflows, schedule_cron=cron) == ["INVALID_CRON"]


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "/etc/localtime", "Europe", "a" * 100])
async def test_w08_zones_that_are_none(workflows: Workflows, zone: str):
    (code,) = await refused(workflows, schedule_cron="0 0 * * *", schedule_timezone=zone)
    assert code in {"INVALID_TIMEZONE", "INVALID_VALUE"}


async def test_w09_an_app_with_a_full_queue_delays_no_other(
    app: App, other_app: App, functions: Functions, workflows: Workflows
):
    """Of 10,000 waiting executions of one app another one notices nothing, and the app itself gets a 429."""
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    victim = Workflows(other_app)
    busy = await workflows.made([{"step_type": "function", "function_id": "sleeps"}])
    quick = await victim.made([MERGE])
    # More than the app's slots, so that at least 10,000 wait for as long as the first ones sleep.
    await run_sql(
        app.server,
        """
        insert into pilotis.workflow_executions
            (app_id, execution_id, workflow_id, version, status, trigger, trigger_type, input, timeout_seconds)
        select $1, pilotis.uuid7(), $2, 1, 'pending', '{"type":"manual"}', 'manual', '{}', 600
        from generate_series(1, 10100)
        """,
        app.app_id,
        busy,
    )
    pending = f"{workflows.base}/{busy}/executions?status=pending&limit=1"
    try:
        assert_error(await workflows.execute(busy), 429, "WORKFLOW_QUEUE_FULL")
        for _ in range(5):
            ended = await victim.reached(quick, await victim.start(quick, {"n": 1}))
            assert (ended["status"], ended["output"]) == ("completed", {"n": 1})
        assert (await workflows.console.get(pending)).json()["total_count"] >= 10_000, "The others were first."
        assert_error(await workflows.execute(busy), 429, "WORKFLOW_QUEUE_FULL")
    finally:
        assert (await workflows.console.delete(f"{workflows.base}/{busy}")).status_code == 200
        await victim.console.aclose()


async def test_w10_streams_of_an_app_are_counted(app: App, workflows: Workflows):
    """Of an app's hundred clients ten take nothing: the others are told of everything, and one more is rejected."""
    workflow_id = await workflows.made([MERGE])
    path = f"{workflows.base}/{workflow_id}/executions/stream"
    url = urlsplit(app.server.url)
    token = workflows.console.headers["authorization"]
    request = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {token}\r\n\r\n".encode()
    opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def begin() -> None:
        reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**20)
        opened.append((reader, writer))
        writer.write(request)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"event: snapshot\n")

    try:
        await asyncio.gather(*(begin() for _ in range(100)))
        assert_error(await workflows.console.get(path), 429, "TOO_MANY_STREAMS")
        execution_id = await workflows.start(workflow_id, {"n": 1})
        told = await asyncio.gather(*(reader.readuntil(b"event: execution.completed\n") for reader, _ in opened[10:]))
        for text in told:
            assert [text.count(f"event: {name}\n".encode()) for name in TOLD] == [1] * len(TOLD)
        assert (await workflows.reached(workflow_id, execution_id))["status"] == "completed"
    finally:
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in opened), return_exceptions=True)

    async def free() -> bool:
        async with workflows.console.stream("GET", path) as answer:
            return answer.status_code == 200

    await until(free)


async def until_line(answer: httpx.Response, last: str) -> AsyncIterator[str]:
    """The lines of an answer up to one of them."""
    async for line in answer.aiter_lines():
        yield line
        if line == last:
            return


async def test_w10_a_reader_that_is_far_behind_gets_a_reset(app: App, workflows: Workflows):
    workflow_id = await workflows.made([MERGE])
    execution_id = await workflows.start(workflow_id, {"n": 1})
    await workflows.reached(workflow_id, execution_id)
    await run_sql(
        app.server,
        """
        with moved as (
            update pilotis.workflow_executions set seq = 2004 where app_id = $1 and execution_id = $2 returning 1
        )
        insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
        select $1, $2, $3, n, 'step.log', '{"lines":[]}' from generate_series(5, 2004) n, moved
        """,
        app.app_id,
        execution_id,
        workflow_id,
    )
    path = f"{workflows.base}/{workflow_id}/executions/{execution_id}/stream"
    for last in ("0", "900", "2005", str(2**63 - 1)):
        told = (await workflows.console.get(path, headers={"Last-Event-ID": last})).text
        names = [line[7:] for line in told.splitlines() if line.startswith("event: ")]
        assert names[:3] == ["reset", "snapshot", "end"], last
    near = (await workflows.console.get(path, headers={"Last-Event-ID": "1500"})).text
    assert near.count("event: step.log") == 504
    # The stream of the workflow leaves lines of logs out; what it does not leave out is bounded as well.
    moved = "update pilotis.workflow_events set type = 'step.started' where type = 'step.log' and execution_id = $1"
    await run_sql(app.server, moved, execution_id)
    first = "select min(event_id) from pilotis.workflow_events where execution_id = $1"
    last = str(await run_sql(app.server, first, execution_id))
    whole = f"{workflows.base}/{workflow_id}/executions/stream"
    async with workflows.console.stream("GET", whole, headers={"Last-Event-ID": last}) as answer:
        names = [line[7:] async for line in until_line(answer, "event: snapshot") if line.startswith("event: ")]
    assert names == ["reset", "snapshot"]


async def test_w11_a_stream_ends_with_its_app_and_shows_no_other_apps_events(
    app: App, other_app: App, workflows: Workflows
):
    theirs = Workflows(other_app)
    own, other = await workflows.made([MERGE]), await theirs.made([MERGE])
    for path in (f"{workflows.base}/{other}/executions/stream", f"{workflows.base}/{other}/executions/{own}/stream"):
        assert_error(await workflows.console.get(path), 404, "WORKFLOW_NOT_FOUND")
    lines: list[str] = []
    began = asyncio.Event()

    async def follow() -> None:
        path = f"{workflows.base}/{own}/executions/stream"
        async with (
            plain_client(app.server.url, **workflows.console.headers) as client,
            client.stream("GET", path) as answer,
        ):
            async for line in answer.aiter_lines():
                lines.append(line)
                began.set()

    following = asyncio.create_task(follow())
    await began.wait()
    await theirs.reached(other, await theirs.start(other, {"n": 1}))
    execution_id = await workflows.start(own, {"n": 1})
    await until(lambda: any(execution_id in line and "execution.completed" in line for line in lines))
    assert not any(other in line for line in lines)
    assert (await workflows.console.delete(f"{workflows.base}/{own}")).status_code == 200
    # It notices at its next look, a few seconds later.
    await asyncio.wait_for(following, 120)
    await theirs.console.aclose()


async def test_w11_a_stream_ends_with_the_right_to_read_it(
    app: App, other_app: App, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
):
    """Who signs out, loses the role or the app loses the stream, at the next look at the credential."""
    monkeypatch.setattr(streams, "CHECK_SECONDS", 0.05)
    theirs = Workflows(other_app)
    own, other = await workflows.made([MERGE]), await theirs.made([MERGE])
    leaving, demoted, staying = [await user_with(app, "viewer") for _ in range(3)]
    async with plain_client(app.server.url) as client:
        answer = await client.post("/v1/auth/signin", json={"email": leaving.email, "password": PASSWORD})
    session = answer.json()
    told: dict[str, str] = {}

    async def follow(name: str, address: str, base: str, workflow_id: str, token: str) -> None:
        told[name] = ""
        async with (
            plain_client(address, Authorization=f"Bearer {token}") as client,
            client.stream("GET", f"{base}/{workflow_id}/executions/stream") as answer,
        ):
            async for text in answer.aiter_text():
                told[name] += text

    async with second_node(app.server, background=["none"]) as node, serving(node.application) as address:
        readers = {
            name: asyncio.create_task(follow(name, address, *place))
            for name, place in {
                "left": (workflows.base, own, session["access_token"]),
                "demoted": (workflows.base, own, demoted.access_token),
                "deleted": (theirs.base, other, other_app.console["access_token"]),
                "stays": (workflows.base, own, staying.access_token),
            }.items()
        }
        await until(lambda: sum("event: snapshot" in text for text in told.values()) == 4)
        async with plain_client(app.server.url, Authorization=f"Bearer {session['refresh_token']}") as client:
            assert (await client.post("/v1/auth/logout")).status_code == 200
        async with owner_of(app).client(app) as console:
            assert (await console.delete(f"/users/{demoted.user_id}")).status_code == 200
        assert (await workflows.console.delete(f"/v1/apps/{other_app.app_id}")).status_code == 200
        for name in ("left", "demoted", "deleted"):
            await asyncio.wait_for(readers[name], PATIENCE)
            assert told[name].endswith('event: bye\ndata: {"reason":"credential"}\n\n'), told[name]
        execution_id = await workflows.start(own, {"n": 1})
        await until(lambda: execution_id in told["stays"])
        assert not any(execution_id in told[name] for name in ("left", "demoted", "deleted"))
        readers["stays"].cancel()
        await asyncio.wait([readers["stays"]])
    await theirs.console.aclose()


async def test_w11_executions_of_a_deleted_app_end(app: App, functions: Functions, workflows: Workflows):
    """A deleted app calls no more functions: what runs and what waits is cancelled."""
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    step = {"step_type": "function", "id": "sleeps", "function_id": "sleeps"}
    workflow_id = await workflows.made([step], max_concurrency=1)
    running, waiting = [await workflows.start(workflow_id) for _ in range(2)]

    async def begun() -> bool:
        return statuses(await workflows.read(workflow_id, running)).get("sleeps") == "running"

    await until(begun)
    assert (await workflows.console.delete(f"/v1/apps/{app.app_id}")).status_code == 200
    statement = "select array_agg(status order by execution_id) from pilotis.workflow_executions where app_id = $1"

    async def ended() -> bool:
        return await run_sql(app.server, statement, app.app_id) == ["cancelled"] * 2

    await until(ended)
    left = "select array_agg(execution_id || ' ' || status) from pilotis.workflow_steps where app_id = $1"
    assert await run_sql(app.server, left, app.app_id) == [f"{running} cancelled"]
    restored = await workflows.console.post(f"/v1/apps/{app.app_id}/restore")
    assert restored.status_code == 200, restored.text
    assert (await workflows.read(workflow_id, waiting))["status"] == "cancelled"
    assert (await workflows.start(workflow_id)) not in {running, waiting}
    assert (await workflows.console.delete(f"{workflows.base}/{workflow_id}")).status_code == 200


async def test_w13_a_stale_process_writes_nothing(app: App, functions: Functions, workflows: Workflows):
    """Only the owner with the newest fence changes an execution; `workflows/crashes.py` freezes real processes."""
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    workflow_id = await workflows.made([{"step_type": "function", "id": "sleeps", "function_id": "sleeps"}])
    execution_id = await workflows.start(workflow_id)

    async def begun() -> bool:
        return statuses(await workflows.read(workflow_id, execution_id)).get("sleeps") == "running"

    await until(begun)
    place = app_id, _ = (UUID(app.app_id), UUID(execution_id))
    point = Checkpoint(events=[{"type": "execution.completed", "data": {}}], status="completed", output={"forged": 1})
    async with connected(app.server) as connection:
        holder = "select owner, fence from pilotis.workflow_executions where app_id = $1 and execution_id = $2"
        owner, fence = await connection.fetchrow(holder, *place)
        before = await state(connection, execution_id)
        for stale in ((owner, fence - 1), (uuid4(), fence), (owner, fence + 1)):
            assert await write(connection, app_id, [held_checkpoint(UUID(execution_id), *stale, point)]) == {}
        assert await state(connection, execution_id) == before
        answer = await workflows.console.post(f"{workflows.base}/{workflow_id}/executions/{execution_id}/cancel")
        assert answer.json()["status"] == "cancelled"
        before = await state(connection, execution_id)
        assert await write(connection, app_id, [held_checkpoint(UUID(execution_id), owner, fence, point)]) == {}
        assert await state(connection, execution_id) == before


async def state(connection: asyncpg.Connection, execution_id: str) -> list[list[str]]:
    """All that is stored of an execution."""
    tables = ("workflow_executions", "workflow_steps", "workflow_events")
    statement = "select t::text from pilotis.{} t where execution_id = $1 order by 1"
    return [[row["t"] for row in await connection.fetch(statement.format(table), execution_id)] for table in tables]
