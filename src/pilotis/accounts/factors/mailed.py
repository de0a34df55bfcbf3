"""Mailed codes as second factors, where the app accepts them."""

from __future__ import annotations

from pilotis.accounts import store
from pilotis.accounts.factors.errors import InvalidSecondFactorError
from pilotis.accounts.factors.service import Factors
from pilotis.accounts.mailing import CodeMail, Codes, mail_code
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Client
from pilotis.kit.addresses import one_client
from pilotis.kit.crypto import secret_hash
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import Mails
from pilotis.members.gate.service import settled
from pilotis.members.service import Members
from pilotis.members.types import SignedIn
from pilotis.security.rate_limits import RateLimits


class MailedFactors:
    """Mails codes to members whose sign-in waits for a second factor, and accepts them."""

    def __init__(
        self,
        database: Database,
        members: Members,
        mails: Mails,
        rate_limits: RateLimits,
        codes: Codes,
        factors: Factors,
    ) -> None:
        self._database = database
        self._members = members
        self._mails = mails
        self._rate_limits = rate_limits
        self._codes = codes
        self._factors = factors

    async def begin(self, app: AppInfo, client: Client, text: str, language: Language | None) -> None:
        """Mail a code to the member of a ticket; raises `InvalidSecondFactorError` where it would not help."""
        ticket = await self._members.gate.read(app.app_id, text)
        if ticket is None:
            raise InvalidSecondFactorError
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            entrant = await self._members.gate.lock(connection, app.app_id, ticket.member_id)
            state = await self._members.lock_account(connection, app.app_id, ticket.member_id)
            if state is None or state.email is None or not self._members.gate.accepts_mail(app, entrant, ticket):
                raise InvalidSecondFactorError
            asked = CodeMail(
                "second_factor",
                ticket.member_id,
                state.email,
                state.language or language or writer.sending.language,
                ticket.ticket_hash,
                one_client(client.address),
            )
            await mail_code(self._rate_limits, self._codes, connection, writer, asked)

    async def finish(self, app: AppInfo, client: Client, text: str, code: str, agent: str | None) -> SignedIn:
        """Finish a sign-in by a mailed code; the session has one factor's level.

        Tries count for the ticket, and for the member over all its tickets. Raises `InvalidSecondFactorError`,
        `RateLimitedError`, and what the gate does.
        """
        ticket = await self._members.gate.count_try(app.app_id, text)
        if ticket is None:
            raise InvalidSecondFactorError
        await self._factors.count(app, client, ticket.member_id)
        hashed = secret_hash(text)
        proof = await store.count_code_try(self._database, app.app_id, "second_factor", ticket.member_id, hashed)
        if proof is None or not self._codes.fits(app.app_id, proof, code):
            raise InvalidSecondFactorError
        async with self._database.transaction(app.app_id) as connection:
            entrant = await self._members.gate.use(connection, app.app_id, ticket)
            if entrant is None or folded(entrant.email or "") != proof.email_folded:
                raise InvalidSecondFactorError
            if not await store.use(connection, app.app_id, proof.proof_id):
                raise InvalidSecondFactorError
            entered = await self._members.gate.complete(connection, app, client, ticket, entrant, "email_code", agent)
            if entered is None:
                raise InvalidSecondFactorError
        await self._factors.forgive(app, ticket.member_id)
        return settled(entered)
