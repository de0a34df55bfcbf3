"""Alive and ready, and how often the database is asked."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pilotis.db.pool import Database
from pilotis.http import health as health_endpoints
from pilotis.http.health import HealthEndpoints, NotReadyError
from pilotis.kit.errors import UnavailableError
from tests import databases
from tests.support import Server, assert_error
from tests.waiting import until

CALL: Any = None  # the health routes do not look at the request


async def test_a_running_server_is_alive_and_ready(server: Server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        alive = (await client.get("/healthz")).json()
        # Another test may have called a function on this server.
        assert alive in [{"isolation": level, "status": "ok"} for level in ("unknown", "bwrap", "bwrap-userns")]
        ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"status": "ready", "parts": ["database", "migrations", "process", "object_store"]}


@pytest.mark.advisory("GHSA-6q22-g298-grjh")
async def test_many_questions_are_one_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health_endpoints, "KEPT_SECONDS", 3600.0)
    asked = 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)

    health = HealthEndpoints({"database": check})
    await asyncio.gather(*(health.ready(CALL) for _ in range(100)))
    assert asked == 1
    monkeypatch.setattr(health_endpoints, "KEPT_SECONDS", 0.0)
    await health.ready(CALL)
    assert asked == 2


async def test_a_lost_node_of_the_database_is_named_and_the_others_are_served():
    async def answers() -> None:
        """The database is there."""

    async def lost() -> list[str]:
        return ["10.0.0.5:5432"]

    ready = await HealthEndpoints({"database": answers}, lost_nodes=lost).ready(CALL)
    assert msgspec.to_builtins(ready) == {"status": "ready", "parts": ["database"], "lost_nodes": ["10.0.0.5:5432"]}
    hanging = HealthEndpoints({"database": answers}, lost_nodes=unavailable_nodes)
    assert msgspec.to_builtins(await hanging.ready(CALL)) == {"status": "ready", "parts": ["database"]}


async def unavailable_nodes() -> list[str]:
    raise UnavailableError


async def hang() -> None:
    await asyncio.sleep(60)


async def unavailable() -> None:
    raise UnavailableError("The database is busy.")


async def broken() -> None:
    raise RuntimeError("password=secret host=db.internal")


@pytest.mark.parametrize(("check", "code"), [(hang, "TIMEOUT"), (unavailable, "UNAVAILABLE"), (broken, "FAILED")])
async def test_the_part_at_fault_is_named(check: Any, code: str):
    health = HealthEndpoints({"migrations": check})
    for _ in range(2):
        with pytest.raises(NotReadyError) as caught:
            await health.ready(CALL)
    (detail,) = caught.value.details
    assert (detail.field, detail.code) == ("migrations", code)
    assert "secret" not in detail.message


async def test_a_newer_schema_takes_a_server_out_only_if_it_does_not_work_on_it(tmp_path: Path):
    """What a load balancer sees of an old server after newer ones have migrated."""
    own = Server(tmp_path / "data").start()
    database = Database(databases.address(own.data_dir), size=1)
    try:
        async with httpx.AsyncClient(base_url=own.url) as client:

            async def status() -> int:
                return (await client.get("/readyz")).status_code

            await database.execute(
                "insert into pilotis.migrations (number, name, checksum, needs) values (9999, 'remove', '', 9998)"
            )
            await until(lambda: _equal(status(), 503))
            body = assert_error(await client.get("/readyz"), 503, "NOT_READY")
            assert [detail["field"] for detail in body["details"]] == ["migrations"]
            assert (await client.get("/healthz")).status_code == 200
            await database.execute("update pilotis.migrations set needs = 0, name = 'add' where number = 9999")
            await until(lambda: _equal(status(), 200))
    finally:
        await database.close()
        own.stop()


async def _equal(asked: Awaitable[int], expected: int) -> bool:
    return await asked == expected
