"""Rules that are about the caller alone, of what is no row: null, true, or a condition on `$member`. Pure."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pilotis.data.rules.document import ColumnRuleNeedsRowError, InvalidRuleError, checked_rule
from pilotis.data.rules.fold import Caller, fold
from pilotis.data.rules.visibility import mentions_member
from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.http.api.principals import MemberInfo
from pilotis.limits import Limits

Json = Any

# What such a rule names no columns of.
_NO_TABLE = TableSchema(UUID(int=0), UUID(int=0), "", AccessLevel.CREATOR, 1, ())


def check(rule: Json, place: str, limits: Limits) -> None:
    """Raise a 400 error, which names the place, for a rule that is wrong."""
    try:
        checked_rule(rule, place, _NO_TABLE, limits)
    except ColumnRuleNeedsRowError as error:
        raise InvalidRuleError("This rule is null, true, or a condition on $member alone.").at(
            error.details[0].field
        ) from None


def allows(rule: Json, member: MemberInfo | None) -> bool:
    """Return whether a rule that `check` has accepted holds for a member, or for one who is not signed in."""
    return fold(rule, Caller.of(member), _NO_TABLE, {}) is True


def asks_for_member(rule: Json) -> bool:
    """Return whether a rule may hold for some member."""
    return mentions_member(rule, {})
