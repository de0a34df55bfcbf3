"""The PostgreSQL that a server or a command uses: an external one, or the embedded one."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilotis.db.embedded import DatabaseAddress, EmbeddedPostgres, running_address
from pilotis.db.embedded.upgrade import require_no_swap
from pilotis.serve import data_directory
from pilotis.serve.data_directory import InUseError
from pilotis.serve.errors import CommandError
from pilotis.serve.keeper import kept_running
from pilotis.settings import Settings

_LEAST_CONNECTIONS = 100
_OTHER_CONNECTIONS = 20
_STARTING_LIMIT = 60.0
_POLL = 0.02


class DatabaseSource:
    """`asyncpg.connect` arguments of PostgreSQL itself.

    `lock` is that of the data directory, if no other process of Pilotis can use the database meanwhile.
    """

    def __init__(self, connect_arguments: dict[str, Any], lock: int | None = None) -> None:
        self.connect_arguments = connect_arguments
        self.lock = lock


def postgres_directory(settings: Settings) -> Path:
    """Return the directory of the embedded database's cluster."""
    return Path(settings.data_dir) / "postgres"


@contextmanager
def for_server(settings: Settings, check: Callable[[], None]) -> Generator[DatabaseSource]:
    """Yield the database to serve from, holding the data directory. Call it from the main thread.

    `check` is called while waiting and may raise to abort.
    """
    directory = Path(settings.data_dir)
    data_directory.make(directory)
    if settings.database_url:
        # Nodes on one machine may share a directory for the master key and the files.
        yield DatabaseSource({"dsn": settings.direct_database_url or settings.database_url})
        return
    with (
        data_directory.locked(directory, "serve", check) as lock,
        _embedded(settings, check) as postgres,
        kept_running(postgres.server),
    ):
        yield DatabaseSource(postgres.address._asdict(), lock)


@contextmanager
def for_command(settings: Settings, *, may_create: bool = False) -> Generator[DatabaseSource]:
    """Yield the database for a command: that of a running server, or one started for the duration of the command.

    Raises `CommandError` if there is no database, unless the command may create one (only `init` may).
    """
    if settings.database_url:
        yield DatabaseSource({"dsn": settings.direct_database_url or settings.database_url})
        return
    directory = Path(settings.data_dir)
    if may_create:
        data_directory.make(directory)
    elif not postgres_directory(settings).is_dir():
        raise CommandError(
            f"There is no database in {directory}; `pilotis init` creates one, --data-dir names another directory."
        )
    try:
        with data_directory.locked(directory, "command") as lock, _embedded(settings) as postgres:
            yield DatabaseSource(postgres.address._asdict(), lock)
    except InUseError as in_use:
        address = _address_of_server(settings, in_use)
    else:
        return
    yield DatabaseSource(address._asdict())


class _Running:
    def __init__(self, server: EmbeddedPostgres, address: DatabaseAddress) -> None:
        self.server = server
        self.address = address


@contextmanager
def _embedded(settings: Settings, check: Callable[[], None] = lambda: None) -> Generator[_Running]:
    binaries = Path(settings.postgres_binaries) if settings.postgres_binaries else None
    require_no_swap(postgres_directory(settings))
    wanted = settings.workers * (settings.pool_size + 2) + _OTHER_CONNECTIONS
    options = {"max_connections": str(wanted)} if wanted > _LEAST_CONNECTIONS else {}
    archives = settings.backup.store is not None
    postgres = EmbeddedPostgres(postgres_directory(settings), binaries=binaries, settings=options, archives=archives)
    address = postgres.start(check)
    try:
        yield _Running(postgres, address)
    finally:
        postgres.stop()


def _address_of_server(settings: Settings, in_use: InUseError) -> DatabaseAddress:
    """Return the address of a running server's database, which may still be starting."""
    deadline = time.monotonic() + _STARTING_LIMIT
    while (address := running_address(postgres_directory(settings))) is None:
        if time.monotonic() > deadline:
            raise CommandError(f"The PostgreSQL of process {in_use.pid} does not answer.") from in_use
        time.sleep(_POLL)
    return address
