"""Examples of app members, for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/app-members/signup",
        operation="signUpMember",
        body={"login_id": "ada", "password": "correct horse battery", "nickname": "Ada"},
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "nickname": "Ada",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="POST /v1/public/app-members/signin",
        operation="signInMember",
        body={"login_id": "grace", "password": "correct horse battery"},
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "nickname": "Grace",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="POST /v1/public/app-members",
        operation="createGuest",
        answer={
            "member_id": "guest_0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
        },
    ),
    Example(
        route="GET /v1/public/app-members/me",
        operation="getCurrentMember",
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "nickname": "Grace",
            "is_active": True,
            "custom_data": {},
        },
    ),
    Example(
        route="GET /v1/public/app-members/me/account",
        operation="getOwnAccount",
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "nickname": "Grace",
            "is_active": True,
            "custom_data": {},
            "login_id": "grace",
            "is_guest": False,
            "roles": [],
            "claims": {},
            "created_at": "2026-01-31T09:30:00.000Z",
            "email": None,
            "pending_email": None,
            "has_password": True,
            "language": None,
        },
    ),
    Example(
        route="PATCH /v1/public/app-members/me/custom-data",
        operation="updateCustomData",
        body={"custom_data": {"theme": "dark", "beta": None}},
        answer={"member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "custom_data": {"theme": "dark"}},
    ),
    Example(
        route="POST /v1/public/app-members/signout",
        operation="signOutMember",
        answer={"message": "Signed out."},
    ),
    Example(
        route="PATCH /v1/public/app-members/me",
        operation="updateCurrentMember",
        body={"nickname": "Grace H."},
        answer={
            "member_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "nickname": "Grace H.",
            "is_active": True,
            "custom_data": {},
        },
    ),
    Example(
        route="PATCH /v1/public/app-members/me/password",
        operation="updateOwnPassword",
        body={"current_password": "correct horse battery", "new_password": "a longer sentence"},
        answer={"message": "Password changed."},
    ),
    Example(
        route="DELETE /v1/public/app-members/me",
        operation="deleteCurrentMember",
        body={"password": "correct horse battery"},
        answer={"message": "Account deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
]
