"""Discovery: one metadata document at two addresses (RFC 8414; OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from pilotis.oauth.public_keys import ALGORITHMS
from pilotis.oauth.tokens.records import ACR_VALUES
from pilotis.oauth.types import ServerMetadata

CONFIDENTIAL = ("client_secret_basic", "client_secret_post", "private_key_jwt")
CLIENT_AUTHENTICATION = (*CONFIDENTIAL, "none")


def server_metadata(issuer: str, *, registers: bool = True) -> ServerMetadata:
    """Return the document; `issuer` is the server's address without a trailing slash.

    `registers` tells whether clients may register without a credential.
    """
    return ServerMetadata(
        issuer=issuer,
        jwks_uri=f"{issuer}/.well-known/jwks.json",
        authorization_endpoint=f"{issuer}/oauth/authorize",
        token_endpoint=f"{issuer}/oauth/token",
        userinfo_endpoint=f"{issuer}/oauth/userinfo",
        introspection_endpoint=f"{issuer}/oauth/introspect",
        revocation_endpoint=f"{issuer}/oauth/revoke",
        pushed_authorization_request_endpoint=f"{issuer}/oauth/par",
        registration_endpoint=f"{issuer}/oauth/register" if registers else None,
        end_session_endpoint=f"{issuer}/oauth/end-session",
        backchannel_logout_supported=True,
        backchannel_logout_session_supported=True,
        dpop_signing_alg_values_supported=list(ALGORITHMS),
        scopes_supported=["openid", "profile", "email", "address", "phone", "offline_access"],
        response_types_supported=["code"],
        response_modes_supported=["query"],
        grant_types_supported=["authorization_code", "refresh_token", "client_credentials"],
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=["RS256"],
        token_endpoint_auth_methods_supported=list(CLIENT_AUTHENTICATION),
        token_endpoint_auth_signing_alg_values_supported=list(ALGORITHMS),
        introspection_endpoint_auth_methods_supported=list(CONFIDENTIAL),
        introspection_endpoint_auth_signing_alg_values_supported=list(ALGORITHMS),
        revocation_endpoint_auth_methods_supported=list(CLIENT_AUTHENTICATION),
        revocation_endpoint_auth_signing_alg_values_supported=list(ALGORITHMS),
        code_challenge_methods_supported=["S256"],
        claims_supported=[
            *("sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid", "amr", "acr", "app_id"),
            *("name", "nickname", "picture", "updated_at", "email", "email_verified", "address", "phone_number"),
        ],
        acr_values_supported=list(ACR_VALUES),
        ui_locales_supported=["en", "ko"],
        authorization_response_iss_parameter_supported=True,
        claims_parameter_supported=False,
        request_parameter_supported=False,
        request_uri_parameter_supported=False,
        require_pushed_authorization_requests=False,
        client_id_metadata_document_supported=True,
    )
