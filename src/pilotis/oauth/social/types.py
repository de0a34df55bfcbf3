"""The types of social login."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from pilotis.members.types import Profile
from pilotis.oauth.flow.types import LoginProvider, RequestId
from pilotis.oauth.types import ClientId

Secret = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
VendorClientId = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[\x21-\x7E]+$")]
Scope = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[\x21\x23-\x5B\x5D-\x7E]+$")]
Address = Annotated[str, msgspec.Meta(max_length=2000, pattern=r"^https?://[\x21-\x7E]+$")]
Identifier = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]


class Endpoints(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Addresses to use instead of the vendor's, for tests; only a server on loopback accepts them."""

    issuer: Address | None = None
    authorization: Address | None = None
    token: Address | None = None
    userinfo: Address | None = None
    emails: Address | None = None
    jwks: Address | None = None


class ProviderOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The options of single vendors in addition to id and secret.

    `issuer` and `trust_email` are for an issuer of OpenID Connect, `team_id` and `key_id` for Apple, `version` is that
    of Facebook's API. `name` is shown on the button.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=50)] | None = None
    issuer: Address | None = None
    trust_email: bool = False
    team_id: Identifier | None = None
    key_id: Identifier | None = None
    version: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,3}\.[0-9]$")] | None = None
    endpoints: Endpoints | None = None


class SocialProviderChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A provider of social login to set up, or to change; absent fields stay as they are.

    `client_ids` are those of the app's own programs at the vendor: ID tokens that they got there sign members in, too.
    The secret is encrypted, and never shown again. For Apple it is the private key, a .p8 file. Without `scopes` the
    server requests those for name, picture and address.
    """

    client_id: VendorClientId | msgspec.UnsetType = msgspec.UNSET
    client_secret: Secret | msgspec.UnsetType | None = msgspec.UNSET
    scopes: Annotated[list[Scope], msgspec.Meta(max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    client_ids: Annotated[list[VendorClientId], msgspec.Meta(max_length=20)] | msgspec.UnsetType = msgspec.UNSET
    is_enabled: bool | msgspec.UnsetType = msgspec.UNSET
    options: ProviderOptions | msgspec.UnsetType = msgspec.UNSET


class SocialProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of social login. Register its `redirect_uri` with the vendor."""

    provider: str
    kind: str
    client_id: str
    has_secret: bool
    scopes: list[str]
    client_ids: list[str]
    is_enabled: bool
    options: ProviderOptions
    redirect_uri: str
    created_at: str
    updated_at: str


class DeletedProvider(msgspec.Struct, frozen=True):
    """The provider that was removed; members keep their linked accounts."""

    message: str
    name: str


class SocialLoginQuery(msgspec.Struct):
    """The provider for the sign-in, and the page that receives the result.

    `redirect_uri` is the consent page, or one of the app's `login_redirect_uris`. `code_challenge` is the SHA-256 of a
    secret that the page keeps (RFC 7636, method S256): without it the result is useless.
    """

    provider: Annotated[str, msgspec.Meta(max_length=50)]
    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000)]
    request_id: RequestId | None = None
    state: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    code_challenge: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    code_challenge_method: Annotated[str, msgspec.Meta(max_length=20)] | None = None


class SocialLoginUrl(msgspec.Struct, frozen=True):
    """The URL at which the browser signs in with the provider, and for how many seconds it is valid."""

    url: str
    provider: str
    expires_in: int


class Exchange(msgspec.Struct, forbid_unknown_fields=True):
    """The code that the page received, and the verifier of its challenge.

    `profile` says what the app's `sign_up_fields` ask for, should the exchange make the member.
    """

    code: Annotated[str, msgspec.Meta(max_length=200)]
    code_verifier: Annotated[str, msgspec.Meta(max_length=200)]
    profile: Profile = {}


class IdTokenSignIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An ID token that a vendor's own button gave to a page or a program of the app.

    `nonce` is the random text that was made for this sign-in: the vendor was sent it or, Apple, its SHA-256 in small
    hexadecimal digits. `profile` says what the app's `sign_up_fields` ask for, should it make the member.
    """

    provider: Annotated[str, msgspec.Meta(max_length=50)]
    id_token: Annotated[str, msgspec.Meta(max_length=32_768)]
    nonce: Annotated[str, msgspec.Meta(min_length=16, max_length=200, pattern=r"^[\x21-\x7E]+$")]
    profile: Profile = {}


class Exchanged(msgspec.Struct, frozen=True, kw_only=True):
    """A member that has signed in, and its tokens; `expires_in` is in seconds.

    `provider` is the vendor or, after a sign-in on a page of the server, its method, such as `password`.
    """

    member_id: str
    nickname: str | None
    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int
    provider: str
    is_new_member: bool
    request_id: RequestId | None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a sign-in while a member is at the vendor."""

    client_id: ClientId
    provider: str
    redirect_uri: str
    code_challenge: str
    verifier: str
    nonce: str
    state: str | None
    request_id: str | None
    member_id: str | None


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a sign-in until the page exchanges its code: the vendor's profile, and the session."""

    client_id: ClientId
    provider: str
    code_challenge: str
    request_id: str | None
    member_id: str | None
    session_id: UUID
    subject: str
    email: str | None
    email_verified: bool
    name: str | None
    picture: str | None


class MemberIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """An account at a vendor by which a member signs in; `subject` is the vendor's id of it."""

    provider: str
    subject: str
    email: str | None
    email_verified: bool
    linked_at: str
    last_used_at: str


class MemberIdentities(msgspec.Struct, frozen=True):
    """A member's accounts at vendors, the one used last first."""

    identities: list[MemberIdentity]


class UnlinkedIdentity(msgspec.Struct, frozen=True):
    """The vendor whose accounts were unlinked."""

    message: str
    name: str


class AccountPageVendors(msgspec.Struct, frozen=True):
    """The vendors for which an app's account pages have buttons, and the client whose sign-ins those are."""

    client_id: ClientId
    providers: list[LoginProvider]
