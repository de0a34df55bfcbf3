"""A command's session with the database, next to a running server or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import asyncpg
from asyncpg import Connection

from pilotis.db import migrations
from pilotis.db.pool import Database
from pilotis.feature import Features
from pilotis.floor import Floor, command_floor
from pilotis.kit.errors import PilotisError
from pilotis.serve import database
from pilotis.serve.errors import CommandError
from pilotis.serve.installation import connect
from pilotis.settings import Settings

if TYPE_CHECKING:
    from pilotis.apps.keyring import Keyring
    from pilotis.apps.service import Apps
    from pilotis.users.service import Users

Result = TypeVar("Result")

NOT_SET_UP = "Pilotis has not been set up in this database; `pilotis init` or `pilotis serve` does that."


class Session:
    """What commands work with: the features, created on demand, on a small pool. Nothing runs in the background.

    A command signs no tokens, and can run where the master key is not available; then it cannot read encrypted columns.
    """

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.settings = floor.settings
        self.database = floor.database
        self.features = Features(floor)

    @property
    def apps(self) -> Apps:
        """The service of apps."""
        from pilotis.apps.feature import AppsFeature

        return self.features.get(AppsFeature).apps

    @property
    def keyring(self) -> Keyring:
        """The service of apps' keys."""
        from pilotis.apps.feature import AppsFeature

        return self.features.get(AppsFeature).keyring

    @property
    def users(self) -> Users:
        """The service of console users."""
        from pilotis.users.feature import UsersFeature

        return self.features.get(UsersFeature).users


def run(settings: Settings, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Run `work` against the database, which must have this version's schema, and return its result.

    Raises `CommandError`, `MigrationError` or what `work` raises.
    """
    with database.for_command(settings) as source:
        return asyncio.run(_run(settings, source.connect_arguments, work))


async def _run(
    settings: Settings,
    connect_arguments: dict[str, object],
    work: Callable[[Session], Awaitable[Result]],
) -> Result:
    connection = await connect(connect_arguments)
    try:
        await _require_current(connection)
    finally:
        await connection.close()
    pool = Database(connect_arguments, size=4, statement_seconds=60)
    floor = command_floor(settings, pool)
    try:
        return await work(Session(floor))
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise CommandError(f"The database refused: {error}.") from error
    except PilotisError as error:
        raise CommandError(error.text) from error
    finally:
        await floor.close_passwords()
        await pool.close()


async def _require_current(connection: Connection) -> None:
    missing = await migrations.pending(connection)
    if not missing:
        return
    if len(missing) == len(migrations.all_migrations()):
        raise CommandError(NOT_SET_UP)
    raise CommandError(f"The database lacks {len(missing)} migrations of this version; `pilotis migrate` applies them.")
