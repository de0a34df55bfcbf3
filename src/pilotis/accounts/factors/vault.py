"""Compares second factors with what is stored of them, and uses them up."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.accounts.factors import store
from pilotis.accounts.factors.types import NewRecoveryCodes, Reauthentication, SecondFactor
from pilotis.kit import recovery_codes, totp
from pilotis.members.types import Method
from pilotis.security.encryption.types import Purpose


class Vault(NamedTuple):
    """The secrets of an app's second factors; its key was read before the transaction."""

    app_id: UUID
    encrypt: Callable[[Purpose, str, bytes], bytes]
    decrypt: Callable[[Purpose, str, bytes], bytes]

    def sealed_totp(self, member_id: str, secret: bytes) -> bytes:
        """Return what is stored of an authenticator app's secret."""
        return self.encrypt(Purpose.TOTP_SECRET, member_id, secret)

    async def use(
        self, connection: Connection, member_id: str, given: SecondFactor | Reauthentication
    ) -> Method | None:
        """Use a second factor and return which one it was; None if it is not valid."""
        if given.totp is not None:
            return "totp" if await self.use_totp(connection, member_id, given.totp, confirmed=True) else None
        is_used = await self._use_recovery_code(connection, member_id, given.recovery_code or "")
        return "recovery_code" if is_used else None

    async def use_totp(self, connection: Connection, member_id: str, code: str, *, confirmed: bool = False) -> bool:
        """Use a code of the authenticator app, with `confirmed` only of one that is set up already."""
        found = await store.totp(connection, self.app_id, member_id)
        if found is None or (confirmed and found.confirmed_at is None):
            return False
        secret = self.decrypt(Purpose.TOTP_SECRET, member_id, found.secret)
        step = totp.step_of(secret, code, time.time())
        return step is not None and await store.use_step(connection, self.app_id, member_id, found.secret, step)

    async def _use_recovery_code(self, connection: Connection, member_id: str, code: str) -> bool:
        wanted = recovery_codes.normal(code)
        for number, sealed in await store.recovery_codes(connection, self.app_id, member_id):
            if hmac.compare_digest(self.decrypt(Purpose.RECOVERY_CODE, f"{member_id}/{number}", sealed), wanted):
                return await store.use_recovery_code(connection, self.app_id, member_id, number, sealed)
        return False

    async def new_codes(self, connection: Connection, member_id: str) -> NewRecoveryCodes:
        """Replace a member's recovery codes, and return the new ones."""
        codes = recovery_codes.new_codes()
        sealed = [
            self.encrypt(Purpose.RECOVERY_CODE, f"{member_id}/{number}", recovery_codes.normal(code))
            for number, code in enumerate(codes, 1)
        ]
        await store.put_recovery_codes(connection, self.app_id, member_id, sealed)
        return NewRecoveryCodes(codes)
