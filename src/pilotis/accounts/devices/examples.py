"""Examples of the routes of a member's own sessions."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_SESSIONS = "/v1/public/app-members/me/sessions"

EXAMPLES = [
    Example(
        route=f"GET {_SESSIONS}",
        operation="listMemberOwnSessions",
        answer={
            "sessions": [
                {
                    "session_id": _ID,
                    "user_agent": "…",
                    "created_at": _TIME,
                    "refreshed_at": _TIME,
                    "expires_at": _TIME,
                    "is_current": True,
                    "methods": ["password"],
                    "level": 1,
                }
            ]
        },
    ),
    Example(
        route=f"DELETE {_SESSIONS}/:session_id",
        operation="deleteMemberOwnSession",
        path={"session_id": "$MEMBER_SESSION_ID"},
        answer={"message": "Session ended.", "id": _ID},
    ),
    Example(
        route=f"POST {_SESSIONS}/end-others",
        operation="deleteOtherSessions",
        answer={"message": "Other sessions ended.", "sessions": 0},
    ),
]
