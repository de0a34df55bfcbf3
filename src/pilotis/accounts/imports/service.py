"""Imports members from another product: each line is a member, and a rejected one does not stop the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from asyncpg import Connection

from pilotis.accounts.imports.types import ImportedMember, ImportedMembers, RejectedLine
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import time_field
from pilotis.kit import json
from pilotis.kit.errors import ConflictError, PayloadTooLargeError, PilotisError, invalid
from pilotis.kit.ids import uuid7_text
from pilotis.kit.mail_addresses import folded
from pilotis.mail.service import require_address
from pilotis.members.arrivals.types import MemberRows
from pilotis.members.service import Members
from pilotis.members.types import NewRecord
from pilotis.oauth.links.service import MemberLinks
from pilotis.security.audit.service import record

MAX_LINES = 1000
_decoder = json.decoder(ImportedMember)


class IdentityTakenError(ConflictError):
    """409: an account at a vendor is another member's."""

    code = "IDENTITY_TAKEN"
    message = "This account at a vendor is another member's."


async def _whole(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise PayloadTooLargeError(f"The lines of one import have at most {limit} bytes.")
    return bytes(body)


class Imports:
    """Imports of members."""

    def __init__(self, database: Database, members: Members, links: MemberLinks) -> None:
        self._database = database
        self._members = members
        self._links = links

    async def run(self, app: AppInfo, actor: Actor, chunks: AsyncIterator[bytes]) -> ImportedMembers:
        """Make a member of each line of JSON, and return how many, and which lines were rejected; empty ones count not.

        It works for apps that let nobody sign up, too. All that were made are committed together. Raises
        `PayloadTooLargeError` beyond the limit `body_bytes`.
        """
        body = await _whole(chunks, app.limits.body_bytes)
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        if len(lines) > MAX_LINES:
            raise invalid("body", f"At most {MAX_LINES} members are imported by one request.", "TOO_MANY_LINES")
        return await self._members.arrivals.making(app, (), partial(self._import, app, actor, lines))

    async def _import(
        self, app: AppInfo, actor: Actor, lines: Sequence[tuple[int, bytes]], rows: MemberRows
    ) -> ImportedMembers:
        rejected = []
        async with self._database.transaction(app.app_id) as connection:
            for number, line in lines:
                try:
                    async with connection.transaction():
                        await self._insert(connection, app, actor, json.decode(line, _decoder), rows)
                except PilotisError as error:
                    code = error.details[0].code if error.details else error.code
                    rejected.append(RejectedLine(number, code, error.text))
            created = len(lines) - len(rejected)
            await record(connection, app.app_id, actor, "member.import", None, created=created, rejected=len(rejected))
        return ImportedMembers(created, rejected)

    async def _insert(
        self, connection: Connection, app: AppInfo, actor: Actor, given: ImportedMember, rows: MemberRows
    ) -> None:
        if given.email is not None:
            require_address("email", given.email)
        email = given.email if given.email_verified else None
        login_id = given.login_id
        if login_id is None and given.email is not None:
            is_login_id = email is None or app.accounts.login_id_form == "email"
            login_id = folded(given.email) if is_login_id else None
        if login_id is None and email is None and not given.identities:
            raise invalid(
                "login_id", "A member has a login_id, a verified address or an account at a vendor.", "REQUIRED"
            )
        member_id = str(given.member_id) if given.member_id else uuid7_text()
        new = NewRecord(
            member_id=member_id,
            login_id=login_id,
            email=email,
            password_hash=given.password_hash.stored if given.password_hash else None,
            nickname=given.nickname,
            custom_data=given.custom_data,
            roles=given.roles,
            claims=given.claims,
            language=given.language,
            is_active=given.is_active,
            created_at=time_field(given.created_at, "created_at"),
        )
        await self._members.insert_imported(connection, app, actor, new, rows, given.profile)
        for identity in given.identities:
            linked = await self._links.link(
                connection, app.app_id, member_id, identity.provider, identity.subject, email
            )
            if not linked:
                raise IdentityTakenError
