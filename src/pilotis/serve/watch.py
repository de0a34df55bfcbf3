"""What a process looks at beside its requests: its event loop, the disk, and the state of PostgreSQL."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from pilotis import __version__
from pilotis.db import postgres_state
from pilotis.db.pool import Database
from pilotis.kit import disk_history
from pilotis.kit.disk_history import DiskHistory
from pilotis.kit.loop_lag import LoopLag
from pilotis.kit.metrics import CounterFrom, Gauge, Metric, Numbers, Survey


class Watch:
    """Looks at them from `start` to `stop`. One process of a server runs the surveys."""

    def __init__(self, data_dir: Path, database: Database) -> None:
        self._data_dir = data_dir
        self._database = database
        self._lag = LoopLag()
        self._postgres: dict[str, float] = {}

    def start(self) -> None:
        """Begin to measure the event loop."""
        self._lag.start()

    async def stop(self) -> None:
        """End."""
        self._lag.stop()

    def surveys(self) -> list[Survey]:
        """Return what one process of the server looks at twice a minute."""
        return [Survey("PostgreSQL", self._look_at_postgres), Survey("disk", self._look_at_disk)]

    def metrics(self) -> list[Metric]:
        """Return what was seen, and what is looked at with each scrape."""
        once = "One process of each server reports it."
        return [
            Gauge("pilotis_build", "1, by version.", _build, ("version",), is_largest=True),
            self._lag.histogram,
            Gauge("pilotis_processors", "Processors of this machine.", os.cpu_count, is_largest=True),
            Gauge("pilotis_disk_bytes", "Size of the data directory's disk.", partial(self._disk, 0), is_largest=True),
            Gauge("pilotis_disk_free_bytes", "Free bytes of that disk.", partial(self._disk, 2), is_largest=True),
            *(
                Gauge(f"pilotis_postgres_{name}", f"{text} {once}", partial(self._seen, name), is_largest=True)
                for name, text in postgres_state.STATE.items()
            ),
            *(
                CounterFrom(f"pilotis_postgres_{name}", f"{text} {once}", partial(self._seen, name))
                for name, text in postgres_state.COUNTED.items()
            ),
        ]

    async def _look_at_postgres(self) -> None:
        # What is old would hide that the database does not answer.
        self._postgres = {}
        self._postgres = await postgres_state.read(self._database)

    async def _look_at_disk(self) -> None:
        if (free := self._disk(2)) is not None:
            DiskHistory(self._data_dir).record(disk_history.now(int(free)))

    def _seen(self, name: str) -> float | None:
        return self._postgres.get(name)

    def _disk(self, field: int) -> float | None:
        try:
            return float(shutil.disk_usage(self._data_dir)[field])
        except OSError:
            return None


def _build() -> Numbers:
    return {(__version__,): 1}
