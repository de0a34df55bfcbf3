"""A cluster of the embedded PostgreSQL with all migrations, made once and copied for each server under test.

Making one takes ten times as long as copying it. It holds what is the same for every server: no app, no user, and no
fingerprint of a master key, so that a server on a copy starts as on an empty directory.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import asyncpg

from pilotis.db import embedded, migrations
from pilotis.db.embedded import DatabaseAddress, EmbeddedPostgres, find_binaries

_FOLDER = Path(__file__).parent / "artifacts"
# Half of the bytes that a copy would have: the log of what was done here, and a database that nothing ever connects to.
_SHRINK = (
    "alter database template0 is_template false",
    "drop database template0",
    "select pg_switch_wal()",
    "checkpoint",
)
# Tests kill processes, and what those wrote the system still has; no test cuts the power.
_NOT_DURABLE = "fsync = off\nfull_page_writes = off\n"
_OTHER_DATABASES = {"PILOTIS_DATABASE_URL", "PILOTIS_POSTGRES_BINARIES"}


def copy_to(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Copy the cluster into a data directory that is not there yet, unless its server is to use another PostgreSQL."""
    if data_dir.exists() or _OTHER_DATABASES & {*environment, *os.environ}:
        return
    template = _template()
    data_dir.mkdir(mode=0o700, parents=True)
    subprocess.run(["cp", "-pR", template, data_dir / "postgres"], check=True)


@cache
def _template() -> Path:
    template = _FOLDER / f"cluster-{_key()}"
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / "cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            for old in _FOLDER.glob("cluster-*"):
                shutil.rmtree(old)
            _make(template)
    return template


def _key() -> str:
    """Everything that a cluster depends on."""
    parts = [str(find_binaries(None)), str(os.geteuid()), *(migration.sql for migration in migrations.all_migrations())]
    modules = [Path(__file__), *sorted(Path(embedded.__file__).parent.glob("*.py"))]
    parts += [module.read_text() for module in modules]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _make(template: Path) -> None:
    # Where its socket's path is short.
    with tempfile.TemporaryDirectory(prefix="pilotis-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres", settings={"wal_recycle": "off"})
        address = postgres.start()
        try:
            # In a separate thread, because a test that starts a server has a running event loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _migrate(address)).result()
        finally:
            postgres.stop()
        with (postgres.directory / "postgresql.conf").open("a") as file:
            file.write(_NOT_DURABLE)
        for log in (postgres.directory / "pg_wal").iterdir():
            if log.is_file():
                _punch_hole(log)
        subprocess.run(["cp", "-pR", postgres.directory, template.with_suffix(".new")], check=True)
        template.with_suffix(".new").rename(template)


async def _migrate(address: DatabaseAddress) -> None:
    connection = await asyncpg.connect(**address._asdict())
    try:
        await migrations.migrate(connection)
        # Otherwise each copy would do this for itself, in the middle of its tests.
        await connection.execute("vacuum (freeze, analyze)")
        for statement in _SHRINK:
            await connection.execute(statement)
    finally:
        await connection.close()


def _punch_hole(file: Path) -> None:
    """Let the zeros at the end of a file take no room."""
    size, used = file.stat().st_size, len(file.read_bytes().rstrip(b"\0"))
    os.truncate(file, used)
    os.truncate(file, size)
