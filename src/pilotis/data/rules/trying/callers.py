"""Those as whom rules are tried: a member, one that does not exist, or someone with the public key alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal
from uuid import UUID

import msgspec

from pilotis.data.rules.types import TestedMember
from pilotis.http.api import capabilities
from pilotis.http.api.principals import AppInfo, AppMember, MemberInfo, PublicClient
from pilotis.kit.errors import invalid
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.service import NO_SESSION

Acting = Callable[[UUID, str], Awaitable[MemberInfo | None]]
"""Returns a member of an app, without a session."""


async def tried_caller(
    app: AppInfo,
    given: Literal["public"] | TestedMember,
    brought: Mapping[str, str] | msgspec.UnsetType,
    acting: Acting,
) -> PublicClient | AppMember:
    """Return the caller that a test names, with the texts of shared links that it brings.

    Raises a 400 error, or `MemberNotFoundError`.
    """
    texts = capabilities.parse(",".join(f"{name}={text}" for name, text in brought.items())) if brought else {}
    if isinstance(given, str):
        return PublicClient(app, texts)
    if given.member_id is not msgspec.UNSET:
        if (given.id, given.roles, given.claims, given.is_guest, given.level).count(msgspec.UNSET) < 5:
            raise invalid("as", "Give member_id, or the facts of a member that does not exist.")
        member = await acting(app.app_id, given.member_id)
        if member is None:
            raise MemberNotFoundError
        return AppMember(app, member, texts)
    member = MemberInfo(
        given.id or "",
        NO_SESSION,
        is_guest=given.is_guest is True,
        roles=tuple(given.roles or ()),
        claims=given.claims or {},
        level=given.level or 1,
    )
    return AppMember(app, member, texts)
