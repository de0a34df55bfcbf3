"""E-mail addresses: which are accepted, how they are compared, and senders with a name. Pure.

Only addresses of RFC 5321, section 4.1.2, that every mail server takes are accepted: a dot-atom of ASCII before the @,
and a host name of ASCII after it. So there are no quoted local parts, comments or lists, and no letters that look like
others; the owner of an internationalised domain writes its `xn--` form.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MAX_ADDRESS = 254
_MAX_LOCAL = 64
_MAX_NAME = 100

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_SENDER = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]+)>")


class Sender(NamedTuple):
    """A sender's or a reader's name, perhaps empty, and its address."""

    name: str
    address: str


def is_address(text: str) -> bool:
    """Return whether the text is one accepted e-mail address."""
    found = _ADDRESS.fullmatch(text) if len(text) <= MAX_ADDRESS else None
    return found is not None and len(found["local"]) <= _MAX_LOCAL


def folded(address: str) -> str:
    """Return the form in which addresses are compared: NFC, lower case."""
    return unicodedata.normalize("NFC", address).lower()


def domain_of(address: str) -> str:
    """Return the domain of an address, in lower case."""
    return address.rpartition("@")[2].lower()


def parse_sender(text: str) -> Sender:
    """Return the sender that `Club <club@example.com>` or `club@example.com` names; raises `ValueError`."""
    found = _SENDER.fullmatch(text.strip())
    name, address = (found["name"].strip().strip('"'), found["address"].strip()) if found else ("", text.strip())
    if not is_address(address):
        raise ValueError("an e-mail address is expected, such as club@example.com or Club <club@example.com>")
    if len(name) > _MAX_NAME or not name.isprintable():
        raise ValueError(f"a sender's name has at most {_MAX_NAME} printable characters")
    return Sender(name, address)
