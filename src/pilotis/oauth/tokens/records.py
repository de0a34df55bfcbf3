"""What is stored of grants, codes and proofs."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

ACR_VALUES = ("urn:pilotis:level:1", "urn:pilotis:level:2")
"""The `acr` of a sign-in with one factor, and with two (OpenID Connect Core 1.0, section 2)."""
MULTI_FACTOR = "mfa"
"""What the `amr` of a sign-in with two factors contains (RFC 8176)."""


class Grant(msgspec.Struct, frozen=True):
    """What a client may do for a member, as stored."""

    app_id: UUID
    grant_id: UUID
    client_id: str
    member_id: str
    session_id: UUID
    is_offline: bool
    scopes: list[str]
    resources: list[str]
    jkt: str | None
    is_bound: bool
    issuer: str
    auth_time: datetime
    amr: list[str]
    refresh_id: UUID | None
    refreshed_at: datetime | None
    refresh_expires_at: datetime | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    revoke_reason: str | None


class CodeGrant(Grant, frozen=True):
    """A code with its grant: `is_fresh` tells whether the code is valid, `lives` whether the grant is."""

    redirect_uri: str
    code_challenge: str
    nonce: str | None
    code_jkt: str | None
    used_at: datetime | None
    is_fresh: bool
    lives: bool


class RefreshGrant(Grant, frozen=True):
    """A grant, whether it `lives`, and whether its refresh token has not expired; with its member's nickname."""

    lives: bool
    may_refresh: bool
    nickname: str | None


class ListedGrant(Grant, frozen=True):
    """A grant with the names of its client and its member, and whether it `lives`."""

    client_name: str
    nickname: str | None
    lives: bool


class RevokedGrant(msgspec.Struct, frozen=True):
    """The client of a revoked grant, with the session and the member."""

    client_id: str
    session_id: UUID
    member_id: str


class TokenState(msgspec.Struct, frozen=True):
    """The grant and the member of a valid access token; `custom_data` is a JSON object.

    `verified_email` and `picture` come from the member's accounts at vendors.
    """

    scopes: list[str]
    is_offline: bool
    member_id: str
    nickname: str | None
    login_id: str | None
    custom_data: str
    updated_at: datetime
    verified_email: str | None
    picture: str | None


class ProofUse(msgspec.Struct, frozen=True):
    """Whether a proof `is_new`, and when the epoch of the known proofs began.

    `is_settled` tells whether that is so long ago that no proof without a nonce from before could still be accepted.
    """

    is_new: bool
    began_at: datetime
    is_settled: bool
