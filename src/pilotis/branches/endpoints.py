"""The routes of branches."""

from __future__ import annotations

from uuid import UUID

from pilotis.branches.errors import (
    BranchLimitError,
    BranchNameTakenError,
    BranchNotFoundError,
    BranchNotReadyError,
    BranchOfBranchError,
    DifferencesChangedError,
    MergeConflictError,
    MergeFailedError,
)
from pilotis.branches.service import Branches
from pilotis.branches.types import AppBranch, BranchDiff, Merge, Merged, NewBranch
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging

_BRANCHES = "/v1/apps/:app_id/branches"
_BRANCH = f"{_BRANCHES}/:branch_id"
_VIEWER = console(Role.VIEWER, secret_key=True)
_EDITOR = console(Role.EDITOR, secret_key=True)


class BranchEndpoints(Endpoints, tag="Apps"):
    """Copies of an app for previews."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    @post(
        _BRANCHES,
        access=_EDITOR,
        status=202,
        creates="branch_id",
        again="read",
        errors=[BranchNameTakenError, BranchOfBranchError, BranchLimitError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewBranch) -> AppBranch:
        """Create a branch: a copy of the app beside it, with keys of its own, which is deleted after some days.

        Tables, rows and members keep their ids, files and sites get other addresses. In the copy nothing acts: mails
        are stored in its mailbox, webhooks, triggers and workflows are inactive, social login and domains are off. Its
        console users are those of the app. An owner is needed for `members`.
        """
        return await self._branches.create(call.principal, call.actor, body, UUID(call.new_id()))

    @get(_BRANCHES, access=_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[AppBranch]:
        """List the branches of an app."""
        return await self._branches.page(call.principal, query)

    @get(_BRANCH, access=_VIEWER, errors=[BranchNotFoundError])
    async def read(self, call: Call, app_id: UUID, branch_id: UUID) -> AppBranch:
        """Read a branch."""
        return await self._branches.read(app_id, branch_id)

    @delete(_BRANCH, access=_EDITOR, errors=[BranchNotFoundError])
    async def delete(self, call: Call, app_id: UUID, branch_id: UUID) -> Deleted:
        """Delete a branch. As an app, an owner can restore it for 7 days."""
        await self._branches.delete(app_id, call.actor, branch_id)
        return Deleted("Branch deleted.", branch_id)

    @get(f"{_BRANCH}/diff", access=Access.APP_EDITOR, errors=[BranchNotFoundError, BranchNotReadyError])
    async def diff(self, call: Call, app_id: UUID, branch_id: UUID) -> BranchDiff:
        """Compare the definitions of a branch with those of its parent.

        These are tables with columns, keys and rules, storages, channels, settings, functions and workflows; of a table
        that a merge changes, each column. Rows, members and files are not compared.
        """
        return await self._branches.diff(call.principal, branch_id)

    @post(
        f"{_BRANCH}/merge",
        access=Access.APP_EDITOR,
        errors=[
            BranchNotFoundError,
            BranchNotReadyError,
            DifferencesChangedError,
            MergeConflictError,
            MergeFailedError,
        ],
    )
    async def merge(self, call: Call, app_id: UUID, branch_id: UUID, body: Merge) -> Merged:
        """Apply the definitions of a branch to its parent: those that `diff` has shown. Rows are never merged.

        Each table is changed in one transaction. Columns and tables that are dropped are in the parent's trash.
        """
        return await self._branches.merge(call.principal, call.actor, branch_id, body)
