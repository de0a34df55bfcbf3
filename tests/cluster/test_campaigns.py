"""Campaigns, in their short form: some twenty kills, and each fault once; the long ones are run by `tests.long`."""

import asyncio
import os
import random
import shutil

import pytest

from tests.cluster import faults
from tests.cluster.campaign import Campaign
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Applies
from tests.cluster.loads.accounts import SessionLoad
from tests.cluster.loads.events import EventsLoad
from tests.cluster.loads.files import FilesLoad
from tests.cluster.loads.rows import BankLoad, RegisterLoad, SetLoad
from tests.cluster.loads.tables import SchemaLoad
from tests.cluster.loads.work import WorkLoad
from tests.cluster.takeover import Experiment
from tests.whole import times

SEED = os.environ.get("TEST_SEED", "short")
KILLS: dict[Applies, int] = {
    faults.kill_node: 3,
    faults.kill_two_nodes: 1,
    faults.kill_all: 1,
    faults.kill_postgres: 5,
    faults.kill_backend: 6,
    faults.kill_sandboxes: 3,
    faults.stop_node: 1,
}
"""Most are of what starts again quickly."""
SCALE, CALM = 0.3, 4.0
"""Faults are as long as in a campaign times the first, and pauses of clients times the second."""
pytestmark = pytest.mark.embedded("it kills PostgreSQL")


async def test_nothing_is_lost_or_done_twice_when_processes_are_killed():
    async with Cluster.running(with_standby=False, with_store=False) as cluster:
        chosen = [kill for kill, number in KILLS.items() for _ in range(times(number, whole=3 * number))]
        random.Random(SEED).shuffle(chosen)
        campaign = Campaign("kills", SEED, cluster, faults.KILLS, scale=SCALE, calm=CALM)
        await campaign.prepare([SetLoad, BankLoad, RegisterLoad, WorkLoad, EventsLoad])
        window = await campaign.window(0, chosen)
        await campaign.close()
    assert not window.findings, "\n".join([*map(str, window.findings), *window.faults])
    # It was not idle.
    assert all(campaign.report.work[name] for name in ("written", "transfers", "completed", "delivered"))


async def test_each_fault_is_survived():
    chosen: list[Applies] = [*faults.FAULTS]
    if shutil.which("faketime") is None:
        chosen.remove(faults.wrong_clock)
    async with Cluster.running() as cluster:
        campaign = Campaign("faults", SEED, cluster, faults.FAULTS, scale=SCALE, calm=CALM)
        await campaign.prepare([SetLoad, BankLoad, RegisterLoad, SessionLoad, SchemaLoad, FilesLoad])
        window = await campaign.window(0, chosen)
        await campaign.close()
    assert not window.findings, "\n".join([*map(str, window.findings), *window.faults])
    assert len(campaign.report.failover_seconds) == 1
    assert all(campaign.report.work[name] for name in ("written", "transfers", "revocations", "changes_made"))


async def test_the_work_of_a_killed_node_goes_on_at_another(sandboxes: None):
    async with Cluster.running(with_standby=False, with_store=False) as cluster:
        experiment = Experiment(cluster, await asyncio.to_thread(cluster.app))
        await experiment.prepare()
        found = await experiment.run()
        await experiment.close()
    assert found.status == "completed"
