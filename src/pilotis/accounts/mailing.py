"""Mailed codes and links: how they are made and compared, and how many mails an address gets."""

from __future__ import annotations

import hmac
import secrets as random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.store import NewProof, Proof, ProofPurpose
from pilotis.kit.account_settings import pages_path
from pilotis.kit.crypto import MasterKeyring, derive_key, secret_hash
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import Mails, NewMail, Writer
from pilotis.members.service import Farewell
from pilotis.security.rate_limits import HOUR_SECONDS, RateLimits

CODE_LIFETIME = timedelta(minutes=10)
_PER_NETWORK, _PER_ADDRESS, _PER_DAY = 5, 20, 50
_DAY_SECONDS = 24 * 3600


class Codes:
    """Codes of six digits. There are only a million, so that what is stored of one depends on a key."""

    def __init__(self, keys: MasterKeyring) -> None:
        self._keys = keys

    def new(self, app_id: UUID, proof_id: UUID) -> tuple[str, bytes]:
        """Return a code, and what is stored of it."""
        code = f"{random.randbelow(10**6):06}"
        return code, _hmac(self._keys.keys.current, app_id, proof_id, code)

    def fits(self, app_id: UUID, proof: Proof, code: str) -> bool:
        """Return whether it is the code of a proof."""
        stored = proof.code_hmac or b""
        keys = self._keys.keys.accepted
        return any(hmac.compare_digest(_hmac(key, app_id, proof.proof_id, code), stored) for key in keys)


def _hmac(master_key: bytes, app_id: UUID, proof_id: UUID, code: str) -> bytes:
    key = derive_key(master_key, "accounts/codes")
    return hmac.digest(key, app_id.bytes + proof_id.bytes + code.encode(), "sha256")


async def write_within_budget(
    rate_limits: RateLimits, connection: Connection, writer: Writer, mail: NewMail, network: str
) -> bool:
    """Write a mail within the budgets of its address; False, and a record for the console, beyond them.

    An asker's network has its own budget, so that nobody locks others out easily.
    """
    hashed = secret_hash(folded(mail.recipient)).hex()
    key = f"proof:{writer.app_id}:{mail.purpose}:{hashed}"
    is_within = (
        await rate_limits.permits(connection, f"{key}:{network}", _PER_NETWORK, HOUR_SECONDS)
        and await rate_limits.permits(connection, key, _PER_ADDRESS, HOUR_SECONDS)
        and await rate_limits.permits(connection, f"proof:{hashed}", _PER_DAY, _DAY_SECONDS)
    )
    if is_within:
        await writer.write(connection, mail)
    else:
        await writer.drop(connection, mail, "The address was asked for too often.")
    return is_within


def farewells(mails: Mails, base_url: str) -> Callable[[UUID], Awaitable[Farewell]]:
    """Return what mails to deleted members that they are, or that they will be and how they come back."""

    async def of(app_id: UUID) -> Farewell:
        writer = await mails.writer(app_id)

        async def tell(connection: Connection, email: str, language: Language | None, grace: timedelta | None) -> None:
            language = language or writer.sending.language
            mail = NewMail("account_deleted", email, language)
            if grace is not None:
                page = writer.sending.pages.sign_in or f"{base_url}{pages_path(app_id)}/sign-in"
                mail = NewMail("account_deletion", email, language, link=page, lifetime=grace)
            await writer.write(connection, mail)

        return tell

    return of


class CodeMail(NamedTuple):
    """A code for a known member that has a verified address; it works with its ticket alone."""

    purpose: ProofPurpose
    member_id: str
    email: str
    language: Language
    ticket_hash: bytes
    network: str


async def mail_code(
    rate_limits: RateLimits, codes: Codes, connection: Connection, writer: Writer, asked: CodeMail
) -> None:
    """Mail a code in the caller's transaction, within the budgets of the address."""
    proof_id = uuid7()
    code, code_hmac = codes.new(writer.app_id, proof_id)
    mail = NewMail("sign_in", asked.email, asked.language, asked.member_id, code=code, code_lifetime=CODE_LIFETIME)
    if await write_within_budget(rate_limits, connection, writer, mail, asked.network):
        new = NewProof(
            proof_id=proof_id,
            purpose=asked.purpose,
            member_id=asked.member_id,
            email=asked.email,
            email_folded=folded(asked.email),
            # It has no link.
            link_hash=random.token_bytes(32),
            ticket_hash=asked.ticket_hash,
            code_hmac=code_hmac,
        )
        await store.insert(connection, writer.app_id, new, CODE_LIFETIME, CODE_LIFETIME)
