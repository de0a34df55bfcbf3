"""Request and response types of the consent routes."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from pilotis.oauth.types import ClientId, ScopeNames

RequestId = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[\x21-\x7E]+$")]


class ConsentQuery(msgspec.Struct):
    """The id of an authorization request."""

    request_id: RequestId


class LoginQuery(msgspec.Struct):
    """The authorization request that the member signs in for, if there is one."""

    request_id: RequestId | None = None


class Approval(msgspec.Struct, forbid_unknown_fields=True):
    """The scopes that the member approves: all, or these and the required ones."""

    request_id: RequestId
    scopes: ScopeNames | None = None


class Denial(msgspec.Struct, forbid_unknown_fields=True):
    """The request that the member denies."""

    request_id: RequestId


class AppName(msgspec.Struct, frozen=True):
    """The provider app."""

    app_id: UUID
    name: str


class MemberName(msgspec.Struct, frozen=True):
    """The member that is asked."""

    member_id: str
    nickname: str | None


class ConsentClient(msgspec.Struct, frozen=True, kw_only=True):
    """The client that requests access. `is_verified` is false unless it was reviewed.

    `redirect_host` is its destination.
    """

    client_id: ClientId
    name: str
    logo_url: str | None
    client_uri: str | None
    policy_uri: str | None
    tos_uri: str | None
    first_party: bool
    is_verified: bool
    redirect_host: str


class AskedScope(msgspec.Struct, frozen=True, kw_only=True):
    """A requested scope, with the app's texts."""

    name: str
    title: str
    description: str
    is_required: bool
    already_granted: bool


class ConsentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a consent page, and whether it has to be shown; see the guide."""

    request_id: RequestId
    expires_at: str
    consent_required: bool
    reauthentication_required: bool
    scope: str
    provider_app: AppName
    member: MemberName
    client: ConsentClient
    scopes: list[AskedScope]


class Approved(msgspec.Struct, frozen=True):
    """The redirect URI with the code, and the consent; a first-party client has none."""

    redirect_to: str
    consent_id: UUID | None
    scopes: list[str]


class Denied(msgspec.Struct, frozen=True):
    """The redirect URI with the error `access_denied`."""

    redirect_to: str


class ConsentSession(msgspec.Struct, frozen=True):
    """The member that is signed in with the provider in this browser, and a token that is valid for five minutes."""

    member_id: str
    nickname: str | None
    access_token: str


class LoginClient(msgspec.Struct, frozen=True):
    """The client for which a member signs in."""

    name: str
    logo_url: str | None
    client_uri: str | None


class LoginApp(msgspec.Struct, frozen=True):
    """The app with which a member signs in, and the public key to use."""

    app_id: UUID
    name: str
    public_key: str | None


class LoginProvider(msgspec.Struct, frozen=True):
    """A provider of social sign-in."""

    provider: str
    name: str


class LoginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a member of the provider app may sign in for a client."""

    client_id: ClientId
    client: LoginClient
    provider_app: LoginApp
    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: list[str]
    providers: list[LoginProvider]


class PushedAnswer(msgspec.Struct, frozen=True):
    """The `request_uri` of a pushed request, and its lifetime in seconds (RFC 9126, section 2.2)."""

    request_uri: str
    expires_in: int


class ConnectedClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that a member has connected."""

    client_id: ClientId
    name: str
    description: str
    logo_url: str | None
    client_uri: str | None
    policy_uri: str | None
    tos_uri: str | None


class GrantedScope(msgspec.Struct, frozen=True):
    """A scope that a member has granted."""

    name: str
    title: str


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A member's grants to one client."""

    consent_id: UUID
    client: ConnectedClient
    scopes: list[GrantedScope]
    granted_at: str
    last_used_at: str | None


class Disconnected(msgspec.Struct, frozen=True):
    """The connection that was deleted."""

    message: str
    id: UUID
