"""Conditions of statements that list: only those that are asked for, so that each plan uses the index for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pilotis.kit.ids import earliest_uuid7

_SKEW = timedelta(minutes=1)


class Filters:
    """The conditions of a `where` clause, and the arguments that they refer to.

    Filters({"app_id": app_id}).equal("state", None).text == "app_id = $1"
    """

    def __init__(self, required: dict[str, Any]) -> None:
        self.arguments: list[Any] = []
        self._conditions: list[str] = []
        for column, value in required.items():
            self.add(f"{column} = {{}}", value)

    @property
    def text(self) -> str:
        """The conditions, as SQL."""
        return " and ".join(self._conditions)

    def argument(self, value: Any) -> str:
        """Add an argument and return its placeholder."""
        self.arguments.append(value)
        return f"${len(self.arguments)}"

    def add(self, condition: str, value: Any) -> Filters:
        """Add a condition with `{}` in the place of the value; a value of None adds nothing."""
        if value is not None:
            self._conditions.append(condition.format(self.argument(value)))
        return self

    def equal(self, column: str, value: Any) -> Filters:
        """Require a column to have the value; None adds nothing."""
        return self.add(f"{column} = {{}}", value)

    def between(self, column: str, id_column: str, since: datetime | None, until: datetime | None) -> Filters:
        """Require a time to be at or after `since` and before `until`; None adds nothing.

        The column of ids, which are UUIDv7 of about that time, lets an index on it find the rows.
        """
        self.add(f"{column} >= {{}}", since).add(f"{column} < {{}}", until)
        self.add(f"{id_column} >= {{}}", since and _id_at(since - _SKEW))
        return self.add(f"{id_column} < {{}}", until and _id_at(until + _SKEW))


def _id_at(moment: datetime) -> UUID:
    return earliest_uuid7(max(0, int(moment.timestamp() * 1000)))
