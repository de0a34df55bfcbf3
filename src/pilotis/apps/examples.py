"""Examples of apps, their settings and keys for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/apps",
        operation="createApp",
        body={"name": "Cafe guide"},
        answer={
            "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "name": "Cafe guide",
            "public_key": "pk_…",
            "secret_key": "sk_…",
        },
    ),
    Example(
        route="GET /v1/apps",
        operation="listApps",
        query={"limit": 10},
        answer={
            "data": [
                {
                    "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "name": "Cafe guide",
                    "schema_locked": False,
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                    "deleted_at": None,
                    "role": "viewer",
                }
            ],
            "total_count": 1,
            "limit": 10,
            "offset": 0,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id",
        operation="getApp",
        answer={
            "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "name": "Cafe guide",
            "schema_locked": False,
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "deleted_at": None,
            "role": "owner",
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id",
        operation="updateApp",
        body={"schema_locked": True},
        answer={
            "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "name": "Cafe guide",
            "schema_locked": True,
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "deleted_at": None,
            "role": "owner",
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id",
        operation="deleteApp",
        answer={"message": "App deleted. It can be restored for 7 days.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/apps/:app_id/restore",
        operation="restoreApp",
        answer={
            "app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "name": "Cafe guide",
            "schema_locked": False,
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "deleted_at": None,
            "role": "owner",
        },
    ),
    Example(
        route="GET /v1/public/auth-settings",
        operation="getPublicAuthSettings",
        answer={"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []},
    ),
    Example(
        route="GET /v1/apps/:app_id/auth-settings",
        operation="getAuthSettings",
        answer={"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []},
    ),
    Example(
        route="PUT /v1/apps/:app_id/auth-settings",
        operation="replaceAuthSettings",
        body={"allow_id_password_login": True, "allow_guest_login": False, "enabled_oauth_providers": []},
        answer={"allow_id_password_login": True, "allow_guest_login": False, "enabled_oauth_providers": []},
    ),
    Example(
        route="GET /v1/public/account-settings",
        operation="getPublicAccountSettings",
        answer={
            "sign_up": "open",
            "login_id_form": "any",
            "email_verification": "optional",
            "second_factor": "off",
            "methods": {"password": True, "email_code": False, "email_link": False, "passkey": False},
            "passkey_domain": None,
            "allowed_origins": [],
            "password_check": False,
            "on_member_delete": "keep",
            "guests": True,
            "providers": [],
            "password_min_length": 8,
            "password_max_length": 256,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/account-settings",
        operation="getAccountSettings",
        answer={
            "sign_up": "open",
            "login_id_form": "any",
            "email_verification": "optional",
            "second_factor": "off",
            "methods": {"password": True, "email_code": False, "email_link": False, "passkey": False},
            "passkey_domain": None,
            "allowed_origins": [],
            "password_check": False,
            "on_member_delete": "keep",
            "impersonation": "off",
            "hooks": {"before_sign_up": None, "before_sign_in": None, "send_mail": None},
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id/account-settings",
        operation="updateAccountSettings",
        body={"email_verification": "required", "methods": {"email_code": True}},
        answer={
            "sign_up": "open",
            "login_id_form": "any",
            "email_verification": "required",
            "second_factor": "off",
            "methods": {"password": True, "email_code": True, "email_link": False, "passkey": False},
            "passkey_domain": None,
            "allowed_origins": [],
            "password_check": False,
            "on_member_delete": "keep",
            "impersonation": "off",
            "hooks": {"before_sign_up": None, "before_sign_in": None, "send_mail": None},
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/limits",
        operation="getLimits",
        answer={
            "limits": {
                "data_per_minute": {
                    "value": 0,
                    "server_value": 0,
                    "is_own": False,
                    "is_settable": True,
                    "unit": "per minute",
                    "zero_is_unlimited": True,
                },
                "bulk_rows": {
                    "value": 1000,
                    "server_value": 1000,
                    "is_own": False,
                    "is_settable": True,
                    "unit": None,
                    "zero_is_unlimited": False,
                },
                "…": "…",
            }
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id/limits",
        operation="updateLimits",
        body={"data_per_minute": 600, "bulk_rows": None},
        answer={
            "limits": {
                "data_per_minute": {
                    "value": 600,
                    "server_value": 0,
                    "is_own": True,
                    "is_settable": True,
                    "unit": "per minute",
                    "zero_is_unlimited": True,
                },
                "bulk_rows": {
                    "value": 1000,
                    "server_value": 1000,
                    "is_own": False,
                    "is_settable": True,
                    "unit": None,
                    "zero_is_unlimited": False,
                },
                "…": "…",
            }
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/keys/public",
        operation="createPublicKey",
        body={"name": "Website", "allowed_origins": ["https://cafes.example.com"]},
        answer={
            "key_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "key": "pk_…",
            "name": "Website",
            "allowed_origins": ["https://cafes.example.com"],
            "created_at": "2026-01-31T09:30:00.000Z",
            "last_used_at": None,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/keys/public",
        operation="listPublicKeys",
        answer={
            "data": [
                {
                    "key_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "key": "pk_…",
                    "name": "first",
                    "allowed_origins": [],
                    "password_check": False,
                    "on_member_delete": "keep",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "last_used_at": None,
                }
            ],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        },
    ),
    Example(
        route="PATCH /v1/apps/:app_id/keys/public/:key_id",
        operation="updatePublicKey",
        path={"key_id": "$PUBLIC_KEY_ID"},
        body={"name": "Website and shop", "allowed_origins": ["https://cafes.example.com", "https://shop.example.com"]},
        answer={
            "key_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "key": "pk_…",
            "name": "Website and shop",
            "allowed_origins": ["https://cafes.example.com", "https://shop.example.com"],
            "created_at": "2026-01-31T09:30:00.000Z",
            "last_used_at": None,
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/keys/public/:key_id",
        operation="deletePublicKey",
        path={"key_id": "$PUBLIC_KEY_ID"},
        answer={"message": "Public key revoked.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/apps/:app_id/keys/secret",
        operation="createSecretKey",
        body={"name": "Nightly import", "role": "editor"},
        answer={
            "key_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "key": "sk_…",
            "prefix": "sk_…",
            "name": "Nightly import",
            "role": "editor",
            "created_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/keys/secret",
        operation="listSecretKeys",
        answer={
            "data": [
                {
                    "key_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "prefix": "sk_…",
                    "name": "first",
                    "role": "editor",
                    "user_id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "email": "owner@example.com",
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "last_used_at": None,
                }
            ],
            "total_count": 1,
            "limit": 20,
            "offset": 0,
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/keys/secret/:key_id",
        operation="deleteSecretKey",
        path={"key_id": "$SECRET_KEY_ID"},
        answer={"message": "Secret key revoked.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
]
