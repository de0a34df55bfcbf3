"""What the server's tables have of a member, for its export: reads alone."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns


class OwnFile(msgspec.Struct, frozen=True):
    """A file that a member has created."""

    storage_id: UUID
    file_id: UUID
    path: str
    size: int
    blob_id: UUID


_ACCOUNT = """
    select jsonb_build_object(
        'member_id', m.member_id, 'login_id', m.login_id, 'email', m.email, 'nickname', m.nickname,
        'language', m.language, 'is_guest', m.is_guest, 'is_active', m.is_active, 'roles', m.roles, 'claims', m.claims,
        'custom_data', m.custom_data, 'created_at', m.created_at, 'last_active_at', m.last_active_at,
        'deletes_at', m.deletes_at,
        'has_password', m.password_hash is not null, 'factors', m.factors,
        'sessions', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'created_at', s.created_at, 'refreshed_at', s.refreshed_at, 'user_agent', s.user_agent
            ) order by s.created_at), '[]')
            from pilotis.sessions s where s.app_id = m.app_id and s.subject = m.member_id and s.revoked_at is null
        ),
        'identities', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'provider', i.provider, 'subject', i.subject, 'email', i.email, 'linked_at', i.created_at
            )), '[]')
            from pilotis.member_identities i where i.app_id = m.app_id and i.member_id = m.member_id
        ),
        'passkeys', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'name', p.name, 'created_at', p.created_at, 'last_used_at', p.last_used_at
            )), '[]')
            from pilotis.account_passkeys p where p.app_id = m.app_id and p.member_id = m.member_id
        ),
        'teams', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'team_id', t.team_id, 'name', t.name, 'roles', r.roles, 'joined_at', r.joined_at
            )), '[]')
            from pilotis.team_members r join pilotis.teams t on t.app_id = r.app_id and t.team_id = r.team_id
            where r.app_id = m.app_id and r.member_id = m.member_id
        ),
        'connected_programs', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'client_id', c.client_id, 'scopes', c.scopes, 'granted_at', c.granted_at
            )), '[]')
            from pilotis.oauth_consents c where c.app_id = m.app_id and c.member_id = m.member_id
        ),
        'mails', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'purpose', e.purpose, 'recipient', e.recipient, 'subject', e.subject, 'created_at', e.created_at
            ) order by e.created_at), '[]')
            from pilotis.mail_messages e where e.app_id = m.app_id and e.member_id = m.member_id
        )
    )::text
    from pilotis.members m where m.app_id = $1 and m.member_id = $2
"""


async def account(connection: TenantDatabase, app_id: UUID, member_id: str) -> str | None:
    """Return all that the server knows of a member, a JSON object; None if there is no such member."""
    found: str | None = await connection.fetchval(_ACCOUNT, app_id, member_id)
    return found


async def files_of(
    connection: TenantDatabase, app_id: UUID, member_id: str, after: UUID | None, limit: int
) -> list[OwnFile]:
    """Return some of the files that a member has created, by their ids."""
    rows = await connection.fetch(
        f"""
        select {columns(OwnFile)} from pilotis.files
        where app_id = $1 and creator = $2 and not is_folder and ($3::uuid is null or file_id > $3)
        order by file_id limit $4
        """,
        app_id,
        member_id,
        after,
        limit,
    )
    return [OwnFile(**row) for row in rows]
