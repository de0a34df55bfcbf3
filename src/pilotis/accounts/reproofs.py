"""Proofs by a mailed code or a passkey that a session is still its member's."""

from __future__ import annotations

import secrets

import msgspec

from pilotis.accounts import store
from pilotis.accounts.errors import InvalidMailCodeError
from pilotis.accounts.factors.types import Reauthenticated, ReauthenticationTicket
from pilotis.accounts.mailing import CODE_LIFETIME, Codes, write_within_budget
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.accounts.store import NewProof
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
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import Mails, NewMail
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
        ticket, proof_id = random_token(), uuid7()
        writer = await self._mails.writer(app.app_id)
        code, code_hmac = self._codes.new(app.app_id, proof_id)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member.member_id)
            if state is None or state.email is None or "totp" in state.factors:
                raise ReauthenticationRequiredError([])
            mail = NewMail(
                "sign_in",
                state.email,
                state.language or language or "en",
                member.member_id,
                code=code,
                code_lifetime=CODE_LIFETIME,
            )
            network = one_client(client.address)
            if await write_within_budget(self._rate_limits, connection, writer, mail, network):
                new = NewProof(
                    proof_id=proof_id,
                    purpose="reauthenticate",
                    member_id=member.member_id,
                    email=state.email,
                    email_folded=folded(state.email),
                    # It has no link.
                    link_hash=secrets.token_bytes(32),
                    ticket_hash=secret_hash(ticket),
                    code_hmac=code_hmac,
                )
                await store.insert(connection, app.app_id, new, CODE_LIFETIME, CODE_LIFETIME)
        return ReauthenticationTicket(ticket=ticket, options=None)

    async def by_code(self, app: AppInfo, member: MemberInfo, ticket: str, code: str) -> Reauthenticated:
        """Prove by a mailed code who the signed-in member is; raises `InvalidMailCodeError`."""
        hashed = secret_hash(ticket)
        proof = await store.count_reproof_try(self._database, app.app_id, member.member_id, hashed)
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
