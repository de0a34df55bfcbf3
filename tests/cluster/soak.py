"""What grows while a cluster works for long: memory, open files, connections, dead rows, WAL.

Clients of all kinds work minute by minute, without faults, and each minute is checked as a window of a campaign. Then,
at rest, everything is measured that should stay as it is.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence

import msgspec
import psutil

from tests.cluster.campaign import Campaign
from tests.cluster.cluster import Cluster, Node
from tests.cluster.faults import Disturbance

WARM_UP_MINUTES = 45.0
"""Until then caches fill at the rate of this load: 4,096 tokens, 256 statements a connection, tables of 500 kinds."""
FEWEST = 8
"""Samples after the warm-up that say something about a slope."""
_LIMITS = {
    # What a slope may be in an hour: of a node's memory the goal itself, of everything else somewhat more than chance.
    "node_mb": 1.0,
    "postgres_mb": 20.0,
    "descriptors": 6.0,
    "connections": 6.0,
    "processes": 3.0,
    "wal_mb": 64.0,
    "dead_share": 0.2,
    "temporary_mb": 1.0,
}
_DATABASE = """
    select
        (select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
            as connections,
        (select greatest(0, sum(size) - pg_size_bytes(current_setting('max_wal_size'))) / 1e6 from pg_ls_waldir())
            as wal_mb,
        (select coalesce(sum(size), 0) / 1e6 from pg_ls_tmpdir()) as temporary_mb,
        (select coalesce(max(n_dead_tup / (n_live_tup + 1000.0)), 0) from pg_stat_user_tables) as dead_share,
        pg_database_size(current_database()) / 1e6 as database_mb
"""


class Sample(msgspec.Struct, kw_only=True):
    """What is there at a moment of rest, in megabytes and numbers; `node_mb` is that of the node that has most.

    Memory is what is a process's own. `wal_mb` is what the log has beyond `max_wal_size`: up to there PostgreSQL keeps
    it, to write over it. `dead_share` is the largest of all tables, of dead rows beside those that live and a thousand
    more. The data themselves grow, of which `database_mb` tells.
    """

    minute: float
    node_mb: float
    postgres_mb: float
    descriptors: int
    processes: int
    connections: int
    wal_mb: float
    temporary_mb: float
    dead_share: float
    database_mb: float


class Soaked(msgspec.Struct, kw_only=True):
    """All samples, the slopes in an hour after the warm-up, and those that are steeper than they may be."""

    samples: list[Sample] = []
    slopes: dict[str, float] = {}
    findings: list[str] = []


class Experiment:
    """Minutes of work on a cluster that has started, for a campaign that is prepared."""

    def __init__(self, cluster: Cluster, campaign: Campaign) -> None:
        self._cluster = cluster
        self._campaign = campaign
        self._began = time.monotonic()
        self.found = Soaked()

    async def minute(self, number: int) -> list[str]:
        """Let the clients work for a minute, have that checked, and measure; returns what the checkers found."""
        window = await self._campaign.window(number, [_work_a_minute])
        self.found.samples.append(await self._sample())
        return window.findings

    def judge(self) -> Soaked:
        """Work out the slopes, and compare them with what they may be."""
        late = [sample for sample in self.found.samples if sample.minute >= WARM_UP_MINUTES]
        if len(late) < FEWEST:
            self.found.findings = [f"{len(late)} samples after {WARM_UP_MINUTES:.0f} minutes say nothing about slopes"]
            return self.found
        hours = [sample.minute / 60 for sample in late]
        self.found.slopes = {name: slope(hours, [getattr(sample, name) for sample in late]) for name in _LIMITS}
        self.found.findings = [
            f"{name} grows by {grows:.2f} an hour" for name, grows in self.found.slopes.items() if grows > _LIMITS[name]
        ]
        return self.found

    async def _sample(self) -> Sample:
        postgres = self._cluster.postgres.primary
        assert postgres.process is not None
        (database,) = await self._campaign.place.fetch(_DATABASE)
        nodes = [_process(node) for node in self._cluster.nodes]
        backends = psutil.Process(postgres.process.pid).children(recursive=True)
        return Sample(
            minute=round((time.monotonic() - self._began) / 60, 2),
            node_mb=round(max(map(_megabytes, nodes)), 2),
            postgres_mb=round(sum(_megabytes(process) for process in backends), 1),
            descriptors=sum(node.num_fds() for node in nodes),
            processes=sum(len(node.children(recursive=True)) for node in nodes),
            connections=database["connections"],
            wal_mb=round(float(database["wal_mb"]), 1),
            temporary_mb=round(float(database["temporary_mb"]), 2),
            dead_share=round(float(database["dead_share"]), 3),
            database_mb=round(float(database["database_mb"]), 1),
        )


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Return how fast values grow: the median of the slopes between any two, which single peaks do not change.

    That is the estimator of Theil and Sen.
    """
    points = itertools.combinations(zip(at, values, strict=True), 2)
    return statistics.median((later - value) / (then - now) for (now, value), (then, later) in points)


async def _work_a_minute(on: Disturbance) -> None:
    """Nothing happens but work."""
    await asyncio.sleep(60)


def _process(node: Node) -> psutil.Process:
    assert node.server is not None
    assert node.server.process is not None
    return psutil.Process(node.server.process.pid)


def _megabytes(process: psutil.Process) -> float:
    # One of PostgreSQL's may end while the others are read.
    try:
        return float(process.memory_full_info().uss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0
