"""SQL statements for codes, grants and revoked access tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.oauth.tokens.records import (
    CodeGrant,
    Grant,
    ListedGrant,
    ProofUse,
    RefreshGrant,
    RevokedGrant,
    TokenState,
)

CODE_SECONDS = 60

_GRANT = columns(Grant, "g")

# A grant is valid if it is not revoked, its member is active and not banned and, unless it is offline, its session has
# not ended.
_LIVES = """
    g.revoked_at is null and g.expires_at > now() and m.is_active
        and (m.banned_until is null or m.banned_until <= now())
        and (g.is_offline or (s.revoked_at is null and s.expires_at > now()))
"""
_STATE = """
    left join pilotis.members m on m.app_id = g.app_id and m.member_id = g.member_id
    left join pilotis.sessions s on s.app_id = g.app_id and s.session_id = g.session_id
"""
_ADD_GRANT = """
    with granted as (
        insert into pilotis.oauth_grants (
            app_id, grant_id, client_id, member_id, session_id, consent_id, is_offline, scopes, resources, issuer,
            auth_time, amr, expires_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now() + make_interval(secs => $18))
        returning app_id, grant_id, expires_at
    )
    insert into pilotis.oauth_codes (app_id, hash, grant_id, redirect_uri, code_challenge, nonce, jkt, expires_at)
    select app_id, $13, grant_id, $14, $15, $16, $17, expires_at from granted
"""


class NewGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A new grant with its code."""

    app_id: UUID
    grant_id: UUID
    client_id: str
    member_id: str
    session_id: UUID
    consent_id: UUID | None
    is_offline: bool
    scopes: list[str]
    resources: list[str]
    issuer: str
    auth_time: datetime
    amr: list[str]
    code_hash: bytes
    redirect_uri: str
    code_challenge: str
    nonce: str | None
    jkt: str | None


async def insert_grant(connection: Connection, new: NewGrant) -> None:
    """Insert a grant with its code. Until the code is redeemed, the grant lives no longer than the code."""
    await connection.execute(_ADD_GRANT, *msgspec.structs.astuple(new), float(CODE_SECONDS))


async def code(database: Database, app_id: UUID, code_hash: bytes) -> CodeGrant | None:
    """Return a code with its grant, and whether they are valid."""
    row = await database.fetchrow(
        f"""
        select {_GRANT}, k.redirect_uri, k.code_challenge, k.nonce, k.jkt as code_jkt, k.used_at,
            k.expires_at > now() as is_fresh,
            coalesce({_LIVES}, false) and coalesce(s.revoked_at is null and s.expires_at > now(), false) as lives
        from pilotis.oauth_codes k
        join pilotis.oauth_grants g on g.app_id = k.app_id and g.grant_id = k.grant_id
        {_STATE}
        where k.app_id = $1 and k.hash = $2
        """,
        app_id,
        code_hash,
        tenant=app_id,
    )
    return None if row is None else CodeGrant(*row)


async def redeem(
    database: Database,
    app_id: UUID,
    code_hash: bytes,
    refresh_id: UUID | None,
    idle: timedelta,
    lifetime: timedelta,
    jkt: str | None,
) -> bool:
    """Use up a code, create its grant's refresh tokens, and let the grant live for `lifetime` from its creation.

    Return False if another request was faster.
    """
    return (
        await database.fetchval(
            """
            with used as (
                update pilotis.oauth_codes set used_at = now()
                where app_id = $1 and hash = $2 and used_at is null and expires_at > now()
                returning grant_id
            )
            update pilotis.oauth_grants g set
                refresh_id = $3, refreshed_at = now(), refresh_expires_at = now() + $4::interval,
                expires_at = g.created_at + $5::interval, jkt = $6::text, is_bound = $6::text is not null
            from used where g.app_id = $1 and g.grant_id = used.grant_id and g.revoked_at is null
            returning true
            """,
            app_id,
            code_hash,
            refresh_id,
            idle,
            lifetime,
            jkt,
            tenant=app_id,
        )
        is True
    )


async def grant(database: Database, app_id: UUID, grant_id: UUID) -> RefreshGrant | None:
    """Return a grant, whether it is valid, and whether its refresh token has not expired."""
    row = await database.fetchrow(
        f"""
        select {_GRANT}, coalesce({_LIVES}, false) as lives,
            coalesce(g.refresh_expires_at > now(), false) as may_refresh, m.nickname
        from pilotis.oauth_grants g {_STATE}
        where g.app_id = $1 and g.grant_id = $2
        """,
        app_id,
        grant_id,
        tenant=app_id,
    )
    return None if row is None else RefreshGrant(*row)


async def grants(
    database: Database, app_id: UUID, client_id: str | None, member_id: str | None, limit: int, offset: int
) -> tuple[list[ListedGrant], int]:
    """Return a page of an app's grants, newest first, with their clients' and members' names, and the total count."""
    filters = [("g.client_id", client_id), ("g.member_id", member_id)]
    given = [(column, value) for column, value in filters if value is not None]
    conditions = "".join(f" and {column} = ${number}" for number, (column, _) in enumerate(given, 2))
    query = f"""
        select {_GRANT}, c.name as client_name, m.nickname, coalesce({_LIVES}, false) as lives
        from pilotis.oauth_grants g
        join pilotis.oauth_clients c on c.app_id = g.app_id and c.client_id = g.client_id
        {_STATE}
        where g.app_id = $1{conditions}
    """
    arguments = (app_id, *(value for _, value in given))
    # Grant ids are in the order of time (UUID version 7).
    return await fetch_page(
        database, app_id, query, arguments, order_by="grant_id desc", limit=limit, offset=offset, record=ListedGrant
    )


async def rotate(
    database: Database, app_id: UUID, grant_id: UUID, refresh_id: UUID, next_id: UUID, idle: timedelta
) -> bool:
    """Replace a grant's refresh id by the next one; False if it is not the current one."""
    tag = await database.execute(
        """
        update pilotis.oauth_grants set
            previous_refresh_id = refresh_id, refresh_id = $4, refreshed_at = now(),
            refresh_expires_at = now() + $5::interval
        where app_id = $1 and grant_id = $2 and refresh_id = $3 and revoked_at is null
        """,
        app_id,
        grant_id,
        refresh_id,
        next_id,
        idle,
        tenant=app_id,
    )
    return tag == "UPDATE 1"


async def just_rotated(
    database: Database, app_id: UUID, grant_id: UUID, refresh_id: UUID, window: timedelta
) -> UUID | None:
    """Return the successor of a refresh id that was replaced less than `window` ago."""
    found: UUID | None = await database.fetchval(
        """
        select refresh_id from pilotis.oauth_grants
        where app_id = $1 and grant_id = $2 and previous_refresh_id = $3 and refreshed_at > now() - $4::interval
            and revoked_at is null
        """,
        app_id,
        grant_id,
        refresh_id,
        window,
        tenant=app_id,
    )
    return found


async def extend(database: Database, app_id: UUID, grant_id: UUID, refresh_id: UUID, idle: timedelta) -> bool:
    """Extend the lifetime of a refresh token that is not rotated; False if it is not the grant's current one."""
    tag = await database.execute(
        """
        update pilotis.oauth_grants set refreshed_at = now(), refresh_expires_at = now() + $4::interval
        where app_id = $1 and grant_id = $2 and refresh_id = $3 and revoked_at is null
        """,
        app_id,
        grant_id,
        refresh_id,
        idle,
        tenant=app_id,
    )
    return tag == "UPDATE 1"


async def revoke(connection: Connection, app_id: UUID, grant_id: UUID, reason: str) -> RevokedGrant | None:
    """Revoke a grant with all its tokens; return its client, member and session, or None if it was already revoked."""
    row = await connection.fetchrow(
        """
        update pilotis.oauth_grants set revoked_at = now(), revoke_reason = $3
        where app_id = $1 and grant_id = $2 and revoked_at is null
        returning client_id, session_id, member_id
        """,
        app_id,
        grant_id,
        reason,
    )
    return None if row is None else RevokedGrant(**row)


async def revoke_of_consent(connection: Connection, app_id: UUID, consent_id: UUID, reason: str) -> list[RevokedGrant]:
    """Revoke all grants of a consent, and return their sessions, each with its client and member."""
    rows = await connection.fetch(
        """
        with ended as (
            update pilotis.oauth_grants set revoked_at = now(), revoke_reason = $3
            where app_id = $1 and consent_id = $2 and revoked_at is null
            returning client_id, session_id, member_id
        )
        select distinct client_id, session_id, member_id from ended
        """,
        app_id,
        consent_id,
        reason,
    )
    return [RevokedGrant(**row) for row in rows]


async def revoke_of_member(connection: Connection, app_id: UUID, member_id: str, reason: str) -> list[RevokedGrant]:
    """Revoke all grants of a member, as `revoke_of_consent` does."""
    rows = await connection.fetch(
        """
        with ended as (
            update pilotis.oauth_grants set revoked_at = now(), revoke_reason = $3
            where app_id = $1 and member_id = $2 and revoked_at is null
            returning client_id, session_id, member_id
        )
        select distinct client_id, session_id, member_id from ended
        """,
        app_id,
        member_id,
        reason,
    )
    return [RevokedGrant(**row) for row in rows]


async def revoke_token(database: Database, app_id: UUID, jti: UUID, expires_at: datetime) -> None:
    """Revoke one access token."""
    await database.execute(
        """
        insert into pilotis.oauth_revoked (app_id, jti, expires_at) values ($1, $2, $3)
        on conflict (app_id, jti) do nothing
        """,
        app_id,
        jti,
        expires_at,
        tenant=app_id,
    )


async def token_state(database: Database, app_id: UUID, grant_id: UUID, jti: UUID) -> TokenState | None:
    """Return the grant and the member of an access token; None if any of them, or the token, is invalid."""
    row = await database.fetchrow(
        f"""
        select g.scopes, g.is_offline, m.member_id, m.nickname, m.login_id, m.custom_data, m.updated_at,
            coalesce(m.email, (select i.email from pilotis.member_identities i where i.app_id = $1
                and i.member_id = m.member_id and i.email_verified order by i.created_at, i.provider limit 1)
            ) as verified_email,
            (select i.picture from pilotis.member_identities i where i.app_id = $1 and i.member_id = m.member_id
                and i.picture is not null order by i.created_at, i.provider limit 1) as picture
        from pilotis.oauth_grants g {_STATE}
        join pilotis.oauth_clients c on c.app_id = g.app_id and c.client_id = g.client_id and c.is_active
        where g.app_id = $1 and g.grant_id = $2 and {_LIVES}
            and not exists (select from pilotis.oauth_revoked r where r.app_id = $1 and r.jti = $3)
        """,
        app_id,
        grant_id,
        jti,
        tenant=app_id,
    )
    return None if row is None else TokenState(*row)


async def is_revoked(database: Database, app_id: UUID, jti: UUID) -> bool:
    """Return whether this access token itself was revoked."""
    found = await database.fetchval(
        "select true from pilotis.oauth_revoked where app_id = $1 and jti = $2", app_id, jti, tenant=app_id
    )
    return bool(found)


async def use_proof(database: Database, app_id: UUID, proof_hash: bytes, seconds: int) -> ProofUse | None:
    """Store a proof for so many seconds; return whether it is new, and when the epoch of the known proofs began.

    None if there is no epoch, as after a crash of PostgreSQL.
    """
    row = await database.fetchrow(
        """
        with used as (
            insert into pilotis.oauth_used_proofs (app_id, hash, expires_at)
            values ($1, $2, now() + make_interval(secs => $3)) on conflict (app_id, hash) do nothing
            returning true
        )
        select exists(select from used) as is_new, began_at, began_at < now() - interval '2 minutes' as is_settled
        from pilotis.oauth_proof_epochs
        """,
        app_id,
        proof_hash,
        float(seconds),
        tenant=app_id,
    )
    return None if row is None else ProofUse(*row)


async def proof_epoch(database: Database, app_id: UUID) -> datetime | None:
    """Return when the epoch of the known proofs began; None if there is none."""
    found: datetime | None = await database.fetchval("select began_at from pilotis.oauth_proof_epochs", tenant=app_id)
    return found


async def begin_proof_epoch(database: Database, app_id: UUID) -> datetime:
    """Begin an epoch of known proofs if there is none, and return when the current one began."""
    found: datetime = await database.fetchval(
        """
        insert into pilotis.oauth_proof_epochs (is_current, began_at) values (true, now())
        on conflict (is_current) do update set is_current = true returning began_at
        """,
        tenant=app_id,
    )
    return found


async def delete_expired(connection: Connection) -> None:
    """Delete codes, grants and revocations one day after they expire; until then a reuse is detected."""
    await connection.execute("delete from pilotis.oauth_codes where expires_at < now() - interval '1 day'")
    await connection.execute("delete from pilotis.oauth_revoked where expires_at < now()")
    await connection.execute("delete from pilotis.oauth_used_proofs where expires_at < now()")
    # Two statements: each reads its own index.
    for ended in ("expires_at", "revoked_at"):
        await connection.execute(f"delete from pilotis.oauth_grants where {ended} < now() - interval '1 day'")
