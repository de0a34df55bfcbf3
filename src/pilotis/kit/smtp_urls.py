"""URLs of SMTP servers: `smtp://user:password@host:587`, which must offer STARTTLS, and `smtps://…:465`. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_PORTS = {"smtp": 587, "smtps": 465}
_EXPECTED = "a URL is expected such as smtp://user:password@smtp.example.com:587 or smtps://…"
_MAX_URL = 2048


class SmtpServer(NamedTuple):
    """An SMTP server; `has_tls` is TLS from the first byte, otherwise it is started by STARTTLS (RFC 3207)."""

    host: str
    port: int
    has_tls: bool
    username: str | None
    password: str | None

    @property
    def url(self) -> str:
        """The URL without the password."""
        user = "" if self.username is None else quote(self.username, safe="") + "@"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'smtps' if self.has_tls else 'smtp'}://{user}{host}:{self.port}"


def parse_smtp_url(text: str) -> SmtpServer:
    """Return the server that a URL names; raises `ValueError`."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if (
        len(text) > _MAX_URL
        or not text.isprintable()
        or parts.scheme not in _PORTS
        or not parts.hostname
        or port == 0
        or parts.path not in {"", "/"}
        or parts.query
        or parts.fragment
    ):
        raise ValueError(_EXPECTED)
    username, password = parts.username, parts.password
    if password is not None and not username:
        raise ValueError("a password needs a user name: smtp://user:password@…")
    return SmtpServer(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        has_tls=parts.scheme == "smtps",
        username=unquote(username) if username else None,
        password=unquote(password) if password else None,
    )
