"""A certificate authority that speaks ACME (RFC 8555), small and strict: whatever a client gets wrong is an error.

It checks each signature, uses each nonce once, and looks at port 80 itself, which for all names is one of loopback.
"""

import base64
import hashlib
import http.client
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding

from tests.certificates import Authority


class ProblemError(Exception):
    """What the client is told (RFC 7807)."""

    def __init__(self, code: str, detail: str, status: int = 400) -> None:
        super().__init__(detail)
        self.code, self.detail, self.status = code, detail, status


@dataclass
class Ordered:
    """An order for one name, with its authorization and its challenge, and how often the name was looked at."""

    name: str
    account: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    status: str = "pending"
    error: str | None = None
    chain: str | None = None


class AcmeServer:
    """The authority. What a test may change while it runs is public."""

    def __init__(self, authority: Authority, challenged_port: int) -> None:
        self.authority = authority
        self.challenged_port = challenged_port
        self.is_dead = False
        self.days: float = 90
        self.refused: set[str] = set()
        self.spoilt_nonces = 0
        self.renewal_window: tuple[datetime, datetime] | None = None
        self.orders: list[Ordered] = []
        self.accounts: dict[str, dict[str, str]] = {}
        self.contacts: list[list[str]] = []
        self.asked_for_renewal = 0
        self.suggested: list[datetime] = []
        self.problems: list[str] = []
        self.url = ""
        self._nonces: set[str] = set()
        self._lock = threading.RLock()

    @property
    def directory(self) -> str:
        return f"{self.url}/directory"

    def ordered(self, name: str) -> list[Ordered]:
        """The orders for a name."""
        return [one for one in self.orders if one.name == name]

    def nonce(self) -> str:
        with self._lock:
            self._nonces.add(value := secrets.token_urlsafe(16))
        return value

    def get(self, path: str) -> tuple[int, Any, dict[str, str]]:
        """Answer a request without a signature."""
        if path == "/directory":
            names = {"newNonce": "nonce", "newAccount": "account", "newOrder": "order", "renewalInfo": "renewal"}
            return (
                200,
                {name: f"{self.url}/{last}" for name, last in names.items()}
                | {
                    "revokeCert": f"{self.url}/revoke",
                    "keyChange": f"{self.url}/key",
                    "meta": {"termsOfService": f"{self.url}/terms"},
                },
                {},
            )
        if path == "/nonce":
            return 200, None, {}
        if path.startswith("/renewal/"):
            own = x509.load_pem_x509_certificate(self.authority.ca_file.read_bytes())
            identifier = own.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
            if not path.startswith(f"/renewal/{_encoded(identifier)}."):
                raise ProblemError("malformed", "This certificate is not ours.", 404)
            self.asked_for_renewal += 1
            begin, end = self.renewal_window or (datetime.now(UTC) + timedelta(days=50),) * 2
            self.suggested.append(begin)
            window = {"start": begin.isoformat().replace("+00:00", "Z"), "end": end.isoformat().replace("+00:00", "Z")}
            return 200, {"suggestedWindow": window}, {"Retry-After": "21600"}
        raise ProblemError("malformed", "There is no such resource.", 404)

    def post(self, path: str, content_type: str | None, body: bytes) -> tuple[int, Any, dict[str, str]]:
        """Answer a signed request."""
        if content_type != "application/jose+json":
            raise ProblemError("malformed", "The content type is wrong.", 415)
        jws = json.loads(body)
        header = json.loads(_decoded(jws["protected"]))
        with self._lock:
            if header["nonce"] not in self._nonces:
                raise ProblemError("badNonce", "This nonce was used, or is not ours.")
            self._nonces.remove(header["nonce"])
            if self.spoilt_nonces:
                self.spoilt_nonces -= 1
                raise ProblemError("badNonce", "Another nonce, please.")
        if header["url"] != self.url + path:
            raise ProblemError("unauthorized", "The signature is for another URL.")
        if ("jwk" in header) == ("kid" in header) or ("jwk" in header) != (path == "/account"):
            raise ProblemError("malformed", "A new account has a key, everything else an account.")
        if "kid" in header and header["kid"] not in self.accounts:
            raise ProblemError("accountDoesNotExist", "There is no such account.")
        jwk = header.get("jwk") or self.accounts[header["kid"]]
        _verify(jwk, header["alg"], f"{jws['protected']}.{jws['payload']}".encode(), _decoded(jws["signature"]))
        payload = json.loads(_decoded(jws["payload"])) if jws["payload"] else None
        if path == "/account":
            return self._account(jwk, payload)
        return self._resource(path, header["kid"], payload)

    def _account(self, jwk: dict[str, str], payload: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if not payload.get("termsOfServiceAgreed"):
            raise ProblemError("userActionRequired", "The terms are not accepted.", 403)
        url = f"{self.url}/accounts/{_thumbprint(jwk)}"
        self.accounts[url] = jwk
        self.contacts.append(payload.get("contact", []))
        return 201, {"status": "valid"}, {"Location": url}

    def _resource(self, path: str, account: str, payload: Any) -> tuple[int, Any, dict[str, str]]:
        if path == "/order":
            (identifier,) = payload["identifiers"]
            assert identifier["type"] == "dns"
            self.orders.append(Ordered(identifier["value"], account))
            number = len(self.orders) - 1
            return 201, self._order(number), {"Location": f"{self.url}/orders/{number}"}
        kind, number_text = path.strip("/").split("/")
        number = int(number_text)
        ordered = self.orders[number]
        if ordered.account != account:
            raise ProblemError("unauthorized", "This belongs to another account.", 403)
        location = {"Location": f"{self.url}/orders/{number}"}
        if kind == "orders":
            return 200, self._order(number), location
        if kind == "authorizations":
            return 200, self._authorization(number), {}
        if kind == "challenges":
            if payload is not None:
                threading.Thread(target=self._look, args=(ordered,)).start()
            return 200, self._challenge(number), {"Link": f'<{self.url}/authorizations/{number}>;rel="up"'}
        if kind == "finalize":
            self._issue(ordered, payload["csr"])
            return 200, self._order(number), location
        if kind == "certificates":
            return 200, ordered.chain, {}
        raise ProblemError("malformed", "There is no such resource.", 404)

    def _order(self, number: int) -> dict[str, Any]:
        ordered = self.orders[number]
        status = {"pending": "pending", "valid": "ready", "invalid": "invalid"}[ordered.status]
        found: dict[str, Any] = {
            "status": "valid" if ordered.chain else status,
            "identifiers": [{"type": "dns", "value": ordered.name}],
            "authorizations": [f"{self.url}/authorizations/{number}"],
            "finalize": f"{self.url}/finalize/{number}",
        }
        return found | ({"certificate": f"{self.url}/certificates/{number}"} if ordered.chain else {})

    def _authorization(self, number: int) -> dict[str, Any]:
        ordered = self.orders[number]
        return {
            "status": ordered.status,
            "identifier": {"type": "dns", "value": ordered.name},
            "challenges": [
                {"type": "dns-01", "url": f"{self.url}/challenges/x", "status": "pending", "token": ordered.token},
                self._challenge(number),
            ],
        }

    def _challenge(self, number: int) -> dict[str, Any]:
        ordered = self.orders[number]
        found = {"type": "http-01", "url": f"{self.url}/challenges/{number}", "token": ordered.token}
        failed = {"error": {"type": "urn:ietf:params:acme:error:unauthorized", "detail": ordered.error}}
        return found | {"status": ordered.status} | (failed if ordered.error else {})

    def _look(self, ordered: Ordered) -> None:
        """Do what RFC 8555, section 8.3, says, but follow no redirect."""
        if ordered.name in self.refused:
            ordered.error, ordered.status = f"{ordered.name} does not lead here.", "invalid"
            return
        expected = f"{ordered.token}.{_thumbprint(self.accounts[ordered.account])}"
        connection = http.client.HTTPConnection("127.0.0.1", self.challenged_port, timeout=10)
        try:
            connection.request("GET", f"/.well-known/acme-challenge/{ordered.token}", headers={"Host": ordered.name})
            answer = connection.getresponse()
            found = answer.read().decode()
            if (answer.status, found) != (200, expected):
                ordered.error, ordered.status = f"Expected {expected}, got {answer.status} {found}", "invalid"
                return
        except OSError as error:
            ordered.error, ordered.status = f"Port 80 does not answer: {error}", "invalid"
            return
        finally:
            connection.close()
        ordered.status = "valid"

    def _issue(self, ordered: Ordered, csr: str) -> None:
        if ordered.status != "valid":
            raise ProblemError("orderNotReady", "The name is not proven.", 403)
        request = x509.load_der_x509_csr(_decoded(csr))
        alternative = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if not request.is_signature_valid or alternative.get_values_for_type(x509.DNSName) != [ordered.name]:
            raise ProblemError("badCSR", "The request is for other names.")
        key = request.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ProblemError("badPublicKey", "The key is not one of P-256.")
        leaf = self.authority.signed(key, ordered.name, days=self.days).public_bytes(Encoding.PEM)
        ordered.chain = (leaf + self.authority.ca_file.read_bytes()).decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638."""
    needed = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    return _encoded(hashlib.sha256(needed.encode()).digest())


def _verify(jwk: dict[str, str], algorithm: str, signed: bytes, signature: bytes) -> None:
    if (algorithm, jwk["kty"], jwk["crv"]) != ("ES256", "EC", "P-256"):
        raise ProblemError("badSignatureAlgorithm", "Only ES256 is taken.")
    x, y = (int.from_bytes(_decoded(jwk[name])) for name in ("x", "y"))
    r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
    try:
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise ProblemError("unauthorized", "The signature is wrong.") from None


def _handler(acme: AcmeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_HEAD(self) -> None:
            self._answer(lambda: acme.get(self.path))

        def do_GET(self) -> None:
            self._answer(lambda: acme.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(lambda: acme.post(self.path, self.headers["Content-Type"], body))

        def _answer(self, find: Any) -> None:
            kind = "application/json"
            if acme.is_dead:
                self.close_connection = True
                return
            try:
                status, found, headers = find()
            except ProblemError as error:
                acme.problems.append(error.code)
                status, headers, kind = error.status, {}, "application/problem+json"
                found = {"type": f"urn:ietf:params:acme:error:{error.code}", "detail": error.detail}
            body = found.encode() if isinstance(found, str) else b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            headers |= {
                "Replay-Nonce": acme.nonce(),
                "Content-Length": str(len(body)),
                "Content-Type": "application/pem-certificate-chain" if isinstance(found, str) else kind,
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def acme_server(folder: Path, challenged_port: int) -> Iterator[AcmeServer]:
    """A running authority, by TLS, whose certificate `authority.ca_file` vouches for."""
    acme = AcmeServer(Authority(folder), challenged_port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(acme))
    # Its end waits for the connections, which clients have closed by then.
    server.daemon_threads = False
    server.socket = acme.authority.context("127.0.0.1").wrap_socket(server.socket, server_side=True)
    acme.url = f"https://127.0.0.1:{server.server_port}"
    answering = threading.Thread(target=server.serve_forever, args=(0.05,))
    answering.start()
    try:
        yield acme
    finally:
        server.shutdown()
        server.server_close()
        answering.join()
