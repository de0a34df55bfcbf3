"""Signatures of deliveries: one MAC in two notations, that of Standard Webhooks and `X-Service-Signature`. Pure.

The MAC is HMAC-SHA256 over `{event id}.{seconds since 1970}.` and the body, under the 32 bytes behind `whsec_`. Each
attempt gets a new signature, because receivers reject timestamps more than five minutes old.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> str:
    """Return a new secret: `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signing_key(secret: str) -> hmac.HMAC:
    """Return a MAC that is keyed with a secret. Preparing it costs more than a MAC of a usual body."""
    return hmac.new(base64.b64decode(secret.removeprefix(PREFIX)), digestmod="sha256")


def signature_headers(event_id: str, body: bytes, keys: Sequence[hmac.HMAC], moment: int) -> dict[str, str]:
    """Return the headers that sign one attempt at `moment`, in seconds since 1970.

    `keys` has that of the current secret, then that of the previous one while both are valid; a receiver may verify
    with either.
    """
    signed = f"{event_id}.{moment}.".encode() + body
    macs = [_mac(key, signed) for key in keys]
    return {
        "Idempotency-Key": event_id,
        "X-Service-Signature": ",".join([f"t={moment}", *(f"v1={mac.hex()}" for mac in macs)]),
        "webhook-id": event_id,
        "webhook-timestamp": str(moment),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in macs),
    }


def _mac(key: hmac.HMAC, signed: bytes) -> bytes:
    mac = key.copy()
    mac.update(signed)
    return mac.digest()
