"""Examples of the provider's routes for the reference."""

from typing import Any

from pilotis.http.api.example import Example

_SCOPE = {
    "name": "orders:read",
    "title": "See your orders",
    "description": "What you ordered, and when",
    "is_default": False,
    "is_required": False,
    "translations": {},
    "claims": {},
    "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z",
}
_CLIENT = {
    "client_id": "cl_AZnA3k8cctO32W4CtX2aBwX9kq3mXY0_",
    "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
    "consumer_app_id": None,
    "name": "Coffee club",
    "description": "",
    "client_type": "confidential",
    "token_endpoint_auth_method": "client_secret_basic",
    "grant_types": ["authorization_code", "refresh_token"],
    "redirect_uris": ["https://club.example/callback"],
    "post_logout_redirect_uris": [],
    "scopes": ["openid"],
    "resources": [],
    "client_uri": None,
    "logo_url": None,
    "policy_uri": None,
    "tos_uri": None,
    "backchannel_logout_uri": None,
    "backchannel_logout_session_required": False,
    "is_resource_server": False,
    "require_pushed_authorization_requests": False,
    "dpop_bound_access_tokens": False,
    "claims_in_id_token": False,
    "jwks": None,
    "first_party": False,
    "is_dynamic": False,
    "is_active": True,
    "source": "console",
    "has_secret": True,
    "secret_prefix": "cs_mF3x",
    "previous_secret_expires_at": None,
    "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z",
    "last_used_at": None,
}
_LOGO = "http://127.0.0.1:8090/v1/public/oauth/clients/cl_AZnA3k8cctO32W4CtX2aBwX9kq3mXY0_/logo?v=…"
_BODY = {"name": "Coffee club", "redirect_uris": ["https://club.example/callback"]}
_CLIENTS = "/v1/apps/:app_id/oauth/clients"
_SECRET = "cs_mF3x…"  # noqa: S105 - an example

_METADATA = {
    "issuer": "http://127.0.0.1:8090",
    "jwks_uri": "http://127.0.0.1:8090/.well-known/jwks.json",
    "authorization_endpoint": "http://127.0.0.1:8090/oauth/authorize",
    "token_endpoint": "http://127.0.0.1:8090/oauth/token",
    "code_challenge_methods_supported": ["S256"],
    "…": "…",
}
_SETTINGS: dict[str, Any] = {
    "is_provider": True,
    "access_token_seconds": 300,
    "refresh_idle_days": 30,
    "refresh_absolute_days": 365,
    "consent_url": None,
    "login_redirect_uris": [],
    "dpop_nonce": "offered",
    "link_by_verified_email": False,
    "resources": [],
    "dynamic_clients": False,
    "dynamic_scopes": [],
    "first_party_client_id": "cl_AZnA3k8cctO32W4CtX2aBwX9kq3mXY0_",
    "public_key": "pk_…",
    "updated_at": "2026-01-31T09:30:00.000Z",
}
_NO_PROVIDER = {
    **_SETTINGS,
    "is_provider": False,
    "access_token_seconds": 600,
    "first_party_client_id": None,
    "public_key": None,
    "updated_at": None,
}

_GRANT = {
    "grant_id": "0199c0e1-7b3a-7c55-9d1e-2f4a6b8c0d1e",
    "client": {"client_id": _CLIENT["client_id"], "name": "Coffee club"},
    "member": {"member_id": "0199c0df-1a2b-7c3d-8e4f-5a6b7c8d9e0f", "nickname": "Grace"},
    "session_id": "0199c0e1-6f00-7a11-8b22-9c33ad44be55",
    "scopes": ["openid"],
    "resources": [],
    "is_active": True,
    "is_offline": False,
    "is_bound": False,
    "created_at": "2026-01-31T09:30:00.000Z",
    "last_used_at": None,
    "expires_at": "2027-01-31T09:30:00.000Z",
    "revoked_at": None,
    "revoke_reason": None,
}

_KEY: dict[str, Any] = {
    "kid": "…",
    "state": "signing",
    "source": "database",
    "created_at": "2026-01-31T09:30:00.000Z",
    "signs_from": "2026-01-31T09:30:00.000Z",
    "published_until": None,
}

EXAMPLES = [
    Example(
        route="GET /.well-known/oauth-authorization-server",
        operation="getAuthorizationServerMetadata",
        answer=_METADATA,
    ),
    Example(route="GET /.well-known/openid-configuration", operation="getOpenidConfiguration", answer=_METADATA),
    Example(
        route="GET /.well-known/oauth-protected-resource/apps/:app_id",
        operation="getProtectedResource",
        path={"app_id": "$PROVIDER_APP_ID"},
        answer={
            "resource": "http://127.0.0.1:8090/apps/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "resource_name": "Cafe guide",
            "authorization_servers": ["http://127.0.0.1:8090"],
            "scopes_supported": [],
            "bearer_methods_supported": ["header"],
            "jwks_uri": "http://127.0.0.1:8090/.well-known/jwks.json",
        },
    ),
    Example(
        route="GET /.well-known/oauth-protected-resource/mcp/:app_id",
        operation="getMcpResource",
        path={"app_id": "$PROVIDER_APP_ID"},
        answer={
            "resource": "http://127.0.0.1:8090/mcp/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "resource_name": "Cafe guide",
            "authorization_servers": ["http://127.0.0.1:8090"],
            "scopes_supported": [],
            "bearer_methods_supported": ["header"],
            "jwks_uri": "http://127.0.0.1:8090/.well-known/jwks.json",
        },
    ),
    Example(route="GET /v1/apps/:app_id/oauth/settings", operation="getOauthSettings", answer=_NO_PROVIDER),
    Example(
        route="PUT /v1/apps/:app_id/oauth/settings",
        operation="replaceOauthSettings",
        body={"is_provider": True, "access_token_seconds": 300},
        answer=_SETTINGS,
    ),
    Example(route="GET /.well-known/jwks.json", operation="getSigningKeys", answer={"keys": []}),
    Example(
        route="GET /v1/apps/:app_id/oauth/scopes",
        operation="listScopes",
        answer={"data": [_SCOPE], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route="PUT /v1/apps/:app_id/oauth/scopes/:name",
        operation="replaceScope",
        path={"name": "orders:read"},
        body={"title": "See your orders", "description": "What you ordered, and when"},
        answer=_SCOPE,
    ),
    Example(
        route="DELETE /v1/apps/:app_id/oauth/scopes/:name",
        operation="deleteScope",
        path={"name": "orders:read"},
        answer={"message": "Scope deleted.", "name": "orders:read"},
    ),
    Example(
        route=f"GET {_CLIENTS}",
        operation="listClients",
        answer={"data": [_CLIENT], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"POST {_CLIENTS}",
        operation="createClient",
        body=_BODY,
        answer={**_CLIENT, "client_secret": _SECRET},
    ),
    Example(route=f"GET {_CLIENTS}/:client_id", operation="getClient", answer=_CLIENT),
    Example(
        route=f"PUT {_CLIENTS}/:client_id",
        operation="replaceClient",
        body={"name": "Coffee club", "scopes": ["openid", "profile"]},
        answer={**_CLIENT, "scopes": ["openid", "profile"]},
    ),
    Example(
        route=f"POST {_CLIENTS}/:client_id/regenerate-secret",
        operation="resetClientSecret",
        body={"overlap_seconds": 86400},
        answer={
            "client_id": _CLIENT["client_id"],
            "client_secret": _SECRET,
            "previous_secret_expires_at": "2026-02-01T09:30:00.000Z",
        },
    ),
    Example(
        route=f"PUT {_CLIENTS}/:client_id/logo",
        operation="replaceClientLogo",
        headers={"Content-Type": "image/png"},
        upload="logo.png",
        answer={**_CLIENT, "logo_url": _LOGO},
    ),
    Example(
        route="GET /v1/public/oauth/clients/:client_id/logo",
        operation="downloadClientLogo",
        path={"client_id": "$LOGO_CLIENT_ID"},
        answer="RIFF…",
    ),
    Example(
        route=f"DELETE {_CLIENTS}/:client_id/logo",
        operation="deleteClientLogo",
        path={"client_id": "$LOGO_CLIENT_ID"},
        answer={"message": "Logo deleted.", "id": _CLIENT["client_id"]},
    ),
    Example(
        route=f"DELETE {_CLIENTS}/:client_id",
        operation="deleteClient",
        answer={"message": "OAuth client deleted.", "id": _CLIENT["client_id"]},
    ),
    Example(
        route="GET /v1/apps/:app_id/oauth/grants",
        operation="listGrants",
        answer={"data": [_GRANT], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route="DELETE /v1/apps/:app_id/oauth/grants/:grant_id",
        operation="deleteGrant",
        answer={"message": "Grant revoked.", "id": _GRANT["grant_id"]},
    ),
    Example(
        route="POST /v1/apps/:app_id/oauth/keys",
        operation="createOauthKey",
        answer=_KEY,
    ),
    Example(
        route="GET /v1/apps/:app_id/oauth/keys",
        operation="listOauthKeys",
        answer={"data": [_KEY], "total_count": 1, "limit": 20, "offset": 0},
    ),
]
