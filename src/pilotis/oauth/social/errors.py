"""The errors of social login."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError, UnauthorizedError, UnavailableError


class ProviderNotEnabledError(BadRequestError):
    """400: members of the app cannot sign in with this provider."""

    code = "PROVIDER_NOT_ENABLED"
    message = "This provider of social login is not enabled for the app."


class TooManySocialProvidersError(ConflictError):
    """409: the app has set up the maximum number of providers of social login."""

    code = "TOO_MANY_SOCIAL_PROVIDERS"
    message = "The app has set up 50 providers. Remove one first."


class InvalidRedirectUriError(BadRequestError):
    """400: after social login the browser would be sent to a page that does not belong to the app."""

    code = "INVALID_REDIRECT_URI"
    message = "redirect_uri must be the consent page, or exactly one of the app's login_redirect_uris."


class CodeChallengeRequiredError(BadRequestError):
    """400: social login without a PKCE challenge; without it, anyone could use the code."""

    code = "CODE_CHALLENGE_REQUIRED"
    message = "Send a code_challenge of 43 characters, with code_challenge_method=S256 (RFC 7636)."


class InvalidCodeError(BadRequestError):
    """400: the code of a social login is unknown, used or expired, or the verifier does not match."""

    code = "INVALID_CODE"
    message = "The code is unknown, used or older than 60 seconds, or code_verifier does not match its code_challenge."


class IdentityTakenError(ConflictError):
    """409: the account at the provider is already linked to another member."""

    code = "IDENTITY_TAKEN"
    message = "This account is already linked to another member. Sign in with it instead of linking it."


class InvalidIdTokenError(UnauthorizedError):
    """401: a vendor's ID token is not valid for this app and nonce, is older than ten minutes, or was used before."""

    code = "INVALID_ID_TOKEN"
    message = "The ID token is not valid for this app and nonce, is older than ten minutes, or was used before."


class ProviderUnavailableError(UnavailableError):
    """503: the provider of social login could not be asked for its keys."""

    code = "PROVIDER_UNAVAILABLE"
    message = "The provider could not be asked for its keys. Try again shortly."
