"""Roles of console users, which determine their permissions on an app. An app always has an owner."""

from __future__ import annotations

from uuid import UUID

from pilotis.db.pool import Database
from pilotis.db.waiters import CONSOLE
from pilotis.http.api.principals import Actor, AppInfo, Principal, RoleRequiredError
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import ConflictError, NotFoundError
from pilotis.security.audit.service import record
from pilotis.users import role_store
from pilotis.users.types import AppUser, RoleName


class AppUserNotFoundError(NotFoundError):
    """404: no console user with this id has a role on the app."""

    code = "USER_NOT_FOUND"
    message = "No console user with this id has a role on the app."


class LastOwnerError(ConflictError):
    """409: the app's last owner can neither leave nor lose the role."""

    code = "LAST_OWNER"
    message = "This is the app's last owner. Make another user an owner first."


class Roles:
    """Lists and changes roles. They are looked up on every request, so a change takes effect immediately on every node.

    Changes lock the app's owners: a second change waits for the first, and then sees the remaining owners.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[AppUser]:
        """Return a page of the console users with a role on the app."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await role_store.users_of_app(self._database, app.app_id, limit, paging.offset)
        return ItemPage(data=[_app_user(row) for row in rows], total_count=total, limit=limit, offset=paging.offset)

    async def change(self, principal: Principal, actor: Actor, user_id: UUID, role: RoleName) -> AppUser:
        """Change a console user's role on the principal's app, for an owner; raises `LastOwnerError`."""
        app_id, own_id = _app_and_user(principal)
        async with self._database.transaction(CONSOLE) as connection:
            owners = (await role_store.lock_owners(connection, [app_id]))[app_id]
            if own_id not in owners:
                raise RoleRequiredError
            if role != "owner" and owners == [user_id]:
                raise LastOwnerError
            row = await role_store.update_role(connection, app_id, user_id, role)
            if row is None:
                raise AppUserNotFoundError
            await record(connection, app_id, actor, "user.change_role", user_id, email=row.email, role=role)
        return _app_user(row)

    async def remove(self, principal: Principal, actor: Actor, user_id: UUID) -> None:
        """Remove a console user's role on the principal's app.

        An owner may remove any role, others only their own. Raises `LastOwnerError`.
        """
        app_id, own_id = _app_and_user(principal)
        async with self._database.transaction(CONSOLE) as connection:
            owners = (await role_store.lock_owners(connection, [app_id]))[app_id]
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


def _app_user(row: role_store.UserOnApp) -> AppUser:
    return AppUser(user_id=row.user_id, email=row.email, role=row.role, created_at=rfc3339(row.created_at))
