"""Proofs by a mailed code or a passkey that a session is still its member's."""

from __future__ import annotations

import msgspec

from pilotis.accounts import store
from pilotis.accounts.errors import InvalidMailCodeError
from pilotis.accounts.factors.types import Reauthenticated, ReauthenticationTicket
from pilotis.accounts.mailing import CodeMail, Codes, mail_code
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.db.pool import Database
from pilotis.http.api.principals import (
    AppInfo,
    Client,
    InvalidTokenError,
    MemberInfo,
    ReauthenticationRequiredError,
    TokenFault,
)
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.languages import Language
from pilotis.mail.service import Mails
from pilotis.members.service import Members
from pilotis.members.types import Method
from pilotis.security.rate_limits import RateLimits


class Reproofs:
    """Begins such proofs, and accepts them."""

    def __init__(
        self,
        database: Database,
        members: Members,
        mails: Mails,
        rate_limits: RateLimits,
        codes: Codes,
        passkeys: Passkeys,
    ) -> None:
        self._database = database
        self._members = members
        self._mails = mails
        self._rate_limits = rate_limits
        self._codes = codes
        self._passkeys = passkeys

    async def mail(
        self, app: AppInfo, client: Client, member: MemberInfo, language: Language | None
    ) -> ReauthenticationTicket:
        """Mail a code to the signed-in member's address; raises `ReauthenticationRequiredError` if that is not enough.

        It is not for a member without a verified address, nor for one with an authenticator app.
        """
        ticket = random_token()
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member.member_id)
            if state is None or state.email is None or "totp" in state.factors:
                raise ReauthenticationRequiredError([])
            asked = CodeMail(
                "reauthenticate",
                member.member_id,
                state.email,
                state.language or language or writer.sending.language,
                secret_hash(ticket),
                one_client(client.address),
            )
            await mail_code(self._rate_limits, self._codes, connection, writer, asked)
        return ReauthenticationTicket(ticket=ticket, options=None)

    async def by_code(self, app: AppInfo, member: MemberInfo, ticket: str, code: str) -> Reauthenticated:
        """Prove by a mailed code who the signed-in member is; raises `InvalidMailCodeError`."""
        hashed = secret_hash(ticket)
        proof = await store.count_code_try(self._database, app.app_id, "reauthenticate", member.member_id, hashed)
        if proof is None or not self._codes.fits(app.app_id, proof, code):
            raise InvalidMailCodeError
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member.member_id)
            is_enough = state is not None and "totp" not in state.factors and state.email_folded == proof.email_folded
            if not (is_enough and await store.use(connection, app.app_id, proof.proof_id)):
                raise InvalidMailCodeError
            when = await self._members.reprove(connection, app, member, "email_code", 1)
        if when is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Reauthenticated(access_token=self._members.access_token(app, member), auth_time=rfc3339(when))

    async def by_passkey(
        self, app: AppInfo, member: MemberInfo, ticket: str, credential: dict[str, object]
    ) -> Reauthenticated:
        """Prove by a passkey who the signed-in member is; raises `InvalidPasskeyError` and `LoginDisabledError`."""
        method: Method = "passkey"
        async with self._passkeys.proof(app, member, ticket, credential) as connection:
            when = await self._members.reprove(connection, app, member, method, 2)
        if when is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Reauthenticated(access_token=self._members.access_token(app, member), auth_time=rfc3339(when))

    async def ask_passkey(self, app: AppInfo, member: MemberInfo) -> ReauthenticationTicket:
        """Return what a passkey of the signed-in member signs; raises `PasskeyNotFoundError`."""
        challenge = await self._passkeys.begin_proof(app, member)
        return ReauthenticationTicket(ticket=challenge.ticket, options=msgspec.Raw(bytes(challenge.options)))
