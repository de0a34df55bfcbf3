"""Deactivation and reactivation of console users, effective with the next request on every node."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import OPERATOR, Actor, RoleRequiredError
from pilotis.kit.clock import rfc3339
from pilotis.security.audit.service import record
from pilotis.security.sessions.service import CONSOLE
from pilotis.users import role_store, store
from pilotis.users.roles import LastOwnerError
from pilotis.users.service import UserNotFoundError
from pilotis.users.types import User, normalised


class Activation:
    """Deactivates and activates console users.

    A deactivated user can neither sign in nor use its tokens and secret keys. Its roles, keys and sessions are kept
    for a later reactivation. An app always keeps an active owner.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(self, acting_id: UUID, actor: Actor, user_id: UUID, *, is_active: bool) -> User:
        """Activate or deactivate a user at its own request, or that of an owner of every app on which it has a role.

        Raises `UserNotFoundError` if the two share no app, `RoleRequiredError` if the acting user does not own
        all of the other's apps, and `LastOwnerError`.
        """
        async with self._database.transaction(CONSOLE) as connection:
            await store.lock(connection, user_id)
            roles = await role_store.roles_of(connection, user_id)
            owners = await role_store.lock_owners(connection, list(roles))
            if acting_id != user_id:
                own = await role_store.roles_of(connection, acting_id)
                if not roles.keys() & own.keys():
                    raise UserNotFoundError
                if not all(acting_id in owners[app_id] for app_id in roles):
                    raise RoleRequiredError(
                        "Only an owner of every app on which this console user has a role can do this."
                    )
            return await _change(connection, actor, user_id, roles, owners, is_active=is_active)

    async def change_by_email(self, email: str, *, is_active: bool) -> User:
        """Activate or deactivate a user for the operator; raises `UserNotFoundError` or `LastOwnerError`."""
        async with self._database.transaction(CONSOLE) as connection:
            user = await store.by_email(connection, normalised(email))
            if user is None:
                raise UserNotFoundError("There is no console user with this e-mail address.")
            roles = await role_store.roles_of(connection, user.user_id)
            owners = await role_store.lock_owners(connection, list(roles))
            return await _change(connection, OPERATOR, user.user_id, roles, owners, is_active=is_active)


async def _change(
    connection: Connection,
    actor: Actor,
    user_id: UUID,
    roles: dict[UUID, str],
    owners: dict[UUID, list[UUID]],
    *,
    is_active: bool,
) -> User:
    if not is_active and any(owners[app_id] == [user_id] for app_id in roles):
        raise LastOwnerError("This is the last active owner of an app. Make another user an owner first.")
    row = await store.set_active(connection, user_id, is_active)
    if row is None:
        raise UserNotFoundError
    action = "user.activate" if is_active else "user.deactivate"
    for app_id in (CONSOLE, *roles):
        await record(connection, app_id, actor, action, user_id, email=row.email)
    return User(user_id=user_id, email=row.email, is_active=row.is_active, created_at=rfc3339(row.created_at))
