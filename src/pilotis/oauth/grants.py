"""The grants of an app: which client may act for which member, and how the app's team withdraws one."""

from __future__ import annotations

from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.oauth.logout.backchannel import BackchannelLogout, EndedSession
from pilotis.oauth.tokens import store
from pilotis.oauth.tokens.records import ListedGrant
from pilotis.oauth.tokens.service import revoke
from pilotis.oauth.types import GrantClient, GrantMember, GrantQuery, IssuedGrant

REASON = "revoked_by_app"


class OAuthGrantNotFoundError(NotFoundError):
    """404: the app has no such OAuth grant, or it has already been revoked."""

    code = "OAUTH_GRANT_NOT_FOUND"
    message = "The app has no such grant, or it has already been revoked."


class Grants:
    """Lists and revokes the grants of apps."""

    def __init__(self, database: Database, backchannel: BackchannelLogout) -> None:
        self._database = database
        self._backchannel = backchannel

    async def page(self, app: AppInfo, query: GrantQuery) -> ItemPage[IssuedGrant]:
        """Return a page of the app's grants, newest first. A grant is deleted one day after it ended."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.grants(
            self._database, app.app_id, query.client_id, query.member_id, limit, query.offset
        )
        return ItemPage(data=[_grant(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def revoke(self, app_id: UUID, actor: Actor, grant_id: UUID) -> None:
        """Revoke a grant with its code and tokens, and notify its client that the session has ended.

        The member's consent stays. Raises `OAuthGrantNotFoundError`.
        """
        async with self._database.transaction(app_id) as connection:
            row = await revoke(connection, app_id, actor, grant_id, REASON)
            if row is None:
                raise OAuthGrantNotFoundError
            ended = EndedSession(row.client_id, row.session_id, row.member_id)
            await self._backchannel.enqueue(connection, app_id, ended)


def _grant(row: ListedGrant) -> IssuedGrant:
    return IssuedGrant(
        grant_id=row.grant_id,
        client=GrantClient(row.client_id, row.client_name),
        member=GrantMember(row.member_id, row.nickname),
        session_id=row.session_id,
        scopes=row.scopes,
        resources=row.resources,
        is_active=row.lives,
        is_offline=row.is_offline,
        is_bound=row.is_bound,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.refreshed_at),
        expires_at=rfc3339(row.expires_at),
        revoked_at=optional_rfc3339(row.revoked_at),
        revoke_reason=row.revoke_reason,
    )
