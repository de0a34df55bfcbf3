"""An authenticator app, by the RFC and not by the product's code."""

import base64
import hashlib
import hmac
import struct
import time
from typing import Any

from tests.mail.world import post
from tests.support import App


def code(secret: str, steps: int = 0) -> str:
    """The code of a secret (RFC 6238), now or some steps of 30 seconds later."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.digest(base64.b32decode(secret), counter, hashlib.sha1)
    start = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[start : start + 4])[0] & 0x7FFFFFFF) % 10**6:06}"


async def enrolled(app: App, token: str) -> tuple[str, list[str]]:
    """Set up an authenticator app for a member, and return its secret and the recovery codes."""
    begun = await post(app, "/me/totp", None, token)
    assert begun.status_code == 200, begun.text
    secret = begun.json()["secret"]
    done = await post(app, "/me/totp/confirm", {"code": code(secret)}, token)
    assert done.status_code == 200, done.text
    return secret, done.json()["recovery_codes"]


async def finish(app: App, ticket: str, **factor: Any) -> Any:
    return await post(app, "/second-factor", {"ticket": ticket, **factor})
