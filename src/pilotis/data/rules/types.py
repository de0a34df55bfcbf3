"""The types of rules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from pilotis.data.rules.actions import Action

Rule = dict[str, Any] | bool | None


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table's rules: who may do what. A rule is null (only the app itself), true (everybody) or a condition.

    An action that is absent is closed; `list` that is absent is as `read`. `define` has conditions that others `$use`,
    `columns` the rules of single columns: `{"salary": {"read": null}}`. `read` of a column may depend on the row.
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


class FileRuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file storage's rules: who may do what with its files, as `RuleSet` says it of rows.

    `create` is about new files and folders, `update` about replacing the content of a file.
    """

    list: Rule | msgspec.UnsetType = msgspec.UNSET
    read: Rule | msgspec.UnsetType = msgspec.UNSET
    create: Rule | msgspec.UnsetType = msgspec.UNSET
    update: Rule | msgspec.UnsetType = msgspec.UNSET
    delete: Rule | msgspec.UnsetType = msgspec.UNSET
    define: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class NewFileRules(msgspec.Struct, forbid_unknown_fields=True):
    """The whole rules of a file storage; null makes its access settings decide again.

    `expected_updated_at` is the `updated_at` of the rules that are to be replaced.
    """

    rules: FileRuleSet | None
    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class RuleWarning(msgspec.Struct, frozen=True):
    """What a rule may not have been meant to do. `place` is its path in the document."""

    code: str
    place: str
    message: str


class TestedMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is tried: the member with `member_id`, or one that does not exist, with the other facts.

    Without an `id` it has created no row and owns none.
    """

    member_id: str | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType = msgspec.UNSET
    roles: list[str] | msgspec.UnsetType = msgspec.UNSET
    claims: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    is_guest: bool | msgspec.UnsetType = msgspec.UNSET
    level: Annotated[int, msgspec.Meta(ge=1, le=2)] | msgspec.UnsetType = msgspec.UNSET
    """With how many factors it has signed in."""


class RuleTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be tried, and as whom. Nothing is changed.

    `as` is `public` for someone with the public key alone. `row_id` is the row that is read, changed or deleted, `data`
    the row that is created, or the fields that are changed. `rules` are tried in place of those that are saved.
    `capabilities` are the texts of shared links that the request brings, by their names.
    """

    action: Action
    caller: Literal["public"] | TestedMember = msgspec.field(name="as")
    row_id: UUID | msgspec.UnsetType = msgspec.UNSET
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    rules: RuleSet | msgspec.UnsetType = msgspec.UNSET
    capabilities: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class RulePart(msgspec.Struct, frozen=True):
    """A condition of the rule, and whether it holds; null if it needs a row, or a value that the caller does not have.

    `place` is its path in the document, `words` is what it says.
    """

    place: str
    words: str
    holds: bool | None


class RuleTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller would be answered, and why.

    `visible_columns` are those of every row, and those that the row of `row_id` shows besides. `code` and `message` are
    those of the error. `visible_count` is the number of rows that the caller could list, where listing was tried and
    could be counted in time. `index` says how they are found: by an index, without one, or without one in a table
    that is too small for that to matter; null where no rows were looked for.
    """

    allowed: bool
    status: int
    code: str | None
    message: str | None
    visible_columns: list[str]
    writable_columns: list[str]
    parts: list[RulePart]
    visible_count: int | None
    milliseconds: float
    index: Literal["used", "missing", "small table"] | None


class TestedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that is uploaded in a test: its path, its size in bytes, and its type."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    mime_type: Annotated[str, msgspec.Meta(max_length=255)] = "application/octet-stream"


class FileRuleTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be tried in a storage, and as whom. Nothing is changed.

    `as` is `public` for someone with the public key alone. `path` is that of the file that is read, replaced or
    deleted, `file` the one that is uploaded, in its place where there is one. `rules` are tried in place of those that
    hold. `capabilities` are the texts of shared links that the request brings, by their names.
    """

    action: Action
    caller: Literal["public"] | TestedMember = msgspec.field(name="as")
    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | msgspec.UnsetType = msgspec.UNSET
    file: TestedFile | msgspec.UnsetType = msgspec.UNSET
    rules: FileRuleSet | msgspec.UnsetType = msgspec.UNSET
    capabilities: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class FileRuleTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller would be answered, and why.

    `code` and `message` are those of the error. `visible_count` is the number of files that the caller could list,
    where listing was tried.
    """

    allowed: bool
    status: int
    code: str | None
    message: str | None
    parts: list[RulePart]
    visible_count: int | None
    milliseconds: float


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


class FileFacts(NamedTuple):
    """An item that is judged: a file, or a folder, which has no type and the size 0.

    `path` is its path in the storage, `size` is in bytes, `creator` the member that uploaded it.
    """

    file_id: UUID
    path: str
    name: str
    mime_type: str | None
    size: int
    creator: str | None
    created_at: datetime
    updated_at: datetime


class FilePreset(msgspec.Struct, frozen=True):
    """A document for a file storage to begin with."""

    name: str
    description: str
    rules: FileRuleSet


class StorageRules(msgspec.Struct, frozen=True, kw_only=True):
    """A file storage's rules, null where its access settings decide, and what to begin with.

    `level_rules` are the rules that these settings stand for.
    """

    rules: FileRuleSet | None
    level_rules: FileRuleSet
    presets: list[FilePreset]
    warnings: list[RuleWarning]
    updated_at: str | None


class TableRules(msgspec.Struct, frozen=True, kw_only=True):
    """A table's rules, null where its access level decides, and what to begin with.

    `level_rules` are the rules that the access level stands for.
    """

    rules: RuleSet | None
    level_rules: RuleSet
    presets: list[Preset]
    warnings: list[RuleWarning]
    updated_at: str | None
