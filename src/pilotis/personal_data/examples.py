"""Examples of the routes of exports of members' data."""

from __future__ import annotations

from pilotis.http.api.example import Example

_MEMBERS = "/v1/public/app-members"

EXAMPLES = [
    Example(
        route=f"POST {_MEMBERS}/me/export",
        operation="createOwnExport",
        answer={"token": "…", "expires_at": "2026-11-28T12:00:00.000Z"},
    ),
    Example(
        route=f"POST {_MEMBERS}/export/download",
        operation="runOwnExport",
        body={"token": "$EXPORT_TOKEN"},
        answer="PK…",
    ),
    Example(
        route="GET /v1/apps/:app_id/members/:member_id/export",
        operation="exportMember",
        answer="PK…",
    ),
]
