"""Examples of the consent routes for the reference."""

from pilotis.http.api.example import Example

_APP_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"
_CLIENT_ID = "cl_AZnA3k8cctO32W4CtX2aBwX9kq3mXY0_"

CONNECTIONS = {
    "data": [
        {
            "consent_id": "0199c0de-6c4f-7b52-8d66-1e3f7b8c9d0e",
            "client": {
                "client_id": _CLIENT_ID,
                "name": "Coffee club",
                "description": "",
                "logo_url": None,
                "client_uri": None,
                "policy_uri": None,
                "tos_uri": None,
            },
            "scopes": [{"name": "openid", "title": "Know that it is you"}],
            "granted_at": "2026-01-31T09:30:00.000Z",
            "last_used_at": "2026-01-31T09:30:00.000Z",
        }
    ],
    "total_count": 1,
    "limit": 20,
    "offset": 0,
}

EXAMPLES = [
    Example(
        route="GET /v1/public/oauth/clients/:client_id/login-options",
        operation="getLoginOptions",
        path={"client_id": "$PROVIDER_CLIENT_ID"},
        answer={
            "client_id": _CLIENT_ID,
            "client": {"name": "Coffee club", "logo_url": None, "client_uri": None},
            "provider_app": {"app_id": _APP_ID, "name": "Cafe guide", "public_key": "pk_…"},
            "allow_id_password_login": True,
            "allow_guest_login": False,
            "enabled_oauth_providers": [],
            "providers": [],
        },
    ),
    Example(
        route="GET /v1/oauth/consent/info",
        operation="getConsentInfo",
        query={"request_id": "$AUTHORIZATION_REQUEST_ID"},
        answer={
            "request_id": "req_…",
            "expires_at": "2026-01-31T09:40:00.000Z",
            "consent_required": True,
            "reauthentication_required": False,
            "scope": "openid",
            "provider_app": {"app_id": _APP_ID, "name": "Cafe guide"},
            "member": {"member_id": "0199c0de-5b3e-7a41-9c55-0d2f6a7b8c9d", "nickname": "Grace"},
            "client": {
                "client_id": _CLIENT_ID,
                "name": "Coffee club",
                "logo_url": None,
                "client_uri": None,
                "policy_uri": None,
                "tos_uri": None,
                "first_party": False,
                "is_verified": True,
                "redirect_host": "club.example",
            },
            "scopes": [
                {
                    "name": "openid",
                    "title": "Know that it is you",
                    "description": "An identifier that stays the same each time you sign in",
                    "is_required": True,
                    "already_granted": False,
                }
            ],
        },
    ),
    Example(
        route="POST /v1/oauth/consent/approve",
        operation="approveConsent",
        body={"request_id": "$AUTHORIZATION_REQUEST_ID"},
        answer={
            "redirect_to": "https://club.example/callback?code=ac_…",
            "consent_id": "0199c0de-6c4f-7b52-8d66-1e3f7b8c9d0e",
            "scopes": ["openid"],
        },
    ),
    Example(
        route="POST /v1/oauth/consent/deny",
        operation="denyConsent",
        body={"request_id": "$AUTHORIZATION_REQUEST_ID"},
        answer={"redirect_to": "https://club.example/callback?error=access_denied…"},
    ),
    Example(
        route="GET /v1/account/oauth/connections",
        operation="listConnections",
        answer=CONNECTIONS,
    ),
    Example(
        route="DELETE /v1/account/oauth/connections/:consent_id",
        operation="deleteConnection",
        answer={"message": "Disconnected.", "id": "0199c0de-6c4f-7b52-8d66-1e3f7b8c9d0e"},
    ),
]
