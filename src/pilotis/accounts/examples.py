"""Examples of the routes for proofs by mail."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_MEMBERS = "/v1/public/app-members"
_ASKED = "If there is such a member with a verified address, a mail is on its way."
_ACCOUNT = {
    "member_id": _ID,
    "nickname": "Grace",
    "is_active": True,
    "custom_data": {},
    "login_id": "grace",
    "is_guest": False,
    "roles": [],
    "claims": {},
    "created_at": _TIME,
    "email": "grace@example.com",
    "pending_email": None,
    "has_password": True,
    "language": None,
}

EXAMPLES = [
    Example(
        route=f"POST {_MEMBERS}/me/email",
        operation="verifyOwnEmail",
        body={"email": "grace@example.com"},
        answer={"ticket": "…", "expires_at": _TIME},
    ),
    Example(
        route=f"POST {_MEMBERS}/me/email/confirm",
        operation="completeEmailVerification",
        body={"token": "$VERIFY_TOKEN"},
        answer=_ACCOUNT,
    ),
    Example(
        route=f"DELETE {_MEMBERS}/me/email",
        operation="deleteOwnEmail",
        answer={"message": "Address removed.", "id": _ID},
    ),
    Example(
        route=f"PUT {_MEMBERS}/me/password",
        operation="replaceOwnPassword",
        body={"password": "correct horse battery"},
        answer={"message": "Password set."},
    ),
    Example(
        route=f"POST {_MEMBERS}/email-undo",
        operation="restoreEmail",
        body={"token": "$UNDO_TOKEN"},
        answer={
            "message": "The account has this address again. Choose a new password by the link that was mailed to it."
        },
    ),
    Example(
        route=f"POST {_MEMBERS}/email-sign-in",
        operation="createEmailSignIn",
        body={"email": "grace@example.com"},
        answer={"ticket": "…", "expires_at": _TIME},
    ),
    Example(
        route=f"POST {_MEMBERS}/email-sign-in/confirm",
        operation="completeEmailSignIn",
        body={"token": "$SIGN_IN_TOKEN"},
        answer={"member_id": _ID, "nickname": None, "access_token": "eyJ…", "refresh_token": "eyJ…"},
    ),
    Example(
        route=f"POST {_MEMBERS}/email-verification",
        operation="verifyEmail",
        body={"token": "$VERIFY_TOKEN", "password": "correct horse battery"},
        answer={"message": "Address verified."},
    ),
    Example(
        route=f"POST {_MEMBERS}/email-verification/deny",
        operation="denyEmail",
        body={"token": "$VERIFY_TOKEN"},
        answer={"message": "The account does not get this address."},
    ),
    Example(
        route=f"POST {_MEMBERS}/password-reset",
        operation="createPasswordReset",
        body={"email": "grace@example.com"},
        answer={"message": _ASKED},
    ),
    Example(
        route=f"POST {_MEMBERS}/password-reset/confirm",
        operation="resetPassword",
        body={"token": "$PASSWORD_TOKEN", "password": "correct horse battery staple"},
        answer={"message": "Password changed. Sign in with the new one."},
    ),
]

ADMINISTRATION_EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/members/:member_id/mail-reset",
        operation="createMemberReset",
        answer={"message": "A mail is on its way."},
    ),
]
