"""Validation of authorization requests, and how each error is reported. Pure.

The checks of RFC 6749, section 4.1.2.1, RFC 7636, RFC 8707, RFC 9700, section 2.1, and OpenID Connect Core 1.0,
section 3.1.2.1, in the order of their precedence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from pilotis.oauth.clients import BUILT_IN_SCOPES
from pilotis.oauth.errors import InvalidRequestError, InvalidTargetError, RedirectedError
from pilotis.oauth.parameters import Parameters
from pilotis.oauth.records import KnownClient
from pilotis.oauth.redirect_uris import is_registered
from pilotis.oauth.resources import chosen_resources
from pilotis.oauth.tokens.records import ACR_VALUES

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_NUMBER = re.compile(r"\d{1,9}")
_PROMPTS = frozenset(("none", "login", "consent", "select_account"))
_MAX_TEXT = 2000
_SIGN_IN = frozenset(("login", "select_account"))


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's validated request: `max_age` in seconds; `hinted` is the member that it expects to be signed in.

    `level` is how many factors it asks for by `acr_values`.
    """

    client_id: str
    redirect_uri: str
    scopes: list[str]
    resources: list[str]
    state: str | None
    nonce: str | None
    code_challenge: str
    dpop_jkt: str | None
    prompt: list[str]
    max_age: int | None
    hinted: str | None = None
    level: int = 1

    @property
    def is_silent(self) -> bool:
        """Whether the member must not be asked anything (`prompt=none`)."""
        return self.prompt == ["none"]

    @property
    def asks_sign_in(self) -> bool:
        """Whether the member must sign in again."""
        return bool(_SIGN_IN & set(self.prompt))

    def must_ask(self, client: KnownClient) -> bool:
        """Whether the member must be asked, whatever it has agreed to before.

        A public client on loopback or with a private scheme could be any program of the device (RFC 8252, section 8.6).
        """
        return "consent" in self.prompt or (client.is_public and not self.redirect_uri.startswith("https://"))

    def answer(self, issuer: str, **parameters: str) -> str:
        """Return the client's redirect URI with the parameters, its `state`, and the issuer (RFC 9207)."""
        return redirect_to(self.redirect_uri, issuer, self.state, **parameters)


def redirect_to(redirect_uri: str, issuer: str, state: str | None, **parameters: str) -> str:
    """Return a client's redirect URI with parameters appended to its own."""
    given = {**parameters, **({} if state is None else {"state": state}), "iss": issuer}
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(given)}"


def checked_redirect_uri(client: KnownClient, parameters: Parameters) -> str:
    """Return the requested redirect URI; raises `InvalidRequestError` if redirecting to it would not be safe."""
    uri = parameters.get("redirect_uri")
    if uri is None:
        raise InvalidRequestError("The parameter redirect_uri is missing.")
    if not is_registered(uri, client.redirect_uris):
        raise InvalidRequestError("The client has not registered this redirect_uri.")
    return uri


def checked(
    client: KnownClient,
    parameters: Parameters,
    redirect_uri: str,
    *,
    known_scopes: Sequence[str],
    default_scopes: Sequence[str],
    issuer: str,
    is_pushed: bool,
) -> AuthorizationRequest:
    """Return the request; raises `RedirectedError` with the first error. `issuer` is the server's address."""
    if parameters.get("request") is not None:
        raise RedirectedError("request_not_supported", "Request objects are not supported.")
    if parameters.get("request_uri") is not None:
        raise RedirectedError("request_uri_not_supported", "request_uri must be one that this server issued.")
    if parameters.get("response_type") is None:
        raise RedirectedError("invalid_request", "The parameter response_type is missing.")
    if parameters.get("response_type") != "code":
        raise RedirectedError("unsupported_response_type", "response_type must be code.")
    if parameters.get("response_mode") not in {None, "query"}:
        raise RedirectedError("invalid_request", "response_mode must be query.")
    if "authorization_code" not in client.grant_types:
        raise RedirectedError("unauthorized_client", "The client may not request a code.")
    return AuthorizationRequest(
        client_id=client.client_id,
        redirect_uri=redirect_uri,
        scopes=_scopes(client, parameters.get("scope"), known_scopes, default_scopes),
        resources=_resources(client, parameters.resources, issuer),
        state=_short(parameters, "state"),
        nonce=_short(parameters, "nonce"),
        code_challenge=_challenge(parameters),
        dpop_jkt=_thumbprint(parameters),
        prompt=_prompt(parameters),
        max_age=_max_age(parameters, client, is_pushed=is_pushed),
        level=_level(parameters),
    )


def _scopes(client: KnownClient, text: str | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    if text is None:
        names = [name for name in client.scopes if name in default]
        if not names:
            raise RedirectedError("invalid_scope", "The parameter scope is missing, and the app has no default scopes.")
        return names
    names = list(dict.fromkeys(text.split(" ")))
    if not set(names) <= set(client.scopes) & (BUILT_IN_SCOPES | set(known)):
        raise RedirectedError("invalid_scope", "scope contains a scope that the client may not request.")
    return names


def _resources(client: KnownClient, wanted: Sequence[str], issuer: str) -> list[str]:
    try:
        return chosen_resources(client, issuer, wanted)
    except InvalidTargetError:
        raise RedirectedError("invalid_target", "The client may not request this resource.") from None


def is_challenge(text: str) -> bool:
    """Return whether a text has the form of a PKCE challenge by S256 (RFC 7636, section 4.2)."""
    return _CHALLENGE.fullmatch(text) is not None


def _challenge(parameters: Parameters) -> str:
    challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
    if challenge is None:
        raise RedirectedError("invalid_request", "PKCE is required: code_challenge is missing.")
    if method != "S256":
        raise RedirectedError("invalid_request", "code_challenge_method must be S256.")
    if not is_challenge(challenge):
        raise RedirectedError("invalid_request", "code_challenge must be 43 characters of base64url.")
    return challenge


def _short(parameters: Parameters, name: str) -> str | None:
    text = parameters.get(name)
    if text is not None and len(text) > _MAX_TEXT:
        raise RedirectedError("invalid_request", f"{name} must have at most {_MAX_TEXT} characters.")
    return text


def _thumbprint(parameters: Parameters) -> str | None:
    text = parameters.get("dpop_jkt")
    if text is not None and not _CHALLENGE.fullmatch(text):
        raise RedirectedError("invalid_request", "dpop_jkt must be 43 characters of base64url.")
    return text


def _prompt(parameters: Parameters) -> list[str]:
    text = parameters.get("prompt")
    prompt = [] if text is None else list(dict.fromkeys(text.split(" ")))
    if not set(prompt) <= _PROMPTS or ("none" in prompt and len(prompt) > 1):
        raise RedirectedError("invalid_request", "prompt must be none, or a list of login, consent and select_account.")
    return prompt


def _level(parameters: Parameters) -> int:
    """Return the level of the first of `acr_values`, in the client's order of preference, that there is."""
    wanted = (_short(parameters, "acr_values") or "").split(" ")
    return next((ACR_VALUES.index(one) + 1 for one in wanted if one in ACR_VALUES), 1)


def _max_age(parameters: Parameters, client: KnownClient, *, is_pushed: bool) -> int | None:
    text = parameters.get("max_age")
    if text is not None and not _NUMBER.fullmatch(text):
        raise RedirectedError("invalid_request", "max_age must be a number of seconds.")
    if client.require_pushed_authorization_requests and not is_pushed:
        raise RedirectedError("invalid_request", "The client must push its authorization requests.")
    return None if text is None else int(text)
