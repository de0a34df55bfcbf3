"""Row locks that several features use.

A transaction locks apps first, then the object that it changes, then the parts of the object: see
docs/design/architecture.md. Whoever locks in another order can wait for somebody who waits for them.
"""

from collections.abc import Iterable
from uuid import UUID

from asyncpg import Connection


async def lock_app(connection: Connection, app_id: UUID) -> None:
    """Lock an app's row until the transaction ends, so that changes which depend on each other run one at a time.

    `no key update` does not block inserts of rows that reference the app.
    """
    await connection.execute("select from pilotis.apps where app_id = $1 for no key update", app_id)


async def lock_apps(connection: Connection, app_ids: Iterable[UUID]) -> None:
    """Lock several apps' rows until the transaction ends, in the order of their ids, as `lock_app` does one."""
    await connection.execute(
        "select from pilotis.apps where app_id = any($1) order by app_id for no key update", list(app_ids)
    )
