"""What `pilotis doctor --url` asks a server as a client would, through the reverse proxy in front of it."""

from __future__ import annotations

import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit
from uuid import UUID

from pilotis.kit import json
from pilotis.kit.reports import Report

_SECONDS = 10.0
_MAX_BYTES = 1 << 20
_LARGE = 2 << 20  # more than nginx accepts unless it is told to
_PURPOSE = {
    "Host": "sites are chosen by it",
    "X-Forwarded-For": "all visitors have the proxy's address without it, and share one rate limit",
    "X-Forwarded-Proto": "OAuth requires https and cannot know of it otherwise",
}


class _Answer:
    """The status and the JSON object of an answer; `problem` is set if there was none."""

    def __init__(self, status: int, body: bytes, problem: str = "") -> None:
        self.status = status
        self.problem = problem
        self.content = json.object_of(body)


def problems(url: str, sites_base_url: str | None, *, is_proxied: bool = True) -> Iterator[Report]:
    """Yield a report for each thing that is wrong between a client and the server at the address.

    A server that answers by HTTPS itself need not be `is_proxied`: then nothing adds headers.
    """
    headers = _ask(f"{url}/healthz/proxy")
    if headers.problem or not {"is_trusted", "missing"} <= headers.content.keys():
        answered = headers.problem or f"it answered {headers.status}"
        yield Report(f"{url} does not lead to this version of Pilotis: {answered}.", "Start it, or correct the proxy.")
        return
    for name in headers.content["missing"] if is_proxied else ():
        yield Report(
            f"The proxy does not pass on {name}, or its value is not that of base_url: {_PURPOSE.get(name, name)}.",
            f"Let the proxy set {name} as docs/operating.md shows, and base_url be {url}.",
        )
    if is_proxied and not headers.content["is_trusted"]:
        yield Report(
            "The proxy's address is not in trusted_proxies, so its X-Forwarded-For and X-Forwarded-Proto are ignored.",
            "Add it to trusted_proxies.",
        )
    if (status := _announced(url)) == 413:
        yield Report(
            f"The proxy rejects bodies of 2 MB with {status}.",
            "Remove its limit (client_max_body_size 0 in nginx): Pilotis limits bodies itself.",
        )
    if sites_base_url is not None:
        yield from _site_problems(sites_base_url)


def certificate_days(url: str) -> float | None:
    """Return in how many days the certificate at an https URL ends; None without one, or if it is not accepted."""
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        return None
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout=_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secure,
        ):
            found = secure.getpeercert()
    except OSError:
        return None
    return (ssl.cert_time_to_seconds(str(found["notAfter"])) - time.time()) / 86400 if found else None


def _site_problems(sites_base_url: str) -> Iterator[Report]:
    parts = urlsplit(sites_base_url)
    address = f"{parts.scheme}://pilotis-doctor.{parts.netloc}/"
    answer = _ask(address)
    if answer.problem:
        # A proxy that gets certificates on demand has none for a name that is no site's.
        if not answer.problem.startswith(_TLS):
            yield Report(f"Sites are not reached: {address}: {answer.problem}.", _SITES_FIX)
    elif answer.status != 404:
        yield Report(
            f"Sites are not reached: {address} answered {answer.status}, where 404 is expected.",
            f"{_SITES_FIX} It must pass on Host.",
        )


_SITES_FIX = "Let the proxy serve all names below sites_base_url, and their DNS lead to it."


_TLS = "TLS: "


def _announced(url: str) -> int:
    """Return the status of the answer to a request that announces a large body; 0 if there is none.

    The body is never sent: Pilotis answers without it, because the request lacks a key.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.netloc, timeout=_SECONDS)
    try:
        connection.putrequest("POST", f"/v1/public/tables/{UUID(int=0)}/data")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(_LARGE))
        connection.endheaders()
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def _ask(url: str) -> _Answer:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the operator gives the address
            return _Answer(answer.status, answer.read(_MAX_BYTES))
    except urllib.error.HTTPError as error:
        return _Answer(error.code, error.read(_MAX_BYTES))
    except urllib.error.URLError as error:
        prefix = _TLS if isinstance(error.reason, ssl.SSLError) else ""
        return _Answer(0, b"", f"{prefix}{error.reason}")
    except (OSError, HTTPException, ValueError) as error:
        return _Answer(0, b"", str(error))
