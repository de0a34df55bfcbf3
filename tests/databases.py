"""The databases of the servers under test: the embedded one of each data directory, or fresh ones in a cluster by URL.

With `pytest --database-url URL` each data directory gets an empty database of its own beside the one that the URL
names, which is left as it is. Where that one has Citus, the new ones have it with the same nodes.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from pilotis.db.embedded import running_address

_numbers = itertools.count(1)
_nodes: list[dict[str, Any]] = []
_made: dict[Path, str] = {}
_cluster: str | None = None


def use(url: str) -> None:
    """Make databases in the cluster that has this one, from now on."""
    global _cluster
    _cluster = url
    _nodes[:] = _wait_for(_find_nodes(url))


def have_citus() -> bool:
    """Return whether the databases that are made here have Citus."""
    return bool(_nodes and _nodes[0])


def is_embedded() -> bool:
    """Return whether each data directory has an embedded database, which starts and ends with its server."""
    return _cluster is None


def arguments(data_dir: Path) -> list[str]:
    """Return the flags that name a data directory's database; none for the embedded one."""
    return [] if _cluster is None else ["--database-url", _url(data_dir)]


def environment(data_dir: Path) -> dict[str, str]:
    """Return the variables that name a data directory's database; none for the embedded one."""
    return {} if _cluster is None else {"PILOTIS_DATABASE_URL": _url(data_dir)}


def address(data_dir: Path) -> dict[str, Any]:
    """Return the arguments with which asyncpg connects to the database of a data directory.

    Waits a moment for one that is being started again.
    """
    if _cluster is not None:
        return {"dsn": _url(data_dir)}
    deadline = time.monotonic() + 10.0
    while (running := running_address(data_dir / "postgres")) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running is not None, f"no PostgreSQL runs in {data_dir}"
    return running._asdict()


def drop_all() -> None:
    """Drop every database that was made here."""
    for url in _made.values():
        _wait_for(_drop(urlsplit(url).path[1:]))
    _made.clear()


def _url(data_dir: Path) -> str:
    assert _cluster is not None
    if data_dir not in _made:
        name = f"pilotis_test_{os.getpid()}_{next(_numbers)}"
        _wait_for(_create(name))
        _made[data_dir] = urlsplit(_cluster)._replace(path=f"/{name}").geturl()
    return _made[data_dir]


def _wait_for(work: Coroutine[Any, Any, Any]) -> Any:
    # In a separate thread, because a test that starts a server already has a running event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _find_nodes(url: str) -> list[dict[str, Any]]:
    """Return host and port of every Citus node, the coordinator first; without Citus one entry that overrides none."""
    connection = await asyncpg.connect(url)
    try:
        if await connection.fetchval("select to_regclass('pg_dist_node') is null"):
            return [{}]
        return [
            {"host": node["nodename"], "port": node["nodeport"]}
            for node in await connection.fetch("select nodename, nodeport from pg_dist_node order by groupid")
        ]
    finally:
        await connection.close()


async def _on(node: dict[str, Any], statement: str, database: str | None = None) -> None:
    overridden = node if database is None else node | {"database": database}
    connection = await asyncpg.connect(_cluster, **overridden)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _create(name: str) -> None:
    turn = await asyncpg.connect(_cluster)
    try:
        # Two that add nodes at the same time update the same roles there: "tuple concurrently updated".
        await turn.execute("select pg_advisory_lock(hashtext('pilotis test databases'))")
        await _create_alone(name)
    finally:
        await turn.close()


async def _create_alone(name: str) -> None:
    for node in _nodes:
        await _on(node, f"create database {name}")
    if have_citus():
        for node in _nodes:
            await _on(node, "create extension citus", name)
        coordinator, *workers = ("'{host}', {port}".format_map(node) for node in _nodes)
        added = "".join(f"select citus_add_node({worker});" for worker in workers)
        await _on(_nodes[0], f"select citus_set_coordinator_host({coordinator}); {added}", name)


async def _drop(name: str) -> None:
    for node in _nodes:
        await _on(node, f"drop database if exists {name} with (force)")
