"""Access rules of storages. Pure.

The app's secret key and its console users have access in any case, within their role: viewers may read, editors may
write. In a storage with the access `Creator`, members see all folders, but only their own files.
"""

from __future__ import annotations

import contextlib

from pilotis.files.errors import NotYoursError, StorageMemberRequiredError
from pilotis.files.types import StorageAccess
from pilotis.http.api.principals import Principal, Role, RoleRequiredError, SecretKeyRequiredError
from pilotis.kit.errors import PilotisError


def creator_limit(principal: Principal, access: StorageAccess, role: Role) -> str | None:
    """Return the member whose files alone the caller may use, or None for all files; raises if it may not use any."""
    if access is StorageAccess.PUBLIC or principal.may(role):
        return None
    if access is StorageAccess.SECRET:
        raise RoleRequiredError if principal.role is not None else SecretKeyRequiredError
    if principal.member is None:
        raise RoleRequiredError if principal.role is not None else StorageMemberRequiredError
    return principal.member.member_id if access is StorageAccess.CREATOR else None


RULES = "Rules"
"""What the rows of storages with rules have in place of their access settings.

A statement that does not know of rules finds no setting that it accepts, and lets only those pass who pass all rules.
"""


def usable_accesses(principal: Principal, role: Role) -> list[str]:
    """Return the access settings that let the caller use at least some of a storage's files."""
    passed = [RULES] if principal.may(role) else []
    for access in StorageAccess:
        with contextlib.suppress(PilotisError):
            creator_limit(principal, access, role)
            passed.append(access.value)
    return passed


def require_own(limit: str | None, creator: str | None) -> None:
    """Raise `NotYoursError` for a file that `creator_limit` excludes."""
    if limit is not None and creator != limit:
        raise NotYoursError


def member_of(principal: Principal) -> str | None:
    """Return the acting member, if there is one."""
    return principal.member.member_id if principal.member else None
