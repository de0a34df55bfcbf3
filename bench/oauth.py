"""The OAuth provider, compared with its unavoidable work: a signature, and a row by its id.

    python -m bench.oauth [SECONDS]

One Pilotis with one worker. Tokens of `client_credentials` are compared with bare RS256 signatures in one thread,
introspection with reading a row by its id; both under load on eight connections. What DPoP adds, and the round from
authorize to token of a signed-in member, are medians of requests one after another on one connection, as a client sees
them. All of it shares the machine's processors.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey

from bench import load
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.kit import rs256

ROUNDS = 3
CONNECTIONS = 8
REQUESTS = 300
CALLBACK = "https://club.example/callback"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Provider:
    """A provider app with a confidential client, and a member that has consented in one browser."""

    def __init__(self, server: Pilotis) -> None:
        self.url = server.url
        app_id, self.headers = server.owned_app()
        self._app = f"{self.url}/v1/apps/{app_id}"
        self.settings = self._send("PUT", f"{self._app}/oauth/settings", {"is_provider": True})
        self._send("PUT", f"{self._app}/oauth/scopes/orders:read", {"title": "See orders"})
        made = self._send(
            "POST",
            f"{self._app}/oauth/clients",
            {
                "name": "Club",
                "redirect_uris": [CALLBACK],
                "scopes": ["openid", "orders:read"],
                "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
            },
        )
        self.client_id = made["client_id"]
        pair = base64.b64encode(f"{made['client_id']}:{made['client_secret']}".encode()).decode()
        self.basic = {"Authorization": f"Basic {pair}", **FORM}
        self.browser = httpx.Client(base_url=self.url, timeout=60)

    def table_with_row(self) -> str:
        """Make a table with a row, and return the row's path."""
        body = {"title": "rows", "schema": {"name": "string"}, "access_level": "Public"}
        table = self._send("POST", f"{self.url}/v1/public/tables", body)["id"]
        row = self._send("POST", f"{self.url}/v1/public/tables/{table}/data", {"data": {"name": "x"}})["id"]
        return f"/v1/public/tables/{table}/data/{row}"

    def token(self, **headers: str) -> dict[str, Any]:
        """Get a token for the client itself."""
        form = {"grant_type": "client_credentials", "scope": "orders:read"}
        answer = self.browser.post("/oauth/token", data=form, headers={**self.basic, **headers})
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def consent(self) -> None:
        """Sign a member up, and let it consent in the browser."""
        member = self._send(
            "POST", f"{self.url}/v1/public/app-members/signup", {"login_id": "ada", "password": "correct horse"}
        )
        location = self.browser.get(self._authorize("v" * 43)).headers["location"]
        request_id = parse_qs(urlsplit(location).query)["request_id"][0]
        bearer = {"Authorization": f"Bearer {member['access_token']}", "Origin": self.url}
        answer = self.browser.post("/v1/oauth/consent/approve", json={"request_id": request_id}, headers=bearer)
        answer.raise_for_status()

    def round(self) -> None:
        """Get a code without consent, and exchange it."""
        verifier = secrets.token_urlsafe(32)
        location = self.browser.get(self._authorize(verifier)).headers["location"]
        code = parse_qs(urlsplit(location).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": verifier}
        self.browser.post("/oauth/token", data=form, headers=self.basic).raise_for_status()

    def _authorize(self, verifier: str) -> str:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.url}/oauth/authorize?{urlencode(query)}"

    def _send(self, method: str, url: str, body: dict[str, Any]) -> Any:
        answer = httpx.request(method, url, json=body, headers=self.headers, timeout=60)
        answer.raise_for_status()
        return answer.json()


class Proofs:
    """DPoP proofs of one key for the token endpoint (RFC 9449)."""

    def __init__(self, url: str) -> None:
        self._key = ECKey.generate_key("P-256")
        self._url = f"{url}/oauth/token"

    def header(self) -> dict[str, str]:
        head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self._key.as_dict(private=False)}
        claims = {"jti": secrets.token_urlsafe(16), "htm": "POST", "htu": self._url, "iat": int(time.time())}
        return {"DPoP": jwt.encode(head, claims, self._key)}


def signatures(key: rs256.PrivateKey, seconds: float) -> float:
    """Return the RS256 signatures per second of one thread."""
    data, count, begun = b"x" * 600, 0, time.perf_counter()
    while time.perf_counter() < begun + seconds:
        key.signature(data)
        count += 1
    return count / (time.perf_counter() - begun)


def median_ms(work: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None) -> float:
    """Return the median duration of the work in milliseconds, without its preparation."""
    times = []
    for number in range(REQUESTS + 20):
        given, begun = prepare(), time.perf_counter()
        work(given)
        if number >= 20:
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main(seconds: float) -> None:
    """Run all of it, and print the figures."""
    key = rs256.generate()
    os.environ["OAUTH_RSA_PRIVATE_KEY_PEM"] = key.pem().decode()
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name, Pilotis(Path(name)) as server:
        provider = Provider(server)
        row, token = provider.table_with_row(), provider.token()["access_token"]
        form = urlencode({"grant_type": "client_credentials", "scope": "orders:read"})
        files = {
            "token": Requests("POST", [("/oauth/token", form)]).write(Path(name) / "token"),
            "introspect": Requests("POST", [("/oauth/introspect", urlencode({"token": token}))]).write(
                Path(name) / "introspect"
            ),
            "row": Requests("GET", [(row, "")]).write(Path(name) / "row"),
        }

        def rate(what: str, method: str, headers: dict[str, str]) -> float:
            return load.run(server.url, method, files[what], headers, seconds, CONNECTIONS).rate

        for _ in range(ROUNDS):
            bare, tokens = signatures(key, seconds), rate("token", "POST", provider.basic)
            print(f"client_credentials {tokens:7.0f}/s   RS256 {bare:7.0f}/s   {tokens / bare:.2f}")
        for _ in range(ROUNDS):
            rows, found = rate("row", "GET", provider.headers), rate("introspect", "POST", provider.basic)
            print(f"introspection      {found:7.0f}/s   row   {rows:7.0f}/s   {found / rows:.2f}")
        proofs = Proofs(server.url)
        for _ in range(ROUNDS):
            plain = median_ms(lambda _: provider.token())
            bound = median_ms(lambda header: provider.token(**header), proofs.header)
            print(f"token {plain:.2f} ms   with DPoP {bound:.2f} ms   adds {bound - plain:.2f} ms")
        provider.consent()
        for _ in range(ROUNDS):
            print(f"authorize, code, token: {median_ms(lambda _: provider.round()):.2f} ms")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
