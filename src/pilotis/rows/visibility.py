"""Whose rows a caller sees and changes: what a table's access level makes of a principal."""

from __future__ import annotations

from pilotis.http.principals import Principal, Role, RoleRequiredError
from pilotis.kit.errors import UnauthorizedError
from pilotis.rows.indexes.uses import UseKind
from pilotis.rows.operands import CREATOR, Arguments
from pilotis.tables.schema import AccessLevel, TableSchema


class MemberTokenRequiredError(UnauthorizedError):
    """401: the table's access level asks for a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This table asks for a signed-in member: send a member's access token as Authorization: Bearer …."


def visible_creator(principal: Principal, table: TableSchema, role: Role) -> str | None:
    """Return whose rows alone the caller may use, or None for everybody's; raises where it may use none.

    `role` is what a console user or a secret key needs to pass: viewer to read, editor to write.
    """
    if table.access_level is AccessLevel.PUBLIC or principal.may(role):
        return None
    if principal.member is None:
        if principal.role is not None:
            raise RoleRequiredError
        raise MemberTokenRequiredError
    return principal.member.member_id if table.access_level is AccessLevel.CREATOR else None


def creator_of_new_row(principal: Principal, table: TableSchema) -> str | None:
    """Return the member that a new row belongs to, if one makes it; raises where the caller may make none."""
    visible_creator(principal, table, Role.EDITOR)
    return principal.member.member_id if principal.member else None


def and_creator(creator: str | None, arguments: Arguments) -> str:
    """Return the condition, with a leading `and`, that leaves a member its own rows only; empty for everybody's.

    It goes before what a request asks for: of conditions that cost the same PostgreSQL tries the first one first, and
    a pattern must not be tried on rows that the member may not see, or the time it takes would tell of them.
    """
    if creator is None:
        return ""
    arguments.notes.add(UseKind.EQUALITY, CREATOR)
    return f" and __creator = {arguments.bind(creator, 'text')}"
