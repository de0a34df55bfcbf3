"""Cookies (RFC 6265): those that a route reads, as parameters of its handler, and those that an answer sets.

    @post("/oauth/consent", access=OPEN, origins="own")
    async def consent(self, call: Call, body: Form[Consent], session: Annotated[str | None, Cookie("__Host-op")]) -> …

A browser sends cookies whichever site's page makes the request, so a route that reads one must declare the `origins`
from which it may be called; otherwise the program does not start.

Names begin with `__Host-`, so that no other host can set the cookie (RFC 6265bis, section 4.1.3.2). That requires
https; a server whose `base_url` is http reads and sets the cookie without the prefix and without `Secure`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from pilotis.http.api.principals import OriginNotAllowedError

HOST_PREFIX = "__Host-"
Origins: TypeAlias = Literal["own", "console", "any"]
"""Who may call a route that reads a cookie: pages of the server itself, of the console, or of any site."""

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x21\x23-\x2B\x2D-\x3A\x3C-\x5B\x5D-\x7E]*")
_PATH = re.compile(r"/[\x21-\x3A\x3C-\x7E]*")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Cookie(msgspec.Struct, frozen=True):
    """Marks a handler's parameter of type `str | None` as the cookie's value."""

    name: str


class CookiesWithPrefix(msgspec.Struct, frozen=True):
    """Marks a handler's parameter of type `dict[str, str]` as all cookies with a prefix, by name."""

    prefix: str


class SetCookie(msgspec.Struct, frozen=True, kw_only=True):
    """A cookie that an answer sets, never readable by scripts; `max_age` is in seconds, 0 deletes it.

    Raises `ValueError` if the name or value cannot be sent, or a `__Host-` cookie has another path than `/`.
    """

    name: str
    value: str
    max_age: int | None = None
    path: str = "/"
    same_site: Literal["Lax", "Strict", "None"] = "Lax"

    def __post_init__(self) -> None:
        """Check what a browser would ignore silently."""
        if not _NAME.fullmatch(self.name) or not _VALUE.fullmatch(self.value):
            raise ValueError("The cookie's name or value contains a character that is not allowed there.")
        if self.path != "/" and (
            self.name.startswith(HOST_PREFIX) or not re.fullmatch(r"/[\x21-\x3A\x3C-\x7E]*", self.path)
        ):
            raise ValueError("The cookie's path is invalid.")

    def header(self, *, secure: bool) -> tuple[bytes, bytes]:
        """Return the `Set-Cookie` header for a server that is reached by https, or not."""
        parts = [f"{_sent_name(self.name, secure)}={self.value}", f"Path={self.path}", "HttpOnly"]
        parts.append(f"SameSite={self.same_site}")
        if self.max_age is not None:
            parts.append(f"Max-Age={self.max_age}")
        if secure:
            parts.append("Secure")
        return b"set-cookie", "; ".join(parts).encode("ascii")


def cookie_value(
    header: bytes | None, wanted: Cookie | CookiesWithPrefix, *, secure: bool
) -> str | dict[str, str] | None:
    """Return the cookie, or the cookies with the prefix, from a `Cookie` header.

    Of several with one name the first counts, which has the longest path (RFC 6265, section 5.4).
    """
    cookies: dict[str, str] = {}
    for pair in (header or b"").decode("latin-1").split(";"):
        name, separator, value = pair.strip().partition("=")
        if separator:
            cookies.setdefault(name, value)
    if isinstance(wanted, Cookie):
        return cookies.get(_sent_name(wanted.name, secure))
    prefix = _sent_name(wanted.prefix, secure)
    return {wanted.prefix + name[len(prefix) :]: value for name, value in cookies.items() if name.startswith(prefix)}


def check_origin(method: str, headers: Mapping[bytes, bytes], allowed: str) -> None:
    """Raise `OriginNotAllowedError` unless the request comes from a page of the allowed origin, or from no page at all.

    A browser sends `Origin` with every request that is not a GET, so such a request without it is rejected; a GET is
    judged by `Sec-Fetch-Site` (Fetch Metadata, section 2.3).
    """
    origin = headers.get(b"origin")
    if origin is not None:
        if origin.decode("latin-1") != allowed:
            raise OriginNotAllowedError("Pages of other sites may not make this request.")
    elif method not in _SAFE_METHODS:
        raise OriginNotAllowedError("Send the header Origin.")
    elif headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
        raise OriginNotAllowedError("Pages of other sites may not make this request.")


def _sent_name(name: str, secure: bool) -> str:
    return name if secure else name.removeprefix(HOST_PREFIX)
