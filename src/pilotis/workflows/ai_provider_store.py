"""Statements on the providers of models."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase


class ProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An app's provider: its key and headers are encrypted, `prices` is JSON text."""

    base_url: str
    api_key: bytes | None
    headers: bytes
    header_names: list[str]
    default_model: str | None
    prices: str


async def read(connection: Connection | TenantDatabase, app_id: UUID) -> ProviderRecord | None:
    """Return an app's provider."""
    row = await connection.fetchrow(
        """
        select base_url, api_key, headers, header_names, default_model, prices::text as prices
        from pilotis.ai_providers where app_id = $1
        """,
        app_id,
    )
    return ProviderRecord(**row) if row else None


async def put(connection: Connection, app_id: UUID, values: dict[str, Any]) -> None:
    """Insert or replace an app's provider."""
    places = ", ".join(f"${at}" + ("::text::json" if name == "prices" else "") for at, name in enumerate(values, 2))
    await connection.execute(
        f"""
        insert into pilotis.ai_providers (app_id, {", ".join(values)}) values ($1, {places})
        on conflict (app_id) do update set updated_at = now(),
            {", ".join(f"{name} = excluded.{name}" for name in values)}
        """,
        app_id,
        *values.values(),
    )


async def delete(connection: Connection, app_id: UUID) -> None:
    """Delete an app's provider."""
    await connection.execute("delete from pilotis.ai_providers where app_id = $1", app_id)
