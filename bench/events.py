"""The cost of event targets: rows created per second in a table with a target, divided by that without one.

`python -m bench.events` prints the median ratio of pairs of short runs. The events are dispatched by another process,
this one, which throws them away.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import asyncpg
from asyncpg import Connection

from bench.load import Requests, run
from bench.servers import Pilotis
from pilotis.events.types import Event, Target
from pilotis.kit.ids import uuid7
from pilotis.server import Node
from pilotis.settings import Settings

_PAIRS = 8
_SECONDS = 1
_CONNECTIONS = 8


class Discarding:
    """A target kind that counts the events it receives."""

    name = "bench"

    def __init__(self) -> None:
        self.count = 0

    async def take(self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:  # noqa: ARG002 - the protocol's
        """Count the events."""
        self.count += len(matched)

    def taken(self, app_id: UUID) -> None:
        """Wake no lane."""


def _table(pilotis: Pilotis, title: str) -> UUID:
    body = {"title": title, "schema": {"n": "int", "text": "string"}, "access_level": "Public"}
    return UUID(pilotis.post("/v1/public/tables", body)["id"])


async def _rate(pilotis: Pilotis, directory: Path, table_id: UUID) -> float:
    requests = Requests("POST", [(f"/v1/public/tables/{table_id}/data", '{"data":{"n":1,"text":"ten letters"}}')])
    headers = {**pilotis.headers, "Content-Type": "application/json"}
    file = requests.write(directory / "requests")
    return (await asyncio.to_thread(run, pilotis.url, "POST", file, headers, _SECONDS, _CONNECTIONS)).rate


async def _measure(pilotis: Pilotis, directory: Path) -> None:
    heard, unheard = _table(pilotis, "heard"), _table(pilotis, "unheard")
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    app_id = await connection.fetchval("select app_id from pilotis.tables where table_id = $1", heard)
    await connection.close()
    discarding = Discarding()
    # No secret is read here, so any master key will do.
    settings = Settings(data_dir=str(directory / "listener"), master_key="00" * 32)
    node = Node(settings, pilotis.connect_arguments(), pilotis.url, targets=[discarding])
    await node.start()
    try:
        await node.floor.events.listen(
            Target(app_id=app_id, kind=discarding.name, target_id=uuid7(), types=["row.created"], table_ids=[heard])
        )
        for table_id in (heard, unheard):
            await _rate(pilotis, directory, table_id)
        pairs = [
            (await _rate(pilotis, directory, heard), await _rate(pilotis, directory, unheard)) for _ in range(_PAIRS)
        ]
    finally:
        await node.stop()
    ratios = [with_ / without for with_, without in pairs]
    print(f"creates with a listener, by creates without: {statistics.median(ratios):.2f} (median of {_PAIRS})")
    print("pairs: " + ", ".join(f"{with_:.0f}/{without:.0f}" for with_, without in pairs))
    print(f"events dispatched meanwhile: {discarding.count}")


def main() -> None:
    """Run it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with Pilotis(directory) as pilotis:
            asyncio.run(_measure(pilotis, directory))


if __name__ == "__main__":
    main()
