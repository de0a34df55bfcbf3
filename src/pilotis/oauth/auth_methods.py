"""How clients authenticate at the token endpoint (OpenID Connect Core 1.0, section 9)."""

from __future__ import annotations

from typing import Literal

AuthMethod = Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
NO_SECRET = "none"  # noqa: S105 - the method of public clients
PRIVATE_KEY = "private_key_jwt"
SECRET_METHODS = frozenset(("client_secret_basic", "client_secret_post"))
