"""Examples of the administration of members, for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/members/:member_id/impersonate",
        operation="createImpersonation",
        body={"reason": "Ticket 17: the list of orders is empty."},
        answer={
            "access_token": "eyJ…",
            "expires_at": "2026-11-27T12:15:00.000Z",
            "session_id": "0198c0de-0000-7000-8000-000000000001",
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/members",
        operation="listMembers",
        query={"search": "grace"},
        answer={
            "data": [
                {
                    "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "login_id": "grace",
                    "nickname": "Grace",
                    "is_guest": False,
                    "is_active": True,
                    "roles": [],
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                    "last_active_at": "2026-01-31T09:30:00.000Z",
                }
            ],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/members/:member_id",
        operation="getMember",
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "login_id": "grace",
            "nickname": "Grace",
            "is_guest": False,
            "is_active": True,
            "roles": [],
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "last_active_at": "2026-01-31T09:30:00.000Z",
            "sessions": 1,
            "custom_data": {},
            "claims": {},
            "email": None,
            "factors": [],
            "banned_until": None,
            "ban_reason": None,
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id/members/:member_id",
        operation="updateMember",
        body={"is_active": False, "roles": ["editor"]},
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "login_id": "grace",
            "nickname": "Grace",
            "is_guest": False,
            "is_active": False,
            "roles": ["editor"],
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "last_active_at": "2026-01-31T09:30:00.000Z",
            "sessions": 1,
            "custom_data": {},
            "claims": {},
            "email": None,
            "factors": [],
            "banned_until": None,
            "ban_reason": None,
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/members/:member_id",
        operation="deleteMember",
        answer={"message": "Member deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/apps/:app_id/members/:member_id/sign-out-everywhere",
        operation="signOutMemberEverywhere",
        answer={
            "message": "Member signed out everywhere.",
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "sessions": 1,
        },
    ),
    Example(
        route="PUT /v1/apps/:app_id/members/:member_id/password",
        operation="replaceMemberPassword",
        body={"password": "a longer sentence"},
        answer={
            "message": "Password set. The member is signed out everywhere.",
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "sessions": 1,
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/members",
        operation="createMember",
        body={"login_id": "linus", "password": "a longer sentence", "nickname": "Linus"},
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "login_id": "linus",
            "nickname": "Linus",
            "is_guest": False,
            "is_active": True,
            "roles": [],
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "last_active_at": "2026-01-31T09:30:00.000Z",
            "sessions": 0,
            "custom_data": {},
            "claims": {},
            "email": None,
            "factors": [],
            "banned_until": None,
            "ban_reason": None,
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/members/:member_id/token",
        operation="createMemberToken",
        answer={"access_token": "…", "expires_in": 300, "session_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="GET /v1/apps/:app_id/members/:member_id/sessions",
        operation="listMemberSessions",
        answer={
            "sessions": [
                {
                    "session_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "user_agent": "…",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "refreshed_at": "2026-01-31T09:30:00.000Z",
                    "expires_at": "2026-01-31T09:30:00.000Z",
                }
            ]
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/members/:member_id/sessions/:session_id",
        operation="deleteMemberSession",
        path={"session_id": "$MEMBER_SESSION_ID"},
        answer={"message": "Session ended.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
]
