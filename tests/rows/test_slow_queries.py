"""One app's slow queries end in time and leave the others as fast as they were."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.conftest import first_console_user, new_app
from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE

TABLES = "/v1/public/tables"
SECONDS = 2
# With an odd number of a's every way to cut them into halves is tried, and there are billions.
TEXT = "a" * 301 + "b"
CATASTROPHE = {"where": {"a": {"$matches": r"^(a+)(a+)(a+)(a+)\1\2\3\4b$"}}}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives a statement a few seconds."""
    environment = {"PILOTIS_STATEMENT_SECONDS": str(SECONDS)}
    running = Server(tmp_path_factory.mktemp("impatient") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def apps(impatient: Server) -> tuple[App, App]:
    console = first_console_user(impatient)
    return new_app(impatient, console), new_app(impatient, console)


@pytest.mark.advisory("GHSA-mf3j-86qx-cq5j")
async def test_a_catastrophic_pattern_is_stopped_and_nobody_else_waits(apps: tuple[App, App]):
    app, other_app = apps
    table, other = await app.table({"a": "string"}), await other_app.table({"a": "string"})
    await app.row(table, {"a": TEXT})
    row = await other_app.row(other, {"a": "x"})
    async with app.client() as client, other_app.client() as neighbour:
        # Each with its own limit, because equal queries would share an answer.
        queries = [CATASTROPHE | {"limit": number} for number in range(1, 13)]
        slow = [asyncio.create_task(client.post(f"{TABLES}/{table}/data/query", json=query)) for query in queries]
        served = 0
        while not any(task.done() for task in slow):
            assert (await neighbour.get(f"{TABLES}/{other}/data/{row['id']}")).status_code == 200
            answer = await neighbour.post(f"{TABLES}/{other}/data", json={"data": {"a": "y"}})
            assert answer.status_code == 201
            served += 1
        # A request that had to wait for a connection would have waited until a slow one ended.
        assert served >= 5
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*slow)
    stopped = [answer for answer in answers if answer.status_code == 400]
    assert len(stopped) >= 2
    for answer in stopped:
        assert "statement" not in assert_error(answer, 400, "QUERY_TIMEOUT")["message"]
    # Those beyond the app's share of connections ran later or got 503.
    assert {answer.json()["code"] for answer in answers} <= {"QUERY_TIMEOUT", "UNAVAILABLE"}


async def test_a_pattern_that_is_slow_to_try_is_stopped_too(apps: tuple[App, App]):
    app, _ = apps
    table = await app.table({"a": "string"})
    patterns = [{"a": {"$matches": pattern}} for pattern in ("(a|b|ab){1,200}" * 15, "((a{1,200}){1,200}){1,3}")]
    async with app.client() as client:
        started = time.monotonic()
        answer = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"$or": patterns}})
        assert answer.json().get("code") in {"QUERY_TIMEOUT", "INVALID_REGEX"}
        # On a busy machine the end comes late; without one it would not come for hours.
        assert time.monotonic() - started < 10 * SECONDS
