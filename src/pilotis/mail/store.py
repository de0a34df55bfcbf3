"""The statements on mail."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import MAX_COUNTED, fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.kit.languages import Language
from pilotis.mail.types import Purpose, State


class StoredSettings(msgspec.Struct, frozen=True):
    """An app's own SMTP server; the password is encrypted, and not in the URL."""

    smtp_url: str
    password: bytes | None
    mail_from: str
    mail_reply_to: str | None


class AppMail(msgspec.Struct, frozen=True):
    """An app's name, its own SMTP server if it has one, the function that sends its mails instead, and what it is."""

    name: str
    smtp_url: str | None
    password: bytes | None
    mail_from: str | None
    mail_reply_to: str | None
    limits: str
    hook: UUID | None
    is_branch: bool
    plan_limits: str
    language: Language
    urls: str
    own_pages: list[str]


class StoredMail(msgspec.Struct, frozen=True):
    """A mail without its text."""

    mail_id: UUID
    purpose: str
    recipient: str
    member_id: str | None
    language: str
    subject: str
    state: State
    attempts: int
    reply: str | None
    created_at: datetime
    sent_at: datetime | None
    expires_at: datetime | None


class FullMail(StoredMail, frozen=True):
    """A mail; `body` is encrypted, and null once the mail is sent."""

    body: bytes | None
    is_expired: bool


class StoredSuppression(msgspec.Struct, frozen=True):
    """An address that gets no mail, by its hash."""

    address_hash: str
    reason: Literal["bounced", "manual"]
    created_at: datetime


class StoredTemplate(msgspec.Struct, frozen=True):
    """An app's own text of mails; paragraphs are separated by empty lines."""

    purpose: str
    language: str
    subject: str
    text: str
    button: str
    html: str | None
    updated_at: datetime


_MAIL = columns(StoredMail)
_TEMPLATE = columns(StoredTemplate)
_SUPPRESSION = columns(StoredSuppression)


async def settings(connection: Connection | TenantDatabase, app_id: UUID) -> StoredSettings | None:
    """Return an app's own SMTP server, None without one."""
    row = await connection.fetchrow(
        f"select {columns(StoredSettings)} from pilotis.mail_settings where app_id = $1", app_id
    )
    return None if row is None else StoredSettings(**row)


async def app(connection: TenantDatabase, app_id: UUID) -> AppMail | None:
    """Return what mails of an app need; None if the app is deleted."""
    row = await connection.fetchrow(
        """
        select a.name, s.smtp_url, s.password, s.mail_from, s.mail_reply_to, a.limits,
            (a.account_settings -> 'hooks' ->> 'send_mail')::uuid as hook, a.parent_app_id is not null as is_branch,
            a.plan_limits, coalesce(a.account_settings ->> 'default_language', 'en') as language,
            coalesce(a.account_settings -> 'urls', '{}')::text as urls,
            coalesce(o.login_redirect_uris, '{}') as own_pages
        from pilotis.apps a left join pilotis.mail_settings s using (app_id)
        left join pilotis.oauth_settings o using (app_id)
        where a.app_id = $1 and a.deleted_at is null
        """,
        app_id,
    )
    return None if row is None else AppMail(**row)


async def put_settings(connection: Connection, app_id: UUID, new: StoredSettings) -> None:
    """Insert or replace an app's own SMTP server."""
    await connection.execute(
        """
        insert into pilotis.mail_settings (app_id, smtp_url, password, mail_from, mail_reply_to)
        values ($1, $2, $3, $4, $5)
        on conflict (app_id) do update set smtp_url = excluded.smtp_url, password = excluded.password,
            mail_from = excluded.mail_from, mail_reply_to = excluded.mail_reply_to, updated_at = now()
        """,
        app_id,
        new.smtp_url,
        new.password,
        new.mail_from,
        new.mail_reply_to,
    )


async def delete_settings(connection: Connection, app_id: UUID) -> None:
    """Delete an app's own SMTP server."""
    await connection.execute("delete from pilotis.mail_settings where app_id = $1", app_id)


async def templates(connection: TenantDatabase, app_id: UUID) -> list[StoredTemplate]:
    """Return an app's own texts."""
    rows = await connection.fetch(f"select {_TEMPLATE} from pilotis.mail_templates where app_id = $1", app_id)
    return [StoredTemplate(**row) for row in rows]


async def template(
    connection: Connection | TenantDatabase, app_id: UUID, purpose: Purpose, language: str
) -> StoredTemplate | None:
    """Return an app's own text; None if it uses the shipped one."""
    row = await connection.fetchrow(
        f"""
        select {_TEMPLATE} from pilotis.mail_templates where app_id = $1 and purpose = $2 and language = $3
        """,
        app_id,
        purpose,
        language,
    )
    return None if row is None else StoredTemplate(**row)


async def put_template(
    connection: Connection,
    app_id: UUID,
    purpose: Purpose,
    language: str,
    subject: str,
    text: str,
    button: str,
    html: str | None,
) -> StoredTemplate:
    """Insert or replace an app's own text, and return it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.mail_templates (app_id, purpose, language, subject, text, button, html)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (app_id, purpose, language) do update set subject = excluded.subject, text = excluded.text,
            button = excluded.button, html = excluded.html, updated_at = now()
        returning {_TEMPLATE}
        """,
        app_id,
        purpose,
        language,
        subject,
        text,
        button,
        html,
    )
    assert row is not None
    return StoredTemplate(**row)


async def delete_template(connection: Connection, app_id: UUID, purpose: Purpose, language: str) -> bool:
    """Delete an app's own text; False if it has none."""
    tag = await connection.execute(
        "delete from pilotis.mail_templates where app_id = $1 and purpose = $2 and language = $3",
        app_id,
        purpose,
        language,
    )
    return tag == "DELETE 1"


async def insert(
    connection: Connection,
    app_id: UUID,
    mail_id: UUID,
    purpose: Purpose,
    recipient: str,
    member_id: str | None,
    language: str,
    subject: str,
    state: State,
    reply: str | None,
    body: bytes | None,
    lifetime: timedelta | None,
) -> None:
    """Insert a mail."""
    await connection.execute(
        """
        insert into pilotis.mail_messages
            (app_id, mail_id, purpose, recipient, member_id, language, subject, state, reply, body, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now() + $11::interval)
        """,
        app_id,
        mail_id,
        purpose,
        recipient,
        member_id,
        language,
        subject,
        state,
        reply,
        body,
        lifetime,
    )


async def read(connection: Connection | TenantDatabase, app_id: UUID, mail_id: UUID) -> FullMail | None:
    """Return a mail."""
    row = await connection.fetchrow(
        f"""
        select {_MAIL}, body, coalesce(expires_at <= now(), false) as is_expired
        from pilotis.mail_messages where app_id = $1 and mail_id = $2
        """,
        app_id,
        mail_id,
    )
    return None if row is None else FullMail(**row)


async def page(
    database: Database,
    app_id: UUID,
    state: State | None,
    purpose: Purpose | None,
    member_id: str | None,
    limit: int,
    offset: int,
) -> tuple[list[StoredMail], int]:
    """Return a page of an app's mails, newest first, and how many there are, counted up to 10,000."""
    query = f"""
        select {_MAIL} from pilotis.mail_messages
        where app_id = $1 and ($2::text is null or state = $2) and ($3::text is null or purpose = $3)
            and ($4::text is null or member_id = $4)
    """
    return await fetch_page(
        database,
        app_id,
        query,
        (app_id, state, purpose, member_id),
        order_by="created_at desc, mail_id desc",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
        record=StoredMail,
    )


async def record_attempt(
    connection: Connection, app_id: UUID, mail_id: UUID, state: State, reply: str | None, *, is_over: bool
) -> None:
    """Record an attempt to send a mail and its state after it; the body of one that `is_over` is deleted."""
    await connection.execute(
        """
        update pilotis.mail_messages
        set state = $3, reply = $4, attempts = attempts + 1, body = case when $5 then null else body end,
            sent_at = case when $3 = 'sent' then now() end
        where app_id = $1 and mail_id = $2
        """,
        app_id,
        mail_id,
        state,
        reply,
        is_over,
    )


async def set_state(connection: Connection, app_id: UUID, mail_id: UUID, state: State) -> None:
    """Set the state of a mail that is not sent."""
    await connection.execute(
        "update pilotis.mail_messages set state = $3 where app_id = $1 and mail_id = $2", app_id, mail_id, state
    )


async def requeue(connection: Connection, app_id: UUID, mail_id: UUID) -> bool:
    """Queue a mail that was not delivered, with all attempts; False if it cannot be sent any more."""
    tag = await connection.execute(
        """
        update pilotis.mail_messages set state = 'queued', attempts = 0
        where app_id = $1 and mail_id = $2 and state in ('deferred', 'failed', 'bounced') and body is not null
            and (expires_at is null or expires_at > now())
        """,
        app_id,
        mail_id,
    )
    return tag == "UPDATE 1"


async def is_suppressed(connection: Connection, app_id: UUID, address_hash: str) -> bool:
    """Return whether an address gets no mail from the app."""
    found = await connection.fetchval(
        "select true from pilotis.mail_suppressions where app_id = $1 and address_hash = $2", app_id, address_hash
    )
    return bool(found)


async def suppress(
    connection: Connection, app_id: UUID, address_hash: str, reason: Literal["bounced", "manual"]
) -> StoredSuppression:
    """Suppress an address, and return the suppression, which may have been there."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.mail_suppressions (app_id, address_hash, reason) values ($1, $2, $3)
        on conflict (app_id, address_hash) do update set reason = pilotis.mail_suppressions.reason
        returning {_SUPPRESSION}
        """,
        app_id,
        address_hash,
        reason,
    )
    assert row is not None
    return StoredSuppression(**row)


async def suppressions(
    database: Database, app_id: UUID, limit: int, offset: int
) -> tuple[list[StoredSuppression], int]:
    """Return a page of an app's suppressions, newest first, and how many there are."""
    return await fetch_page(
        database,
        app_id,
        f"select {_SUPPRESSION} from pilotis.mail_suppressions where app_id = $1",
        (app_id,),
        order_by="created_at desc, address_hash",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
        record=StoredSuppression,
    )


async def unsuppress(connection: Connection, app_id: UUID, address_hash: str) -> bool:
    """Delete a suppression; False if there is none."""
    tag = await connection.execute(
        "delete from pilotis.mail_suppressions where app_id = $1 and address_hash = $2", app_id, address_hash
    )
    return tag == "DELETE 1"


async def delete_old(connection: Connection, days: int, limit: int) -> int:
    """Delete at most `limit` mails that are older than some days, and return how many were."""
    deleted: int = await connection.fetchval(
        """
        with gone as (
            delete from pilotis.mail_messages where (app_id, mail_id) in (
                select app_id, mail_id from pilotis.mail_messages
                where created_at < now() - make_interval(days => $1) limit $2
            ) returning 1
        ) select count(*) from gone
        """,
        days,
        limit,
    )
    return deleted


async def address_of(
    connection: TenantDatabase, app_id: UUID, member_id: str
) -> tuple[str | None, Language | None] | None:
    """Return a member's verified address, or None, and its language; None if there is no such member."""
    row = await connection.fetchrow(
        "select email, language from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id
    )
    return None if row is None else (row["email"], row["language"])
