"""The actions that rules are about."""

from __future__ import annotations

import enum

from pilotis.http.api.principals import Role


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
