"""Examples of the routes of second factors."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_MEMBERS = "/v1/public/app-members"
_CODES = {"recovery_codes": ["…"] * 10}

EXAMPLES = [
    Example(
        route=f"POST {_MEMBERS}/me/reauthenticate/start",
        operation="createReauthentication",
        body={"method": "email_code"},
        answer={"ticket": "…", "options": None},
    ),
    Example(
        route=f"POST {_MEMBERS}/second-factor",
        operation="completeSecondFactor",
        body={"ticket": "$FACTOR_TOKEN", "totp": "$TOTP_NUMBER"},
        answer={"member_id": _ID, "nickname": "Grace", "access_token": "eyJ…", "refresh_token": "eyJ…"},
    ),
    Example(
        route=f"POST {_MEMBERS}/second-factor/start",
        operation="createSecondFactor",
        body={"ticket": "$FACTOR_TOKEN"},
        answer={
            "ticket": "sf_…",
            "options": {
                "challenge": "…",
                "rpId": "localhost",
                "allowCredentials": [{"type": "public-key", "id": "…"}],
                "userVerification": "required",
            },
        },
    ),
    Example(
        route=f"POST {_MEMBERS}/me/reauthenticate",
        operation="verifyOwnSession",
        body={"password": "correct horse battery"},
        answer={"access_token": "eyJ…", "auth_time": _TIME},
    ),
    Example(
        route=f"GET {_MEMBERS}/me/factors",
        operation="getOwnFactors",
        answer={"totp": None, "recovery_codes": {"left": 0}, "passkeys": []},
    ),
    Example(
        route=f"POST {_MEMBERS}/me/totp",
        operation="createTotp",
        answer={"secret": "…", "uri": "otpauth://totp/…", "qr": "<svg …"},
    ),
    Example(
        route=f"POST {_MEMBERS}/me/totp/confirm",
        operation="completeTotp",
        body={"code": "$FIRST_TOTP_NUMBER"},
        answer=_CODES,
    ),
    Example(
        route=f"DELETE {_MEMBERS}/me/totp",
        operation="deleteTotp",
        answer={"message": "Authenticator app removed.", "id": _ID},
    ),
    Example(
        route=f"POST {_MEMBERS}/me/recovery-codes",
        operation="createRecoveryCodes",
        answer=_CODES,
    ),
    Example(
        route="DELETE /v1/apps/:app_id/members/:member_id/factors",
        operation="deleteMemberFactors",
        answer={"message": "Second factors removed.", "id": _ID},
    ),
]
