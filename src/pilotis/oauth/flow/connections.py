"""The clients that a member has connected, and how to disconnect them."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection as DatabaseConnection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import Event
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.oauth import client_store, scope_store
from pilotis.oauth.clients import BUILT_IN_SCOPES, logo_url
from pilotis.oauth.events import CONNECTION_REVOKED, ConnectionEvent, about
from pilotis.oauth.flow import store
from pilotis.oauth.flow.records import ConsentOfClient
from pilotis.oauth.flow.texts import language, texts_of
from pilotis.oauth.flow.types import ConnectedClient, Connection, GrantedScope
from pilotis.oauth.logout.backchannel import BackchannelLogout, EndedSession
from pilotis.oauth.tokens.records import RevokedGrant
from pilotis.oauth.tokens.store import revoke_of_consent, revoke_of_member
from pilotis.security.audit.service import record


class ConsentNotFoundError(NotFoundError):
    """404: the member has no such connection to a client."""

    code = "CONSENT_NOT_FOUND"
    message = "You have no such connection."


class Connections:
    """Lists and revokes members' consents; `issuer` is the server's address."""

    def __init__(self, database: Database, events: Events, backchannel: BackchannelLogout, issuer: str) -> None:
        self._database = database
        self._events = events
        self._issuer = issuer
        self._backchannel = backchannel

    async def page(
        self, app: AppInfo, member_id: str, paging: Paging, wanted_language: str | None
    ) -> ItemPage[Connection]:
        """Return a page of a member's connections, newest first."""
        tongue = language(wanted_language)
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.connections(self._database, app.app_id, member_id, limit, paging.offset)
        titles = {name: text.title for name, text in texts_of(tongue).scopes.items()}
        if any(set(row.scopes) - BUILT_IN_SCOPES for row in rows):
            titles |= {row.name: row.title for row in await scope_store.scope_texts(self._database, app.app_id)}
        data = [_connection(row, titles, self._issuer) for row in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def end(self, app_id: UUID, actor: Actor, member_id: str, consent_id: UUID) -> None:
        """Delete a member's connection with all its grants, codes and tokens; raises `ConsentNotFoundError`.

        The audit log has it if somebody else than the member ended it.
        """
        async with self._database.transaction(app_id) as connection:
            await self._end(connection, app_id, actor, member_id, consent_id)

    async def end_all(self, connection: DatabaseConnection, app_id: UUID, actor: Actor, member_id: str) -> None:
        """Do what `end` does for all of a member's connections and offline grants, in the caller's transaction."""
        for consent_id in await store.lock_consents(connection, app_id, member_id):
            await self._end(connection, app_id, actor, member_id, consent_id)
        for row in await revoke_of_member(connection, app_id, member_id, "disconnected"):
            await self._tell(connection, app_id, row)

    async def _end(
        self, connection: DatabaseConnection, app_id: UUID, actor: Actor, member_id: str, consent_id: UUID
    ) -> None:
        consent = await store.delete_consent(connection, app_id, member_id, consent_id)
        if consent is None:
            raise ConsentNotFoundError
        gone = ConnectionEvent(
            consent_id=consent_id, client_id=consent.client_id, member_id=member_id, scopes=consent.scopes
        )
        await self._events.emit_all(connection, app_id, [about(CONNECTION_REVOKED, actor, gone)])
        if actor.kind != "member":
            await record(connection, app_id, actor, "member.end_consent", member_id, client_id=consent.client_id)
        for row in await revoke_of_consent(connection, app_id, consent_id, "disconnected"):
            await self._tell(connection, app_id, row)

    async def _tell(self, connection: DatabaseConnection, app_id: UUID, row: RevokedGrant) -> None:
        await self._backchannel.enqueue(connection, app_id, EndedSession(row.client_id, row.session_id, row.member_id))

    async def covers(self, consumer_app_id: UUID, client_id: str, event: Event) -> bool:
        """Return whether a client may receive a domain event in a consumer app, given its scopes and the consent."""
        return await store.covers(self._database, event.app_id, client_id, event.type, event.member_id, consumer_app_id)

    async def knows(self, app_id: UUID, client_id: str) -> bool:
        """Return whether the app has an active client with this id."""
        row = await client_store.client(self._database, app_id, client_id)
        return row is not None and row.is_active

    async def link(
        self, connection: DatabaseConnection, app_id: UUID, client_id: str, consumer_app_id: UUID, secret: str | None
    ) -> bool:
        """Link a client to the consumer app that knows its secret; return whether the client is the consumer's."""
        row = await client_store.lock_client(connection, app_id, client_id)
        if row is None or not row.is_active:
            return False
        if row.consumer_app_id is not None:
            return row.consumer_app_id == consumer_app_id
        if secret is None or not row.knows_secret(secret):
            return False
        await client_store.link_client(connection, app_id, client_id, consumer_app_id)
        await record(connection, app_id, SYSTEM, "oauth_client.link", client_id, consumer_app_id=str(consumer_app_id))
        return True


def _connection(row: ConsentOfClient, titles: dict[str, str], issuer: str) -> Connection:
    return Connection(
        consent_id=row.consent_id,
        client=ConnectedClient(
            client_id=row.client_id,
            name=row.name,
            description=row.description,
            logo_url=logo_url(issuer, row.logo_url),
            client_uri=row.client_uri,
            policy_uri=row.policy_uri,
            tos_uri=row.tos_uri,
        ),
        scopes=[GrantedScope(name, titles.get(name, name)) for name in row.scopes],
        granted_at=rfc3339(row.granted_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )
