"""The statements on proofs."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns

ProofPurpose = Literal["verify_email", "reset_password", "sign_in", "undo_email", "reauthenticate", "second_factor"]
MAX_TRIES = 5


class Proof(msgspec.Struct, frozen=True):
    """A proof that is still open; that of an address without a member has none."""

    proof_id: UUID
    member_id: str | None
    email: str
    email_folded: str
    code_hmac: bytes | None
    password_version: bytes | None


class NewProof(msgspec.Struct, frozen=True, kw_only=True):
    """A proof to insert; see the table."""

    proof_id: UUID
    purpose: ProofPurpose
    member_id: str | None
    email: str
    email_folded: str
    link_hash: bytes
    session_id: UUID | None = None
    ticket_hash: bytes | None = None
    code_hmac: bytes | None = None
    password_version: bytes | None = None


_PROOF = columns(Proof)


async def insert(
    connection: Connection, app_id: UUID, new: NewProof, lifetime: timedelta, code_lifetime: timedelta
) -> None:
    """Insert a proof. One that verifies an address replaces the member's earlier ones, a second factor its ticket's."""
    if new.purpose == "verify_email":
        await connection.execute(
            "delete from pilotis.account_proofs where app_id = $1 and member_id = $2 and purpose = $3",
            app_id,
            new.member_id,
            new.purpose,
        )
    if new.purpose == "second_factor":
        await connection.execute(
            "delete from pilotis.account_proofs where app_id = $1 and ticket_hash = $2", app_id, new.ticket_hash
        )
    await connection.execute(
        """
        insert into pilotis.account_proofs
            (app_id, proof_id, purpose, member_id, email, email_folded, link_hash, session_id, ticket_hash, code_hmac,
            password_version, code_expires_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now() + $12::interval, now() + $13::interval)
        """,
        app_id,
        new.proof_id,
        new.purpose,
        new.member_id,
        new.email,
        new.email_folded,
        new.link_hash,
        new.session_id,
        new.ticket_hash,
        new.code_hmac,
        new.password_version,
        code_lifetime,
        lifetime,
    )


async def by_link(connection: TenantDatabase, app_id: UUID, purpose: ProofPurpose, link_hash: bytes) -> Proof | None:
    """Return the open proof of a link."""
    row = await connection.fetchrow(
        f"""
        select {_PROOF} from pilotis.account_proofs
        where app_id = $1 and link_hash = $2 and purpose = $3 and expires_at > now()
        """,
        app_id,
        link_hash,
        purpose,
    )
    return None if row is None else Proof(**row)


async def count_try(
    database: Database, app_id: UUID, member_id: str, session_id: UUID, ticket_hash: bytes | None
) -> Proof | None:
    """Count a try of a code and return its proof; None without one, or after five tries.

    The code is bound to the ticket, or to the session if none is given.
    """
    row = await database.fetchrow(
        f"""
        update pilotis.account_proofs set tries = tries + 1
        where app_id = $1 and member_id = $2 and purpose = 'verify_email' and code_hmac is not null
            and tries < {MAX_TRIES} and code_expires_at > now()
            and case when $4::bytea is null then session_id = $3 else ticket_hash = $4 end
        returning {_PROOF}
        """,
        app_id,
        member_id,
        session_id,
        ticket_hash,
        tenant=app_id,
    )
    return None if row is None else Proof(**row)


async def count_ticket_try(database: Database, app_id: UUID, ticket_hash: bytes) -> Proof | None:
    """Count a try of a code that signs in, and return its proof; None without one, or after five tries."""
    row = await database.fetchrow(
        f"""
        update pilotis.account_proofs set tries = tries + 1
        where app_id = $1 and ticket_hash = $2 and purpose = 'sign_in' and tries < {MAX_TRIES}
            and code_expires_at > now()
        returning {_PROOF}
        """,
        app_id,
        ticket_hash,
        tenant=app_id,
    )
    return None if row is None else Proof(**row)


async def give_try_back(database: Database, app_id: UUID, proof_id: UUID) -> None:
    """Uncount the try of a code that was right, but signed nobody in."""
    await database.execute(
        "update pilotis.account_proofs set tries = tries - 1 where app_id = $1 and proof_id = $2 and tries > 0",
        app_id,
        proof_id,
        tenant=app_id,
    )


async def count_code_try(
    database: Database, app_id: UUID, purpose: ProofPurpose, member_id: str, ticket_hash: bytes
) -> Proof | None:
    """Count a try of a code that a known member was mailed, and return its proof; None after five tries."""
    row = await database.fetchrow(
        f"""
        update pilotis.account_proofs set tries = tries + 1
        where app_id = $1 and ticket_hash = $2 and member_id = $3 and purpose = $4 and tries < {MAX_TRIES}
            and code_expires_at > now()
        returning {_PROOF}
        """,
        app_id,
        ticket_hash,
        member_id,
        purpose,
        tenant=app_id,
    )
    return None if row is None else Proof(**row)


async def use(connection: Connection, app_id: UUID, proof_id: UUID) -> bool:
    """Use a proof in the caller's transaction; of concurrent callers one gets True."""
    tag = await connection.execute(
        "delete from pilotis.account_proofs where app_id = $1 and proof_id = $2 and expires_at > now()",
        app_id,
        proof_id,
    )
    return tag == "DELETE 1"


async def end_of_email(connection: Connection, app_id: UUID, email_folded: str) -> None:
    """Delete all proofs that an address was claimed by."""
    await connection.execute(
        "delete from pilotis.account_proofs where app_id = $1 and email_folded = $2 and purpose = 'verify_email'",
        app_id,
        email_folded,
    )


async def end_of_member(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Delete all proofs of a member."""
    await connection.execute(
        "delete from pilotis.account_proofs where app_id = $1 and member_id = $2", app_id, member_id
    )


async def delete_expired(connection: Connection, limit: int) -> int:
    """Delete at most `limit` expired proofs, and return how many."""
    deleted: int = await connection.fetchval(
        """
        with gone as (
            delete from pilotis.account_proofs where (app_id, proof_id) in (
                select app_id, proof_id from pilotis.account_proofs where expires_at < now() limit $1
            ) returning 1
        ) select count(*) from gone
        """,
        limit,
    )
    return deleted
