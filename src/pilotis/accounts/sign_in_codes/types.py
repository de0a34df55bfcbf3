"""The types of codes that give a sign-in to a page of the app."""

from __future__ import annotations

from typing import Annotated

import msgspec

CodeChallenge = Annotated[str, msgspec.Meta(min_length=43, max_length=128)]
State = Annotated[str, msgspec.Meta(max_length=500)]


class SignInCodeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The page that the member goes back to: one of the app's `login_redirect_uris`.

    `code_challenge` is the SHA-256 of that page's verifier in base64url (RFC 7636, S256).
    """

    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000)]
    code_challenge: CodeChallenge
    state: State | None = None


class MemberSignInCodeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The challenge of the page or program that is to be signed in, of which it keeps the verifier (RFC 7636, S256)."""

    code_challenge: Annotated[str, msgspec.Meta(max_length=128)]


class MemberSignInCode(msgspec.Struct, frozen=True):
    """A `code` for `/v1/auth/oauth/exchange`, and for how many seconds it is valid."""

    code: str
    expires_in: int


class SignInCode(msgspec.Struct, frozen=True):
    """Where the browser goes: `redirect_uri` with a `code` for `/v1/auth/oauth/exchange`, and `state`."""

    redirect_to: str
    expires_in: int
