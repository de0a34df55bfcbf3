"""Examples of the routes of second factors of console users."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_FACTORS = "/v1/auth/factors"
_CODES = {"recovery_codes": ["…"]}

EXAMPLES = [
    Example(
        route="POST /v1/auth/second-factor",
        operation="completeUserSignIn",
        body={"ticket": "$USER_TICKET_TOKEN", "recovery_code": "$USER_RECOVERY_KEY"},
        answer={"user_id": _ID, "email": "…", "access_token": "eyJ…", "refresh_token": "eyJ…"},
    ),
    Example(
        route="POST /v1/auth/reauthenticate",
        operation="verifyUserSession",
        body={"password": "correct horse battery"},
        answer={"auth_time": _TIME},
    ),
    Example(
        route=f"GET {_FACTORS}",
        operation="getUserFactors",
        answer={"totp": None, "recovery_codes": {"left": 0}},
    ),
    Example(
        route=f"POST {_FACTORS}/totp",
        operation="createUserTotp",
        answer={"secret": "…", "uri": "otpauth://totp/…", "qr": "<svg…"},
    ),
    Example(
        route=f"POST {_FACTORS}/totp/confirm",
        operation="completeUserTotp",
        body={"code": "$USER_TOTP_NUMBER"},
        answer=_CODES,
    ),
    Example(
        route=f"DELETE {_FACTORS}/totp",
        operation="deleteUserTotp",
        answer={"message": "Authenticator app removed.", "id": _ID},
    ),
    Example(
        route=f"POST {_FACTORS}/recovery-codes",
        operation="createUserRecoveryCodes",
        answer=_CODES,
    ),
    Example(
        route="POST /v1/auth/password-reset/request",
        operation="createUserReset",
        body={"email": "ada@example.com"},
        answer={"message": "If there is such a console user, a mail is on its way."},
    ),
]
