"""What a caller may do with the rows of a table: the only door to them.

Every statement on rows that a request causes asks `visibility` for its condition. The access level of a table is a set
of rules: `Public` allows every action, `AppMember` every action of a signed-in member, and `Creator` limits a member to
the rows it created.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import NamedTuple

from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.operands import CREATOR, Arguments
from pilotis.http.api.principals import Principal, Role, RoleRequiredError
from pilotis.kit.errors import UnauthorizedError


class Action(enum.StrEnum):
    """What a rule is about."""

    LIST = "list"
    READ = "read"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def role(self) -> Role:
        """The role with which a console user or a secret key passes every rule about it."""
        return Role.VIEWER if self in {Action.LIST, Action.READ} else Role.EDITOR


class MemberTokenRequiredError(UnauthorizedError):
    """401: the table's access level requires a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This table requires a signed-in member: send a member's access token as Authorization: Bearer …."


class Visibility(NamedTuple):
    """The rows on which a caller may perform an action: all of them, or those of one member, `creator`.

    With `shows_creator`, the caller sees who created a row, and may name `$creator` in a condition. The app's own side
    does, and members in tables in which they see only their own rows: to all others the members of an app stay unknown.
    """

    creator: str | None
    shows_creator: bool

    @property
    def is_everything(self) -> bool:
        """Whether it is all rows, so that the statement needs no condition."""
        return self.creator is None

    @property
    def key(self) -> Hashable:
        """What tells it from those with other rows or columns: answers are shared among equal ones only."""
        return self

    def and_condition(self, arguments: Arguments) -> str:
        """Return the condition of a statement, with a leading `and`; empty for all rows.

        It precedes the request's conditions: among conditions of equal cost PostgreSQL evaluates the first one first,
        and a pattern must not be evaluated on rows that the caller may not see, or its timing would reveal them.
        """
        if self.creator is None:
            return ""
        arguments.access.add(AccessKind.EQUALITY, CREATOR)
        return f" and __creator = {arguments.bind(self.creator, 'text')}"


def visibility(principal: Principal, table: TableSchema, action: Action) -> Visibility:
    """Return the rows on which the caller may perform an action; raises an error if there can be none."""
    return Visibility(_creator(principal, table, action.role), _shows_creator(principal, table))


def is_open(table: TableSchema) -> bool:
    """Return whether everybody with the public key may perform every action on all rows."""
    return table.access_level is AccessLevel.PUBLIC


def creator_of_new_row(principal: Principal) -> str | None:
    """Return the member that owns a new row, if a member creates it."""
    return principal.member.member_id if principal.member else None


def _creator(principal: Principal, table: TableSchema, role: Role) -> str | None:
    if table.access_level is AccessLevel.PUBLIC or principal.may(role):
        return None
    if principal.member is None:
        if principal.role is not None:
            raise RoleRequiredError
        raise MemberTokenRequiredError
    return principal.member.member_id if table.access_level is AccessLevel.CREATOR else None


def _shows_creator(principal: Principal, table: TableSchema) -> bool:
    return principal.role is not None or table.access_level is AccessLevel.CREATOR
