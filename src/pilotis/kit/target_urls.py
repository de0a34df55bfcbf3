"""URLs that the server may be asked to call: their syntax and the host that they name. Pure."""

from __future__ import annotations

import functools
import re
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from yarl import URL

MAX_URL_CHARACTERS = 2048
_MAX_HOST_CHARACTERS = 253  # RFC 1035, section 2.3.4, without the last dot
_SCHEMES = ("http", "https")
# In addition, what `str.isprintable` considers unprintable, such as marks that change the text direction.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(:[0-9]{1,5})?")
# Reserved ones and the percent sign (RFC 3986, section 2); `quote` leaves the unreserved ones as well.
_URL_CHARACTERS = "%:/?#[]@!$&'()*+,;="


class Target(NamedTuple):
    """A URL with its host in ASCII, without the brackets of an IPv6 address, and its port."""

    url: URL
    scheme: str
    host: str
    port: int
    is_literal: bool
    """Whether the host is an IP address, which no resolver sees."""


@functools.lru_cache(maxsize=1024)
def parse_target(text: str) -> Target:
    """Parse an http or https URL; raises `ValueError` with a sentence.

    The host becomes ASCII by IDNA (UTS #46), so that full-width digits are recognised as an address, and other
    spellings of an IPv4 address become the usual one. User names, passwords, fragments, zone ids, blanks, backslashes
    and control characters are rejected.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise ValueError(f"The URL must have at most {MAX_URL_CHARACTERS} characters.")
    if _FORBIDDEN.search(text) or not text.isprintable():
        raise ValueError("The URL must have no blanks, backslashes or control characters.")
    from yarl import URL  # here: a start would wait for it

    try:
        url = URL(text)
        host, port = url.raw_host or "", url.port
    except (ValueError, TypeError, UnicodeError):
        raise ValueError("The URL is invalid.") from None
    if url.scheme not in _SCHEMES:
        raise ValueError("The URL must begin with https:// or http://.")
    _check_authority(text, host)
    if port is None or not 0 < port < 65536:
        raise ValueError("The URL's port must be a number from 1 to 65535.")
    host = _ipv4_address(host) or host
    return Target(_rebuilt(text, url, host), url.scheme, host, port, _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _rebuilt(text: str, url: URL, host: str) -> URL:
    """Return the URL with its host in ASCII; path and query stay unchanged, since they may be signed."""
    from yarl import URL

    rest = re.sub(r"^[^/?]*", "", text.partition("//")[2])
    path = rest if rest.startswith("/") else f"/{rest}"
    bracketed = f"[{host}]" if ":" in host else host
    port = "" if url.explicit_port is None else f":{url.explicit_port}"
    return URL(f"{url.scheme}://{bracketed}{port}{quote(path, safe=_URL_CHARACTERS)}", encoded=True)


def _ipv4_address(host: str) -> str | None:
    """Return the IPv4 address that a host such as `127.1`, `0x7f000001` or `0177.0.0.1` stands for, or None.

    A host whose last part is a number is an address, in any of the forms that inet_aton(3) reads, or it is invalid (URL
    Standard, section 3.5, "ends in a number").
    """
    last = host.rstrip(".").rpartition(".")[2].lower()
    if ":" in host or not (last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last)):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    except OSError:
        raise ValueError("The URL's host is neither a name nor an IP address.") from None


def _check_authority(text: str, host: str) -> None:
    authority = re.split(r"[/?#]", text.partition("//")[2], maxsplit=1)[0]
    if "@" in authority:
        raise ValueError("The URL must have no user name or password.")
    if "#" in text:
        raise ValueError("The URL must have no fragment.")
    if "%" in authority or "%" in host:
        raise ValueError("The URL's host must have no zone id and no percent signs.")
    if not _AUTHORITY.fullmatch(authority):
        raise ValueError("The URL must have a host, and after a colon a port.")
    if not host or len(host.rstrip(".")) > _MAX_HOST_CHARACTERS or not host.isascii():
        raise ValueError(f"The URL must have a host of at most {_MAX_HOST_CHARACTERS} characters.")
    if any(not label or len(label) > 63 for label in host.rstrip(".").split(".")) and ":" not in host:
        raise ValueError("The URL's host must have parts of 1 to 63 characters.")
