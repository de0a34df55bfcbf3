"""Tokens: only what we signed, of the kind asked for, while it is valid. Security notes, class G."""

import hmac
import time
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import RSAKey

from pilotis.kit import signing
from pilotis.kit.crypto import MasterKeyring, MasterKeys, base64url, derive_key, from_base64url
from pilotis.kit.signing import (
    CursorPosition,
    ExportLink,
    FunctionAccess,
    Signed,
    TokenError,
    TokenKind,
    TokenSigner,
    looks_like,
)

MASTER = bytes(range(32))
SIGNER = TokenSigner(MasterKeyring(MasterKeys(MASTER)))
NOW = int(time.time())
IDS = {name: f"019aa000-0000-7000-8000-00000000000{digit}" for digit, name in enumerate(("app_id", "sid", "jti"))}
CLAIMS: dict[str, Any] = {"sub": "m", **IDS, "iat": NOW, "exp": NOW + 60}
KINDS = list(TokenKind)


def token(kind: TokenKind = TokenKind.MEMBER_ACCESS, **changes: Any) -> str:
    return SIGNER.sign(kind, **{**CLAIMS, **changes})


def of(signer: TokenSigner) -> str:
    return signer.sign(TokenKind.MEMBER_ACCESS, **CLAIMS)


def forged(header: dict[str, Any], kind: TokenKind = TokenKind.MEMBER_ACCESS, **changes: Any) -> str:
    """A token with any header and claims, signed with the kind's true key."""
    typed = {"typ": kind.value, "aud": kind.audience, "iss": "pilotis"}
    key = derive_key(MASTER, f"token/{kind.value}")
    return signed(header, msgspec.json.encode({**CLAIMS, **typed, **changes}), key)


def signed(header: dict[str, Any], payload: bytes, key: bytes) -> str:
    """A JWS in compact form (RFC 7515, section 7.1), whatever its header says."""
    head = f"{base64url(msgspec.json.encode(header))}.{base64url(payload)}"
    digest = {"HS384": "sha384", "HS512": "sha512"}.get(header["alg"], "sha256")
    return f"{head}.{base64url(hmac.digest(key, head.encode(), digest))}"


ID = UUID(IDS["app_id"])
OTHERS: list[Signed] = [
    FunctionAccess(app_id=ID, iat=NOW, exp=NOW + 60, sub=ID, eid=ID, scp=("rows:read", "files:read"), depth=2),
    ExportLink(app_id=ID, iat=NOW, exp=NOW + 60, sub=ID, table_id=ID, format="csv"),
    CursorPosition(app_id=ID, iat=NOW, exp=NOW + 60, table_id=ID, where_hash="h", after=("a", 1, 1.5, True, None)),
]


def refused(text: str, kind: TokenKind = TokenKind.MEMBER_ACCESS, now: float = NOW) -> None:
    with pytest.raises(TokenError):
        SIGNER.verify(kind, text, now)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_good_for_its_kind_alone(kind: TokenKind):
    assert SIGNER.verify(kind, token(kind), NOW).sub == "m"
    assert looks_like(kind, token(kind))
    for other in KINDS:
        if other is not kind:
            refused(token(kind), other)
            assert not looks_like(other, token(kind))


@pytest.mark.parametrize("claims", OTHERS, ids=lambda claims: claims.kind)
def test_a_token_of_another_kind_carries_its_claims_and_passes_for_nothing_else(claims: Signed):
    text = SIGNER.sign_as(claims)
    assert SIGNER.verify_as(type(claims), text, NOW) == claims
    assert looks_like(claims.kind, text)
    for kind in KINDS:
        refused(text, kind)
        if kind is not claims.kind:
            assert not looks_like(kind, text)
    for other in OTHERS:
        if other is not claims:
            with pytest.raises(TokenError):
                SIGNER.verify_as(type(other), text, NOW)
    for kind in KINDS:
        with pytest.raises(TokenError):
            SIGNER.verify_as(type(claims), token(kind), NOW)


@pytest.mark.parametrize("claims", OTHERS, ids=lambda claims: claims.kind)
def test_each_kind_has_a_key_of_its_own_and_ends(claims: Signed):
    kind = claims.kind
    named = {"typ": kind.value, "aud": kind.audience, "iss": "pilotis"}
    payload = msgspec.json.encode(msgspec.to_builtins(claims) | named)
    header = {"alg": "HS256", "typ": "JWT"}
    assert SIGNER.verify_as(type(claims), signed(header, payload, derive_key(MASTER, f"token/{kind.value}")), NOW)
    for other in KINDS:
        if other is not kind:
            with pytest.raises(TokenError):
                SIGNER.verify_as(type(claims), signed(header, payload, derive_key(MASTER, f"token/{other.value}")), NOW)
    with pytest.raises(TokenError):
        SIGNER.verify_as(type(claims), SIGNER.sign_as(claims), NOW + 60)


def test_every_kind_is_one_of_sessions_or_has_claims_of_its_own():
    own = {claims.kind for claims in OTHERS}
    sessions = {kind for kind in KINDS if kind.value.startswith(("member_", "console_"))}
    assert own | sessions == set(KINDS)


def test_the_forged_token_is_good_with_an_honest_header():
    """Otherwise the refusals below could have any reason."""
    assert SIGNER.verify(TokenKind.MEMBER_ACCESS, forged({"alg": "HS256", "typ": "JWT"}), NOW).sub == "m"


@pytest.mark.advisory("GHSA-x6fw-778m-wr9v")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not TokenKind.MEMBER_ACCESS])
def test_typ_and_aud_are_checked_besides_the_key(kind: TokenKind):
    refused(forged({"alg": "HS256", "typ": "JWT"}, typ=kind.value))
    refused(forged({"alg": "HS256", "typ": "JWT"}, aud=kind.audience))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "other"},
        {"aud": ["pilotis:member:access"]},
        {"exp": "later"},
        {"exp": None},
        {"sub": None},
        {"sub": {"$ne": ""}},
        {"iat": NOW + 3600},
    ],
)
def test_claims_of_another_form_are_refused(changes: dict[str, Any]):
    refused(forged({"alg": "HS256", "typ": "JWT"}, **changes))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS1", "RS256"])
def test_unsigned_tokens_are_refused(algorithm: str):
    header = base64url(msgspec.json.encode({"alg": algorithm, "typ": "JWT"}))
    payload = token().split(".")[1]
    for signature in ("", token().split(".")[2]):
        refused(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_with_the_right_key_is_refused(algorithm: str):
    refused(forged({"alg": algorithm, "typ": "JWT"}))


@pytest.mark.advisory("CVE-2025-59420")
def test_an_unknown_critical_header_is_refused():
    """RFC 7515, section 4.1.11; CVE-2025-59420."""
    refused(forged({"alg": "HS256", "typ": "JWT", "crit": ["bork"], "bork": True}))


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "kid"])
def test_a_key_named_in_the_header_is_not_used(name: str):
    own = bytes(32)
    value: Any = {"kty": "oct", "k": base64url(own)} if name == "jwk" else "https://attacker.example/key"
    header = {"alg": "HS256", "typ": "JWT", name: "../../dev/null" if name == "kid" else value}
    refused(signed(header, from_base64url(token().split(".")[1]), own))


def test_an_rsa_signature_is_refused():
    key = RSAKey.generate_key(2048)
    payload = from_base64url(token().split(".")[1])
    refused(jws.serialize_compact({"alg": "RS256", "typ": "JWT"}, payload, key, algorithms=["RS256"]))


def test_another_master_key_does_not_verify():
    with pytest.raises(TokenError):
        TokenSigner(MasterKeyring(MasterKeys(bytes(32)))).verify(TokenKind.MEMBER_ACCESS, token(), NOW)


def test_expiry():
    good = token()
    SIGNER.verify(TokenKind.MEMBER_ACCESS, good, NOW + 59)
    refused(good, now=NOW + 60)
    refused(good, now=NOW - 61)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_change_of_the_bytes_is_refused(place: int, change: int):
    parts = token().split(".")
    index = place % 3
    decoded = bytearray(from_base64url(parts[index]))
    decoded[place % len(decoded)] ^= change
    parts[index] = base64url(bytes(decoded))
    refused(".".join(parts))


@pytest.mark.parametrize("text", ["", ".", "..", "...", "a.b.c", "é.é.é", "\0", "x" * 5000, "a.b", f"{token()}.x"])
def test_what_is_no_token_is_refused(text: str):
    refused(text)
    assert not looks_like(TokenKind.MEMBER_ACCESS, text)


def test_a_token_of_the_previous_key_verifies_until_that_is_forgotten():
    old, new = bytes(32), bytes(range(32))
    keyring = MasterKeyring(MasterKeys(old))
    signer = TokenSigner(keyring)
    made = {"old": of(signer)}
    keyring.keys = MasterKeys(new, old)
    made["new"] = of(signer)
    assert made["old"] != made["new"]
    assert all(signer.verify(TokenKind.MEMBER_ACCESS, text, NOW) for text in made.values())
    keyring.keys = MasterKeys(new)
    assert signer.verify(TokenKind.MEMBER_ACCESS, made["new"], NOW)
    with pytest.raises(TokenError):
        signer.verify(TokenKind.MEMBER_ACCESS, made["old"], NOW)


def test_a_signature_that_does_not_verify_makes_the_signer_look_for_new_keys():
    old, new = bytes(32), bytes(range(32))
    found = [MasterKeys(old)]
    signer = TokenSigner(MasterKeyring(MasterKeys(old), lambda: found[-1]))
    text = of(TokenSigner(MasterKeyring(MasterKeys(new, old))))
    with pytest.raises(TokenError):
        signer.verify(TokenKind.MEMBER_ACCESS, text, NOW)
    found.append(MasterKeys(new, old))
    assert signer.verify(TokenKind.MEMBER_ACCESS, text, NOW)


def test_known_tokens_are_bounded_and_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signing, "_MAX_KNOWN", 2)
    read: list[str] = []
    real = hmac.compare_digest
    monkeypatch.setattr(signing.hmac, "compare_digest", lambda *both: read.append("") or real(*both))
    signer = TokenSigner(MasterKeyring(MasterKeys(MASTER)))
    tokens = [signer.sign(TokenKind.MEMBER_ACCESS, **{**CLAIMS, "sub": name}) for name in "abc"]
    for name, one in zip("abc", tokens, strict=True):
        assert signer.verify(TokenKind.MEMBER_ACCESS, one, NOW).sub == name
    assert len(read) == 3
    for one in tokens[1:]:
        signer.verify(TokenKind.MEMBER_ACCESS, one, NOW)
    assert len(read) == 3
    signer.verify(TokenKind.MEMBER_ACCESS, tokens[0], NOW)
    assert len(read) == 4
