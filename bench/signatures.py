"""Processor time of signatures: Pilotis' own RS256, joserfc, and cryptography alone: `python -m bench.signatures`.

Each figure is the least of several rounds, in microseconds a call, with an RSA key of 2048 bits and claims as access
tokens have them. The first line is what the first use of joserfc costs a process.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from pilotis.kit import rs256
from pilotis.kit.crypto import from_base64url

CLAIMS = {
    "iss": "https://api.example.com",
    "sub": "0199c0de-0000-7000-8000-00000000ada0",
    "aud": ["https://api.example.com/apps/0199c0de-0000-7000-8000-000000000001", "https://api.example.com"],
    "client_id": "cl_AZnA3gAAcACAAAAAAAAAAXuVvsTw3q0f",
    "scope": "openid profile email",
    "iat": 1_790_000_000,
    "exp": 1_790_000_600,
    "jti": "0199c0de-0000-7000-8000-000000000002",
    "app_id": "0199c0de-0000-7000-8000-000000000001",
}
TYPE = "at+jwt"
ROUNDS, CALLS = 7, 200


def microseconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call: the least mean of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(CALLS):
            call()
        rounds.append((time.process_time() - begun) / CALLS)
    return min(rounds) * 1e6


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * getpagesize() / 1e6


def main() -> None:
    """Measure and print."""
    memory, begun = _resident(), time.process_time()
    from pilotis.oauth import jose

    seconds, megabytes = time.process_time() - begun, _resident() - memory
    print(f"first use of joserfc: {seconds * 1000:.0f} ms, {megabytes:.1f} MB")
    # joserfc advises against the names EdDSA and PS256, which clients use.
    warnings.simplefilter("ignore")
    _own_tokens()
    _clients_signatures(jose)


def _own_tokens() -> None:
    from joserfc import jws, jwt
    from joserfc.jwk import RSAKey

    key = rs256.generate()
    token, keys = rs256.sign(key, TYPE, CLAIMS), {key.kid: key.public}
    members: dict[str, str | list[str]] = {**key.public.jwk()}
    private, public = RSAKey.import_key(key.pem()), RSAKey.import_key(members)
    header = {"alg": "RS256", "typ": TYPE, "kid": key.kid}
    registry = jws.JWSRegistry(algorithms=["RS256"])

    def verify() -> object:
        return msgspec.json.decode(jws.deserialize_compact(token.encode(), public, registry=registry).payload)

    print(
        f"sign RS256: own {microseconds(lambda: rs256.sign(key, TYPE, CLAIMS)):.0f} µs,"
        f" joserfc {microseconds(lambda: jwt.encode(header, CLAIMS, private, algorithms=['RS256'])):.0f} µs"
    )
    print(
        f"verify RS256: own {microseconds(lambda: rs256.verify(keys, TYPE, token)):.0f} µs,"
        f" joserfc {microseconds(verify):.0f} µs"
    )


def _clients_signatures(jose: Any) -> None:
    from joserfc import jws
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    keys: dict[str, ECKey | OKPKey | RSAKey] = {
        "ES256": ECKey.generate_key("P-256"),
        "EdDSA": OKPKey.generate_key("Ed25519"),
        "PS256": RSAKey.generate_key(2048),
    }
    checks: dict[str, Callable[[Any, bytes, bytes], object]] = {
        "ES256": lambda key, signature, data: key.verify(
            encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:])), data, ECDSA(SHA256())
        ),
        "EdDSA": lambda key, signature, data: key.verify(signature, data),
        "PS256": lambda key, signature, data: key.verify(signature, data, PSS(MGF1(SHA256()), 32), SHA256()),
    }
    for name, key in keys.items():
        registry = jws.JWSRegistry(algorithms=[name], strict_check_header=False)
        text = jws.serialize_compact({"alg": name}, msgspec.json.encode(CLAIMS), key, registry=registry)
        members = {field: value for field, value in key.as_dict(private=False).items() if isinstance(value, str)}
        imported, _ = jose.imported_key(members)
        native, check = key.get_op_key("verify"), checks[name]

        def alone(text: str = text, native: Any = native, check: Callable[..., object] = check) -> object:
            data, _, signature = text.rpartition(".")
            check(native, from_base64url(signature) or b"", data.encode())
            return from_base64url(data.partition(".")[2])

        def by_joserfc(text: str = text, imported: Any = imported, name: str = name) -> object:
            return jose.signed_payload(text.encode(), imported, [name])

        print(f"verify {name}: joserfc {microseconds(by_joserfc):.0f} µs, cryptography {microseconds(alone):.0f} µs")


if __name__ == "__main__":
    main()
