"""The types of branches."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from uuid import UUID

import msgspec

from pilotis.apps.types import BranchName

Amount = Literal["none", "all"]
State = Literal["creating", "ready", "failed"]
PartName = Literal["tables", "storages", "channels", "settings", "functions", "workflows"]
_PARTS: list[PartName] = list(get_args(PartName))
Step = Literal["create", "change", "drop", "conflict", "left", "newer", "gone"]


class NewBranch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A branch to create: what it has besides the definitions of the app, and for how many days.

    Only an owner may copy members, with what identifies them. `files` are those of storages, and sites.
    """

    name: BranchName
    rows: Amount = "none"
    members: Amount = "none"
    files: Amount = "none"
    days: Annotated[int, msgspec.Meta(ge=1, le=90)] = 14


class AppBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of an app: an app of its own, whose id is `branch_id`, as soon as its state is `ready`.

    `error` says why it is `failed`. It is deleted at `expires_at`. `public_key` is its first one; it has no secret key
    until somebody creates one.
    """

    branch_id: UUID
    parent_app_id: UUID
    name: str
    rows: Amount
    members: Amount
    files: Amount
    state: State
    error: str | None
    public_key: str | None
    created_at: str
    expires_at: str


class ColumnDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge does to a column of a table of the parent; see the preview of a schema.

    `rows` have a value in it, `rows_that_do_not_fit` make the merge fail.
    """

    kind: str
    name: str
    rows: int
    rows_that_do_not_fit: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A definition in which a branch and its parent differ, and what a merge does with it.

    `create`, `change` and `drop` are applied. `conflict`: both have changed since the branch was created or last
    merged. `newer`: only the parent has changed, `left`: only the parent has it, `gone`: the parent has dropped it;
    these stay as they are.
    """

    part: PartName
    title: str
    step: Step
    columns: list[ColumnDifference] = []


class BranchDiff(msgspec.Struct, frozen=True, kw_only=True):
    """All differences, in the order in which a merge applies them. `digest` identifies this answer for the merge."""

    digest: str
    differences: list[Difference]


class Merge(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to merge: the digest of the differences that were looked at, and the parts; by default all.

    Without `drops` nothing is dropped from the parent. A conflict makes the merge fail, unless `theirs` says that the
    branch wins.
    """

    digest: Annotated[str, msgspec.Meta(max_length=64)]
    parts: Annotated[list[PartName], msgspec.Meta(max_length=6)] = msgspec.field(default_factory=_PARTS.copy)
    drops: bool = False
    theirs: bool = False


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """What was applied to the parent."""

    message: str
    applied: list[Difference]


class BranchJob(msgspec.Struct):
    """The payload of the job that creates a branch."""

    branch_id: UUID
    actor_kind: str
    actor_id: str | None


Found = dict[str, dict[str, Any]]
"""Definitions by key, each with a `title`."""
