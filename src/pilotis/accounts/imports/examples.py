"""The example of the route of imported members."""

from __future__ import annotations

from pilotis.http.api.example import Example

_LINE = (
    '{"email": "linus@example.com", "email_verified": true, "password_hash": {"scheme": "bcrypt", '
    '"hash": "$2b$10$abcdefghijklmnopqrstuuMKAwVfYK8e9w0ZrrxPVVGjZ3nGtDDJO"}}\n'
)

EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/members/import",
        operation="importMembers",
        content=_LINE,
        answer={"created": 1, "rejected": []},
    ),
]
