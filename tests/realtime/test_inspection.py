"""What those who look after an app see of its live streams, on all processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.conftest import first_console_user, new_app
from tests.console import owner_of
from tests.database import connection_to
from tests.realtime.listening import listening, patched
from tests.realtime.test_channels import declare
from tests.support import App, Server
from tests.waiting import until


@pytest.fixture(scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app on a server of two processes."""
    server = Server(tmp_path_factory.mktemp("nodes") / "data", "--workers", "2").start()
    yield new_app(server, first_console_user(server))
    server.stop()


async def shown(console: httpx.AsyncClient) -> dict[str, Any]:
    answer = await console.get("/live-streams")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_streams_of_all_nodes_are_shown_with_what_they_were_told(nodes: App):
    app = nodes
    await declare(app, {"pattern": "room:{room}", "listen": True, "presence": True})
    table = await app.table({"name": "string"})
    row = await app.row(table, {"name": "first"})
    ada = await app.member("ada")
    mine = {"id": "mine", "table_id": table, "where": {"name": "second"}}
    async with AsyncExitStack() as stack:
        console_side = await stack.enter_async_context(owner_of(app).client(app))

        async def open_one(token: str | None) -> str:
            # A connection of its own, so that each of the processes gets some.
            client = await stack.enter_async_context(app.client(token))
            channels = [] if token else [{"name": "room:1", "presence": {}}]
            asked = mine if token else {"id": "all", "table_id": table}
            listener = await stack.enter_async_context(listening(client, asked, channels=channels))
            return str(listener.ready["stream"])

        secrets = [await open_one(ada["access_token"])]

        async def are_on_both() -> bool:
            secrets.append(await open_one(None))
            return all(node["streams"] for node in (await shown(console_side))["nodes"])

        await until(are_on_both)
        told: dict[str, Any] = {}
        for number, name in ((1, "second"), (2, "third")):
            await patched(app, table, row, name=name)

            async def are_told(number: int = number) -> dict[str, Any] | None:
                told = await shown(console_side)
                return told if all(one["subscriptions"][0]["told"] == number for one in told["streams"]) else None

            told = await until(are_told, 20)
        member, *public = sorted(told["streams"], key=lambda stream: stream["caller"])
        assert (told["total_count"], told["silent"]) == (len(secrets), [])
        assert sum(node["streams"] for node in told["nodes"]) == len(secrets)
        assert len({node["node_id"] for node in told["nodes"]}) == 2
        assert all(node["delay_ms"] <= node["slowest_ms"] for node in told["nodes"])
        assert {stream["node_id"] for stream in told["streams"]} == {node["node_id"] for node in told["nodes"]}
        assert (member["caller"], member["member_id"]) == ("member", ada["member_id"])
        asked = {"id": "mine", "table_id": table, "where": mine["where"], "row_id": None}
        assert member["subscriptions"] == [asked | {"told": 2, "resets": 0, "reset_reason": None}]
        for stream in public:
            assert (stream["caller"], stream["member_id"]) == ("public", None)
            assert stream["channels"] == [{"name": "room:1", "is_present": True}]
            assert (stream["unsent_bytes"], stream["is_slow"]) == (0, False)
        # What a client alone knows of its stream is not shown.
        assert not any(secret in str(told) for secret in secrets)
        # Another app's streams are its own matter.
        other = new_app(app.server, app.console)
        async with owner_of(other).client(other) as theirs:
            assert (await shown(theirs))["total_count"] == 0


async def test_a_process_that_does_not_answer_is_named(nodes: App):
    async with connection_to(nodes.server) as connection, owner_of(nodes).client(nodes) as console:
        await connection.execute(
            "insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until, ports) "
            "values (gen_random_uuid(), gen_random_uuid(), 0, 'frozen', '0', now() + interval '1 hour', '{}')"
        )
        try:
            assert (await shown(console))["silent"] == ["frozen"]
        finally:
            await connection.execute("delete from pilotis.nodes where name = 'frozen'")
