"""Challenges of vendors: a token that their widget gives a browser, verified by one request to the vendor."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

import msgspec
import structlog

from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest
from pilotis.kit.account_settings import ChallengeProvider

MAX_TOKEN = 8192
"""The greatest length of a token; those of today have up to about 4,000 characters."""
VERIFY: Mapping[ChallengeProvider, str] = {
    "turnstile": "https://challenges.cloudflare.com/turnstile/v0/siteverify",
    "hcaptcha": "https://api.hcaptcha.com/siteverify",
    "recaptcha": "https://www.google.com/recaptcha/api/siteverify",
}
_SECONDS = 3.0
_MAX_BYTES = 64 * 1024

_log = structlog.get_logger("pilotis.members")


class Outcome(enum.Enum):
    """What a vendor says of a token."""

    SOLVED = "solved"
    WRONG = "wrong"
    UNREACHABLE = "unreachable"


class _Answer(msgspec.Struct):
    success: bool
    error_codes: list[str] = msgspec.field(default=[], name="error-codes")


class VendorChallenges:
    """Asks vendors; `outgoing` returns the client for requests."""

    def __init__(self, outgoing: Callable[[], Outgoing]) -> None:
        self._outgoing = outgoing

    async def verify(self, provider: ChallengeProvider, secret: str, token: str, address: str) -> Outcome:
        """Ask the vendor of a token whether a person at the address has solved it; the vendor uses it up."""
        url = VERIFY[provider]
        form = {"secret": secret, "response": token, "remoteip": address}
        request = OutgoingRequest(
            url=url,
            headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        try:
            answer = await self._outgoing().send(
                request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant=urlsplit(url).hostname
            )
        except OutgoingError as error:
            _log.warning("the vendor of a challenge cannot be reached", vendor=provider, reason=error.failure.value)
            return Outcome.UNREACHABLE
        # What a token might provoke must not open the door where the app lets pass while the vendor is away.
        if 400 <= answer.status < 500:
            _log.warning("the vendor of a challenge rejects the request", vendor=provider, status=answer.status)
            return Outcome.WRONG
        try:
            if answer.status != 200 or answer.is_truncated:
                raise msgspec.DecodeError
            said = msgspec.json.decode(answer.body, type=_Answer)
        except msgspec.DecodeError:
            _log.warning("the vendor of a challenge answers something else", vendor=provider, status=answer.status)
            return Outcome.UNREACHABLE
        if any("secret" in code for code in said.error_codes):
            _log.warning("the vendor of a challenge does not know the app's secret", vendor=provider)
        return Outcome.SOLVED if said.success else Outcome.WRONG
