"""Examples of the audit log for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/audit-log",
        operation="listAuditEntries",
        query={"limit": 1},
        answer={
            "data": [
                {
                    "entry_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "actor_kind": "public",
                    "actor_id": None,
                    "actor_email": None,
                    "action": "table.create",
                    "target": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "details": {"title": "cafes"},
                    "request_id": "0199c0de-1c2b-77d9-8e60-b7d9e60a3854",
                }
            ],
            "total_count": 4,
            "limit": 1,
            "offset": 0,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/audit-log/targets",
        operation="listAuditTargets",
        query={"ids": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385"},
        answer={"targets": {}},
    ),
]
