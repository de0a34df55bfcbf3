"""A command's work with the database, beside a running server or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
from asyncpg import Connection

from pilotis.apps.service import Apps
from pilotis.db import migrations
from pilotis.db.notifications import Notifications
from pilotis.db.pool import Database
from pilotis.kit.errors import PilotisError
from pilotis.serve import database
from pilotis.serve.errors import CommandError
from pilotis.serve.installation import connect
from pilotis.settings import Settings

Result = TypeVar("Result")


class Session:
    """What commands work with: a small pool and the service of apps.

    There is no master key in it: a command neither signs nor decrypts, so it can run where the key is not.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.notifications = Notifications(database)
        self.apps = Apps(database, self.notifications, settings.limits)


def run(settings: Settings, work: Callable[[Session], Awaitable[Result]], *, may_create: bool = False) -> Result:
    """Run `work` against the database, which has to be of this version, and return its result.

    `may_create` lets the command make a new database where there is none. Raises `CommandError`, `MigrationError` or
    what `work` raises.
    """
    with database.for_command(settings, may_create=may_create) as source:
        return asyncio.run(_run(settings, source.connect_arguments, work, may_create))


async def _run(
    settings: Settings,
    connect_arguments: dict[str, object],
    work: Callable[[Session], Awaitable[Result]],
    may_create: bool,
) -> Result:
    connection = await connect(connect_arguments)
    try:
        await _require_current(connection, may_create)
    finally:
        await connection.close()
    pool = Database(connect_arguments, size=4, statement_seconds=60)
    try:
        return await work(Session(settings, pool))
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise CommandError(f"The database refused: {error}.") from error
    except PilotisError as error:
        raise CommandError(error.text) from error
    finally:
        await pool.close()


async def _require_current(connection: Connection, may_create: bool) -> None:
    missing = await migrations.pending(connection)
    if missing and may_create and len(missing) == len(migrations.all_migrations()):
        await migrations.migrate(connection)
    elif missing:
        raise CommandError(
            f"The database lacks {len(missing)} migrations of this version; `pilotis migrate` applies them."
        )
