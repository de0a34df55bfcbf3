"""TLS contexts of the server, from PEM in memory."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

import msgspec

_ALPN = ["http/1.1"]


class CertificateError(Exception):
    """A certificate and a key that cannot be used; the text is a sentence."""


class Facts(msgspec.Struct, frozen=True):
    """What a certificate says: the names it is for, and from when to when it is valid."""

    names: frozenset[str]
    not_before: datetime
    not_after: datetime

    def covers(self, name: str) -> bool:
        """Whether it is for a name, itself or by a wildcard in place of its first label (RFC 9525, section 6.3)."""
        return name in self.names or f"*.{name.partition('.')[2]}" in self.names


def facts_of(chain: bytes) -> Facts:
    """Return what the first certificate of a chain in PEM says; raises `CertificateError`."""
    # A server without HTTPS does without its 33 modules.
    from cryptography import x509
    from cryptography.x509.oid import ExtensionOID

    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
        alternative = leaf.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except (ValueError, x509.ExtensionNotFound):
        raise CertificateError("It is not a certificate in PEM with the names that it is for.") from None
    assert isinstance(alternative, x509.SubjectAlternativeName)
    names = frozenset(name.lower() for name in alternative.get_values_for_type(x509.DNSName))
    return Facts(names, leaf.not_valid_before_utc, leaf.not_valid_after_utc)


def new_context() -> ssl.SSLContext:
    """Return a context of a server without a certificate: TLS 1.2 and 1.3 (RFC 9325, section 3.1.1), HTTP/1.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # All ciphers are sound, and the client knows which one its processor is fast at.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(_ALPN)
    return context


def context_of(chain: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context with a chain of certificates and its key, both in PEM; raises `CertificateError`."""
    context = new_context()
    with _file(chain + b"\n" + key) as path:
        try:
            # An encrypted key must not make the process ask for its password.
            context.load_cert_chain(path, password=b"")
        except (ssl.SSLError, ValueError):
            raise CertificateError("The certificate and the key do not belong together, or are not PEM.") from None
    return context


@contextmanager
def _file(content: bytes) -> Generator[str]:
    """Yield the path of a file with the content, because OpenSSL reads keys from files alone."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
