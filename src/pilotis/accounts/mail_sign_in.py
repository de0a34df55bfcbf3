"""Sign-in by a mailed code or link, which makes a member of who has none.

Whatever is asked for an address inserts one job, which looks the member up: neither the answer nor its time tells
whether there is one. A code works only with its ticket, so nobody guesses from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urldefrag, urlencode

import msgspec
from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.claims import Claims
from pilotis.accounts.errors import InvalidMailCodeError
from pilotis.accounts.mailing import CODE_LIFETIME, Codes, write_within_budget
from pilotis.accounts.store import NewProof, Proof
from pilotis.accounts.types import EmailSignIn, EmailSignInConfirmation, EmailTicket
from pilotis.apps.service import Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, Client
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import NotFoundError, PilotisError, invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import Mails, NewMail, require_address
from pilotis.members.arrivals.service import is_about_profile
from pilotis.members.arrivals.types import MemberRows
from pilotis.members.gate.service import SecondFactorRequiredError, settled
from pilotis.members.hooks import Passes
from pilotis.members.invitations.types import TokenExpiredError
from pilotis.members.service import EmailTakenError, LoginDisabledError, Members, require_open
from pilotis.members.types import Method, SignedIn
from pilotis.oauth.social.service import SocialLogin
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import app_of, mint

LINK_LIFETIME = timedelta(minutes=15)
_PREFIX = "ms_"
_ATTEMPTS = 2


class SignInJob(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was asked for; `network` is the asker's."""

    network: str
    email: str
    ticket_hash: str
    page: str | None
    language: Language | None = None


class MailSignIn:
    """Asks for mails that sign in, and accepts their codes and links."""

    def __init__(
        self,
        database: Database,
        apps: Apps,
        members: Members,
        claims: Claims,
        mails: Mails,
        jobs: Jobs,
        rate_limits: RateLimits,
        codes: Codes,
        social: SocialLogin,
        base_url: str,
    ) -> None:
        self._database = database
        self._apps = apps
        self._members = members
        self._claims = claims
        self._mails = mails
        self._jobs = jobs
        self._rate_limits = rate_limits
        self._codes = codes
        self._social = social
        self._base_url = base_url
        self.kind = JobKind(name="accounts.sign_in", queue="light", payload=SignInJob, run=self._run)

    async def require_challenge(self, app: AppInfo, client: Client, token: str | None) -> None:
        """Raise `ChallengeRequiredError` unless the app lets mails pass, or the token solves a challenge."""
        await self._members.require_challenge(app, client, token, "mail")

    async def ask(self, app: AppInfo, client: Client, asked: EmailSignIn, language: Language | None) -> EmailTicket:
        """Mail a code, a link or both, as the app's settings say, and return the code's ticket.

        The link leads to `redirect_uri`, one of the app's pages, or else to the page of `urls`, or the server's. Raises
        `LoginDisabledError`.
        """
        if not (app.accounts.email_code or app.accounts.email_link):
            raise LoginDisabledError
        require_address("email", asked.email)
        hosted = f"{self._base_url}/account/{app.app_id}/sign-in"
        page = None
        if asked.redirect_uri is not None:
            if not await self._social.codes.is_own_page(app.app_id, asked.redirect_uri):
                message = "redirect_uri: exactly one of the app's login_redirect_uris is expected."
                raise invalid("redirect_uri", message, "INVALID_REDIRECT_URI")
            if asked.code_challenge is None:
                page = urldefrag(asked.redirect_uri).url
            else:
                query = {"redirect_uri": asked.redirect_uri, "code_challenge": asked.code_challenge}
                query |= {"state": asked.state} if asked.state is not None else {}
                page = f"{hosted}?{urlencode(query)}"
        ticket = random_token()
        job = SignInJob(
            network=one_client(client.address),
            email=asked.email,
            ticket_hash=secret_hash(ticket).hex(),
            page=page,
            language=language,
        )
        async with self._database.transaction(app.app_id) as connection:
            await self._jobs.enqueue(connection, self.kind, app.app_id, job)
        return EmailTicket(ticket=ticket, expires_at=rfc3339(datetime.now(UTC) + CODE_LIFETIME))

    async def confirm(
        self, app: AppInfo, client: Client, given: EmailSignInConfirmation, agent: str | None
    ) -> tuple[SignedIn, bool]:
        """Sign in whose code or link it is, and return whether that made the member.

        Raises `InvalidMailCodeError`, `TokenExpiredError`, what the gate does, and what the rows do that are made with
        a member: then the code or link serves again.
        """
        if given.code is not None:
            method: Method = "email_code"
            proof = await store.count_ticket_try(self._database, app.app_id, secret_hash(given.ticket or ""))
            if not app.accounts.email_code or proof is None or not self._codes.fits(app.app_id, proof, given.code):
                raise InvalidMailCodeError
        else:
            method, proof = "email_link", await self._by_link(app, given.token or "")

        async def attempt(passes: Passes) -> tuple[SignedIn | SecondFactorRequiredError, bool]:
            return await self._members.arrivals.making(app, passes.rows, partial(within, passes))

        async def within(passes: Passes, rows: MemberRows) -> tuple[SignedIn | SecondFactorRequiredError, bool]:
            async with self._database.transaction(app.app_id) as connection:
                if not await store.use(connection, app.app_id, proof.proof_id):
                    raise InvalidMailCodeError if method == "email_code" else TokenExpiredError
                return await self._enter(connection, app, client, proof, method, agent, passes, rows, given.profile)

        for last in (False, True):
            try:
                entered, is_new = await self._members.hooks.passing(app, client, attempt)
                break
            except EmailTakenError:
                # Another sign-in has just made the member.
                if last:
                    raise TokenExpiredError from None
            except PilotisError as error:
                if method == "email_code" and is_about_profile(error):
                    # Whoever looks for a free name guesses no code.
                    await store.give_try_back(self._database, app.app_id, proof.proof_id)
                raise
        return settled(entered), is_new

    async def _by_link(self, app: AppInfo, token: str) -> Proof:
        proof = None
        if app.accounts.email_link and app_of(_PREFIX, token) == app.app_id:
            database = self._database.of(app.app_id)
            proof = await store.by_link(database, app.app_id, "sign_in", secret_hash(token))
        if proof is None:
            raise TokenExpiredError
        return proof

    async def _enter(
        self,
        connection: Connection,
        app: AppInfo,
        client: Client,
        proof: Proof,
        method: Method,
        agent: str | None,
        passes: Passes,
        rows: MemberRows,
        profile: Mapping[str, Any],
    ) -> tuple[SignedIn | SecondFactorRequiredError, bool]:
        """Sign in the member with the address as it is now; make it if there is none."""
        owner = await self._members.by_email(connection, app.app_id, proof.email_folded)
        if proof.member_id is not None and (owner is None or owner.member_id != proof.member_id):
            raise TokenExpiredError
        is_new = False
        if owner is not None:
            member_id = owner.member_id
        else:
            await store.end_of_email(connection, app.app_id, proof.email_folded)
            unproven = await self._members.unproven(connection, app, proof.email_folded)
            member_id = unproven or ""
            if unproven is not None:
                actor = Actor("member", unproven, client.request_id)
                await self._claims.claim(connection, app, actor, unproven, proof.email, None)
            else:
                invited = await self._members.invited(connection, app.app_id, proof.email)
                if not invited and await self._members.by_email(connection, app.app_id, proof.email_folded):
                    # Whoever had the invitation locked has just made the member.
                    raise EmailTakenError
                require_open(app, "email", is_invited=invited)
                is_new = True
                nobody = Actor("public", None, client.request_id)
                member_id = await self._members.join(
                    connection, app, nobody, proof.email, method, passes, rows, profile
                )
        entrant = await self._members.gate.lock(connection, app.app_id, member_id)
        if folded(entrant.email or "") != proof.email_folded:
            raise TokenExpiredError
        actor = Actor("member", member_id, client.request_id)
        entered = await self._members.gate.admit(
            connection, app, actor, entrant, [method], agent, is_new=is_new, passes=passes
        )
        return entered, is_new

    async def _run(self, job: Job[SignInJob]) -> None:
        """Write the mail that was asked for, or none."""
        asked = job.payload
        try:
            writer = await self._mails.writer(job.app_id)
            app = await self._apps.by_id(job.app_id)
        except NotFoundError:
            return
        async with job.transaction() as connection:
            owner = await self._members.by_email(connection, job.app_id, folded(asked.email))
            is_known = owner is not None or await self._members.unproven(connection, app, folded(asked.email))
            invited = await self._members.invited(connection, job.app_id, asked.email, lock=False)
            may_join = is_known or app.accounts.may_sign_up("email", is_invited=invited)
            if (owner.may_enter if owner else may_join) and (app.accounts.email_code or app.accounts.email_link):
                recipient = owner.email if owner else asked.email
                language = (owner and owner.language) or asked.language or writer.sending.language
                hosted = f"{self._base_url}/account/{job.app_id}/sign-in"
                page = asked.page or writer.sending.pages.sign_in or hosted
                proof_id, link = uuid7(), mint(_PREFIX, job.app_id)
                code, code_hmac = self._codes.new(job.app_id, proof_id)
                mail = NewMail(
                    "sign_in",
                    recipient,
                    language,
                    owner.member_id if owner else None,
                    link=f"{page}#{link.text}" if app.accounts.email_link else None,
                    code=code if app.accounts.email_code else None,
                    lifetime=LINK_LIFETIME,
                    code_lifetime=CODE_LIFETIME,
                )
                if await write_within_budget(self._rate_limits, connection, writer, mail, asked.network):
                    new = NewProof(
                        proof_id=proof_id,
                        purpose="sign_in",
                        member_id=owner.member_id if owner else None,
                        email=recipient,
                        email_folded=folded(recipient),
                        link_hash=link.hash,
                        ticket_hash=bytes.fromhex(asked.ticket_hash),
                        code_hmac=code_hmac,
                    )
                    await store.insert(connection, job.app_id, new, LINK_LIFETIME, CODE_LIFETIME)
            await job.finish(connection)
