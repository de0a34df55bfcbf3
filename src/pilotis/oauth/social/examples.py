"""Examples of the routes of social login for the reference."""

from __future__ import annotations

from typing import Any

from pilotis.http.api.example import Example

_PROVIDER: dict[str, Any] = {
    "provider": "GOOGLE",
    "kind": "google",
    "client_id": "1234.apps.googleusercontent.com",
    "has_secret": True,
    "scopes": [],
    "is_enabled": True,
    "options": {},
    "redirect_uri": "http://127.0.0.1:8090/v1/public/oauth/google/callback",
    "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z",
}
_ONE = "/v1/apps/:app_id/oauth/social/:provider"
_CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
_VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

EXAMPLES = [
    Example(
        route=f"PUT {_ONE}",
        operation="replaceSocialProvider",
        path={"provider": "GOOGLE"},
        body={"client_id": "1234.apps.googleusercontent.com", "client_secret": "GOCSPX-…"},
        answer=_PROVIDER,
    ),
    Example(
        route="GET /v1/apps/:app_id/oauth/social",
        operation="listSocialProviders",
        answer={"data": [_PROVIDER], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"DELETE {_ONE}",
        operation="deleteSocialProvider",
        path={"provider": "GOOGLE"},
        answer={"message": "Provider removed.", "name": "GOOGLE"},
    ),
    Example(
        route="GET /v1/public/oauth/clients/:client_id/social-login-url",
        operation="getSocialLoginUrl",
        path={"client_id": "$SOCIAL_CLIENT_ID"},
        query={
            "provider": "GOOGLE",
            "redirect_uri": "https://cafes.example/signed-in",
            "code_challenge": _CHALLENGE,
            "code_challenge_method": "S256",
        },
        answer={
            "url": "https://accounts.google.com/o/oauth2/v2/auth?response_type=code&…",
            "provider": "GOOGLE",
            "expires_in": 600,
        },
    ),
    Example(
        route="POST /v1/auth/oauth/exchange",
        operation="exchangeSocialLoginCode",
        body={"code": "$EXCHANGE_TOKEN", "code_verifier": _VERIFIER},
        answer={
            "member_id": "0199c0de-5b3e-7a41-9c55-0d2f6a7b8c9d",
            "nickname": "Grace",
            "access_token": "eyJ…",
            "refresh_token": "eyJ…",
            "token_type": "Bearer",
            "expires_in": 3600,
            "provider": "GOOGLE",
            "is_new_member": True,
            "request_id": None,
        },
    ),
]
