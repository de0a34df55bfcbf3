"""What `pilotis oauth check` asks a provider, as a client would from outside: discovery, keys, https and the proxy."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, NamedTuple

from pilotis.kit import json
from pilotis.oauth.https import is_loopback_url

_SECONDS = 10.0
_MAX_BYTES = 1024 * 1024
_DOCUMENTS = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


class Finding(NamedTuple):
    """A check: its name, whether it passed, and otherwise what to do."""

    name: str
    is_good: bool
    advice: str


def findings(url: str) -> Iterator[Finding]:
    """Yield what a provider at an address answers to a client; stops where nothing more can be found out."""
    is_safe = url.startswith("https://") or is_loopback_url(url)
    yield Finding("https", is_safe, "Clients need https; set base_url to the address that they use.")
    for path in _DOCUMENTS:
        status, found = _asked(url + path)
        if status != 200:
            yield Finding("discovery", False, f"{url}{path} answered {status or 'nothing'}, where 200 is expected.")
            return
        if found.get("issuer") != url:
            advice = f"The issuer is {found.get('issuer')}; set base_url to {url}, or use the address of base_url."
            yield Finding("issuer", False, advice)
            return
    yield Finding("discovery", True, "")
    _, keys = _asked(url + "/.well-known/jwks.json")
    yield Finding("keys", bool(keys.get("keys")), "Create a key with `pilotis oauth keys create`.")
    # An unknown code from an unknown client: a provider that is reached by HTTPS answers with `invalid_client`.
    status, answer = _asked(url + "/oauth/token", b"grant_type=authorization_code&client_id=cl_check&code=ac_check")
    said = answer.get("error_description") or f"it answered {status or 'nothing'}"
    yield Finding(
        "token endpoint", (status, answer.get("error")) == (401, "invalid_client"), f"{url}/oauth/token: {said}"
    )


def _asked(url: str, form: bytes | None = None) -> tuple[int, dict[str, Any]]:
    """Return a response's status and JSON object; 0 and an empty object if there is none."""
    request = urllib.request.Request(url, data=form)  # noqa: S310 - the operator gives the address
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return answer.status, json.object_of(answer.read(_MAX_BYTES))
    except urllib.error.HTTPError as error:
        return error.code, json.object_of(error.read(_MAX_BYTES))
    except (OSError, HTTPException, ValueError):
        return 0, {}
