"""A security key in software, which also signs what a browser would never ask for."""

import secrets
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256, CoseKey
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

FLAG = AuthenticatorData.FLAG
PRESENT_AND_VERIFIED = FLAG.UP | FLAG.UV


class SecurityKey:
    """One key on one authenticator, for a domain."""

    def __init__(self, domain: str, origin: str) -> None:
        self.domain = domain
        self.origin = origin
        self.id = secrets.token_bytes(16)
        self.count = 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.public_key: CoseKey = ES256.from_cryptography_key(self._key.public_key())

    def create(self, options: dict[str, Any], flags: FLAG = PRESENT_AND_VERIFIED) -> dict[str, Any]:
        """Answer `navigator.credentials.create`."""
        client_data = self._client_data("webauthn.create", options)
        credential = AttestedCredentialData.create(bytes(16), self.id, self.public_key)
        data = AuthenticatorData.create(
            sha256(self.domain.encode()).digest(), flags | FLAG.AT, self.count, bytes(credential)
        )
        return self._answer(
            clientDataJSON=websafe_encode(client_data),
            attestationObject=websafe_encode(AttestationObject.create("none", data, {})),
        )

    def sign(
        self, options: dict[str, Any], flags: FLAG = PRESENT_AND_VERIFIED, count: int | None = None
    ) -> dict[str, Any]:
        """Answer `navigator.credentials.get`; the counter rises unless another one is given."""
        self.count = self.count + 1 if count is None else count
        client_data = self._client_data("webauthn.get", options)
        data = AuthenticatorData.create(sha256(self.domain.encode()).digest(), flags, self.count)
        signature = self._key.sign(data + sha256(client_data).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            clientDataJSON=websafe_encode(client_data),
            authenticatorData=websafe_encode(data),
            signature=websafe_encode(signature),
        )

    def _client_data(self, type_: str, options: dict[str, Any]) -> bytes:
        return CollectedClientData.create(type_, options["challenge"], self.origin)

    def _answer(self, **response: str) -> dict[str, Any]:
        own = websafe_encode(self.id)
        return {"id": own, "rawId": own, "type": "public-key", "clientExtensionResults": {}, "response": response}
