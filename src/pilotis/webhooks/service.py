"""Webhooks: creating, changing and deleting them. Every change that begins after the response is delivered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection
from msgspec import UNSET

from pilotis.data.tables.service import Tables
from pilotis.db.locks import lock_apps
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.events.service import Events
from pilotis.events.types import Target
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.http.api.repeating import ContendedError
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import MESSAGES, OutgoingError, OutgoingFailure
from pilotis.jobs import lanes
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.webhooks import delivery_store, log_store, store
from pilotis.webhooks.consents import Consents
from pilotis.webhooks.errors import (
    AddressNotAllowedError,
    ClientNotLinkedError,
    InvalidUrlError,
    TooManyWebhooksError,
    WebhookNotFoundError,
)
from pilotis.webhooks.events import WEBHOOK_DISABLED, WebhookDisabledEvent
from pilotis.webhooks.headers import checked_headers
from pilotis.webhooks.naming import check_patterns, check_provider_patterns
from pilotis.webhooks.own_types import OwnTypes
from pilotis.webhooks.sender import open_headers
from pilotis.webhooks.signatures import PREFIX, new_secret
from pilotis.webhooks.store import CheckedWebhook, WebhookRecord
from pilotis.webhooks.target import KIND
from pilotis.webhooks.types import (
    MASK,
    CreatedWebhook,
    NewWebhook,
    RotatedSecret,
    Webhook,
    WebhookChange,
    WebhookDetails,
    WebhookStats,
    WebhookStatus,
)

_PREFIX_LENGTH = len(PREFIX) + 4
_PLAIN = ("url", "event_types", "name", "description", "table_ids", "timeout_seconds", "max_in_flight")

_log = structlog.get_logger("pilotis.webhooks")


class Webhooks:
    """The webhooks of apps."""

    total = store.COUNT
    """Counts webhooks; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        events: Events,
        secrets: Secrets,
        outgoing: Callable[[], Outgoing],
        tables: Tables,
        own_types: OwnTypes,
        consents: Consents,
        *,
        max_pending: int,
    ) -> None:
        """`outgoing` returns the client for outgoing requests, created when it is first used."""
        self._database = database
        self._events = events
        self._secrets = secrets
        self._outgoing = outgoing
        self._tables = tables
        self._own_types = own_types
        self._consents = consents
        self._max_pending = max_pending

    async def create(
        self, app: AppInfo, actor: Actor, webhook_id: UUID, new: NewWebhook, *, listening_seconds: float | None = None
    ) -> CreatedWebhook:
        """Create a webhook and return it with its secret.

        With `listening_seconds` it is a program's temporary webhook: the program sends its deliveries and renews it.
        """
        provider_app_id = new.provider_app_id or app.app_id
        await self._require_client(app.app_id, provider_app_id, new.client_id)
        if listening_seconds is None:
            await self._check_url(app.app_id, new.url)
        await self._check_subscription(app.app_id, provider_app_id, new.event_types, new.table_ids)
        secret = new_secret()
        values: dict[str, Any] = {name: getattr(new, name) for name in _PLAIN}
        values |= await self._encrypted_headers(app.app_id, webhook_id, checked_headers(new.headers, {}))
        values |= await self._encrypted_secret(app.app_id, webhook_id, secret)
        values |= {
            "is_active": new.is_active,
            "client_id": new.client_id,
            "provider_app_id": new.provider_app_id,
        }
        if listening_seconds is not None:
            values["listening_until"] = now() + timedelta(seconds=listening_seconds)
        target = _target(provider_app_id, webhook_id, new.event_types, new.table_ids)
        async with self._database.transaction(app.app_id) as connection:
            if await store.count(connection, app.app_id, provider_app_id) >= app.limits.webhooks:
                raise TooManyWebhooksError
            await self._link(connection, app.app_id, values, new.client_secret)
            await store.insert(connection, app.app_id, webhook_id, values)
            await record(connection, app.app_id, actor, "webhook.create", webhook_id, url=new.url)
            if new.is_active:
                await self._events.store_target(connection, target)
        if new.is_active:
            try:
                await self._events.enable(target)
            except BaseException:
                # A table is locked, or the client disconnected: the webhook is removed.
                await self._remove(app.app_id, webhook_id, actor)
                raise
        webhook = await self.read(app, webhook_id)
        return CreatedWebhook(**msgspec.structs.asdict(webhook), secret=secret)

    async def page(self, app: AppInfo, paging: Paging) -> ItemPage[Webhook]:
        """Return a page of an app's webhooks, newest first."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.page(self._database, app.app_id, limit, paging.offset)
        data = await self._webhooks(app.app_id, rows)
        return ItemPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def failing(self, app_id: UUID) -> int:
        """Return how many webhooks of an app fail, or were disabled because they did."""
        return await store.failing(self._database, app_id)

    async def read(self, app: AppInfo, webhook_id: UUID) -> Webhook:
        """Return a webhook; raises `WebhookNotFoundError`."""
        row = await store.read(self._database.of(app.app_id), app.app_id, webhook_id)
        if row is None:
            raise WebhookNotFoundError
        (webhook,) = await self._webhooks(app.app_id, [row])
        return webhook

    async def details(self, app: AppInfo, webhook_id: UUID) -> WebhookDetails:
        """Return a webhook and the statistics of its deliveries."""
        webhook = await self.read(app, webhook_id)
        found = await log_store.stats(self._database.of(app.app_id), app.app_id, webhook_id)
        stats = WebhookStats(pending=webhook.pending_count, **found._asdict())
        return WebhookDetails(**msgspec.structs.asdict(webhook), stats=stats)

    async def change(self, app: AppInfo, actor: Actor, webhook_id: UUID, change: WebhookChange) -> Webhook:
        """Change a webhook and return it. Its tables emit its events before this returns."""
        before = await store.read(self._database.of(app.app_id), app.app_id, webhook_id)
        if before is None:
            raise WebhookNotFoundError
        client_id = before.client_id if change.client_id is UNSET else change.client_id
        provider = before.provider_app_id if change.provider_app_id is UNSET else change.provider_app_id
        if change.client_id is not UNSET or change.provider_app_id is not UNSET:
            await self._require_client(app.app_id, provider or app.app_id, client_id)
        if change.url is not UNSET:
            await self._check_url(app.app_id, change.url)
        is_checked = change.event_types is not UNSET or change.provider_app_id is not UNSET
        types = before.event_types if change.event_types is UNSET else change.event_types
        await self._check_subscription(
            app.app_id,
            provider or app.app_id,
            types if is_checked else (),
            None if change.table_ids is UNSET else change.table_ids,
        )
        values = {name: getattr(change, name) for name in _PLAIN if getattr(change, name) is not UNSET}
        if change.client_id is not UNSET or change.provider_app_id is not UNSET:
            values |= {"client_id": client_id, "provider_app_id": provider}
        if change.headers is not UNSET:
            secrets = await self._secrets.app(app.app_id)
            stored = open_headers(secrets, webhook_id, before.headers)
            values |= await self._encrypted_headers(app.app_id, webhook_id, checked_headers(change.headers, stored))
        if change.is_active is not UNSET:
            values |= {"is_active": change.is_active}
        if values.get("is_active") and not before.is_active:
            values |= {"disabled_reason": None}
        secret = None if change.client_secret is UNSET else change.client_secret
        apps = {app.app_id, before.provider_app_id or app.app_id, provider or app.app_id}
        row, target = await self._changed(app.app_id, apps, actor, webhook_id, values, secret)
        if target is not None:
            try:
                await self._events.enable(target)
            except BaseException:
                await self._undo(app.app_id, webhook_id, row, values)
                raise
        return await self.read(app, webhook_id)

    async def delete(self, app: AppInfo, actor: Actor, webhook_id: UUID) -> None:
        """Delete a webhook and cancel its pending deliveries; raises `WebhookNotFoundError`."""
        if not await self._remove(app.app_id, webhook_id, actor):
            raise WebhookNotFoundError

    async def rotate(self, app: AppInfo, actor: Actor, webhook_id: UUID, overlap_seconds: int) -> RotatedSecret:
        """Replace a webhook's secret; the previous one also signs for the given seconds."""
        secret = new_secret()
        values = await self._encrypted_secret(app.app_id, webhook_id, secret)
        expires_at = now() + timedelta(seconds=overlap_seconds) if overlap_seconds else None
        async with self._locked(app.app_id, webhook_id) as (connection, row):
            values |= {
                "previous_secret": row.secret if expires_at else None,
                "previous_secret_expires_at": expires_at,
            }
            await store.update(connection, app.app_id, webhook_id, values)
            await record(connection, app.app_id, actor, "webhook.rotate_secret", webhook_id, overlap=overlap_seconds)
        return RotatedSecret(webhook_id, secret, optional_rfc3339(expires_at))

    async def disable(self, app_id: UUID, webhook_id: UUID, reason: str) -> None:
        """Disable a webhook whose receiver is gone: its pending deliveries fail, and an event is emitted."""
        async with self._database.transaction(app_id) as connection:
            row = await store.lock(connection, app_id, webhook_id)
            if row is None or not row.is_active:
                return
            values = {"is_active": False, "disabled_reason": reason}
            await store.update(connection, app_id, webhook_id, values)
            await self._stop_events(connection, app_id, row)
            await record(connection, app_id, SYSTEM, "webhook.disable", webhook_id, reason=reason)
            await self._events.emit(
                connection,
                app_id,
                WEBHOOK_DISABLED,
                WebhookDisabledEvent(webhook_id, reason),
                actor=SYSTEM,
                subject=f"webhooks/{webhook_id}",
            )
        _log.warning("webhook disabled", app_id=str(app_id), webhook_id=str(webhook_id), reason=reason)

    async def hold_listener(self, app_id: UUID, webhook_id: UUID, seconds: float) -> None:
        """Renew a temporary webhook for the given seconds."""
        await store.hold_listener(self._database.of(app_id), app_id, webhook_id, seconds)

    async def delete_lost_listeners(self) -> None:
        """Delete temporary webhooks whose program ended without deleting them."""
        for app_id, webhook_id in await store.lost_listeners(self._database.of(BACKGROUND)):
            await self._remove(app_id, webhook_id, SYSTEM)

    async def _changed(
        self,
        app_id: UUID,
        apps: Collection[UUID],
        actor: Actor,
        webhook_id: UUID,
        values: dict[str, Any],
        client_secret: str | None,
    ) -> tuple[WebhookRecord, Target | None]:
        """Write a change; return the previous webhook, and the target to enable, if there is one.

        `apps` are those whose events it receives, before and afterwards, and its own: they are locked before it.
        """
        async with self._locked(app_id, webhook_id, apps) as (connection, row):
            if "client_id" in values:
                await self._link(connection, app_id, values, client_secret)
            await store.update(connection, app_id, webhook_id, values)
            names = sorted(values.keys() - {"header_names"})
            await record(connection, app_id, actor, "webhook.update", webhook_id, changed=names)
            after = msgspec.structs.replace(row, **values)
            if not after.is_active:
                if row.is_active:
                    await self._stop_events(connection, app_id, row)
                return row, None
            target = _target(after.emitting_app_id, webhook_id, after.event_types, after.table_ids)
            if target.app_id not in apps:
                # Another request has changed the provider meanwhile.
                raise ContendedError
            if target.app_id != row.emitting_app_id:
                await self._events.remove_target(connection, row.emitting_app_id, KIND, webhook_id)
            await self._events.store_target(connection, target)
            return row, target

    async def _undo(self, app_id: UUID, webhook_id: UUID, row: WebhookRecord, values: dict[str, Any]) -> None:
        """Undo a change whose target could not be enabled."""
        async with self._database.transaction(app_id) as connection:
            await lock_apps(connection, {app_id, row.emitting_app_id})
            after = await store.lock(connection, app_id, webhook_id)
            if after is None:
                return
            await store.update(connection, app_id, webhook_id, {name: getattr(row, name) for name in values})
            if row.is_active:
                await self._events.remove_target(connection, after.emitting_app_id, KIND, webhook_id)
                await self._events.store_target(
                    connection, _target(row.emitting_app_id, webhook_id, row.event_types, row.table_ids)
                )
            else:
                await self._stop_events(connection, app_id, after)

    async def _remove(self, app_id: UUID, webhook_id: UUID, actor: Actor) -> bool:
        async with self._database.transaction(app_id) as connection:
            row = await store.lock(connection, app_id, webhook_id)
            if row is None:
                return False
            await self._events.remove_target(connection, row.emitting_app_id, KIND, webhook_id)
            await lanes.remove(connection, KIND, app_id, webhook_id)
            await delivery_store.end_pending(connection, app_id, webhook_id, "cancelled", "WEBHOOK_DELETED")
            await store.delete(connection, app_id, webhook_id)
            await record(connection, app_id, actor, "webhook.delete", webhook_id)
        return True

    async def remove_orphaned_targets(self, connection: Connection) -> None:
        """Remove the targets of consumers whose app was purged while the provider still exists."""
        for app_id, target_id in await store.orphaned_targets(connection, KIND):
            await self._events.remove_target(connection, app_id, KIND, target_id)

    async def _stop_events(self, connection: Connection, app_id: UUID, row: WebhookRecord) -> None:
        """Remove a webhook's target, and fail its pending deliveries; they can be recovered."""
        webhook_id = row.webhook_id
        await self._events.remove_target(connection, row.emitting_app_id, KIND, webhook_id)
        await lanes.close(connection, KIND, app_id, webhook_id)
        await delivery_store.end_pending(connection, app_id, webhook_id, "failed", delivery_store.WEBHOOK_DISABLED)
        await delivery_store.reset_health(connection, app_id, webhook_id)

    @asynccontextmanager
    async def _locked(
        self, app_id: UUID, webhook_id: UUID, apps: Collection[UUID] = ()
    ) -> AsyncGenerator[tuple[Connection, WebhookRecord]]:
        async with self._database.transaction(app_id) as connection:
            if apps:
                await lock_apps(connection, apps)
            row = await store.lock(connection, app_id, webhook_id)
            if row is None:
                raise WebhookNotFoundError
            yield connection, row

    async def _check_url(self, app_id: UUID, url: str) -> None:
        try:
            await self._outgoing().check(url, reach=Reach.SERVER, tenant=app_id)
        except OutgoingError as error:
            if error.failure is OutgoingFailure.INVALID_URL:
                raise InvalidUrlError(str(error)) from None
            is_general = str(error) == MESSAGES[error.failure]
            raise AddressNotAllowedError(None if is_general else str(error)) from None

    async def _check_subscription(
        self, app_id: UUID, provider_app_id: UUID, patterns: Sequence[str], table_ids: Sequence[UUID] | None
    ) -> None:
        if patterns:
            names = set(await self._own_types.names(provider_app_id))
            if provider_app_id != app_id:
                check_provider_patterns(patterns, names)
            else:
                check_patterns(patterns, names | {type_.name for type_ in self._events.catalogue.offered()})
        for table_id in dict.fromkeys(table_ids or ()):
            await self._tables.current(app_id, table_id)

    async def _encrypted_headers(self, app_id: UUID, webhook_id: UUID, headers: dict[str, str]) -> dict[str, Any]:
        secrets = await self._secrets.app(app_id)
        encrypted = secrets.encrypt(Purpose.WEBHOOK_HEADERS, str(webhook_id), msgspec.json.encode(headers))
        return {"headers": encrypted if headers else None, "header_names": list(headers)}

    async def _encrypted_secret(self, app_id: UUID, webhook_id: UUID, secret: str) -> dict[str, Any]:
        secrets = await self._secrets.app(app_id)
        encrypted = secrets.encrypt(Purpose.WEBHOOK_SECRET, str(webhook_id), secret.encode())
        return {"secret": encrypted, "secret_prefix": secret[:_PREFIX_LENGTH]}

    async def _require_client(self, app_id: UUID, provider_app_id: UUID, client_id: str | None) -> None:
        """Raise `ClientNotLinkedError` unless a consumer names a client, and the provider has it."""
        if client_id is None and provider_app_id != app_id:
            raise ClientNotLinkedError
        if client_id is not None and not await self._consents.knows(provider_app_id, client_id):
            raise ClientNotLinkedError

    async def _link(
        self, connection: Connection, app_id: UUID, values: dict[str, Any], client_secret: str | None
    ) -> None:
        """Link the client that a consumer's webhook names to its app; raises `ClientNotLinkedError`."""
        provider_app_id = values["provider_app_id"]
        if provider_app_id is None or provider_app_id == app_id:
            return
        client_id = values["client_id"]
        if not await self._consents.link(connection, provider_app_id, client_id, app_id, client_secret):
            raise ClientNotLinkedError

    async def _webhooks(self, app_id: UUID, rows: Sequence[CheckedWebhook]) -> list[Webhook]:
        if not rows:
            return []
        ids = [row.webhook_id for row in rows]
        pending = await delivery_store.pending(self._database.of(app_id), app_id, ids, self._max_pending)
        arming = set[UUID]()
        for emitting_app_id in {row.emitting_app_id for row in rows}:
            arming |= await self._events.pending_targets(emitting_app_id, KIND)
        return [_webhook(row, pending[row.webhook_id], is_pending=row.webhook_id in arming) for row in rows]


def _target(emitting_app_id: UUID, webhook_id: UUID, types: list[str], table_ids: list[UUID] | None) -> Target:
    return Target(app_id=emitting_app_id, kind=KIND, target_id=webhook_id, types=types, table_ids=table_ids)


def _webhook(row: CheckedWebhook, pending: int, *, is_pending: bool) -> Webhook:
    return Webhook(
        id=row.webhook_id,
        app_id=row.app_id,
        name=row.name,
        description=row.description,
        url=row.url,
        event_types=row.event_types,
        table_ids=row.table_ids,
        provider_app_id=row.provider_app_id,
        client_id=row.client_id,
        headers=dict.fromkeys(row.header_names, MASK),
        is_active=row.is_active,
        status=_status(row, is_pending=is_pending),
        disabled_reason=row.disabled_reason,
        failing_since=optional_rfc3339(row.failing_since),
        timeout_seconds=row.timeout_seconds,
        max_in_flight=row.max_in_flight,
        secret_prefix=row.secret_prefix,
        previous_secret_expires_at=optional_rfc3339(_if_later(row.previous_secret_expires_at)),
        pending_count=pending,
        last_success_at=optional_rfc3339(row.last_success_at),
        last_failure_at=optional_rfc3339(row.last_failure_at),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def _status(row: CheckedWebhook, *, is_pending: bool) -> WebhookStatus:
    if not row.is_active:
        return "disabled"
    if is_pending:
        return "arming"
    return "failing" if row.failing_since else "active"


def _if_later(moment: Any) -> Any:
    return moment if moment is not None and moment > now() else None
