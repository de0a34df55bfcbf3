"""Who may do what on an app: the roles of console users. An app always keeps an owner."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Record

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo, Principal, RoleRequiredError
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
    """Lists and changes roles. They are looked up on every request, so a change holds at once on every node.

    Changes lock the app's owners: whoever comes second waits for the first, and then sees which owners are left.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[AppUser]:
        """Return a page of the console users with a role on the app."""
        limit = min(paging.limit, app.limits.page_rows)
        rows, total = await role_store.users_of_app(self._database, app.app_id, limit, paging.offset)
        return ItemPage([_app_user(row) for row in rows], total, limit, paging.offset)

    async def change(self, principal: Principal, actor: Actor, user_id: UUID, role: RoleName) -> AppUser:
        """Give a console user another role on the principal's app, for an owner; raises `LastOwnerError`."""
        app_id, own_id = _app_and_user(principal)
        async with self._database.transaction() as connection:
            owners = await role_store.lock_owners(connection, app_id)
            if own_id not in owners:
                raise RoleRequiredError
            if role != "owner" and owners == [user_id]:
                raise LastOwnerError
            row = await role_store.update_role(connection, app_id, user_id, role)
            if row is None:
                raise AppUserNotFoundError
            await record(connection, app_id, actor, "user.change_role", user_id, email=row["email"], role=role)
        return _app_user(row)

    async def remove(self, principal: Principal, actor: Actor, user_id: UUID) -> None:
        """Take a console user's role on the principal's app away.

        An owner may do that to anybody, everybody to themselves. Raises `LastOwnerError`.
        """
        app_id, own_id = _app_and_user(principal)
        async with self._database.transaction() as connection:
            owners = await role_store.lock_owners(connection, app_id)
            if own_id not in {user_id, *owners}:
                raise RoleRequiredError
            if owners == [user_id]:
                raise LastOwnerError
            if not await role_store.delete_role(connection, app_id, user_id):
                raise AppUserNotFoundError
            await record(connection, app_id, actor, "user.remove", user_id)


def _app_and_user(principal: Principal) -> tuple[UUID, UUID]:
    assert principal.app is not None
    assert principal.user is not None
    return principal.app.app_id, principal.user.user_id


def _app_user(row: Record) -> AppUser:
    return AppUser(row["user_id"], row["email"], row["role"], rfc3339(row["created_at"]))
