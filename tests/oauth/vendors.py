"""The six vendors of social login on loopback, with the oddities that their documentation names.

Each is strict: it refuses a request that its original would refuse, so that a test fails when Pilotis sends it.
"""

import hashlib
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from tests.serving import serving

CLIENT_ID, SECRET = "vendor-client", "vendor-secret"
APPLE_KEY = ec.generate_private_key(ec.SECP256R1())
APPLE_PEM = APPLE_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PATHS = ("authorization", "token", "userinfo", "emails", "jwks")
OPTIONS = {
    "APPLE": {"team_id": "TEAM123", "key_id": "KEY123"},
    "FACEBOOK": {"version": "23.0"},
}
SIGNED = {"GOOGLE", "APPLE"}
PKCE = {"GOOGLE", "GITHUB"}


@dataclass
class Person:
    """An account at a vendor."""

    subject: str = "1000000001"
    email: str | None = "ada@example.test"
    is_verified: bool = True
    name: str = "Ada"


@dataclass
class Vendors:
    """The vendors' server. `person` signs in next; `change` spoils the claims of an ID token."""

    url: str = ""
    person: Person = field(default_factory=Person)
    change: dict[str, Any] = field(default_factory=dict)
    key: RSAKey | ECKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, Person] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    token_answer: tuple[int, bytes] | None = None
    declines: bool = False
    """Whether the member cancels on the vendor's page."""

    def options(self, provider: str) -> dict[str, Any]:
        endpoints = {
            name: f"{self.url}/{provider}/{name}" for name in PATHS if provider == "GITHUB" or name != "emails"
        }
        if provider in SIGNED:
            endpoints |= {"issuer": f"{self.url}/{provider}"}
            del endpoints["userinfo"]
        return {**OPTIONS.get(provider, {}), "endpoints": endpoints}

    def id_token(self, provider: str, nonce: str, /, **change: Any) -> str:
        """The ID token of the person who signs in next; None leaves a claim out."""
        person, now = self.person, int(time.time())
        verified: Any = person.is_verified
        claims = {
            "iss": f"{self.url}/{provider}",
            "sub": person.subject,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 600,
            "nonce": nonce,
            "email": person.email,
            "email_verified": str(verified).lower() if provider == "APPLE" else verified,
            **({"name": person.name} if provider == "GOOGLE" else {}),
            **self.change,
            **change,
        }
        header = {"alg": "ES256" if isinstance(self.key, ECKey) else "RS256", "kid": self.key.kid}
        return jwt.encode(header, {name: value for name, value in claims.items() if value is not None}, self.key)


class _Handler(BaseHTTPRequestHandler):
    vendors: Vendors

    def do_GET(self) -> None:
        self._do({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self._do(dict(parse_qsl(body, strict_parsing=True)))

    def log_message(self, *_: object) -> None:
        pass

    def _do(self, form: dict[str, str]) -> None:
        parts = urlsplit(self.path)
        _, provider, what = parts.path.split("/")
        self.vendors.asked.append(parts.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            getattr(self, f"_{what}")(provider, query, form)
        except AssertionError as error:
            self._send(400, json.dumps({"error": "invalid_request", "error_description": str(error)}).encode())

    def _send(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode())

    def _authorization(self, provider: str, query: dict[str, str], _: dict[str, str]) -> None:
        """The member agrees immediately."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["state"]
        assert (provider in PKCE) == ("code_challenge" in query)
        assert (provider in SIGNED) == ("nonce" in query)
        if provider == "APPLE" and query.get("scope"):
            assert query["response_mode"] == "form_post", "Apple demands form_post with scopes"
        if self.vendors.declines:
            declined = urlencode({"error": "access_denied", "state": query["state"]})
            self._send(302, b"", location=f"{query['redirect_uri']}?{declined}")
            return
        code = secrets.token_urlsafe(16)
        self.vendors.codes[code] = query
        answer = {"code": code, "state": query["state"]}
        if provider == "APPLE":
            # The test sends the form as the browser would, without cookies.
            answer["user"] = json.dumps({"name": {"firstName": "Ada", "lastName": "L"}, "email": "forged@example.test"})
            self._json({"action": query["redirect_uri"], "form": answer})
        else:
            self._send(302, b"", location=f"{query['redirect_uri']}?{urlencode(answer)}")

    def _token(self, provider: str, _: dict[str, str], form: dict[str, str]) -> None:
        if self.vendors.token_answer is not None:
            self._send(*self.vendors.token_answer)
            return
        assert form["grant_type"] == "authorization_code"
        begun = self.vendors.codes.pop(form["code"], None)
        if begun is None:
            # GitHub and Naver answer errors with 200.
            self._json({"error": "bad_verification_code"}, 200 if provider in {"GITHUB", "NAVER"} else 400)
            return
        assert form["redirect_uri"] == begun["redirect_uri"]
        assert form["client_id"] == CLIENT_ID
        self._check_secret(provider, form["client_secret"])
        if "code_challenge" in begun:
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert urlsafe_b64encode(digest).rstrip(b"=").decode() == begun["code_challenge"]
        if provider == "NAVER":
            assert form["state"] == begun["state"]
        access = secrets.token_urlsafe(16)
        self.vendors.tokens[access] = self.vendors.person
        answer: dict[str, Any] = {"access_token": access, "token_type": "bearer", "expires_in": 3600}
        if provider == "NAVER":
            answer["expires_in"] = "3600"
        if provider in SIGNED:
            answer["id_token"] = self.vendors.id_token(provider, begun["nonce"])
        if provider == "GITHUB" and "json" not in self.headers.get("accept", ""):
            self._send(200, urlencode(answer).encode(), "application/x-www-form-urlencoded")
        else:
            self._json(answer)

    def _check_secret(self, provider: str, secret: str) -> None:
        if provider != "APPLE":
            assert secret == SECRET
            return
        given = jwt.decode(secret, ECKey.import_key(APPLE_KEY.public_key()), algorithms=["ES256"])
        assert given.header["kid"] == "KEY123"
        assert given.claims["iss"] == "TEAM123"
        assert given.claims["sub"] == CLIENT_ID
        assert given.claims["aud"] == "https://appleid.apple.com"
        assert time.time() < given.claims["exp"] < time.time() + 15_777_000

    def _jwks(self, *_: Any) -> None:
        self._json({"keys": [self.vendors.key.as_dict(private=False)]})

    def _who(self) -> Person:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        assert scheme == "Bearer"
        return self.vendors.tokens[token]

    def _userinfo(self, provider: str, query: dict[str, str], _: dict[str, str]) -> None:
        person = self._who()
        if provider == "GITHUB":
            assert self.headers.get("user-agent"), "GitHub refuses requests without User-Agent"
            self._json({"id": int(person.subject), "login": "ada", "name": person.name, "email": "shown@example.test"})
        elif provider == "KAKAO":
            account = {
                "email": person.email,
                "is_email_valid": True,
                "is_email_verified": person.is_verified,
                "profile": {"nickname": person.name},
            }
            self._json({"id": int(person.subject), "kakao_account": account})
        elif provider == "NAVER":
            found = {"id": person.subject, "email": person.email, "nickname": person.name}
            self._json({"resultcode": "00", "message": "success", "response": found})
        else:
            token = self.headers["authorization"].partition(" ")[2]
            proof = hmac.digest(SECRET.encode(), token.encode(), "sha256").hex()
            assert query["appsecret_proof"] == proof
            assert set(query["fields"].split(",")) == {"id", "name", "email", "picture"}
            picture = {"data": {"url": "https://example.test/ada.jpg"}}
            self._json({"id": person.subject, "name": person.name, "email": person.email, "picture": picture})

    def _emails(self, *_: Any) -> None:
        person = self._who()
        listed = [{"email": "other@example.test", "primary": False, "verified": True}]
        if person.email:
            listed.append({"email": person.email, "primary": True, "verified": person.is_verified})
        self._json(listed)


@contextmanager
def vendors() -> Iterator[Vendors]:
    """Run the vendors' server."""
    made = Vendors()
    handler = type("Handler", (_Handler,), {"vendors": made})
    with serving(handler) as made.url:
        yield made


def parameters(location: str) -> dict[str, str]:
    """The parameters of an address, each once."""
    found = parse_qs(urlsplit(location).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in found.values()), location
    return {name: values[0] for name, values in found.items()}
