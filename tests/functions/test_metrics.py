"""Functions, section 11: what `/metrics` and `/healthz` say of functions, on a server of their own."""

import re

import pytest

from pilotis.functions.runtime.policy import Runtime
from tests.conftest import first_console_user, new_app
from tests.functions.support import Functions, isolation_of
from tests.support import App, Server, plain_client
from tests.waiting import until


@pytest.fixture(scope="module")
def own_console(measured_server: Server) -> dict[str, str]:
    return first_console_user(measured_server)


@pytest.fixture
def app(measured_server: Server, own_console: dict[str, str]) -> App:
    return new_app(measured_server, own_console)


async def shown(functions: Functions) -> dict[str, float]:
    """The values on functions, by name and labels."""
    async with plain_client(functions.app.server.metrics_url) as client:
        text = (await client.get("/metrics")).text
    found = re.findall(r"^pilotis_function_([^\s{]+)(\{.*\})? ([\d.e+-]+)$", text, re.MULTILINE)
    return {name + labels: float(value) for name, labels, value in found}


async def test_before_the_first_function_there_is_nothing_to_tell(functions: Functions):
    async with plain_client(functions.app.server.url) as client:
        assert (await client.get("/healthz")).json() == {"isolation": "unknown", "status": "ok"}
    found = await shown(functions)
    assert found["seconds_count"] == 0
    assert found["sandboxes_unattended"] == 0
    assert not [name for name in found if name.startswith(("sandboxes{", "invocations"))]


async def test_calls_are_counted_by_how_they_ended(functions: Functions):
    await functions.made("fails", "export default ({ fail }) => { if (fail) throw new Error('no'); };")
    await functions.made("spins", "export default () => { for (;;); };", timeout_seconds=1)
    await functions.result("fails")
    await functions.result("fails", {"fail": True})
    assert (await functions.result("spins"))["status"] == "timeout"

    async def counted() -> dict[str, float] | None:
        found = await shown(functions)
        return found if found["seconds_count"] >= 3 else None

    found = await until(counted)
    ended: dict[str, float] = {}
    for name, number in found.items():
        if match := re.match(r'invocations_total\{runtime="javascript",start="\w+",status="(\w+)"\}', name):
            ended[match[1]] = ended.get(match[1], 0) + number
    assert ended == {"success": 1, "error": 1, "timeout": 1}
    assert found["seconds_count"] == found["queue_seconds_count"] == 3
    assert found["seconds_sum"] >= 0.5, "The call that timed out took most of a second."
    assert 2 <= found["load_seconds_count"] <= 3
    assert found['kills_total{reason="function_timeout"}'] == 1
    assert any(name.startswith('sandboxes{runtime="javascript"') for name in found)


async def test_the_health_names_the_isolation(functions: Functions):
    await functions.made("runs", "export default () => 1;")
    levels = {level.value for level in (isolation_of(runtime)[0] for runtime in Runtime) if level}
    async with plain_client(functions.app.server.url) as client:
        assert (await client.get("/healthz")).json()["isolation"] in levels
