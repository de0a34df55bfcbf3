"""Which passwords members may choose: none that others guess first, and none that was found in a breach.

A breach is asked by the first five digits of the password's SHA-1: at an address of the k-anonymity protocol, or in a
directory with the same answers as files. What cannot be asked within a second is not held against a password.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import structlog

from pilotis.http.api.principals import AppInfo
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest
from pilotis.kit.common_passwords import is_common
from pilotis.kit.errors import invalid

_SECONDS = 1.0
_MAX_BYTES = 256 * 1024
_PREFIX = 5
_MAX_LENGTH = 1024

_log = structlog.get_logger("pilotis.members")


class PasswordRules:
    """Checks passwords of apps whose settings say so. `breaches` is a URL or a directory."""

    def __init__(self, outgoing: Callable[[], Outgoing] | None, breaches: str | None) -> None:
        self._outgoing = outgoing
        self._breaches = breaches
        self.asked: Counter[str] = Counter()
        """How breaches were asked: `clean`, `breached` or `unavailable`."""

    async def require(self, app: AppInfo, password: str, field: str, *personal: str | None) -> None:
        """Raise a 400 `PASSWORD_TOO_COMMON` for a password that is guessed first, or one of `personal`."""
        if not app.accounts.password_check:
            return
        known = {text.casefold() for text in (*personal, app.name) if text}
        known |= {text.partition("@")[0] for text in known if "@" in text}
        if password.casefold() in known:
            message = f"{field}: choose a password that is not the name of the account or the app."
            raise invalid(field, message, "PASSWORD_TOO_COMMON")
        if is_common(password) or await self._is_breached(password):
            message = f"{field}: this password is one of those that are guessed first. Choose another one."
            raise invalid(field, message, "PASSWORD_TOO_COMMON")

    async def _is_breached(self, password: str) -> bool:
        if self._breaches is None or len(password) > _MAX_LENGTH:
            return False
        digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper()
        prefix, suffix = digest[:_PREFIX], digest[_PREFIX:]
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await self._range(self._breaches, prefix)
        except (OutgoingError, OSError, TimeoutError) as error:
            self.asked["unavailable"] += 1
            _log.warning("breached passwords cannot be asked", reason=str(error) or type(error).__name__)
            return False
        is_breached = any(_count(line, suffix) > 0 for line in answer.decode("ascii", "replace").splitlines())
        self.asked["breached" if is_breached else "clean"] += 1
        return is_breached

    async def _range(self, breaches: str, prefix: str) -> bytes:
        if not breaches.startswith("https://"):
            return await asyncio.to_thread(_read, breaches, prefix)
        if self._outgoing is None:
            raise OSError("This process sends no requests.")
        request = OutgoingRequest(url=f"{breaches.rstrip('/')}/{prefix}", method="GET", headers={"Add-Padding": "true"})
        answer = await self._outgoing().send(
            request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant="breached passwords"
        )
        if answer.status != 200:
            raise OSError(f"The answer was {answer.status}.")
        return answer.body


def _read(folder: str, prefix: str) -> bytes:
    path = Path(folder, prefix)
    return (path if path.exists() else path.with_suffix(".txt")).read_bytes()


def _count(line: str, suffix: str) -> int:
    """Return how often a line says that a suffix was found; padding has a count of 0."""
    found, _, count = line.strip().partition(":")
    return int(count) if found.upper() == suffix and count.strip().isdigit() else 0
