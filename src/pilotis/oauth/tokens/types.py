"""Request and response types of the token endpoint."""

from __future__ import annotations

from typing import Any

import msgspec


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Issued tokens (RFC 6749, section 5.1); `cnf` identifies the key to which they are bound."""

    access_token: str
    token_type: str
    expires_in: int
    scope: str
    refresh_token: str | None = None
    id_token: str | None = None
    cnf: dict[str, str] | None = None


class Introspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a token (RFC 7662, section 2.2); only `active` for an invalid token or one of another app."""

    active: bool
    scope: str | None = None
    client_id: str | None = None
    sub: str | None = None
    username: str | None = None
    token_type: str | None = None
    exp: int | None = None
    iat: int | None = None
    iss: str | None = None
    aud: str | list[str] | None = None
    jti: str | None = None
    sid: str | None = None
    app_id: str | None = None
    cnf: dict[str, Any] | None = None
