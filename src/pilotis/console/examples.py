"""Examples of the console's own routes for the reference."""

from pilotis.http.api.example import Example

_SESSION = {
    "user_id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
    "email": "grace@example.com",
    "access_token": "eyJ…",
    "expires_in": 3600,
    "may_create_apps": False,
}
_OWN = {"Origin": "$SERVER_URL"}
_BROWSER = {**_OWN, "Cookie": "pilotis_session=passing.$REFRESH_TOKEN"}

EXAMPLES = [
    Example(
        route="GET /v1/console/config",
        operation="getConsoleConfig",
        answer={
            "version": "…",
            "assets": "…",
            "base_url": "http://127.0.0.1:8090",
            "setup_required": False,
            "password_min_length": 8,
            "password_max_length": 256,
            "sends_mail": False,
        },
    ),
    Example(
        route="POST /v1/auth/session",
        operation="signInToConsole",
        headers=_OWN,
        body={"email": "grace@example.com", "password": "correct horse battery"},
        answer=_SESSION,
    ),
    Example(
        route="POST /v1/auth/session/second-factor",
        operation="completeConsoleSignIn",
        headers=_OWN,
        body={"ticket": "$USER_TICKET_TOKEN", "recovery_code": "$USER_RECOVERY_KEY"},
        answer={**_SESSION, "email": "…"},
    ),
    Example(
        route="POST /v1/auth/session/passkey",
        operation="signInToConsoleByPasskey",
        headers=_OWN,
        body={
            "ticket": "$USER_ASSERTION_TOKEN",
            "credential": {
                "id": "$USER_CREDENTIAL_ID",
                "rawId": "$USER_CREDENTIAL_ID",
                "type": "public-key",
                "clientExtensionResults": {},
                "response": {
                    "clientDataJSON": "$USER_CLIENT_DATA_TOKEN",
                    "authenticatorData": "$USER_AUTHENTICATOR_TOKEN",
                    "signature": "$USER_SIGNATURE_TOKEN",
                },
            },
        },
        answer={**_SESSION, "email": "…"},
    ),
    Example(
        route="POST /v1/auth/session/refresh", operation="refreshConsoleSession", headers=_BROWSER, answer=_SESSION
    ),
    Example(
        route="DELETE /v1/auth/session",
        operation="deleteConsoleSession",
        headers=_BROWSER,
        answer={"message": "Signed out.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
]

EXPOSURE_EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/exposure",
        operation="getExposure",
        answer={
            "findings": [
                {
                    "severity": "high",
                    "code": "SCHEMA",
                    "subject": None,
                    "message": "App Cafe guide: the public key alone can …",
                },
                "…",
            ]
        },
    ),
]

ATTENTION_EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/attention",
        operation="getAttention",
        answer={"running": 0, "failing": 0, "dead_jobs": 0, "exposure": 2},
    ),
]

USAGE_EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/usage",
        operation="getUsage",
        query={"days": "7"},
        answer={"sites": 1, "functions": 0, "workflows": 0, "webhooks": 0, "by_day": ["…"]},
    ),
]

CONTEXT_EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/requests/:request_id",
        operation="getRequestContext",
        path={"request_id": "0199c0de-5a10-7c3e-9d52-6f0b1c2d3e4f"},
        answer={"request_id": "0199c0de-5a10-7c3e-9d52-6f0b1c2d3e4f", "entries": [], "has_more": False},
    ),
]
