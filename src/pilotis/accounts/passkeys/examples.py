"""Examples of the routes of passkeys."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_MEMBERS = "/v1/public/app-members"
_PASSKEY = {"id": _ID, "name": "Phone", "is_synced": False, "created_at": _TIME, "last_used_at": None}
_ASSERTION = {
    "id": "$CREDENTIAL_ID",
    "rawId": "$CREDENTIAL_ID",
    "type": "public-key",
    "clientExtensionResults": {},
    "response": {
        "clientDataJSON": "$CLIENT_DATA_TOKEN",
        "authenticatorData": "$AUTHENTICATOR_TOKEN",
        "signature": "$SIGNATURE_TOKEN",
    },
}
_OPTIONS = {
    "ticket": "…",
    "options": {"challenge": "…", "rpId": "localhost", "userVerification": "required"},
}

EXAMPLES = [
    Example(route=f"POST {_MEMBERS}/passkey-sign-in/start", operation="createPasskeySignIn", answer=_OPTIONS),
    Example(
        route=f"POST {_MEMBERS}/passkey-sign-in",
        operation="completePasskeySignIn",
        body={"ticket": "$ASSERTION_TOKEN", "credential": _ASSERTION},
        answer={"member_id": _ID, "nickname": "Grace", "access_token": "eyJ…", "refresh_token": "eyJ…"},
    ),
    Example(
        route=f"POST {_MEMBERS}/me/passkeys/start",
        operation="createPasskeyChallenge",
        answer={
            "ticket": "…",
            "options": {
                "rp": {"name": "Cafe guide", "id": "localhost"},
                "user": {"name": "grace", "id": "…", "displayName": "grace"},
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
        route=f"POST {_MEMBERS}/me/passkeys",
        operation="createPasskey",
        body={
            "ticket": "$ATTESTATION_TOKEN",
            "name": "Phone",
            "credential": {
                "id": "$NEW_CREDENTIAL_ID",
                "rawId": "$NEW_CREDENTIAL_ID",
                "type": "public-key",
                "clientExtensionResults": {},
                "response": {"clientDataJSON": "$NEW_CLIENT_DATA_TOKEN", "attestationObject": "$NEW_OBJECT_TOKEN"},
            },
        },
        answer=_PASSKEY,
    ),
    Example(
        route=f"PATCH {_MEMBERS}/me/passkeys/:passkey_id",
        operation="updatePasskey",
        body={"name": "Phone"},
        answer=_PASSKEY,
    ),
    Example(
        route=f"DELETE {_MEMBERS}/me/passkeys/:passkey_id",
        operation="deletePasskey",
        answer={"message": "Passkey removed.", "id": _ID},
    ),
]
