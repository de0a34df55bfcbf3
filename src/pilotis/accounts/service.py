"""Proofs by mail: who reads an address may verify it for an account, or set a new password.

Whatever is asked for an address or a login_id inserts one job; the job looks the member up. So neither the answer nor
its time tells whether there is such a member.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.errors import (
    EmailVerifiedError,
    InvalidMailCodeError,
    ReauthenticationRequiredError,
    TokenExpiredError,
)
from pilotis.accounts.store import NewProof, Proof
from pilotis.accounts.types import EmailConfirmation, EmailTicket, EmailVerification, MailedReset, ResetRequest
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, Client, MemberInfo
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import clock
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import MasterKeyring, derive_key, random_token, secret_hash
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.kit.passwords import Passwords
from pilotis.mail.service import Mails, NewMail, Writer, require_address
from pilotis.mail.types import Purpose
from pilotis.members.service import EmailClaim, EmailTakenError, Members, NoPasswordError, WrongPasswordError
from pilotis.members.service import check_password as check_new_password
from pilotis.members.types import Account
from pilotis.security.rate_limits import HOUR_SECONDS, RateLimits
from pilotis.security.single_use import app_of, mint

VERIFY_LIFETIME = timedelta(hours=24)
RESET_LIFETIME = timedelta(hours=1)
CODE_LIFETIME = timedelta(minutes=10)
FRESH = timedelta(minutes=5)
_VERIFY_PREFIX, _RESET_PREFIX = "mv_", "mr_"
_PER_NETWORK, _PER_ADDRESS, _PER_DAY = 5, 20, 50
_DAY_SECONDS = 24 * 3600


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
        keys: MasterKeyring,
        base_url: str,
    ) -> None:
        self._database = database
        self._members = members
        self._mails = mails
        self._jobs = jobs
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._keys = keys
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

        Raises `ReauthenticationRequiredError` and `EmailVerifiedError`.
        """
        require_address("email", email)
        require_verification(app)
        ticket = random_token()
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, member.member_id)
            if state is None or state.email is not None:
                raise EmailVerifiedError
            began = await self._members.session_began(connection, app.app_id, member.session_id)
            if not member.is_guest and (began is None or clock.now() - began > FRESH):
                raise ReauthenticationRequiredError
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
        stored = await self._members.password_hash(app.app_id, proof.member_id)
        if stored is None:
            raise NoPasswordError
        key = f"password:{app.app_id}:{proof.member_id}"
        await self._rate_limits.attempt_password(client, app, key)
        if not await self._passwords.verify(stored, given.password):
            raise WrongPasswordError
        await self._rate_limits.forgive(app, key)
        await self._verify(app, Actor("member", proof.member_id, client.request_id), proof)

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
        password_hash = await self._passwords.hash(given.password)
        actor = Actor("member", proof.member_id, client.request_id)
        async with self._database.transaction(app.app_id) as connection:
            state = await self._members.lock_account(connection, app.app_id, proof.member_id)
            is_same = state is not None and _version(state.password_hash) == proof.password_version
            has_address = state is not None and state.email_folded == proof.email_folded and state.is_active
            if not (is_same and has_address and await store.use(connection, app.app_id, proof.proof_id)):
                raise TokenExpiredError
            await self._members.reset_password(connection, app, actor, proof.member_id, password_hash)
            await store.end_of_member(connection, app.app_id, proof.member_id)

    async def _by_link(self, app_id: UUID, purpose: store.ProofPurpose, token: str) -> Proof:
        if app_of(_prefix(purpose), token) != app_id:
            raise TokenExpiredError
        proof = await store.by_link(self._database.of(app_id), app_id, purpose, secret_hash(token))
        if proof is None:
            raise TokenExpiredError
        return proof

    async def _by_code(self, app: AppInfo, member: MemberInfo, code: str, ticket: str | None) -> Proof:
        hashed = None if ticket is None else secret_hash(ticket)
        proof = await store.count_try(self._database, app.app_id, member.member_id, member.session_id, hashed)
        if proof is None or proof.code_hmac is None:
            raise InvalidMailCodeError
        fitting = [key for key in self._keys.keys.accepted if _is_code(key, app.app_id, proof, code)]
        if not fitting:
            raise InvalidMailCodeError
        return proof

    async def _verify(self, app: AppInfo, actor: Actor, proof: Proof) -> None:
        """Give a member its address by a proof. All other claims of the address end."""
        try:
            async with self._database.transaction(app.app_id) as connection:
                state = await self._members.lock_account(connection, app.app_id, proof.member_id)
                if (
                    state is None
                    or not state.is_active
                    or state.email is not None
                    or not await store.use(connection, app.app_id, proof.proof_id)
                ):
                    raise TokenExpiredError
                await self._members.set_email(connection, app, actor, proof.member_id, proof.email)
                await store.end_of_email(connection, app.app_id, proof.email_folded)
        except EmailTakenError:
            # Another member has verified it in this moment. Its owner knows; the other one learns nothing.
            raise TokenExpiredError from None

    async def _run(self, job: Job[ProofJob]) -> None:
        """Write the mail that was asked for, or none."""
        try:
            writer = await self._mails.writer(job.app_id)
        except NotFoundError:
            return
        async with job.transaction() as connection:
            if job.payload.purpose == "verify_email":
                await self._write_verification(connection, writer, job.payload)
            else:
                await self._write_reset(connection, writer, job.payload)
            await job.finish(connection)

    async def _write_verification(self, connection: Connection, writer: Writer, asked: ProofJob) -> None:
        app_id, member_id, email = writer.app_id, asked.member_id, asked.email
        assert member_id is not None
        assert email is not None
        state = await self._members.lock_account(connection, app_id, member_id)
        if state is None or state.email is not None:
            return
        owner = await self._members.by_email(connection, app_id, folded(email))
        if owner is not None:
            # The owner is told, the one who signed up is not.
            mail = NewMail("address_in_use", owner.email, owner.language or asked.language or "en", owner.member_id)
            await self._write(connection, writer, asked, mail)
            return
        proof_id, link, code = uuid7(), mint(_VERIFY_PREFIX, app_id), f"{random.randbelow(10**6):06}"
        mail = NewMail(
            "verify_email",
            email,
            state.language or asked.language or "en",
            member_id,
            link=f"{self._base_url}/account/{app_id}/verify#{link.text}",
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
                code_hmac=_code_hmac(self._keys.keys.current, app_id, proof_id, code),
            )
            await store.insert(connection, app_id, new, VERIFY_LIFETIME, CODE_LIFETIME)

    async def _write_reset(self, connection: Connection, writer: Writer, asked: ProofJob) -> None:
        app_id = writer.app_id
        if asked.email is not None:
            found = await self._members.by_email(connection, app_id, folded(asked.email))
        else:
            found = await self._members.by_login_id(connection, app_id, asked.login_id or "")
        if found is None or not found.is_active:
            return
        link = mint(_RESET_PREFIX, app_id)
        mail = NewMail(
            "reset_password",
            found.email,
            found.language or asked.language or "en",
            found.member_id,
            link=f"{self._base_url}/account/{app_id}/reset#{link.text}",
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
                password_version=_version(found.password_hash),
            )
            await store.insert(connection, app_id, new, RESET_LIFETIME, RESET_LIFETIME)

    async def _write(self, connection: Connection, writer: Writer, asked: ProofJob, mail: NewMail) -> bool:
        """Write a mail within the budgets of its address; False, and a record for the console, beyond them."""
        if await self._is_within_budget(connection, writer.app_id, mail.purpose, mail.recipient, asked.network):
            await writer.write(connection, mail)
            return True
        await writer.drop(connection, mail, "The address was asked for too often.")
        return False

    async def _is_within_budget(
        self, connection: Connection, app_id: UUID, purpose: Purpose, address: str, network: str
    ) -> bool:
        """Count a mail. An asker's network has its own budget, so that nobody locks others out easily."""
        hashed = secret_hash(folded(address)).hex()
        key = f"proof:{app_id}:{purpose}:{hashed}"
        return (
            await self._rate_limits.permits(connection, f"{key}:{network}", _PER_NETWORK, HOUR_SECONDS)
            and await self._rate_limits.permits(connection, key, _PER_ADDRESS, HOUR_SECONDS)
            and await self._rate_limits.permits(connection, f"proof:{hashed}", _PER_DAY, _DAY_SECONDS)
        )


def require_verification(app: AppInfo) -> None:
    """Raise a validation error if the app verifies no addresses."""
    if app.accounts.email_verification == "off":
        raise invalid("email", "email: this app does not verify addresses.", "NOT_ACCEPTED")


def _prefix(purpose: store.ProofPurpose) -> str:
    return _VERIFY_PREFIX if purpose == "verify_email" else _RESET_PREFIX


def _code_hmac(master_key: bytes, app_id: UUID, proof_id: UUID, code: str) -> bytes:
    """Return what is stored of a code: there are only a million, so that a plain hash would tell it."""
    key = derive_key(master_key, "accounts/codes")
    return hmac.digest(key, app_id.bytes + proof_id.bytes + code.encode(), "sha256")


def _is_code(master_key: bytes, app_id: UUID, proof: Proof, code: str) -> bool:
    return hmac.compare_digest(_code_hmac(master_key, app_id, proof.proof_id, code), proof.code_hmac or b"")


def _version(password_hash: str | None) -> bytes:
    return hashlib.sha256((password_hash or "").encode()).digest()
