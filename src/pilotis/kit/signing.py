"""Signed tokens: JWT (RFC 7519) with HS256, one key and one audience for each kind of token.

Three things bind a token to its kind, so that no kind passes for another: the key, `typ` and `aud`. Only one header is
ever signed, so only that one is accepted: no other `alg`, no `crit`, no key inside a token (RFC 8725, sections 3.1 and
3.10).
"""

from __future__ import annotations

import enum
import hmac
from collections import OrderedDict
from functools import lru_cache
from typing import Annotated, ClassVar, TypeVar
from uuid import UUID

import msgspec

from pilotis.kit.crypto import MasterKeyring, MasterKeys, base64url, derive_key, from_base64url

ISSUER = "pilotis"
_HEADER = base64url(b'{"alg":"HS256","typ":"JWT"}')
# Earlier versions wrote it in the other order, and their tokens stay valid.
_ACCEPTED_HEADERS = {_HEADER, base64url(b'{"typ":"JWT","alg":"HS256"}')}
_LONGEST = 2048
_MAX_KNOWN = 4096

Subject = Annotated[str, msgspec.Meta(pattern=r"^[\w-]{1,64}$")]


class TokenKind(enum.StrEnum):
    """The kinds of token; the value is the `typ` claim and names the key's purpose."""

    MEMBER_ACCESS = "member_access"
    MEMBER_REFRESH = "member_refresh"
    CONSOLE_ACCESS = "console_access"
    CONSOLE_REFRESH = "console_refresh"
    FUNCTION_ACCESS = "function_access"
    EXPORT_LINK = "export_link"
    CURSOR = "cursor"

    @property
    def audience(self) -> str:
        """The `aud` claim: the routes the token is meant for."""
        return "pilotis:" + self.value.replace("_", ":")


class Claims(msgspec.Struct, frozen=True):
    """A token's claims; times in seconds since 1970, `app_id` is the nil UUID for console users."""

    sub: Subject
    app_id: UUID
    sid: UUID
    jti: UUID
    iat: int
    exp: int
    typ: str
    aud: str
    iss: str


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a token that is not a session's, for one app; times in seconds since 1970."""

    kind: ClassVar[TokenKind]

    app_id: UUID
    iat: int
    exp: int


class FunctionAccess(Signed, frozen=True, kw_only=True):
    """A function's permission to call the API as one execution, within scopes; `depth` is its cause's."""

    kind: ClassVar[TokenKind] = TokenKind.FUNCTION_ACCESS

    sub: UUID
    eid: UUID
    scp: tuple[str, ...]
    depth: int


class ExportLink(Signed, frozen=True, kw_only=True):
    """A link with which a browser downloads one table in one format, on behalf of a console user."""

    kind: ClassVar[TokenKind] = TokenKind.EXPORT_LINK

    sub: UUID
    table_id: UUID
    format: str


class CursorPosition(Signed, frozen=True, kw_only=True):
    """Where a listing continues: the last values seen, the table, and a hash of the condition."""

    kind: ClassVar[TokenKind] = TokenKind.CURSOR

    table_id: UUID
    where_hash: str
    after: tuple[str | int | float | bool | None, ...]


class _Named(msgspec.Struct):
    typ: str | None = None
    aud: str | None = None
    iss: str | None = None


S = TypeVar("S", bound=Signed)
C = TypeVar("C", bound=Claims | Signed)


class TokenError(Exception):
    """The text is not a valid token of the kind: malformed, tampered with, expired, or of another kind."""


class TokenExpiredError(TokenError):
    """The token is one of the kind, and was valid earlier."""


class TokenSigner:
    """Signs tokens of every kind with the current master key, and verifies them with any accepted one."""

    def __init__(self, keyring: MasterKeyring) -> None:
        self._keyring = keyring
        self._derive(keyring.keys)

    def sign(self, kind: TokenKind, *, sub: str, app_id: UUID, sid: UUID, jti: UUID, iat: int, exp: int) -> str:
        """Return the signed token; equal claims give equal text."""
        claims = Claims(sub, app_id, sid, jti, iat, exp, kind.value, kind.audience, ISSUER)
        return _signed(msgspec.json.encode(claims), self._in_force()[kind][0])

    def verify(self, kind: TokenKind, token: str, now: float) -> Claims:
        """Return the claims of a session token of the kind, valid at `now`; raises `TokenError`."""
        # Asked first, since it forgets what other keys have signed.
        self._in_force()
        claims = self._known.get((kind, token))
        if claims is None:
            claims = self._read(kind, Claims, token)
            if len(self._known) >= _MAX_KNOWN:
                self._known.popitem(last=False)
            self._known[kind, token] = claims
        return _valid(claims, now)

    def sign_as(self, claims: Signed) -> str:
        """Return the claims as a token of their own kind."""
        kind = claims.kind
        named = {"typ": kind.value, "aud": kind.audience, "iss": ISSUER}
        return _signed(msgspec.json.encode(msgspec.to_builtins(claims) | named), self._in_force()[kind][0])

    def verify_as(self, claims: type[S], token: str, now: float) -> S:
        """Return the claims of a token of their kind that is valid at `now`; raises `TokenError`."""
        return _valid(self._read(claims.kind, claims, token), now)

    def _read(self, kind: TokenKind, type_: type[C], token: str) -> C:
        """Return the claims of a token of the kind, which may be over; raises `TokenError`."""
        if len(token) > _LONGEST or not token.isascii():
            raise TokenError("too long, or not ASCII")
        head, _, signature = token.rpartition(".")
        header, _, payload = head.partition(".")
        if header not in _ACCEPTED_HEADERS:
            raise TokenError("another header")
        self._check_signature(kind, head, signature)
        data = from_base64url(payload) or b""
        try:
            named, claims = msgspec.json.decode(data, type=_Named), msgspec.json.decode(data, type=type_)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise TokenError(str(error)) from None
        if (named.typ, named.aud, named.iss) != (kind.value, kind.audience, ISSUER):
            raise TokenError("another kind")
        return claims

    def _check_signature(self, kind: TokenKind, head: str, signature: str) -> None:
        if any(_fits(head, signature, key) for key in self._in_force()[kind]):
            return
        # Another node may use a new key a moment before this one is notified.
        if self._keyring.refresh() and any(_fits(head, signature, key) for key in self._in_force()[kind]):
            return
        raise TokenError("another signature")

    def _in_force(self) -> dict[TokenKind, list[bytes]]:
        if self._keyring.keys is not self._derived_from:
            self._derive(self._keyring.keys)
        return self._keys

    def _derive(self, keys: MasterKeys) -> None:
        self._derived_from = keys
        # Most requests bring a token that an earlier one has brought. Only tokens that we have signed get here.
        self._known: OrderedDict[tuple[TokenKind, str], Claims] = OrderedDict()
        self._keys = {kind: [derive_key(key, f"token/{kind.value}") for key in keys.accepted] for kind in TokenKind}


def _valid(claims: C, now: float) -> C:
    """Return the claims; raises `TokenExpiredError` outside of their time."""
    if not claims.iat - 60 <= now < claims.exp:
        raise TokenExpiredError("expired")
    return claims


def _signed(claims: bytes, key: bytes) -> str:
    head = f"{_HEADER}.{base64url(claims)}"
    return f"{head}.{_signature(head, key)}"


def _signature(head: str, key: bytes) -> str:
    return base64url(hmac.digest(key, head.encode(), "sha256"))


def _fits(head: str, signature: str, key: bytes) -> bool:
    # The texts are compared, not the bytes: base64url has several texts for the same bytes.
    return hmac.compare_digest(_signature(head, key).encode(), signature.encode())


def looks_like(kind: TokenKind, token: str) -> bool:
    """Return whether a token claims to be of the kind, to choose how to verify it. This proves nothing."""
    return len(token) <= _LONGEST and _claimed(token) == kind


@lru_cache(1024)
def _claimed(token: str) -> str | None:
    """Return the `typ` of what may be a token."""
    try:
        decoded = msgspec.json.decode(_payload(token))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    named = decoded.get("typ") if isinstance(decoded, dict) else None
    return named if isinstance(named, str) else None


def claimed_kind(token: str) -> TokenKind | None:
    """Return the kind that a token claims to be of, to tell its sender. This proves nothing."""
    return next((kind for kind in TokenKind if looks_like(kind, token)), None)


def _payload(token: str) -> bytes:
    parts = token.split(".")
    return (from_base64url(parts[1]) if len(parts) == 3 else None) or b""
