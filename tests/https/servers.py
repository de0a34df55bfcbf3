"""A Pilotis that answers by HTTPS itself, and what its clients see."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509

from tests.support import Server
from tests.waiting import PATIENCE, reserved_port

NAME = "api.example.com"


class HttpsServer(Server):
    """`pilotis serve` with HTTPS on a port, and redirects on another."""

    def __init__(self, data_dir: Path, https: int, http: int, *arguments: str, **environment: str) -> None:
        own = {"PILOTIS_HOST": "127.0.0.1", "PILOTIS_HTTPS_PORT": str(https), "PILOTIS_HTTP_PORT": str(http)}
        super().__init__(data_dir, *arguments, environment={**own, **environment}, ports=())
        self.https, self.http = https, http

    @property
    def url(self) -> str:
        """Its address without a name, for clients that look at no certificate."""
        return f"https://127.0.0.1:{self.https}"

    def get(self, path: str, name: str = NAME, ca_file: Path | None = None, **headers: str) -> httpx.Response:
        """What a client gets that looks at the certificate, or at none."""
        verify = ssl.create_default_context(cafile=str(ca_file)) if ca_file else False
        with httpx.Client(verify=verify, timeout=PATIENCE) as client:
            request = client.build_request(
                "GET", f"{self.url}{path}", headers={"Host": name, **headers}, extensions={"sni_hostname": name}
            )
            return client.send(request)

    def plain(self, path: str, host: str = NAME, method: str = "GET", **more: Any) -> httpx.Response:
        """What the port without TLS answers."""
        return httpx.request(
            method, f"http://127.0.0.1:{self.http}{path}", headers={"Host": host}, timeout=PATIENCE, **more
        )

    def certificate(self, name: str | None = NAME) -> x509.Certificate:
        """The certificate that a client gets which names a server, or none."""
        return handshake(self.https, name)[0]


def handshake(port: int, name: str | None, version: ssl.TLSVersion | None = None) -> tuple[x509.Certificate, str, str]:
    """Certificate, version and protocol of a connection; raises `ssl.SSLError` if there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    if version is not None:
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as connection,
        context.wrap_socket(connection, server_hostname=name) as encrypted,
    ):
        found = x509.load_der_x509_certificate(encrypted.getpeercert(binary_form=True))
        return found, encrypted.version(), encrypted.selected_alpn_protocol()


@contextmanager
def https_server(data_dir: Path, *arguments: str, **environment: str) -> Iterator[HttpsServer]:
    """A running server."""
    with reserved_port() as https, reserved_port() as http:
        server = HttpsServer(data_dir, https, http, *arguments, **environment)
        server.start()
        try:
            yield server
        finally:
            server.stop()
        server.assert_no_failure()
