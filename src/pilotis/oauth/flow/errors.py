"""The errors of the consent routes."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError, UnauthorizedError


class OAuthRequestNotFoundError(NotFoundError):
    """404: the authorization request does not exist, or belongs to another member."""

    code = "OAUTH_REQUEST_NOT_FOUND"
    message = "This authorization request does not exist. Go back to where you came from and start again."


class OAuthRequestDecidedError(ConflictError):
    """409: the authorization request has already been approved or denied."""

    code = "OAUTH_REQUEST_DECIDED"
    message = "This request has already been answered. Go back to where you came from and start again."


class OAuthRequestExpiredError(ConflictError):
    """409: the authorization request has expired."""

    code = "OAUTH_REQUEST_EXPIRED"
    message = "This request has expired. Go back to where you came from and start again."


class ReauthenticationRequiredError(UnauthorizedError):
    """401: the authorization request requires the member to sign in again."""

    code = "REAUTHENTICATION_REQUIRED"
    message = "Sign in again: the client requires a more recent sign-in."


class GuestNotAllowedError(ForbiddenError):
    """403: a guest cannot connect clients."""

    code = "GUEST_NOT_ALLOWED"
    message = "Guests cannot sign in to clients."


class WrongBrowserError(ForbiddenError):
    """403: the authorization request was started in another browser, or the call comes from a page of another site."""

    code = "WRONG_BROWSER"
    message = "This request was started in another browser. Go back to where you came from and start again."


class LoginRequiredError(UnauthorizedError):
    """401 `login_required`: no member is signed in with the provider in this browser."""

    code = "LOGIN_REQUIRED"
    oauth_code = "login_required"
    message = "No member is signed in with the provider in this browser."
