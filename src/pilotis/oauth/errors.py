"""Protocol errors (RFC 6749, sections 4.1.2.1 and 5.2); `oauth_code` is the code in the protocol."""

from __future__ import annotations

from typing import ClassVar

from pilotis.kit.errors import BadRequestError, PilotisError


class OAuthError(BadRequestError):
    """400: an OAuth request was rejected; `error` gives the reason."""

    oauth_code: ClassVar[str] = "invalid_request"


class InvalidRequestError(OAuthError):
    """400 `invalid_request`: an OAuth parameter is missing, malformed or repeated."""

    code = "INVALID_REQUEST"
    message = "A parameter is missing, malformed or repeated."


class InvalidGrantError(OAuthError):
    """400 `invalid_grant`: the code or refresh token is unknown, expired, revoked, or was issued to another client."""

    code = "INVALID_GRANT"
    oauth_code = "invalid_grant"
    message = "The code or refresh token is unknown, expired, revoked, or was issued to another client."


class UnauthorizedClientError(OAuthError):
    """400 `unauthorized_client`: the OAuth client may not use this grant type, or the app is not a provider."""

    code = "UNAUTHORIZED_CLIENT"
    oauth_code = "unauthorized_client"
    message = "The client may not use this grant type."


class UnsupportedGrantTypeError(OAuthError):
    """400 `unsupported_grant_type`: the server does not support this grant type."""

    code = "UNSUPPORTED_GRANT_TYPE"
    oauth_code = "unsupported_grant_type"
    message = "grant_type must be authorization_code, refresh_token or client_credentials."


class InvalidScopeError(OAuthError):
    """400 `invalid_scope`: a scope is unknown, or the OAuth client may not request it."""

    code = "INVALID_SCOPE"
    oauth_code = "invalid_scope"
    message = "A scope is unknown, or the client may not request it."


class InvalidTargetError(OAuthError):
    """400 `invalid_target`: the app has no such `resource`, or the OAuth client may not request it (RFC 8707)."""

    code = "INVALID_TARGET"
    oauth_code = "invalid_target"
    message = "The app has no such resource, or the client may not request it."


class InvalidClientError(PilotisError):
    """401 `invalid_client`: the OAuth client is unknown, or did not authenticate by its registered method."""

    status = 401
    code = "INVALID_CLIENT"
    oauth_code = "invalid_client"
    message = "The client is unknown, or did not authenticate by its registered method."


class HttpsRequiredError(OAuthError):
    """400 `invalid_request`: OAuth requires https."""

    code = "HTTPS_REQUIRED"
    message = "Use https. If a proxy terminates TLS, add it to trusted_proxies."


class RedirectedError(Exception):
    """An error that is reported to the client by redirecting the browser (RFC 6749, section 4.1.2.1)."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


class RequestRefusedError(OAuthError):
    """400: a pushed authorization request was rejected with the error that the authorization endpoint would return."""

    code = "AUTHORIZATION_REQUEST_REFUSED"

    def __init__(self, refused: RedirectedError) -> None:
        super().__init__(refused.description)
        self.oauth_code = refused.error  # type: ignore[misc]
