"""SQL statements for clients."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.db.waiters import UNAUTHENTICATED
from pilotis.kit import json
from pilotis.oauth.records import KnownClient, Provider, Registration, StoredClient

# The fields of a registration that can be changed later, in the order of the statements' arguments.
_CHANGEABLE = (
    "name",
    "description",
    "client_uri",
    "policy_uri",
    "tos_uri",
    "grant_types",
    "redirect_uris",
    "post_logout_redirect_uris",
    "scopes",
    "resources",
    "backchannel_logout_uri",
    "backchannel_logout_session_required",
    "is_resource_server",
    "require_pushed_authorization_requests",
    "dpop_bound_access_tokens",
    "claims_in_id_token",
    "jwks",
)
_CLIENT = columns(StoredClient)
_OF_PROVIDER = len(Provider.__struct_fields__)
_INSERT = f"""
    insert into pilotis.oauth_clients (
        app_id, client_id, source, first_party, secret_hash, secret_prefix, token_endpoint_auth_method, is_dynamic,
        {", ".join(_CHANGEABLE)}
    ) values ({", ".join(f"${number}" for number in range(1, 9 + len(_CHANGEABLE)))})
"""
_ONE = f"select {_CLIENT} from pilotis.oauth_clients where app_id = $1 and client_id = $2"
_UPDATE = f"""
    update pilotis.oauth_clients set
        is_active = $3, consumer_app_id = $4,
        {", ".join(f"{name} = ${number}" for number, name in enumerate(_CHANGEABLE, 5))},
        updated_at = now()
    where app_id = $1 and client_id = $2
    returning {_CLIENT}
"""


async def clients_with_scope(connection: Connection, app_id: UUID, name: str) -> int:
    """Return the number of clients that may request a scope."""
    number: int = await connection.fetchval(
        "select count(*) from pilotis.oauth_clients where app_id = $1 and $2 = any(scopes)", app_id, name
    )
    return number


async def resources(connection: Connection, app_id: UUID) -> list[str]:
    """Return the app's resources outside of this server."""
    found = await connection.fetchval("select resources from pilotis.oauth_settings where app_id = $1", app_id)
    return list(found or ())


async def clients(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredClient], int]:
    """Return a page of the app's clients, and the total count."""
    query = f"select {_CLIENT} from pilotis.oauth_clients where app_id = $1"
    return await fetch_page(
        database,
        app_id,
        query,
        (app_id,),
        order_by="created_at, client_id",
        limit=limit,
        offset=offset,
        record=StoredClient,
    )


async def client(database: Database, app_id: UUID, client_id: str) -> StoredClient | None:
    """Return a client."""
    row = await database.fetchrow(_ONE, app_id, client_id, tenant=app_id)
    return None if row is None else StoredClient(**row)


async def lock_client(connection: Connection, app_id: UUID, client_id: str) -> StoredClient | None:
    """Return a client, locked against changes until the transaction ends."""
    row = await connection.fetchrow(f"{_ONE} for update", app_id, client_id)
    return None if row is None else StoredClient(**row)


async def insert_client(
    connection: Connection,
    app_id: UUID,
    client_id: str,
    fields: dict[str, Any],
    *,
    source: str,
    first_party: bool = False,
    secret_hash: bytes | None = None,
    secret_prefix: str | None = None,
) -> StoredClient:
    """Insert a client and return it; `fields` are those of `NewClient`."""
    row = await connection.fetchrow(
        f"{_INSERT} returning {_CLIENT}",
        app_id,
        client_id,
        source,
        first_party,
        secret_hash,
        secret_prefix,
        fields["token_endpoint_auth_method"],
        False,
        *_values(fields),
    )
    assert row is not None
    return StoredClient(**row)


async def put_dynamic_client(
    database: Database, app_id: UUID, client_id: str, fields: dict[str, Any], source: str, secret_hash: bytes | None
) -> None:
    """Let a client that manages its own metadata be a client of the app, or replace its metadata there."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in ("token_endpoint_auth_method", *_CHANGEABLE))
    await database.execute(
        f"{_INSERT} on conflict (app_id, client_id) do update set {changes}, updated_at = now()",
        app_id,
        client_id,
        source,
        False,
        secret_hash,
        None,
        fields["token_endpoint_auth_method"],
        True,
        *_values(fields),
        tenant=UNAUTHENTICATED,
    )


def _values(fields: dict[str, Any]) -> list[Any]:
    """Return the changeable fields in the order of the statements' arguments."""
    jwks = fields.get("jwks")
    text = json.encode(jwks).decode() if isinstance(jwks, dict) else jwks
    return [text if name == "jwks" else fields[name] for name in _CHANGEABLE]


async def insert_registration(database: Database, client_id: str, metadata: str, secret_hash: bytes | None) -> None:
    """Insert a client that registered without a credential; `metadata` is JSON."""
    await database.execute(
        "insert into pilotis.oauth_registrations (client_id, metadata, secret_hash) values ($1, $2, $3)",
        client_id,
        metadata,
        secret_hash,
        tenant=UNAUTHENTICATED,
    )


async def registration(database: Database, client_id: str) -> Registration | None:
    """Return the metadata and the secret's hash of a client that registered without a credential."""
    row = await database.fetchrow(
        """
        update pilotis.oauth_registrations set last_used_at = now() where client_id = $1
        returning metadata, secret_hash
        """,
        client_id,
        tenant=UNAUTHENTICATED,
    )
    return None if row is None else Registration(**row)


async def takes_dynamic_clients(database: Database, app_id: UUID) -> bool:
    """Return whether an app is a provider that accepts clients which manage their own metadata."""
    found = await database.fetchval(
        """
        select true from pilotis.oauth_settings s
        join pilotis.apps a on a.app_id = s.app_id and a.deleted_at is null
        where s.app_id = $1 and s.is_provider and s.dynamic_clients
        """,
        app_id,
        tenant=UNAUTHENTICATED,
    )
    return bool(found)


async def app_of_resource(database: Database, resource: str) -> UUID | None:
    """Return the app that has a resource outside of this server, in its normal form."""
    found: UUID | None = await database.fetchval(
        "select app_id from pilotis.oauth_resources where resource = $1", resource, tenant=UNAUTHENTICATED
    )
    return found


async def delete_unused_dynamic(connection: Connection) -> None:
    """Delete dynamic clients and registrations that no grant or request has used for 30 days."""
    await connection.execute(
        """
        delete from pilotis.oauth_clients c where c.is_dynamic and c.is_active
            and c.created_at < now() - interval '1 day'
            and not exists (
                select from pilotis.oauth_requests r where r.app_id = c.app_id and r.client_id = c.client_id)
            and not exists (
                select from pilotis.oauth_grants g where g.app_id = c.app_id and g.client_id = c.client_id)
            and not exists (
                select from pilotis.oauth_consents n where n.app_id = c.app_id and n.client_id = c.client_id
                    and coalesce(n.last_used_at, n.granted_at) > now() - interval '30 days')
        """
    )
    await connection.execute(
        """
        delete from pilotis.oauth_registrations r where r.last_used_at < now() - interval '30 days'
            and not exists (select from pilotis.oauth_clients c where c.is_dynamic and c.client_id = r.client_id)
        """
    )


async def update_client(connection: Connection, app_id: UUID, client_id: str, fields: dict[str, Any]) -> StoredClient:
    """Replace the changeable fields of a client and return it."""
    row = await connection.fetchrow(
        _UPDATE,
        app_id,
        client_id,
        fields["is_active"],
        fields["consumer_app_id"],
        *_values(fields),
    )
    assert row is not None
    return StoredClient(**row)


async def replace_secret(
    connection: Connection, app_id: UUID, client_id: str, secret_hash: bytes, secret_prefix: str, overlap_seconds: int
) -> StoredClient:
    """Replace a client's secret; the previous one stays valid for the overlap, older ones become invalid."""
    row = await connection.fetchrow(
        f"""
        update pilotis.oauth_clients set
            previous_secret_hash = case when $5 > 0 then secret_hash end,
            previous_secret_expires_at = case when $5 > 0 then now() + make_interval(secs => $5) end,
            secret_hash = $3, secret_prefix = $4, updated_at = now()
        where app_id = $1 and client_id = $2
        returning {_CLIENT}
        """,
        app_id,
        client_id,
        secret_hash,
        secret_prefix,
        overlap_seconds,
    )
    assert row is not None
    return StoredClient(**row)


async def link_client(connection: Connection, app_id: UUID, client_id: str, consumer_app_id: UUID) -> None:
    """Link a client to the app of this server that owns it."""
    await connection.execute(
        """
        update pilotis.oauth_clients set consumer_app_id = $3, updated_at = now()
        where app_id = $1 and client_id = $2
        """,
        app_id,
        client_id,
        consumer_app_id,
    )


async def delete_client(connection: Connection, app_id: UUID, client_id: str) -> bool:
    """Delete a client; False if it does not exist."""
    tag = await connection.execute(
        "delete from pilotis.oauth_clients where app_id = $1 and client_id = $2", app_id, client_id
    )
    return tag == "DELETE 1"


async def put_logo(connection: Connection, app_id: UUID, client_id: str, image: bytes, path: str) -> None:
    """Replace a client's logo; `path` is where it is served."""
    await connection.execute(
        """
        insert into pilotis.oauth_logos (app_id, client_id, image) values ($1, $2, $3)
        on conflict (app_id, client_id) do update set image = excluded.image, updated_at = now()
        """,
        app_id,
        client_id,
        image,
    )
    await _set_logo(connection, app_id, client_id, path)


async def delete_logo(connection: Connection, app_id: UUID, client_id: str) -> bool:
    """Delete a client's logo; False if it has none."""
    tag = await connection.execute(
        "delete from pilotis.oauth_logos where app_id = $1 and client_id = $2", app_id, client_id
    )
    if tag != "DELETE 1":
        return False
    await _set_logo(connection, app_id, client_id, None)
    return True


async def _set_logo(connection: Connection, app_id: UUID, client_id: str, path: str | None) -> None:
    await connection.execute(
        "update pilotis.oauth_clients set logo_url = $3, updated_at = now() where app_id = $1 and client_id = $2",
        app_id,
        client_id,
        path,
    )


async def logo(database: Database, app_id: UUID, client_id: str) -> bytes | None:
    """Return the logo of a client of an existing app."""
    found: bytes | None = await database.fetchval(
        """
        select l.image from pilotis.oauth_logos l
        join pilotis.apps a on a.app_id = l.app_id and a.deleted_at is null
        where l.app_id = $1 and l.client_id = $2
        """,
        app_id,
        client_id,
        tenant=UNAUTHENTICATED,
    )
    return found


async def known_client(database: Database, app_id: UUID, client_id: str) -> KnownClient | None:
    """Return an active client of an existing app with that app's name and provider settings, or their defaults."""
    row = await database.fetchrow(
        f"""
        select a.app_id, a.name, a.allow_id_password_login,
            coalesce(s.is_provider, false),
            coalesce(s.access_token_seconds, 600),
            coalesce(s.refresh_idle_days, 30),
            coalesce(s.refresh_absolute_days, 365), s.consent_url,
            coalesce(s.login_redirect_uris, '{{}}'),
            coalesce(s.dpop_nonce, 'offered'), s.public_key,
            coalesce(s.resources, '{{}}'),
            coalesce(s.dynamic_scopes, '{{}}'),
            {columns(KnownClient, "c", without=("provider",))}
        from pilotis.oauth_clients c
        join pilotis.apps a on a.app_id = c.app_id and a.deleted_at is null
        left join pilotis.oauth_settings s on s.app_id = c.app_id
        where c.app_id = $1 and c.client_id = $2 and c.is_active and (not c.is_dynamic or s.dynamic_clients)
        """,
        app_id,
        client_id,
        tenant=UNAUTHENTICATED,
    )
    if row is None:
        return None
    # By position, in the order of the fields: of the provider and of the client, two columns have the same name.
    values = (*row[_OF_PROVIDER:], Provider(*row[:_OF_PROVIDER]))
    return KnownClient(*values)


async def touch_client(database: Database, app_id: UUID, client_id: str) -> None:
    """Record when a client was last used, to the minute."""
    await database.execute(
        """
        update pilotis.oauth_clients set last_used_at = now()
        where app_id = $1 and client_id = $2
            and (last_used_at is null or last_used_at < now() - interval '1 minute')
        """,
        app_id,
        client_id,
        tenant=app_id,
    )
