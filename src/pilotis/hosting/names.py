"""Host names of sites: `{slug}`, `{slug}--qa` and `{slug}--v{version}` below one domain, or the sites' own domains.

Each is a single label, so one wildcard record and one wildcard certificate serve all sites.
"""

from __future__ import annotations

import re
import secrets
import string
import unicodedata
from typing import NamedTuple
from urllib.parse import urlsplit

from pilotis.hosting.ports import SitePorts
from pilotis.kit.networks import is_address

RESERVED = frozenset({"www", "api", "console", "files", "admin", "mail", "static", "status"})
_LABEL = re.compile(r"([a-z0-9](?:-?[a-z0-9])*)(?:--(qa|v[1-9][0-9]{0,8}))?")
_ALPHABET = string.ascii_lowercase + string.digits


class SiteName(NamedTuple):
    """What a label names: a slug, with `qa`, a version, or neither for production."""

    slug: str
    is_qa: bool = False
    version: int | None = None


def parse_label(label: str) -> SiteName | None:
    """Return what a label below the sites' domain names, or None."""
    match = _LABEL.fullmatch(label)
    if match is None:
        return None
    slug, suffix = match.groups()
    if suffix is None or suffix == "qa":
        return SiteName(slug, suffix == "qa")
    return SiteName(slug, version=int(suffix[1:]))


def slug_of(name: str) -> str:
    """Return a new slug for a storage: its name, as far as a host name allows it, and 6 random characters."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:32].strip("-")
    return "-".join(filter(None, [readable or "site", "".join(secrets.choice(_ALPHABET) for _ in range(6))]))


class Addresses:
    """The addresses of sites: at `ports` where they have their own, else below `base_url`."""

    def __init__(self, base_url: str, ports: SitePorts | None = None) -> None:
        parts = urlsplit(base_url)
        self.ports = ports
        self._scheme = parts.scheme
        self._authority = parts.netloc.lower()
        self.domain = (parts.hostname or "").lower()
        self.suffix = f".{self.domain}"
        if is_address(self.domain):
            raise ValueError("Sites need a domain name: names below an IP address do not exist.")

    def production(self, slug: str) -> str:
        """Return the address of a site's production deployment."""
        own = self.ports.address(f"{slug}{self.suffix}") if self.ports else None
        return own or f"{self._scheme}://{slug}.{self._authority}"

    def qa(self, slug: str) -> str:
        """Return the address of a site's QA deployment."""
        return self.production(f"{slug}--qa")

    def version(self, slug: str, version: int) -> str:
        """Return the address of one version of a site."""
        return self.production(f"{slug}--v{version}")

    def of_domain(self, hostname: str) -> str:
        """Return the address of a site's own domain."""
        return f"{self._scheme}://{hostname}"


def check_slug(text: str) -> None:
    """Raise ValueError for a text that is no slug."""
    if parse_label(text) != SiteName(text):
        raise ValueError("the name of a site is none")
