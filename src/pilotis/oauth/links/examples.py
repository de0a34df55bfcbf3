"""Examples of the routes of a member's accounts at vendors and connected clients."""

from __future__ import annotations

from pilotis.http.api.example import Example
from pilotis.oauth.flow.examples import CONNECTIONS

_MEMBER = "/v1/apps/:app_id/members/:member_id"

EXAMPLES = [
    Example(
        route=f"GET {_MEMBER}/identities",
        operation="listMemberIdentities",
        answer={
            "identities": [
                {
                    "provider": "GOOGLE",
                    "subject": "110169484474386276334",
                    "email": "grace@example.com",
                    "email_verified": True,
                    "linked_at": "2026-01-31T09:30:00.000Z",
                    "last_used_at": "2026-01-31T09:30:00.000Z",
                }
            ]
        },
    ),
    Example(
        route=f"DELETE {_MEMBER}/identities/:provider",
        operation="deleteMemberIdentity",
        path={"provider": "GOOGLE"},
        answer={"message": "Account unlinked.", "name": "GOOGLE"},
    ),
    Example(route=f"GET {_MEMBER}/consents", operation="listMemberConsents", answer=CONNECTIONS),
    Example(
        route=f"DELETE {_MEMBER}/consents/:consent_id",
        operation="deleteMemberConsent",
        answer={"message": "Disconnected.", "id": "0199c0de-6c4f-7b52-8d66-1e3f7b8c9d0e"},
    ),
]
