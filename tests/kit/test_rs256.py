"""RS256: the published examples, what another implementation makes of it, and what is refused."""

import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import OctKey, RSAKey

from pilotis.kit import rs256
from pilotis.kit.crypto import MasterKeyring, MasterKeys, base64url, from_base64url
from pilotis.kit.rs256 import KeyFormatError, PrivateKey, PublicKey, SignatureError
from pilotis.kit.signing import TokenError, TokenKind, TokenSigner

# RFC 7515, appendix A.2: modulus, private exponent, signing input and signature.
N = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZ"
    "S-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2"
    "R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcD"
    "TW9gb54h4FRWyuXpoQ"
)
D = (
    "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_G"
    "O-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQl"
    "BjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0"
    "QU91p1DhOVRuOopznQ"
)
SIGNED = (
    b"eyJhbGciOiJSUzI1NiJ9"
    b".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
SIGNATURE = (
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU"
    "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_d"
    "O--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig"
    "cN_IoypGlUPQGe77Rw"
)
# RFC 7638, section 3.1: a key and its thumbprint.
THUMBPRINT_N = (
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3"
    "oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdA"
    "ZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-"
    "kEgU8awapJzKnqDKgw"
)
THUMBPRINT = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"

KEY = rs256.generate()
KEYS = {KEY.kid: KEY.public}
CLAIMS = {"iss": "https://op.example", "sub": "é", "exp": int(time.time()) + 60, "nested": {"n": [1, None]}}


def published() -> PrivateKey:
    n, d = (int.from_bytes(from_base64url(text) or b"") for text in (N, D))
    p, q = rsa.rsa_recover_prime_factors(n, 65537, d)
    public = rsa.RSAPublicNumbers(65537, n)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), rsa.rsa_crt_iqmp(p, q), public)
    return PrivateKey(numbers.private_key())


def test_the_example_of_rfc_7515():
    key = published()
    assert base64url(key.signature(SIGNED)) == SIGNATURE
    assert key.public.verifies(from_base64url(SIGNATURE) or b"", SIGNED)
    assert not key.public.verifies(from_base64url(SIGNATURE) or b"", SIGNED + b"A")
    jwk = key.public.jwk()
    assert (jwk["n"], jwk["e"]) == (N, "AQAB")


def test_the_example_of_rfc_7638():
    key = rs256.from_jwk({"kty": "RSA", "n": THUMBPRINT_N, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"})
    assert key.kid == THUMBPRINT


def test_another_implementation_reads_what_is_signed():
    jwk = KEY.public.jwk()
    assert set(jwk) == {"kty", "use", "alg", "kid", "n", "e"}
    other = RSAKey.import_key(jwk)
    assert other.thumbprint() == KEY.kid
    decoded = jwt.decode(rs256.sign(KEY, "at+jwt", CLAIMS), other, algorithms=["RS256"])
    assert decoded.header == {"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid}
    assert decoded.claims == CLAIMS


def test_what_another_implementation_signs_is_read():
    header = {"alg": "RS256", "typ": "JWT", "kid": KEY.kid}
    token = jwt.encode(header, CLAIMS, RSAKey.import_key(KEY.pem().decode()), algorithms=["RS256"])
    assert rs256.verify(KEYS, "JWT", token) == CLAIMS
    assert rs256.from_pem(KEY.pem()).kid == KEY.kid


def refused(token: str, typ: str = "at+jwt", keys: dict[str, PublicKey] = KEYS) -> None:
    with pytest.raises(SignatureError):
        rs256.verify(keys, typ, token)


def forged(header: dict[str, Any], payload: bytes | None = None, key: PrivateKey = KEY) -> str:
    """A token with any header and payload, signed with the true key."""
    data = f"{base64url(json.dumps(header).encode())}.{base64url(payload or json.dumps(CLAIMS).encode())}"
    return f"{data}.{base64url(key.signature(data.encode()))}"


def test_a_token_is_good_for_its_type_alone():
    types = ["at+jwt", "JWT", "logout+jwt"]
    for typ in types:
        token = rs256.sign(KEY, typ, CLAIMS)
        assert rs256.verify(KEYS, typ, token) == CLAIMS
        for other in types:
            if other != typ:
                refused(token, other)


def test_the_forged_token_is_good_with_an_honest_header():
    """Otherwise the refusals below could have any reason."""
    assert rs256.verify(KEYS, "at+jwt", forged({"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid})) == CLAIMS


@pytest.mark.advisory("GHSA-4q3h-vp4r-prv2", "CVE-2025-59420")
@pytest.mark.parametrize(
    "changes",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "RS512"},
        {"alg": "rs256"},
        {"alg": None},
        {"typ": "JWT"},
        {"typ": None},
        {"kid": None},
        {"kid": "../../dev/null"},
        {"crit": ["b64"], "b64": True},
        {"b64": False},
        {"jwk": KEY.public.jwk()},
        {"jku": "https://attacker.example/keys"},
        {"x5u": "https://attacker.example/cert"},
        {"zip": "DEF"},
    ],
)
def test_any_other_header_is_refused(changes: dict[str, Any]):
    header = {"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid} | changes
    refused(forged({name: value for name, value in header.items() if value is not None}))


def test_hs256_with_the_public_key_as_secret_is_refused():
    for secret in (json.dumps(KEY.public.jwk()).encode(), KEY.public.jwk()["n"].encode()):
        header = {"alg": "HS256", "typ": "at+jwt", "kid": KEY.kid}
        refused(jws.serialize_compact(header, json.dumps(CLAIMS).encode(), OctKey.import_key(secret)))


def test_another_key_that_names_itself_as_this_one_is_refused():
    header = {"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid}
    refused(forged(header, key=published()))
    refused(rs256.sign(published(), "at+jwt", CLAIMS))
    refused(rs256.sign(KEY, "at+jwt", CLAIMS), keys={})


def test_no_token_of_sessions_passes_and_none_of_these_passes_for_one():
    signer = TokenSigner(MasterKeyring(MasterKeys(bytes(32))))
    ids = dict.fromkeys(("app_id", "sid", "jti"), "019aa000-0000-7000-8000-000000000001")
    now = int(time.time())
    for kind in TokenKind:
        refused(signer.sign(kind, sub="m", **ids, iat=now, exp=now + 60), "JWT")  # type: ignore[arg-type]
        claims = {"sub": "m", **ids, "iat": now, "exp": now + 60, "typ": kind.value, "aud": kind.audience}
        with pytest.raises(TokenError):
            signer.verify(kind, rs256.sign(KEY, "JWT", claims | {"iss": "pilotis"}), now)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_change_of_the_bytes_is_refused(place: int, change: int):
    parts = rs256.sign(KEY, "at+jwt", CLAIMS).split(".")
    index = place % 3
    decoded = bytearray(from_base64url(parts[index]) or b"")
    decoded[place % len(decoded)] ^= change
    parts[index] = base64url(bytes(decoded))
    refused(".".join(parts))


@pytest.mark.parametrize("text", ["", "..", "a.b.c", "é.é.é", "\0", "x" * 20_000, "a.b", "a.b.c.d"])
def test_what_is_no_token_is_refused(text: str):
    refused(text)


@pytest.mark.parametrize("payload", [b"[]", b"1", b"null", b"\xff", b"{", b'{"a":1}x'])
def test_a_payload_that_is_no_object_is_refused(payload: bytes):
    refused(forged({"alg": "RS256", "typ": "at+jwt", "kid": KEY.kid}, payload))


def pem(key: Any, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not an unencrypted private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not an unencrypted private key"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "not an RSA key"),
        (pem(rsa.generate_private_key(65537, 1024)), "2048 to 8192 bits, not 1024"),
        (pem(rsa.generate_private_key(65537, 2048), b"secret"), "not an unencrypted private key"),
    ],
)
def test_an_unfit_key_is_refused_with_the_reason(text: bytes, says: str):
    with pytest.raises(KeyFormatError, match=says):
        rs256.from_pem(text)


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "EC"},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": 1, "e": 2},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "n": "AQ", "e": "AQ"},
    ],
)
def test_a_jwk_that_is_no_rsa_key_is_refused(jwk: dict[str, Any]):
    with pytest.raises(KeyFormatError):
        rs256.from_jwk(jwk)
