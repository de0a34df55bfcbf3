"""The rows that a caller may see and change: the table's access level applied to a principal."""

from __future__ import annotations

from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.operands import CREATOR, Arguments
from pilotis.http.api.principals import Principal, Role, RoleRequiredError
from pilotis.kit.errors import UnauthorizedError


class MemberTokenRequiredError(UnauthorizedError):
    """401: the table's access level requires a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This table requires a signed-in member: send a member's access token as Authorization: Bearer …."


def visible_creator(principal: Principal, table: TableSchema, role: Role) -> str | None:
    """Return the member whose rows alone the caller may use, or None for all rows; raises if it may use none.

    `role` is the role that a console user or a secret key needs: viewer to read, editor to write.
    """
    if table.access_level is AccessLevel.PUBLIC or principal.may(role):
        return None
    if principal.member is None:
        if principal.role is not None:
            raise RoleRequiredError
        raise MemberTokenRequiredError
    return principal.member.member_id if table.access_level is AccessLevel.CREATOR else None


def shows_creator(principal: Principal, table: TableSchema) -> bool:
    """Return whether the caller sees who created a row, and may name `$creator` in a condition.

    The app's own side does, and members in tables in which they see only their own rows: to all others the members of
    an app stay unknown.
    """
    return principal.role is not None or table.access_level is AccessLevel.CREATOR


def creator_of_new_row(principal: Principal, table: TableSchema) -> str | None:
    """Return the member that owns a new row, if a member creates it; raises if the caller may not create rows."""
    visible_creator(principal, table, Role.EDITOR)
    return principal.member.member_id if principal.member else None


def and_creator(creator: str | None, arguments: Arguments) -> str:
    """Return the condition, with a leading `and`, that limits a member to its own rows; empty for all rows.

    It precedes the request's conditions: among conditions of equal cost PostgreSQL evaluates the first one first, and a
    pattern must not be evaluated on rows that the member may not see, or its timing would reveal them.
    """
    if creator is None:
        return ""
    arguments.access.add(AccessKind.EQUALITY, CREATOR)
    return f" and __creator = {arguments.bind(creator, 'text')}"
