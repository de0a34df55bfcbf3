"""Row locks that several features use."""

from uuid import UUID

from asyncpg import Connection


async def lock_app(connection: Connection, app_id: UUID) -> None:
    """Lock an app's row until the transaction ends, so that changes which depend on each other run one at a time.

    `no key update` does not block inserts of rows that reference the app.
    """
    await connection.execute("select from pilotis.apps where app_id = $1 for no key update", app_id)
