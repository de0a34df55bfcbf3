"""Faults: what happens to a cluster, for how long, and how it ends. A random generator with a seed chooses."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.cluster.cluster import LEASE_SECONDS, Cluster, Node
from tests.cluster.links import Link, to_port, unavailable_store
from tests.database_proxy import Direction
from tests.waiting import children

Applies = Callable[["Disturbance"], Awaitable[None]]
DIRECTIONS: tuple[tuple[Direction, ...], ...] = (("request",), ("answer",), ("request", "answer"))


class Disturbance(NamedTuple):
    """The cluster, where the choices come from, and what was chosen; `failovers` has the moments after each.

    All durations are multiplied by `scale`.
    """

    cluster: Cluster
    choice: random.Random
    log: list[str]
    failovers: list[float]
    scale: float = 1.0

    def node(self) -> Node:
        """Choose a node."""
        chosen = self.choice.choice(self.cluster.nodes)
        self.log.append(chosen.name)
        return chosen

    def seconds(self, least: float, most: float) -> float:
        """Choose a duration."""
        chosen = self.scale * self.choice.uniform(least, most)
        self.log.append(f"{chosen:.2f} s")
        return chosen


async def kill_node(on: Disturbance) -> None:
    """`kill -9` of a node, which is started again after a moment."""
    node = on.node()
    await node.kill()
    await asyncio.sleep(on.seconds(0, 2))
    await node.start()


async def kill_two_nodes(on: Disturbance) -> None:
    """`kill -9` of two nodes at the same time."""
    nodes = on.choice.sample(on.cluster.nodes, 2)
    on.log.extend(node.name for node in nodes)
    await asyncio.gather(*(node.kill() for node in nodes))
    await asyncio.gather(*(node.start() for node in nodes))


async def kill_all(on: Disturbance) -> None:
    """`kill -9` of every node and a crash of PostgreSQL."""
    await asyncio.gather(*(node.kill() for node in on.cluster.nodes))
    await on.cluster.postgres.restart()
    await asyncio.gather(*(node.start() for node in on.cluster.nodes))


async def kill_postgres(on: Disturbance) -> None:
    """A crash of PostgreSQL, which recovers."""
    await on.cluster.postgres.restart()


async def kill_backend(on: Disturbance) -> None:
    """`kill -9` of one process of PostgreSQL: it ends all others, and recovers by itself."""
    postgres = on.cluster.postgres.primary
    assert postgres.process is not None
    clients = await postgres.run("select array_agg(pid) from pg_stat_activity where backend_type = 'client backend'")
    with contextlib.suppress(ProcessLookupError):
        os.kill(on.choice.choice(sorted(clients)), signal.SIGKILL)
    await postgres.ready()


async def kill_sandboxes(on: Disturbance) -> None:
    """`kill -9` of all that a node has started."""
    server = on.node().server
    assert server is not None
    assert server.process is not None
    for pid in children(server.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def stop_node(on: Disturbance) -> None:
    """A node is stopped and started, as at an upgrade."""
    node = on.node()
    await node.stop()
    await node.start()


async def upgrade_node(on: Disturbance) -> None:
    """The first node that runs another version is replaced by this one, which migrates the database."""
    node = next((node for node in on.cluster.nodes if node.source is not None), None)
    if node is not None:
        on.log.append(node.name)
        await node.stop()
        node.source = None
        await node.start()


async def pause_node(on: Disturbance) -> None:
    """A node is frozen, often for longer than its lease."""
    node = on.node()
    node.pause()
    await asyncio.sleep(on.seconds(1, 2 * LEASE_SECONDS))
    node.resume()


async def cut_database(on: Disturbance) -> None:
    """A node and the database do not reach each other, in one direction or in both."""
    await _silence(on, on.node().database)


async def cut_store(on: Disturbance) -> None:
    """A node and the object store do not reach each other, in one direction or in both."""
    await _silence(on, on.node().store)


async def cut_front(on: Disturbance) -> None:
    """The load balancer and a node do not reach each other, in one direction or in both."""
    await _silence(on, on.node().front)


async def cut_standby(on: Disturbance) -> None:
    """The primary waits for a standby that it does not reach."""
    await _silence(on, on.cluster.postgres.replication)


async def slow_database(on: Disturbance) -> None:
    """Each message between a node and the database takes long."""
    link = on.node().database
    link.delay_seconds = on.choice.uniform(0.02, 0.5)
    await asyncio.sleep(on.seconds(1, 4))
    link.heal()


async def lose_answers(on: Disturbance) -> None:
    """Connections to the database break, some in the middle of an answer."""
    for link in on.cluster.database_links:
        link.cut_chance = 0.03
        link.cut_after(on.choice.randint(1, 20_000))
    await asyncio.sleep(on.seconds(1, 4))
    for link in on.cluster.database_links:
        link.heal()


async def drop_connections(on: Disturbance) -> None:
    """A firewall forgets all connections of a node."""
    for link in on.node().links.values():
        link.cut_all()


async def silent_store(on: Disturbance) -> None:
    """The object store accepts connections and answers nothing."""
    links = [node.store for node in on.cluster.nodes]
    for link in links:
        link.silence("answer")
    await asyncio.sleep(on.seconds(1, 6))
    for link in links:
        link.heal()


async def failing_store(on: Disturbance) -> None:
    """The object store answers everything with 503."""
    store = on.cluster.store
    if store is None:
        return
    links = [node.store for node in on.cluster.nodes]
    async with unavailable_store() as port:
        for link in links:
            link.leads_to = to_port(port)
            link.cut_all()
        await asyncio.sleep(on.seconds(1, 4))
        for link in links:
            link.leads_to = to_port(store.port)
            link.cut_all()


async def fail_over(on: Disturbance) -> None:
    """The primary is lost, and the standby takes over; then a new standby is made."""
    pair = on.cluster.postgres
    if pair.standby is None:
        await kill_postgres(on)
        return
    on.failovers.append(await pair.fail_over(on.cluster.database_links))
    await asyncio.sleep(on.seconds(1, 3))
    await pair.add_standby()


async def wrong_clock(on: Disturbance) -> None:
    """A node is started with a clock that is 90 s ahead or 30 s behind, and after a while with the right one."""
    node, offset = on.node(), on.choice.choice(["+90s", "-30s"])
    on.log.append(offset)
    await node.kill()
    await node.start(await asyncio.to_thread(_clock, offset))
    await asyncio.sleep(on.seconds(2, 5))
    await node.kill()
    await node.start()


def _clock(offset: str) -> list[str]:
    """Return a command that gives the one behind it a clock with an offset.

    `faketime` itself stays as the parent of that one, which would survive it when it is killed.
    """
    command = ["faketime", "-f", offset, "env"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return ["env", *(line for line in lines if line.startswith(("LD_PRELOAD=", "FAKETIME=")))]


async def _silence(on: Disturbance, link: Link) -> None:
    directions = on.choice.choice(DIRECTIONS)
    on.log.extend(directions)
    link.silence(*directions)
    await asyncio.sleep(on.seconds(0.5, 2 * LEASE_SECONDS))
    link.heal()


KILLS: dict[Applies, int] = {
    kill_node: 8,
    kill_two_nodes: 2,
    kill_all: 1,
    kill_postgres: 2,
    kill_backend: 2,
    kill_sandboxes: 2,
    stop_node: 2,
}
"""The faults of the campaign `kills`, with how often each is chosen."""
FAULTS: dict[Applies, int] = {
    pause_node: 3,
    cut_database: 3,
    cut_store: 2,
    cut_front: 2,
    cut_standby: 2,
    slow_database: 2,
    lose_answers: 2,
    drop_connections: 1,
    silent_store: 1,
    failing_store: 1,
    fail_over: 3,
    kill_postgres: 1,
    kill_node: 2,
    wrong_clock: 1,
}
"""The faults of the campaign `faults`."""
