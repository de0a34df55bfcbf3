"""The types of rules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

Rule = dict[str, Any] | bool | None


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table's rules: who may do what. A rule is null (only the app itself), true (everybody) or a condition.

    An action that is absent is closed; `list` that is absent is as `read`. `define` has conditions that others `$use`,
    `columns` the rules of single columns: `{"salary": {"read": null}}`.
    """

    list: Rule | msgspec.UnsetType = msgspec.UNSET
    read: Rule | msgspec.UnsetType = msgspec.UNSET
    create: Rule | msgspec.UnsetType = msgspec.UNSET
    update: Rule | msgspec.UnsetType = msgspec.UNSET
    delete: Rule | msgspec.UnsetType = msgspec.UNSET
    define: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    columns: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class NewRules(msgspec.Struct, forbid_unknown_fields=True):
    """The whole rules of a table; null makes its access level decide again.

    `expected_updated_at` is the `updated_at` of the rules that are to be replaced.
    """

    rules: RuleSet | None
    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class RuleWarning(msgspec.Struct, frozen=True):
    """What a rule may not have been meant to do. `place` is its path in the document."""

    code: str
    place: str
    message: str


class RuleFinding(NamedTuple):
    """What the rules of a table leave open, and how bad that is: `high`, `medium`, `low` or `none`."""

    severity: Literal["high", "medium", "low", "none"]
    code: str
    table_id: UUID
    message: str


class Preset(msgspec.Struct, frozen=True):
    """A document to begin with."""

    name: str
    description: str
    rules: RuleSet


class TableRules(msgspec.Struct, frozen=True, kw_only=True):
    """A table's rules, null where its access level decides, and what to begin with.

    `level_rules` are the rules that the access level stands for.
    """

    rules: RuleSet | None
    level_rules: RuleSet
    presets: list[Preset]
    warnings: list[RuleWarning]
    updated_at: str | None
