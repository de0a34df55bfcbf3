"""The route of the audit log."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage
from pilotis.security.audit.service import AuditLog
from pilotis.security.audit.types import AuditEntry, AuditQuery, AuditTargets, AuditTargetsQuery


class AuditEndpoints(Endpoints, tag="Audit log"):
    """Every console action and every schema change of an app."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log

    @get("/v1/apps/:app_id/audit-log", access=Access.APP_EDITOR)
    async def page(self, call: Call, app_id: UUID, query: AuditQuery) -> ItemPage[AuditEntry]:
        """List who changed what, newest first."""
        return await self._audit_log.page(call.app, query)

    @get("/v1/apps/:app_id/audit-log/targets", access=Access.APP_EDITOR)
    async def targets(self, call: Call, app_id: UUID, query: AuditTargetsQuery) -> AuditTargets:
        """Read what the targets of entries are and how they are called now, at most 200."""
        return await self._audit_log.targets(call.app, query.ids)
