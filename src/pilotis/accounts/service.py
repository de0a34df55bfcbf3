"""Proofs by mail: who reads an address may verify it for an account, or set a new password.

Whatever is asked for an address or a login_id inserts one job; the job looks the member up. So neither the answer nor
its time tells whether there is such a member.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.claims import Claims
from pilotis.accounts.errors import (
    EmailRequiredError,
    EmailVerifiedError,
    InvalidMailCodeError,
    LastWayInError,
    PasswordSetError,
)
from pilotis.accounts.mailing import CODE_LIFETIME, Codes, write_within_budget
from pilotis.accounts.store import NewProof, Proof
from pilotis.accounts.types import EmailConfirmation, EmailTicket, EmailVerification, MailedReset, ResetRequest
from pilotis.apps.service import Apps
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, Client, MemberInfo, ReauthenticationRequiredError
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import clock
from pilotis.kit.account_settings import ChallengedAction, pages_path
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.kit.passwords import Passwords
from pilotis.mail.service import Mails, NewMail, NoAddressError, Writer, require_address
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import password_version
from pilotis.members.invitations.types import TokenExpiredError
from pilotis.members.service import (
    EmailClaim,
    EmailTakenError,
    LoginDisabledError,
    Members,
    NoPasswordError,
    WrongPasswordError,
)
from pilotis.members.service import check_password as check_new_password
from pilotis.members.types import Account
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import app_of, mint

VERIFY_LIFETIME = timedelta(hours=24)
RESET_LIFETIME = timedelta(hours=1)
UNDO_LIFETIME = timedelta(days=7)
FRESH = timedelta(minutes=5)
_PREFIXES: dict[store.ProofPurpose, str] = {"verify_email": "mv_", "reset_password": "mr_", "undo_email": "mu_"}


class ProofJob(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was asked for. `network` is the asker's; a verification names its member, a reset may name nobody."""

    purpose: store.ProofPurpose
    network: str
    language: Language | None = None
    member_id: str | None = None
    email: str | None = None
    login_id: str | None = None
    session_id: UUID | None = None
    ticket_hash: str | None = None


class Proofs:
    """Asks for proofs, and accepts them."""

    def __init__(
        self,
        database: Database,
        members: Members,
        mails: Mails,
        jobs: Jobs,
        passwords: Passwords,
        rate_limits: RateLimits,
        codes: Codes,
        apps: Apps,
        claims: Claims,
        base_url: str,
    ) -> None:
        self._database = database
        self._members = members
        self._mails = mails
        self._jobs = jobs
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._codes = codes
        self._apps = apps
        self._claims = claims
        self._base_url = base_url
        self.kind = JobKind(name="accounts.mail", queue="light", payload=ProofJob, run=self._run)

    async def claimed(self, connection: Connection, claim: EmailClaim) -> None:
        """Mail a code and a link to an address that a sign-up names, in its transaction."""
        job = ProofJob(
            purpose="verify_email",
            network=claim.network,
            language=claim.language,
            member_id=claim.member_id,
            email=claim.email,
            session_id=claim.session_id,
        )
        await self._jobs.enqueue(connection, self.kind, claim.app_id, job)

    async def ask_for_email(
        self, app: AppInfo, client: Client, member: MemberInfo, email: str, language: Language | None
    ) -> EmailTicket:
        """Mail a code and a link to an address of the signed-in member, and return the code's ticket.

        Once proved it replaces the address that the member has. Raises `ReauthenticationRequiredError`, and
        `EmailVerifiedError` for that address.
        """
        require_address("email", email)
        require_verification(app)
        ticket = random_token()
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_own(connection, app, member)
            if state.email_folded == folded(email):
                raise EmailVerifiedError
            await require_fresh(self._members, connection, app, member)
            job = ProofJob(
                purpose="verify_email",
                network=one_client(client.address),
                language=language,
                member_id=member.member_id,
                email=email,
                session_id=member.session_id,
                ticket_hash=secret_hash(ticket).hex(),
            )
            await self._jobs.enqueue(connection, self.kind, app.app_id, job)
        return EmailTicket(ticket=ticket, expires_at=rfc3339(datetime.now(UTC) + CODE_LIFETIME))

    async def ask_for_reset(
        self, app: AppInfo, client: Client, request: ResetRequest, language: Language | None
    ) -> None:
        """Mail a link for a new password to the member, if there is one with a verified address."""
        if request.email is not None:
            require_address("email", request.email)
        job = ProofJob(
            purpose="reset_password",
            network=one_client(client.address),
            language=language,
            email=request.email,
            login_id=request.login_id,
        )
        async with self._database.transaction(app.app_id) as connection:
            await self._jobs.enqueue(connection, self.kind, app.app_id, job)

    async def require_challenge(
        self, app: AppInfo, client: Client, token: str | None, action: ChallengedAction
    ) -> None:
        """Raise `ChallengeRequiredError` unless the app lets the action pass, or the token solves a challenge."""
        await self._members.require_challenge(app, client, token, action)

    async def mail_reset(self, app: AppInfo, actor: Actor, client: Client, member_id: str) -> None:
        """Mail a link for a new password to a member, for the app's team.

        Raises `MemberNotFoundError`, and `NoAddressError` for a member without a verified address.
        """
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member_id)
            if state is None:
                raise MemberNotFoundError
            if state.email is None:
                raise NoAddressError
            job = ProofJob(purpose="reset_password", network=one_client(client.address), email=state.email)
            await self._jobs.enqueue(connection, self.kind, app.app_id, job)
            await record(connection, app.app_id, actor, "member.mail_reset", member_id)

    async def confirm(self, app: AppInfo, actor: Actor, member: MemberInfo, given: EmailConfirmation) -> Account:
        """Verify the address of the signed-in member by code or link, and return its account."""
        if given.code is not None:
            proof = await self._by_code(app, member, given.code, given.ticket)
        else:
            proof = await self._by_link(app.app_id, "verify_email", given.token or "")
            if proof.member_id != member.member_id:
                raise TokenExpiredError
        await self._verify(app, actor, proof)
        return await self._members.account(app, member)

    async def verify(self, app: AppInfo, client: Client, given: EmailVerification) -> None:
        """Verify an address by a link that was opened elsewhere: the account's password says who chose it.

        Who can read the mail but did not choose the password does not confirm the account.
        """
        proof = await self._by_link(app.app_id, "verify_email", given.token)
        member_id = proof.member_id or ""
        stored = await self._members.password_hash(app.app_id, member_id)
        if stored is None:
            raise NoPasswordError
        key = f"password:{app.app_id}:{member_id}"
        await self._rate_limits.attempt_password(client, app, key)
        if not await self._passwords.verify(stored, given.password):
            raise WrongPasswordError
        await self._rate_limits.forgive(app, key)
        await self._verify(app, Actor("member", member_id, client.request_id), proof)

    async def deny(self, app: AppInfo, token: str) -> None:
        """End a claim of an address: its reader did not make the account."""
        proof = await self._by_link(app.app_id, "verify_email", token)
        async with self._database.transaction(app.app_id) as connection:
            if not await store.use(connection, app.app_id, proof.proof_id):
                raise TokenExpiredError

    async def reset(self, app: AppInfo, client: Client, given: MailedReset) -> None:
        """Set a new password by a mailed link, and end all sessions and proofs of the member."""
        check_new_password(given.password, app.limits)
        # Before a password is hashed, which is costly.
        proof = await self._by_link(app.app_id, "reset_password", given.token)
        await self._members.password_rules.require(app, given.password, "password", proof.email)
        password_hash = await self._passwords.hash(given.password)
        member_id = proof.member_id or ""
        actor = Actor("member", member_id, client.request_id)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member_id)
            is_same = state is not None and password_version(state.password_hash) == proof.password_version
            if state is None or not (is_same and state.may_enter):
                raise TokenExpiredError
            is_claim = state.email is None and proof.email_folded == state.login_id
            if not (is_claim or state.email_folded == proof.email_folded):
                raise TokenExpiredError
            if not await store.use(connection, app.app_id, proof.proof_id):
                raise TokenExpiredError
            if is_claim:
                await store.end_of_email(connection, app.app_id, proof.email_folded)
                await self._claims.claim(connection, app, actor, member_id, proof.email, password_hash)
            else:
                await store.end_of_member(connection, app.app_id, member_id)
                await self._members.reset_password(connection, app, actor, member_id, password_hash)

    async def _by_link(self, app_id: UUID, purpose: store.ProofPurpose, token: str) -> Proof:
        if app_of(_PREFIXES[purpose], token) != app_id:
            raise TokenExpiredError
        proof = await store.by_link(self._database.of(app_id), app_id, purpose, secret_hash(token))
        if proof is None:
            raise TokenExpiredError
        return proof

    async def _by_code(self, app: AppInfo, member: MemberInfo, code: str, ticket: str | None) -> Proof:
        hashed = None if ticket is None else secret_hash(ticket)
        proof = await store.count_try(self._database, app.app_id, member.member_id, member.session_id, hashed)
        if proof is None or not self._codes.fits(app.app_id, proof, code):
            raise InvalidMailCodeError
        return proof

    async def _verify(self, app: AppInfo, actor: Actor, proof: Proof) -> None:
        """Give a member its address by a proof. All other claims of the address end, and the one before is told."""
        member_id = proof.member_id or ""
        writer = await self._mails.writer(app.app_id)
        try:
            async with self._database.transaction(app.app_id) as connection:
                state = await self._members.lock_account(connection, app.app_id, member_id)
                if state is None or not state.may_enter or not await store.use(connection, app.app_id, proof.proof_id):
                    raise TokenExpiredError
                await self._members.set_email(connection, app, actor, member_id, proof.email)
                await self._tell_former(connection, writer, member_id, state.email, state.language)
        except EmailTakenError:
            # Another member has verified it in this moment. Its owner knows; the other one learns nothing.
            raise TokenExpiredError from None

    async def set_first_password(self, app: AppInfo, actor: Actor, member: MemberInfo, password: str) -> None:
        """Set the password of the signed-in member, which has none.

        Raises `LoginDisabledError`, `NoPasswordError` for a guest, `PasswordSetError` and
        `ReauthenticationRequiredError`.
        """
        if not app.allow_id_password_login:
            raise LoginDisabledError
        if member.is_guest:
            raise NoPasswordError
        check_new_password(password, app.limits)
        account = await self._members.account(app, member)
        personal = account.login_id, account.email, account.nickname
        await self._members.password_rules.require(app, password, "password", *personal)
        password_hash = await self._passwords.hash(password)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_own(connection, app, member)
            if state.password_hash is not None:
                raise PasswordSetError
            await require_fresh(self._members, connection, app, member)
            await self._members.set_first_password(connection, app, actor, member.member_id, password_hash)

    async def require_fresh(self, app: AppInfo, member: MemberInfo) -> None:
        """Raise `ReauthenticationRequiredError` unless the member has proved within five minutes who it is."""
        async with self._database.transaction(app.app_id) as connection:
            await require_fresh(self._members, connection, app, member)

    async def remove_email(self, app: AppInfo, actor: Actor, member: MemberInfo) -> None:
        """Remove the signed-in member's address; the address gets a link that undoes it.

        Raises `ReauthenticationRequiredError`, `EmailRequiredError`, and `LastWayInError` if the member could not sign
        in any more.
        """
        if app.accounts.email_verification == "required":
            raise EmailRequiredError
        writer = await self._mails.writer(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_own(connection, app, member)
            if state.email is None:
                return
            await require_fresh(self._members, connection, app, member)
            has_password = state.password_hash is not None and state.login_id is not None
            if not has_password and not await self._claims.signs_in_otherwise(connection, app.app_id, member.member_id):
                raise LastWayInError
            await self._members.remove_email(connection, app, actor, member.member_id)
            await self._tell_former(connection, writer, member.member_id, state.email, state.language)

    async def undo(self, app: AppInfo, client: Client, token: str) -> None:
        """Give an address back to its member by the link that it got when it was replaced or removed.

        Whoever did that may have set a password or added other ways in: all of them end, and a link for a new password
        is mailed. Raises `TokenExpiredError`, also if another member has verified the address since.
        """
        proof = await self._by_link(app.app_id, "undo_email", token)
        writer = await self._mails.writer(app.app_id)
        member_id = proof.member_id or ""
        actor = Actor("member", member_id, client.request_id)
        try:
            async with self._database.transaction(app.app_id) as connection:
                state = await self._members.lock_account(connection, app.app_id, member_id)
                if state is None or not await store.use(connection, app.app_id, proof.proof_id):
                    raise TokenExpiredError
                await self._claims.claim(connection, app, actor, member_id, proof.email, None)
                asked = ProofJob(purpose="reset_password", network=one_client(client.address), email=proof.email)
                await self._write_reset(connection, writer, app, asked)
        except EmailTakenError:
            raise TokenExpiredError from None

    async def _tell_former(
        self, connection: Connection, writer: Writer, member_id: str, former: str | None, language: Language | None
    ) -> None:
        """Mail a link that undoes the change to the address that a member had until now, if it had one."""
        if former is None:
            return
        link = mint(_PREFIXES["undo_email"], writer.app_id)
        mail = NewMail(
            "address_changed",
            former,
            language or writer.sending.language,
            member_id,
            link=f"{self._hosted(writer.app_id, 'undo')}#{link.text}",
            lifetime=UNDO_LIFETIME,
        )
        await writer.write(connection, mail)
        new = NewProof(
            proof_id=uuid7(),
            purpose="undo_email",
            member_id=member_id,
            email=former,
            email_folded=folded(former),
            link_hash=link.hash,
        )
        await store.insert(connection, writer.app_id, new, UNDO_LIFETIME, UNDO_LIFETIME)

    def _hosted(self, app_id: UUID, page: str) -> str:
        """Return the address of one of the server's pages for an app."""
        return f"{self._base_url}{pages_path(app_id)}/{page}"

    async def _run(self, job: Job[ProofJob]) -> None:
        """Write the mail that was asked for, or none."""
        try:
            writer = await self._mails.writer(job.app_id)
            app = await self._apps.by_id(job.app_id)
        except NotFoundError:
            return
        async with job.transaction() as connection:
            if job.payload.purpose == "verify_email":
                await self._write_verification(connection, writer, job.payload)
            else:
                await self._write_reset(connection, writer, app, job.payload)
            await job.finish(connection)

    async def _write_verification(self, connection: Connection, writer: Writer, asked: ProofJob) -> None:
        app_id, member_id, email = writer.app_id, asked.member_id, asked.email
        assert member_id is not None
        assert email is not None
        state = await self._members.lock_account(connection, app_id, member_id)
        if state is None or state.email_folded == folded(email):
            return
        owner = await self._members.by_email(connection, app_id, folded(email))
        if owner is not None:
            # The owner is told, the one who signed up is not.
            mail = NewMail(
                "address_in_use",
                owner.email,
                owner.language or asked.language or writer.sending.language,
                owner.member_id,
            )
            await self._write(connection, writer, asked, mail)
            return
        proof_id, link = uuid7(), mint(_PREFIXES["verify_email"], app_id)
        code, code_hmac = self._codes.new(app_id, proof_id)
        mail = NewMail(
            "verify_email" if state.email is None else "change_email",
            email,
            state.language or asked.language or writer.sending.language,
            member_id,
            link=f"{writer.sending.pages.verify or self._hosted(app_id, 'verify')}#{link.text}",
            code=code,
            lifetime=VERIFY_LIFETIME,
            code_lifetime=CODE_LIFETIME,
        )
        if await self._write(connection, writer, asked, mail):
            new = NewProof(
                proof_id=proof_id,
                purpose="verify_email",
                member_id=member_id,
                email=email,
                email_folded=folded(email),
                link_hash=link.hash,
                session_id=asked.session_id,
                ticket_hash=None if asked.ticket_hash is None else bytes.fromhex(asked.ticket_hash),
                code_hmac=code_hmac,
            )
            await store.insert(connection, app_id, new, VERIFY_LIFETIME, CODE_LIFETIME)

    async def _write_reset(self, connection: Connection, writer: Writer, app: AppInfo, asked: ProofJob) -> None:
        app_id = writer.app_id
        if asked.email is not None:
            found = await self._members.by_email(connection, app_id, folded(asked.email))
        else:
            found = await self._members.by_login_id(connection, app_id, asked.login_id or "")
        if found is None:
            found = await self._members.unproven_account(connection, app, asked.email or asked.login_id or "")
        if found is None or not found.may_enter:
            return
        link = mint(_PREFIXES["reset_password"], app_id)
        mail = NewMail(
            "reset_password",
            found.email,
            found.language or asked.language or writer.sending.language,
            found.member_id,
            link=f"{writer.sending.pages.reset or self._hosted(app_id, 'reset')}#{link.text}",
            lifetime=RESET_LIFETIME,
        )
        if await self._write(connection, writer, asked, mail):
            new = NewProof(
                proof_id=uuid7(),
                purpose="reset_password",
                member_id=found.member_id,
                email=found.email,
                email_folded=folded(found.email),
                link_hash=link.hash,
                password_version=password_version(found.password_hash),
            )
            await store.insert(connection, app_id, new, RESET_LIFETIME, RESET_LIFETIME)

    async def _write(self, connection: Connection, writer: Writer, asked: ProofJob, mail: NewMail) -> bool:
        return await write_within_budget(self._rate_limits, connection, writer, mail, asked.network)


async def require_fresh(members: Members, connection: Connection, app: AppInfo, member: MemberInfo) -> None:
    """Raise `ReauthenticationRequiredError` unless the member has proved within five minutes who it is.

    Guests are always fresh: they have nothing to prove it with. Locks the member; raises `InvalidTokenError` if it was
    deleted meanwhile.
    """
    state = await members.lock_own(connection, app, member)
    began = await members.session_began(connection, app.app_id, member.session_id)
    if not member.is_guest and (began is None or clock.now() - began > FRESH):
        # Nothing weaker than the second factor, if there is one.
        passkey = ["passkey"] if "passkey" in state.factors and app.accounts.passkey else []
        codes = [one for one in state.factors if one in {"totp", "recovery_code"}] if "totp" in state.factors else []
        password = ["password"] if state.password_hash is not None else []
        mail = ["email_code"] if state.email is not None else []
        raise ReauthenticationRequiredError([*codes, *passkey] if codes else [*password, *passkey, *mail])


def require_verification(app: AppInfo) -> None:
    """Raise a validation error if the app verifies no addresses."""
    if app.accounts.email_verification == "off":
        raise invalid("email", "email: this app does not verify addresses.", "NOT_ACCEPTED")
