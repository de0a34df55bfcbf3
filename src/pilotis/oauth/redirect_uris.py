"""Redirect URIs: which may be registered, and when a requested one matches a registered one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

MAX_CHARACTERS = 2000
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_MAX_PORT = 65535
_PADDED_PORT = re.compile(r":0[0-9]*$")
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]))(?::(?P<port>[1-9][0-9]{0,4}))?(?P<rest>[/?].*)?")
_FORBIDDEN = re.compile(r"[^\x21-\x7e]|[\\*\"<>^`{|}]")
# Schemes that browsers execute or handle themselves. None of them has a dot, as private schemes must have; they are
# listed for a clearer message.
_DANGEROUS = frozenset(("javascript", "data", "vbscript", "file", "blob", "about", "view-source", "ws", "wss", "ftp"))


def check_redirect_uri(uri: str, *, is_public: bool, is_page: bool = False) -> None:
    """Raise `ValueError` with a message for a URI that must not be registered.

    Allowed are absolute URIs without fragment, user name or wildcard: `https`, `http` on loopback, or for public
    clients a private scheme with a dot (RFC 8252, section 7.1; RFC 9700, section 2.1). `is_page`: it is a page of the
    app, whose sites have names below `localhost` on one's own machine (RFC 6761, section 6.3).
    """
    if len(uri) > MAX_CHARACTERS or _FORBIDDEN.search(uri):
        raise ValueError(
            f"A redirect URI must have at most {MAX_CHARACTERS} ASCII characters, without spaces, * or \\."
        )
    scheme, colon, _ = uri.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme) or scheme in _DANGEROUS:
        raise ValueError("A redirect URI must begin with https://, or with http:// on loopback.")
    if "#" in uri:
        raise ValueError("A redirect URI must not have a fragment.")
    if scheme in {"http", "https"}:
        _check_web(uri, scheme, is_page=is_page)
    elif not is_public:
        raise ValueError("A confidential client's redirect URI must begin with https://, or with http:// on loopback.")
    elif "." not in scheme:
        raise ValueError("A private scheme must be a reversed domain name, such as com.example.app.")


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return whether a URI equals a registered one, ignoring the port of 127.0.0.1 and [::1].

    A program that listens on loopback learns its port when it starts (RFC 8252, section 7.3).
    """
    known = list(registered)
    return uri in known or _without_port(uri) in {_without_port(one) for one in known} - {None}


def _check_web(uri: str, scheme: str, *, is_page: bool) -> None:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("The redirect URI is not a valid URL.") from None
    if not uri.startswith(f"{scheme}://") or not host or port == 0 or _PADDED_PORT.search(parts.netloc):
        raise ValueError("A redirect URI must have a host after the two slashes, and a port after a colon.")
    if "@" in parts.netloc:
        raise ValueError("A redirect URI must not have a user name.")
    is_site = is_page and host.endswith(".localhost")
    if scheme == "http" and host not in {"127.0.0.1", "::1", "localhost"} and not is_site:
        raise ValueError(
            "A redirect URI with http:// must have the host 127.0.0.1, [::1] or localhost; use https:// for others."
        )


def _without_port(uri: str) -> str | None:
    """Return a loopback address without its port, or None for any other."""
    found = _LOOPBACK.fullmatch(uri)
    if found is None or int(found["port"] or 80) > _MAX_PORT:
        return None
    return found[1] + "|" + (found["rest"] or "")


def origin_of(uri: str) -> str:
    """Return the origin of a web address (RFC 6454, section 4), as browsers send it."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"
