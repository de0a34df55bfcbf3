"""Who may do what in a storage. Pure.

The app's secret key and its console users pass whatever the access is, if their role lets them: viewers read, editors
write. In a storage with the access `Creator`, members see all folders, but only the files they uploaded.
"""

from __future__ import annotations

import contextlib

from pilotis.files.errors import NotYoursError, StorageMemberRequiredError
from pilotis.files.types import StorageAccess
from pilotis.http.principals import Principal, Role, RoleRequiredError, SecretKeyRequiredError
from pilotis.kit.errors import PilotisError


def creator_limit(principal: Principal, access: StorageAccess, role: Role) -> str | None:
    """Return whose files alone the caller may use, or None for everybody's; raises where it may use none."""
    if access is StorageAccess.PUBLIC or principal.may(role):
        return None
    if access is StorageAccess.SECRET:
        raise RoleRequiredError if principal.role is not None else SecretKeyRequiredError
    if principal.member is None:
        raise RoleRequiredError if principal.role is not None else StorageMemberRequiredError
    return principal.member.member_id if access is StorageAccess.CREATOR else None


def passable(principal: Principal, role: Role) -> list[str]:
    """Return every access of a storage with which the caller may use at least some of its files."""
    passed = []
    for access in StorageAccess:
        with contextlib.suppress(PilotisError):
            creator_limit(principal, access, role)
            passed.append(access.value)
    return passed


def require_own(limit: str | None, creator: str | None) -> None:
    """Raise `NotYoursError` for a file that `creator_limit` keeps from the caller."""
    if limit is not None and creator != limit:
        raise NotYoursError


def member_of(principal: Principal) -> str | None:
    """Return the member that acts, if one does."""
    return principal.member.member_id if principal.member else None
