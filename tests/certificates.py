"""Certificates for servers under test, from an authority of their own."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; `ca_file` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority of a test")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._certificate = (
            self._dated(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, *names: str, days: int = 1) -> ssl.SSLContext:
        """A server's context with a certificate for the names, which has expired if `days` is below 0."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(*names, days=days))
        return context

    def signed(self, key: ec.EllipticCurvePublicKey, *names: str, days: float = 1) -> x509.Certificate:
        """A certificate for a key and the names."""
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            self._dated(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]), key, days)
            .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def certificate(self, *names: str, days: float = 1) -> Path:
        """A PEM file with a key and a certificate for the names."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.signed(key.public_key(), *names, days=days)
        file = self._folder / f"{key.public_key().public_numbers().x:x}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        return file

    def _dated(self, name: x509.Name, key: ec.EllipticCurvePublicKey, days: float = 1) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=3))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
