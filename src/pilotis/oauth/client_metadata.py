"""The metadata with which clients describe themselves (RFC 7591, section 2), and their registration. Pure."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from pilotis.kit.errors import ValidationError
from pilotis.oauth.auth_methods import NO_SECRET, SECRET_METHODS
from pilotis.oauth.clients import check_client
from pilotis.oauth.errors import OAuthError
from pilotis.oauth.types import ClientKeys, GrantType, NewClient, PageUri, RedirectUri, Title

MAX_REDIRECT_URIS = 10
_RESPONSE_TYPES = frozenset(("code",))


class ClientMetadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A client's metadata. Unknown members are ignored; the ones that the server does not support are not returned."""

    redirect_uris: list[RedirectUri] = []
    client_name: Title | None = None
    token_endpoint_auth_method: str = "client_secret_basic"  # noqa: S105 - a name
    grant_types: list[str] = msgspec.field(default_factory=lambda: ["authorization_code"])
    response_types: list[str] = msgspec.field(default_factory=lambda: ["code"])
    client_uri: PageUri | None = None
    policy_uri: PageUri | None = None
    tos_uri: PageUri | None = None
    scope: str | None = None
    jwks: ClientKeys | None = None
    jwks_uri: str | None = None
    post_logout_redirect_uris: list[RedirectUri] = []
    backchannel_logout_uri: PageUri | None = None
    backchannel_logout_session_required: bool = False
    require_pushed_authorization_requests: bool = False
    dpop_bound_access_tokens: bool = False


class InvalidClientMetadataError(OAuthError):
    """400 `invalid_client_metadata`: the metadata of an OAuth client contradict themselves, or are not supported."""

    code = "INVALID_CLIENT_METADATA"
    oauth_code = "invalid_client_metadata"
    message = "The client's metadata are not valid."


class InvalidRedirectUrisError(OAuthError):
    """400 `invalid_redirect_uri`: a redirect URI in the metadata of an OAuth client must not be registered."""

    code = "INVALID_CLIENT_REDIRECT_URI"
    oauth_code = "invalid_redirect_uri"
    message = "A redirect URI is not valid."


def parse(text: bytes) -> ClientMetadata:
    """Return metadata in JSON; raises `InvalidClientMetadataError`."""
    try:
        return msgspec.json.decode(text, type=ClientMetadata)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidClientMetadataError(f"The metadata are not valid: {error}") from None


def registration(given: ClientMetadata, *, is_dynamic: bool) -> NewClient:
    """Return the client to register; raises `InvalidClientMetadataError` or `InvalidRedirectUrisError`.

    A dynamic client belongs to no app: it has no scopes of its own, never `client_credentials`, and gets no requests
    from this server.
    """
    if given.jwks_uri is not None:
        raise InvalidClientMetadataError("jwks_uri is not supported; send the keys as jwks.")
    if not set(given.response_types) <= _RESPONSE_TYPES:
        raise InvalidClientMetadataError("response_types must be code.")
    offered = set(get_args(GrantType)) - ({"client_credentials"} if is_dynamic else set())
    grants = [name for name in dict.fromkeys(given.grant_types) if name in offered]
    if not grants:
        raise InvalidClientMetadataError(f"grant_types must contain one of {', '.join(sorted(offered))}.")
    if len(given.redirect_uris) > MAX_REDIRECT_URIS:
        raise InvalidRedirectUrisError(f"redirect_uris must have at most {MAX_REDIRECT_URIS} entries.")
    fields = {
        "name": given.client_name or _host(given) or "Unnamed client",
        "token_endpoint_auth_method": given.token_endpoint_auth_method,
        "grant_types": grants,
        "redirect_uris": given.redirect_uris,
        "client_uri": given.client_uri,
        "policy_uri": given.policy_uri,
        "tos_uri": given.tos_uri,
        "jwks": None if given.jwks is None else msgspec.to_builtins(given.jwks),
        "post_logout_redirect_uris": given.post_logout_redirect_uris,
        "require_pushed_authorization_requests": given.require_pushed_authorization_requests,
        "dpop_bound_access_tokens": given.dpop_bound_access_tokens,
    }
    if not is_dynamic:
        fields["backchannel_logout_uri"] = given.backchannel_logout_uri
        fields["backchannel_logout_session_required"] = given.backchannel_logout_session_required
        fields["scopes"] = list(dict.fromkeys(given.scope.split())) if given.scope else ["openid"]
    return _checked(fields)


def shown(client: NewClient) -> dict[str, Any]:
    """Return a client's metadata as its registration returns them (RFC 7591, section 3.2.1)."""
    fields = msgspec.to_builtins(client)
    names = ("token_endpoint_auth_method", "grant_types", "redirect_uris")
    optional = (
        *("client_uri", "policy_uri", "tos_uri", "jwks", "post_logout_redirect_uris", "backchannel_logout_uri"),
        *("require_pushed_authorization_requests", "dpop_bound_access_tokens"),
    )
    return {
        "client_name": client.name,
        "response_types": ["code"] if "authorization_code" in client.grant_types else [],
        **{name: fields[name] for name in names},
        **{name: fields[name] for name in optional if fields[name]},
    }


def _checked(fields: dict[str, Any]) -> NewClient:
    try:
        client = msgspec.convert(fields, NewClient)
        check_client(msgspec.to_builtins(client), is_public=client.token_endpoint_auth_method == NO_SECRET)
    except msgspec.ValidationError as error:
        raise InvalidClientMetadataError(str(error)) from None
    except ValidationError as error:
        about_uris = any(problem.field.startswith("redirect_uris") for problem in error.details)
        wrong = InvalidRedirectUrisError if about_uris else InvalidClientMetadataError
        raise wrong(error.text) from None
    return client


def has_secret(client: NewClient) -> bool:
    """Return whether the client authenticates with a secret."""
    return client.token_endpoint_auth_method in SECRET_METHODS


def _host(given: ClientMetadata) -> str:
    uri = given.client_uri or next(iter(given.redirect_uris), "")
    return (urlsplit(uri).hostname or "")[:100]
