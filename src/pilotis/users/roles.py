"""Who may do what on an app: the roles of console users. An app always keeps an owner."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo, Principal, Role, RoleRequiredError
from pilotis.http.shapes import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import ConflictError, NotFoundError
from pilotis.users import role_store
from pilotis.users.types import AppUser, RoleName


class AppUserNotFoundError(NotFoundError):
    """404: no console user of this id has a role on the app."""

    code = "USER_NOT_FOUND"
    message = "No console user of this id has a role on the app."


class LastOwnerError(ConflictError):
    """409: the app's last owner can neither leave nor become less."""

    code = "LAST_OWNER"
    message = "This is the app's last owner. Make somebody else an owner first."


class Roles:
    """Lists and changes roles. They are looked up on every request, so a change holds at once on every node."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[AppUser]:
        """Return a page of the console users with a role on the app."""
        limit = min(paging.limit, app.limits.page_rows)
        rows, total = await role_store.users_of_app(self._database, app.app_id, limit, paging.offset)
        return ItemPage([_app_user(row) for row in rows], total, limit, paging.offset)

    async def change(self, app_id: UUID, actor: Actor, user_id: UUID, role: RoleName) -> AppUser:
        """Give a console user another role on the app; raises `LastOwnerError`."""
        async with self._database.transaction() as connection:
            if role != "owner":
                await _require_another_owner(connection, app_id, user_id)
            row = await role_store.update_role(connection, app_id, user_id, role)
            if row is None:
                raise AppUserNotFoundError
            await record(connection, app_id, actor, "user.change_role", user_id, email=row["email"], role=role)
        return _app_user(row)

    async def remove(self, principal: Principal, actor: Actor, user_id: UUID) -> None:
        """Take a console user's role on the principal's app away.

        An owner may do that to anybody, everybody to themselves. Raises `LastOwnerError`.
        """
        assert principal.app is not None
        assert principal.user is not None
        app_id = principal.app.app_id
        if user_id != principal.user.user_id and not principal.may(Role.OWNER):
            raise RoleRequiredError
        async with self._database.transaction() as connection:
            await _require_another_owner(connection, app_id, user_id)
            if not await role_store.delete_role(connection, app_id, user_id):
                raise AppUserNotFoundError
            await record(connection, app_id, actor, "user.remove", user_id)


async def _require_another_owner(connection: Connection, app_id: UUID, user_id: UUID) -> None:
    # Whoever comes second waits here for the first, and then counts the owners that are left.
    if await role_store.lock_owners(connection, app_id) == [user_id]:
        raise LastOwnerError


def _app_user(row: Record) -> AppUser:
    return AppUser(row["user_id"], row["email"], row["role"], rfc3339(row["created_at"]))
