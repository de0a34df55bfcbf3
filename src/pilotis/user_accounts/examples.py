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
        answer={"totp": None, "recovery_codes": {"left": 0}, "passkeys": []},
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

_PASSKEY = {"id": _ID, "name": "Phone", "is_synced": False, "created_at": _TIME, "last_used_at": None}
_OPTIONS = {"challenge": "…", "userVerification": "required"}
_ASSERTION = {
    "id": "$USER_CREDENTIAL_ID",
    "rawId": "$USER_CREDENTIAL_ID",
    "type": "public-key",
    "clientExtensionResults": {},
    "response": {
        "clientDataJSON": "$USER_CLIENT_DATA_TOKEN",
        "authenticatorData": "$USER_AUTHENTICATOR_TOKEN",
        "signature": "$USER_SIGNATURE_TOKEN",
    },
}

PASSKEY_EXAMPLES = [
    Example(
        route="POST /v1/auth/passkey-sign-in/start",
        operation="createUserPasskeySignIn",
        answer={"ticket": "…", "options": {"rpId": "127.0.0.1", **_OPTIONS}},
    ),
    Example(
        route="POST /v1/auth/passkey-sign-in",
        operation="completeUserPasskeySignIn",
        body={"ticket": "$USER_ASSERTION_TOKEN", "credential": _ASSERTION},
        answer={"user_id": _ID, "email": "…", "access_token": "eyJ…", "refresh_token": "eyJ…"},
    ),
    Example(
        route=f"POST {_FACTORS}/passkeys/start",
        operation="createUserPasskeyChallenge",
        answer={
            "ticket": "…",
            "options": {
                "rp": {"name": "Pilotis", "id": "127.0.0.1"},
                "user": {"name": "…", "id": "…", "displayName": "…"},
                "challenge": "…",
                "pubKeyCredParams": [
                    {"type": "public-key", "alg": -7},
                    {"type": "public-key", "alg": -8},
                    {"type": "public-key", "alg": -257},
                ],
                "authenticatorSelection": {
                    "residentKey": "required",
                    "userVerification": "required",
                    "requireResidentKey": True,
                },
            },
        },
    ),
    Example(
        route=f"POST {_FACTORS}/passkeys",
        operation="createUserPasskey",
        body={
            "ticket": "$USER_ATTESTATION_TOKEN",
            "name": "Phone",
            "credential": {
                "id": "$NEW_USER_CREDENTIAL_ID",
                "rawId": "$NEW_USER_CREDENTIAL_ID",
                "type": "public-key",
                "clientExtensionResults": {},
                "response": {
                    "clientDataJSON": "$NEW_USER_CLIENT_DATA_TOKEN",
                    "attestationObject": "$NEW_USER_OBJECT_TOKEN",
                },
            },
        },
        answer=_PASSKEY,
    ),
    Example(
        route=f"DELETE {_FACTORS}/passkeys/:user_passkey_id",
        operation="deleteUserPasskey",
        answer={"message": "Passkey removed.", "id": _ID},
    ),
]
