"""Signatures of deliveries: what a receiver computes is what was sent, for either secret and nothing else."""

import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from pilotis.webhooks.signatures import new_secret, signature_headers, signing_key

EVENT = "0199a1b2-0000-7000-8000-000000000000"
NEW, OLD = new_secret(), new_secret()


def expected(secret: str, event_id: str, moment: int, body: bytes) -> bytes:
    """As the specification of Standard Webhooks words it, without our code."""
    key = base64.b64decode(secret.split("_", 1)[1])
    return hmac.new(key, b".".join([event_id.encode(), str(moment).encode(), body]), hashlib.sha256).digest()


@given(st.binary(), st.integers(0, 2**33))
def test_both_notations_carry_the_mac_of_each_secret(body: bytes, moment: int):
    headers = signature_headers(EVENT, body, [signing_key(NEW), signing_key(OLD)], moment)
    macs = [expected(secret, EVENT, moment, body) for secret in (NEW, OLD)]
    assert headers["Idempotency-Key"] == headers["webhook-id"] == EVENT
    assert headers["webhook-timestamp"] == str(moment)
    entries = headers["webhook-signature"].split(" ")
    assert [base64.b64decode(entry.split(",")[1]) for entry in entries] == macs
    assert {entry.split(",")[0] for entry in entries} == {"v1"}
    first, *rest = headers["X-Service-Signature"].split(",")
    assert first == f"t={moment}"
    assert [bytes.fromhex(part.removeprefix("v1=")) for part in rest] == macs


def test_another_body_event_moment_or_secret_has_another_signature():
    given_headers = signature_headers(EVENT, b"{}", [signing_key(NEW)], 1_795_160_687)
    others = [
        signature_headers(EVENT, b"{} ", [signing_key(NEW)], 1_795_160_687),
        signature_headers(EVENT.replace("1", "2"), b"{}", [signing_key(NEW)], 1_795_160_687),
        signature_headers(EVENT, b"{}", [signing_key(NEW)], 1_795_160_688),
        signature_headers(EVENT, b"{}", [signing_key(OLD)], 1_795_160_687),
    ]
    signatures = [given_headers["webhook-signature"], *(other["webhook-signature"] for other in others)]
    assert len(set(signatures)) == 5


def test_secrets_are_random_and_32_bytes_long():
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) for secret in made} == {32}
