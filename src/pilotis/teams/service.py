"""Teams: who is in them, with which roles, and who may change that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.api.principals import Actor, AppInfo, MemberInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import PayloadTooLargeError, invalid
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded, is_address
from pilotis.mail.service import DAY_SECONDS, Mails, NewMail
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.service import Members
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits
from pilotis.security.single_use import app_of, mint
from pilotis.teams import events, store
from pilotis.teams.errors import (
    InvitationForAnotherAddressError,
    SlugTakenError,
    TeamCreationClosedError,
    TeamFullError,
    TeamInvitationNotFoundError,
    TeamLastOwnerError,
    TeamMemberNotFoundError,
    TeamNotFoundError,
    TeamOwnerRequiredError,
    TooManyTeamsError,
)
from pilotis.teams.events import TeamData
from pilotis.teams.store import NewInvitation, StoredInvitation, StoredOwnTeam, StoredTeam, StoredTeamMember
from pilotis.teams.types import (
    OWNER,
    CreatedTeamInvitation,
    InvitedTo,
    NewTeam,
    NewTeamInvitation,
    OwnTeam,
    OwnTeams,
    Team,
    TeamChange,
    TeamInvitation,
    TeamInvitations,
    TeamMember,
    TeamMemberPage,
    TeamPage,
    TeamQuery,
    TeamSettings,
)

MAX_TEAMS, MAX_MEMBERS, MAX_INVITATIONS = 100, 10_000, 200
"""Of a member, since a rule reads all of them; of a team; open ones of a team."""
_DATA_BYTES = 4096
_PREFIX = "ti_"
_HOUR_SECONDS = 3600
_MAILS_AN_HOUR, _MAILS_A_DAY = 5, 20


class Teams:
    """Teams of an app's members."""

    def __init__(
        self,
        database: Database,
        emitter: Events,
        members: Members,
        mails: Mails,
        rate_limits: RateLimits,
        base_url: str,
    ) -> None:
        self._database = database
        self._events = emitter
        self._members = members
        self._mails = mails
        self._rate_limits = rate_limits
        self._base_url = base_url

    async def settings(self, app_id: UUID) -> TeamSettings:
        """Return whether members create teams."""
        return TeamSettings(await store.members_create(self._database.of(app_id), app_id))

    async def change_settings(self, app_id: UUID, actor: Actor, new: TeamSettings) -> TeamSettings:
        """Set whether members create teams."""
        async with self._database.transaction(app_id) as connection:
            await store.set_members_create(connection, app_id, new.members_create)
            await record(connection, app_id, actor, "team_settings.put", app_id, members_create=new.members_create)
        return new

    async def page(self, app: AppInfo, query: TeamQuery) -> TeamPage:
        """Return a page of an app's teams, by name."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(self._database, app.app_id, query.search, limit, query.offset)
        return TeamPage(data=[_team(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def of_member(self, app_id: UUID, member_id: str) -> OwnTeams:
        """Return all teams of a member, by name; raises `MemberNotFoundError`."""
        rows = await store.of_member(self._database.of(app_id), app_id, member_id)
        if not rows and not await store.is_member(self._database.of(app_id), app_id, member_id):
            raise MemberNotFoundError
        return OwnTeams([_own(row) for row in rows])

    async def read(self, app_id: UUID, team_id: UUID) -> Team:
        """Return a team; raises `TeamNotFoundError`."""
        row = await store.read(self._database.of(app_id), app_id, team_id)
        if row is None:
            raise TeamNotFoundError
        return _team(row)

    async def own(self, app_id: UUID, team_id: UUID, member: MemberInfo) -> OwnTeam:
        """Return a team of the member; raises `TeamNotFoundError` if the member is not in it."""
        row = await store.own(self._database.of(app_id), app_id, team_id, member.member_id)
        if row is None:
            raise TeamNotFoundError
        return _own(row)

    async def create(
        self, app_id: UUID, actor: Actor, team_id: UUID, new: NewTeam, member: MemberInfo | None = None
    ) -> None:
        """Create a team. The member who creates one is its owner; one that the app creates has no members yet.

        Raises `TeamCreationClosedError`, `SlugTakenError` and `TooManyTeamsError`.
        """
        async with _unique_slug(), self._database.transaction(app_id) as connection:
            if member is not None and not await store.members_create(connection, app_id):
                raise TeamCreationClosedError
            creator = None if member is None else member.member_id
            await store.insert(connection, app_id, team_id, new.name, new.slug, _data(new.data), creator)
            created = events.about(events.TEAM_CREATED, actor, TeamData(team_id, new.name, new.slug))
            await self._events.emit_all(connection, app_id, [created])
            if creator is not None:
                await self._put(connection, app_id, actor, team_id, creator, [OWNER])
            else:
                await record(connection, app_id, actor, "team.create", team_id, name=new.name)

    async def change(
        self, app_id: UUID, actor: Actor, team_id: UUID, change: TeamChange, member: MemberInfo | None = None
    ) -> None:
        """Change a team, as one of its owners or as the app; raises `SlugTakenError`."""
        async with _unique_slug(), self._changing(app_id, team_id, member) as connection:
            known = await store.read(connection, app_id, team_id)
            if known is None:
                raise TeamNotFoundError
            name = known.name if change.name is msgspec.UNSET else change.name
            slug = known.slug if change.slug is msgspec.UNSET else change.slug
            data = known.data if change.data is msgspec.UNSET else _data(change.data)
            await store.update(connection, app_id, team_id, name, slug, data)
            fields = {
                "name": name != known.name,
                "slug": slug != known.slug,
                "data": json.decode(data.encode()) != json.decode(known.data.encode()),
            }
            if changed := [field for field, differs in fields.items() if differs]:
                event = events.updated(actor, TeamData(team_id, name, slug), changed)
                await self._events.emit_all(connection, app_id, [event])
            if member is None:
                await record(connection, app_id, actor, "team.update", team_id, name=name)

    async def delete(self, app_id: UUID, actor: Actor, team_id: UUID, member: MemberInfo | None = None) -> None:
        """Delete a team, as one of its owners or as the app. Its members lose it with their next request."""
        async with self._changing(app_id, team_id, member) as connection:
            known = await store.read(connection, app_id, team_id)
            assert known is not None
            gone = await store.delete(connection, app_id, team_id)
            await self._members.refresh_teams(connection, app_id, gone)
            event = events.about(events.TEAM_DELETED, actor, TeamData(team_id, known.name, known.slug))
            await self._events.emit_all(connection, app_id, [event])
            if member is None:
                await record(connection, app_id, actor, "team.delete", team_id)

    async def members(
        self, app: AppInfo, team_id: UUID, paging: Paging, member: MemberInfo | None = None
    ) -> TeamMemberPage:
        """Return a page of a team's members, for one of them or for the app."""
        await (self.read(app.app_id, team_id) if member is None else self.own(app.app_id, team_id, member))
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.members(self._database, app.app_id, team_id, limit, paging.offset)
        data = [_member(row) for row in rows]
        return TeamMemberPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def put_member(
        self, app_id: UUID, actor: Actor, team_id: UUID, member_id: str, roles: Sequence[str]
    ) -> TeamMember:
        """Add a member to a team as the app, or replace its roles.

        Raises `TeamMemberNotFoundError` if there is no such member, `TeamLastOwnerError`, and the errors of full teams.
        """
        try:
            async with self._changing(app_id, team_id) as connection:
                await self._require_other_owner(connection, app_id, team_id, member_id, roles)
                await self._put(connection, app_id, actor, team_id, member_id, roles)
                await record(connection, app_id, actor, "team.member.put", member_id, team_id=team_id, roles=roles)
                row = await store.member(connection, app_id, team_id, member_id)
        except asyncpg.ForeignKeyViolationError:
            raise TeamMemberNotFoundError from None
        assert row is not None
        return _member(row)

    async def change_member(
        self, app_id: UUID, actor: Actor, team_id: UUID, member: MemberInfo, member_id: str, roles: Sequence[str]
    ) -> TeamMember:
        """Replace the roles of a member, as one of the team's owners; raises `TeamLastOwnerError`."""
        async with self._changing(app_id, team_id, member) as connection:
            if await store.member(connection, app_id, team_id, member_id) is None:
                raise TeamMemberNotFoundError
            await self._require_other_owner(connection, app_id, team_id, member_id, roles)
            await self._put(connection, app_id, actor, team_id, member_id, roles)
            row = await store.member(connection, app_id, team_id, member_id)
        assert row is not None
        return _member(row)

    async def remove_member(
        self, app_id: UUID, actor: Actor, team_id: UUID, member_id: str, member: MemberInfo | None = None
    ) -> None:
        """Remove a member from a team: as one of its owners, as the member itself, or as the app.

        Raises `TeamLastOwnerError`.
        """
        leaves = member is not None and member.member_id == member_id
        async with self._changing(app_id, team_id, member, needs_owner=not leaves) as connection:
            known = await store.member(connection, app_id, team_id, member_id)
            if known is None:
                raise TeamMemberNotFoundError
            await self._require_other_owner(connection, app_id, team_id, member_id, [])
            await store.delete_member(connection, app_id, team_id, member_id)
            await self._members.refresh_teams(connection, app_id, [member_id])
            event = events.about_member(events.MEMBER_REMOVED, actor, team_id, member_id, known.roles)
            await self._events.emit_all(connection, app_id, [event])
            if member is None:
                await record(connection, app_id, actor, "team.member.delete", member_id, team_id=team_id)

    async def invite(
        self,
        app_id: UUID,
        team_id: UUID,
        member: MemberInfo,
        new: NewTeamInvitation,
        invitation_id: UUID,
        language: Language | None,
    ) -> CreatedTeamInvitation:
        """Invite by mail, or create a link, as one of the team's owners; raises `TeamFullError`."""
        if new.email is not None and not is_address(new.email):
            raise invalid("email", "email: one e-mail address is expected, such as ada@example.com.", "INVALID_EMAIL")
        writer = await self._mails.writer(app_id)
        token = mint(_PREFIX, app_id)
        lifetime = timedelta(seconds=new.expires_seconds)
        async with self._changing(app_id, team_id, member) as connection:
            if len(await store.invitations(connection, app_id, team_id)) >= MAX_INVITATIONS:
                raise TeamFullError
            row = await store.insert_invitation(
                connection,
                app_id,
                NewInvitation(
                    team_invitation_id=invitation_id,
                    team_id=team_id,
                    token_hash=token.hash,
                    email=new.email,
                    email_folded=None if new.email is None else folded(new.email),
                    roles=_distinct(new.roles),
                    max_uses=new.max_uses,
                    lifetime=lifetime,
                ),
            )
            if new.email is not None:
                page = writer.sending.pages.invite or f"{self._base_url}/account/{app_id}/invite"
                link = f"{page}#{token.text}"
                mail = NewMail(
                    "team_invitation", new.email, language or writer.sending.language, link=link, lifetime=lifetime
                )
                if await self._is_within_budget(connection, app_id, new.email):
                    await writer.write(connection, mail)
                else:
                    await writer.drop(connection, mail, "The address was invited too often.")
        return CreatedTeamInvitation(**_fields(row), token=token.text if new.link else None)

    async def invitations(self, app_id: UUID, team_id: UUID, member: MemberInfo) -> TeamInvitations:
        """Return the open invitations to a team, for one of its owners."""
        _require_owner(await store.own(self._database.of(app_id), app_id, team_id, member.member_id))
        rows = await store.invitations(self._database.of(app_id), app_id, team_id)
        return TeamInvitations([TeamInvitation(**_fields(row)) for row in rows])

    async def revoke_invitation(self, app_id: UUID, team_id: UUID, member: MemberInfo, invitation_id: UUID) -> None:
        """Delete an invitation, as one of the team's owners."""
        async with self._changing(app_id, team_id, member) as connection:
            if not await store.delete_invitation(connection, app_id, team_id, invitation_id):
                raise TeamInvitationNotFoundError

    async def invited_to(self, app_id: UUID, token: str) -> InvitedTo:
        """Return what an invitation is for; using it changes nothing."""
        row = await self._open(self._database.of(app_id), app_id, token)
        team = await store.read(self._database.of(app_id), app_id, row.team_id)
        if team is None:
            raise TeamInvitationNotFoundError
        return InvitedTo(
            team_id=team.team_id, name=team.name, slug=team.slug, roles=row.roles, expires_at=rfc3339(row.expires_at)
        )

    async def accept(self, app_id: UUID, actor: Actor, member: MemberInfo, token: str) -> OwnTeam:
        """Join a team by an invitation; who is in it already uses nothing up.

        Raises `TeamInvitationNotFoundError`, `InvitationForAnotherAddressError`, and the errors of full teams.
        """
        member_id = member.member_id
        found = await self._open(self._database.of(app_id), app_id, token)
        async with self._database.transaction(app_id) as connection:
            if not await store.lock(connection, app_id, found.team_id):
                raise TeamInvitationNotFoundError
            # As it is now, since it may have been revoked.
            row = await self._open(connection, app_id, token)
            if await store.own(connection, app_id, row.team_id, member_id) is None:
                if row.email_folded is not None:
                    account = await self._members.lock_account(connection, app_id, member_id)
                    if account is None or account.email_folded != row.email_folded:
                        raise InvitationForAnotherAddressError
                if not await store.use_invitation(connection, app_id, row.team_invitation_id):
                    raise TeamInvitationNotFoundError
                await self._put(connection, app_id, actor, row.team_id, member_id, row.roles)
            joined = await store.own(connection, app_id, row.team_id, member_id)
        assert joined is not None
        return _own(joined)

    async def lock(self, connection: Connection, app_id: UUID, team_id: UUID) -> bool:
        """Lock a team until the transaction ends; False if there is none."""
        return await store.lock(connection, app_id, team_id)

    async def name(self, app_id: UUID, team_id: UUID) -> str | None:
        """Return what a team is called; None if there is none."""
        team = await store.read(self._database.of(app_id), app_id, team_id)
        return None if team is None else team.name

    async def welcome(
        self, connection: Connection, app_id: UUID, actor: Actor, team_id: UUID, member_id: str, roles: Sequence[str]
    ) -> None:
        """Add a member that the app has invited to a team, in the caller's transaction.

        Who is in it keeps its roles. A team that is deleted or full is left out, and so is one too many of the member.
        """
        if not await store.lock(connection, app_id, team_id):
            return
        if await store.member(connection, app_id, team_id, member_id) is None:
            with suppress(TeamFullError, TooManyTeamsError):
                await self._put(connection, app_id, actor, team_id, member_id, roles)

    async def _open(self, connection: Any, app_id: UUID, token: str) -> StoredInvitation:
        found = None
        if app_of(_PREFIX, token) == app_id:
            found = await store.invitation(connection, app_id, secret_hash(token))
        if found is None:
            raise TeamInvitationNotFoundError
        return found

    @asynccontextmanager
    async def _changing(
        self, app_id: UUID, team_id: UUID, member: MemberInfo | None = None, *, needs_owner: bool = True
    ) -> AsyncGenerator[Connection]:
        """Begin a transaction in which nobody else changes the team; a member has to be in it, perhaps as an owner."""
        async with self._database.transaction(app_id) as connection:
            if not await store.lock(connection, app_id, team_id):
                raise TeamNotFoundError
            if member is not None:
                own = await store.own(connection, app_id, team_id, member.member_id)
                if own is None:
                    raise TeamNotFoundError
                if needs_owner:
                    _require_owner(own)
            yield connection

    async def _put(
        self, connection: Connection, app_id: UUID, actor: Actor, team_id: UUID, member_id: str, roles: Sequence[str]
    ) -> None:
        known, roles = await store.member(connection, app_id, team_id, member_id), _distinct(roles)
        if known is None:
            members, teams = await store.counts(connection, app_id, team_id, member_id)
            if members >= MAX_MEMBERS:
                raise TeamFullError
            if teams >= MAX_TEAMS:
                raise TooManyTeamsError
        await store.put_member(connection, app_id, team_id, member_id, roles)
        await self._members.refresh_teams(connection, app_id, [member_id])
        if known is None or known.roles != roles:
            type_ = events.MEMBER_ADDED if known is None else events.MEMBER_UPDATED
            event = events.about_member(type_, actor, team_id, member_id, roles)
            await self._events.emit_all(connection, app_id, [event])

    async def _require_other_owner(
        self, connection: Connection, app_id: UUID, team_id: UUID, member_id: str, roles: Sequence[str]
    ) -> None:
        """Raise `TeamLastOwnerError` if the team's last owner would be none any more."""
        known = await store.member(connection, app_id, team_id, member_id)
        ends = known is not None and OWNER in known.roles and OWNER not in roles
        if ends and not await store.has_other_owner(connection, app_id, team_id, member_id):
            raise TeamLastOwnerError

    async def _is_within_budget(self, connection: Connection, app_id: UUID, address: str) -> bool:
        key = f"team_invitation:{app_id}:{secret_hash(folded(address)).hex()}"
        return await self._rate_limits.permits(
            connection, f"{key}:hour", _MAILS_AN_HOUR, _HOUR_SECONDS
        ) and await self._rate_limits.permits(connection, key, _MAILS_A_DAY, DAY_SECONDS)


def _require_owner(row: StoredOwnTeam | None) -> None:
    if row is None:
        raise TeamNotFoundError
    if OWNER not in row.roles:
        raise TeamOwnerRequiredError


def _distinct(roles: Sequence[str]) -> list[str]:
    for index, role in enumerate(roles):
        # The pattern of the type lets this one pass.
        if role.endswith("\n"):
            raise invalid(f"roles[{index}]", "A role consists of a-z, 0-9, _ and -.")
    return list(dict.fromkeys(roles))


def _data(data: dict[str, Any]) -> str:
    text = json.encode(data)
    if len(text) > _DATA_BYTES:
        raise PayloadTooLargeError(f"The data of a team has at most {_DATA_BYTES} bytes.")
    return text.decode()


@asynccontextmanager
async def _unique_slug() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "team_slug_unique":
            raise SlugTakenError from None
        raise


def _team(row: StoredTeam) -> Team:
    return Team(**_team_fields(row))


def _own(row: StoredOwnTeam) -> OwnTeam:
    return OwnTeam(**_team_fields(row), roles=row.roles, joined_at=rfc3339(row.joined_at))


def _team_fields(row: StoredTeam) -> dict[str, Any]:
    return {
        "team_id": row.team_id,
        "name": row.name,
        "slug": row.slug,
        "data": json.decode(row.data.encode()),
        "member_count": row.member_count,
        "created_by": row.created_by,
        "created_at": rfc3339(row.created_at),
    }


def _member(row: StoredTeamMember) -> TeamMember:
    return TeamMember(member_id=row.member_id, nickname=row.nickname, roles=row.roles, joined_at=rfc3339(row.joined_at))


def _fields(row: StoredInvitation) -> dict[str, Any]:
    return {
        "team_invitation_id": row.team_invitation_id,
        "email": row.email,
        "roles": row.roles,
        "max_uses": row.max_uses,
        "uses": row.uses,
        "created_at": rfc3339(row.created_at),
        "expires_at": rfc3339(row.expires_at),
    }
