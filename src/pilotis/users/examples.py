"""Examples of console users, roles and invitations for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/auth/signup",
        operation="signUpUser",
        body={"email": "ada@example.com", "password": "correct horse battery", "token": "$SETUP_TOKEN"},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "ada@example.com",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="POST /v1/auth/signin",
        operation="signInUser",
        body={"email": "grace@example.com", "password": "correct horse battery"},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "grace@example.com",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="GET /v1/auth/me",
        operation="getCurrentUser",
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "owner@example.com",
            "is_active": True,
            "created_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/users",
        operation="listAppUsers",
        answer={
            "data": [
                {
                    "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "email": "owner@example.com",
                    "role": "owner",
                    "created_at": "2026-01-31T09:30:00.000Z",
                }
            ],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id/users/:user_id",
        operation="updateAppUser",
        body={"role": "editor"},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "grace@example.com",
            "role": "editor",
            "created_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/users/:user_id",
        operation="deleteAppUser",
        answer={"message": "Removed from the app.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/apps/:app_id/invitations",
        operation="createInvitation",
        body={"email": "linus@example.com", "role": "editor"},
        answer={
            "invitation_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "linus@example.com",
            "role": "editor",
            "expires_at": "2026-01-31T09:30:00.000Z",
            "token": "…",
            "link": "http://127.0.0.1:8090/setup#…",
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/invitations",
        operation="listInvitations",
        answer={
            "data": [
                {
                    "invitation_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "email": "linus@example.com",
                    "role": "viewer",
                    "invited_by": "owner@example.com",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "expires_at": "2026-01-31T09:30:00.000Z",
                }
            ],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/invitations/:invitation_id",
        operation="deleteInvitation",
        answer={"message": "Invitation revoked.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/invitations/accept",
        operation="acceptInvitation",
        body={"token": "$INVITATION_TOKEN"},
        answer={"app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "role": "viewer"},
    ),
    Example(
        route="PUT /v1/auth/me/password",
        operation="replaceUserPassword",
        body={"current_password": "correct horse battery", "new_password": "a longer sentence"},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "…@example.com",
            "is_active": True,
            "created_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="POST /v1/auth/password-reset",
        operation="resetUserPassword",
        body={"token": "$RESET_TOKEN", "password": "a longer sentence"},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "…@example.com",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="GET /v1/auth/audit-log",
        operation="listOwnAuditEntries",
        query={"limit": 1},
        answer={"data": [], "total_count": 0, "limit": 1, "offset": 0},
    ),
    Example(
        route="PATCH /v1/users/:user_id",
        operation="updateUser",
        body={"is_active": True},
        answer={
            "user_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "email": "grace@example.com",
            "is_active": True,
            "created_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="GET /v1/auth/sessions",
        operation="listOwnSessions",
        answer={
            "sessions": [
                {
                    "session_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "refreshed_at": "2026-01-31T09:30:00.000Z",
                    "expires_at": "2026-01-31T09:30:00.000Z",
                    "address": "127.0.0.1",
                    "user_agent": "…",
                    "is_current": True,
                }
            ]
        },
    ),
    Example(
        route="DELETE /v1/auth/sessions/:session_id",
        operation="deleteOwnSession",
        path={"session_id": "$OWN_SESSION_ID"},
        answer={"message": "Session ended.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(route="GET /v1/auth/me/preferences", operation="getPreferences", answer={"preferences": {}}),
    Example(
        route="PUT /v1/auth/me/preferences",
        operation="replacePreferences",
        body={"preferences": {"language": "en"}},
        answer={"preferences": {"language": "en"}},
    ),
]
