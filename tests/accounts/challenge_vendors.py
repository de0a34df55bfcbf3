"""The vendors of challenges at their real names: a proxy on loopback that is them, with an authority of the tests.

Like them it takes each token once, and only beside the app's secret.
"""

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from tests.certificates import Authority
from tests.serving import serving

SECRET = "the-secret-of-the-app"
NAMES = ("challenges.cloudflare.com", "api.hcaptcha.com", "www.google.com")
PATHS = {
    "challenges.cloudflare.com": "/turnstile/v0/siteverify",
    "api.hcaptcha.com": "/siteverify",
    "www.google.com": "/recaptcha/api/siteverify",
}


@dataclass
class ChallengeVendors:
    """`mood` is what is wrong with the vendors."""

    url: str = ""
    mood: str = ""
    good: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)

    def token(self, name: str) -> str:
        self.good.add(name)
        return name

    def answer(self, host: str, path: str, form: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append({**form, "host": host})
        if self.mood == "slow":
            time.sleep(5)
        if self.mood == "huge":
            return 200, b'{"success": true, "more": "' + b"x" * 10_000_000 + b'"}'
        if self.mood == "broken":
            return 500, b"no"
        if self.mood == "picky":
            return 400, b"no"
        if self.mood == "strange":
            return 200, b"<html>"
        if self.mood == "redirecting":
            return 302, b""
        is_good = PATHS[host] == path and form["secret"] == SECRET and form["response"] in self.good
        self.good.discard(form["response"])
        said: dict[str, Any] = {"success": is_good}
        if form["secret"] != SECRET:
            said["error-codes"] = ["invalid-input-secret"]
        return 200, json.dumps(said).encode()


class _Handler(BaseHTTPRequestHandler):
    vendors: ChallengeVendors
    context: ssl.SSLContext
    protocol_version = "HTTP/1.1"
    host = ""

    def do_CONNECT(self) -> None:
        if self.vendors.mood == "away":
            self.send_error(502)
            return
        self.host = self.path.partition(":")[0]
        self.send_response(200)
        self.end_headers()
        # What follows on this connection is the vendor's.
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)  # type: ignore[assignment]
        self.close_connection = False

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode(), strict_parsing=True))
        status, body = self.vendors.answer(self.host, self.path, form)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("connection", "close")
        self.send_header("location", "https://www.google.com/elsewhere")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        # Pilotis ends the connection in the middle of an answer that is too large or too late.
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def challenge_vendors(authority: Authority) -> Iterator[ChallengeVendors]:
    """Run the proxy; `url` is its own."""
    made = ChallengeVendors()
    handler = type("Handler", (_Handler,), {"vendors": made, "context": authority.context(*NAMES)})
    with serving(handler) as made.url:
        yield made
