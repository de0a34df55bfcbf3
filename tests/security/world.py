"""Two tenants with one of everything, and every kind of credential, good and bad.

`values` finds real ids for the parameters of any path; a parameter with a new name needs a line in `PROVIDERS`.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from pilotis import master_key
from pilotis.db.embedded.lockfile import running_address
from pilotis.db.pool import Database
from pilotis.http.endpoint import Endpoint
from pilotis.http.openapi import Json
from pilotis.http.principals import OPERATOR
from pilotis.http.site.reference import sample
from pilotis.kit.crypto import base64url, from_base64url, secret_hash
from pilotis.kit.ids import uuid7
from pilotis.kit.signing import TokenKind, TokenSigner
from pilotis.server import Services
from pilotis.sessions.service import CONSOLE
from pilotis.settings import Settings
from pilotis.users.service import grant_role
from tests.support import App, Server
from tests.waiting import PATIENCE

PASSWORD = "correct horse battery"


class Operator:
    """A node of our own on the server's database, for what takes more than the interface gives."""

    def __init__(self, server: Server) -> None:
        settings = Settings(data_dir=str(server.data_dir), pool_size=2)
        address = running_address(server.data_dir / "postgres")._asdict()
        self.database = Database(address, size=2, statement_seconds=PATIENCE)
        self.services = Services(settings, self.database)
        self.signer = TokenSigner(master_key.keyring(settings))

    async def close(self) -> None:
        self.services.passwords.close()
        await self.database.close()

    async def user(self, email: str) -> UUID:
        return await self.services.users.create(email, PASSWORD)

    async def user_session(self, user_id: UUID) -> dict[str, str]:
        async with self.database.connection() as connection:
            tokens = await self.services.sessions.start(connection, CONSOLE, str(user_id))
        return {"access_token": tokens.access_token, "refresh_token": tokens.refresh_token}

    async def role(self, tenant: "Tenant", email: str, role: str) -> str:
        """Make a console user with the role and return its access token."""
        user_id = await self.user(email)
        async with self.database.connection() as connection:
            await grant_role(connection, UUID(tenant.app.app_id), user_id, role)
        return (await self.user_session(user_id))["access_token"]

    async def revoked_keys(self, tenant: "Tenant") -> tuple[str, str]:
        """Make a public and a secret key and revoke them."""
        app_id, public_id, secret_id = UUID(tenant.app.app_id), uuid7(), uuid7()
        async with self.database.connection() as connection:
            public = await self.services.apps.create_public_key(connection, app_id, "revoked", [], public_id)
            secret = await self.services.apps.create_secret_key(connection, app_id, None, "revoked", secret_id)
            for table, key_id in (("public_keys", public_id), ("secret_keys", secret_id)):
                await connection.execute(f"update pilotis.{table} set revoked_at = now() where key_id = $1", key_id)
        return public, secret

    async def public_key_of_origin(self, tenant: "Tenant", origin: str) -> str:
        async with self.database.connection() as connection:
            app_id = UUID(tenant.app.app_id)
            return await self.services.apps.create_public_key(connection, app_id, "one origin", [origin])

    def resigned(self, token: str, kind: TokenKind, **changes: Any) -> str:
        """The token's claims with changes, properly signed."""
        claims = {**_claims(token), **changes}
        names = ("sub", "app_id", "sid", "jti", "iat", "exp")
        return self.signer.sign(kind, **{name: claims[name] for name in names})


@dataclass
class Tenant:
    """An app with a console user who owns it, a member, a table and a row, a storage and a file."""

    app: App
    owner: dict[str, str]
    member: dict[str, str]
    table_id: str
    row_id: str
    login_id: str
    storage_id: str
    file_id: str


async def new_tenant(operator: Operator, server: Server, label: str) -> Tenant:
    label = f"{label}-{time.monotonic_ns()}"
    owner = await operator.user_session(await operator.user(f"{label}@example.com"))
    async with httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {owner['access_token']}"}
        made = (await client.post("/v1/apps", json={"name": label}, headers=headers)).json()
    app = App(server, made["app_id"], made["public_key"], made["secret_key"], owner)
    member = await app.member(label)
    table_id = await app.table({"name": "string", "place": "object", "gone": "string"})
    row = await app.row(table_id, {"name": label})
    async with app.client() as client:
        dropped = await client.delete(f"/v1/public/tables/{table_id}/columns/gone")
        assert dropped.status_code == 200, dropped.text
        extra = await app.table({"name": "string"}, title="dropped")
        assert (await client.delete(f"/v1/public/tables/{extra}")).status_code == 200
    storage_id, file_id = await _stored_file(app, f"{label}.txt")
    return Tenant(app, owner, member, table_id, row["id"], label, storage_id, file_id)


async def _stored_file(app: App, name: str) -> tuple[str, str]:
    """Make a storage with a file in it and return both ids."""
    bearer = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with app.client() as client:
        made = await client.post(f"/v1/apps/{app.app_id}/storages/files", json={"name": name}, headers=bearer)
        base = f"/v1/public/storages/files/{made.json()['id']}"
        wanted = {"file_name": name, "file_size": 4, "mime_type": "text/plain"}
        permitted = (await client.post(f"{base}/presigned-url", json=wanted)).json()
        await client.put(permitted["upload_url"], content=b"text", headers=permitted["headers"])
        stored = await client.post(f"{base}/complete-upload", json={"file_id": permitted["file_id"]})
        assert stored.status_code == 200, stored.text
    return made.json()["id"], permitted["file_id"]


Provider = Callable[[Operator, Tenant, Endpoint], Awaitable[str]]


async def _one(operator: Operator, query: str, *arguments: Any) -> str:
    return str(await operator.database.fetchval(query, *arguments))


async def _app_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.app.app_id


async def _table_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    if "/trash/" not in endpoint.path or ":number" in endpoint.path:
        return tenant.table_id
    query = "select table_id from pilotis.tables where app_id = $1 and dropped_at is not null"
    return await _one(operator, query, tenant.app.app_id)


async def _number(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = "select number from pilotis.columns where app_id = $1 and dropped_at is not null and table_id = $2"
    return await _one(operator, query, tenant.app.app_id, tenant.table_id)


async def _row_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.row_id


async def _storage_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.storage_id


async def _file_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.file_id


async def _path(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The file's path; for an upload to a path, one that is free."""
    return f"{tenant.login_id}.txt" if endpoint.method == "GET" else "new/file.txt"


async def _column(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return "name"


async def _member_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.member["member_id"]


async def _key_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    table = "secret_keys" if "secret" in endpoint.path else "public_keys"
    query = f"select key_id from pilotis.{table} where app_id = $1 order by created_at limit 1"
    return await _one(operator, query, tenant.app.app_id)


async def _user_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A second console user with a role on the app."""
    query = "select user_id from pilotis.app_users where app_id = $1 and role <> 'owner' limit 1"
    found = await operator.database.fetchval(query, tenant.app.app_id)
    if found is None:
        await operator.role(tenant, f"second-{tenant.login_id}@example.com", "viewer")
        found = await operator.database.fetchval(query, tenant.app.app_id)
    return str(found)


async def _invitation_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    invitation_id = uuid7()
    await operator.database.execute(
        "insert into pilotis.invitations (app_id, invitation_id, email, role, token_hash, expires_at) "
        "values ($1, $2, $3, 'viewer', $4, now() + interval '1 day')",
        tenant.app.app_id,
        invitation_id,
        f"invited-{invitation_id}@example.com",
        invitation_id.bytes,
    )
    return str(invitation_id)


PROVIDERS: dict[str, Provider] = {
    "app_id": _app_id,
    "table_id": _table_id,
    "row_id": _row_id,
    "name": _column,
    "number": _number,
    "member_id": _member_id,
    "key_id": _key_id,
    "user_id": _user_id,
    "invitation_id": _invitation_id,
    "storage_id": _storage_id,
    "file_id": _file_id,
    "path": _path,
}


async def values(operator: Operator, tenant: Tenant, endpoint: Endpoint, document: Json) -> dict[str, str]:
    """A real value of the tenant for each parameter of the endpoint's path and each identifier in its body."""
    names = [*endpoint.parameters, *_identifiers(_sample(endpoint, document))]
    if unknown := set(names) - PROVIDERS.keys():
        pytest.fail(
            f"{endpoint.method} {endpoint.path}: tests/security/world.py has no provider for {sorted(unknown)} in its "
            "path or body. Add one that returns a real value of a tenant, so that the matrix covers the route."
        )
    return {name: await PROVIDERS[name](operator, tenant, endpoint) for name in names}


async def prepare(operator: Operator, server: Server, tenant: Tenant, endpoint: Endpoint) -> None:
    """Bring about what a route asks for before it can succeed."""
    if endpoint.operation_id == "AppEndpoints.restore":
        await operator.services.apps.delete(UUID(tenant.app.app_id), OPERATOR)
    if endpoint.operation_id == "InvitationEndpoints.accept":
        host = await new_tenant(operator, server, "host")
        await operator.database.execute(
            "insert into pilotis.invitations (app_id, invitation_id, email, role, token_hash, expires_at) "
            "values ($1, $2, $3, 'viewer', $4, now() + interval '1 day')",
            host.app.app_id,
            uuid7(),
            f"{tenant.login_id}@example.com",
            secret_hash(f"invitation of {tenant.login_id}"),
        )


def path(endpoint: Endpoint, given: dict[str, str]) -> str:
    """The endpoint's path with its parameters filled in."""
    parts = endpoint.path.split("/")
    return "/".join(given[part[1:]] if part[:1] in {":", "*"} and part else part for part in parts)


# What a route takes from headers.
HEADERS = {
    "TusEndpoints.create": {
        "Tus-Resumable": "1.0.0",
        "Upload-Length": "4",
        "Upload-Metadata": "filename bmV3LnR4dA==,filetype dGV4dC9wbGFpbg==",
    }
}


def body(endpoint: Endpoint, document: Json, tenant: Tenant, given: dict[str, str]) -> Any:
    """A body that the endpoint takes: a sample of its schema with the given identifiers; None for no body."""
    made = _sample(endpoint, document)
    if made is None:
        return None
    return _filled({**made, **_particulars(tenant, given).get(endpoint.operation_id, {})}, given)


def _sample(endpoint: Endpoint, document: Json) -> Any:
    operation = document["paths"][path(endpoint, {n: f"{{{n}}}" for n in endpoint.parameters})]
    content = operation[endpoint.method.lower()].get("requestBody")
    return (
        None
        if content is None or endpoint.takes_stream
        else sample(content["content"]["application/json"]["schema"], document)
    )


def _identifiers(value: Any) -> set[str]:
    """The names of a body's fields that name something: they end in `_id`, wherever they stand."""
    if isinstance(value, list):
        return {name for item in value for name in _identifiers(item)}
    if not isinstance(value, dict):
        return set()
    return {name for name in value if name.endswith("_id") and name not in NOT_OURS} | _identifiers(
        list(value.values())
    )


def _filled(value: Any, given: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(item, given) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: given[name] if name in given and name.endswith("_id") else _filled(item, given)
        for name, item in value.items()
    }


# Identifiers that a client makes up.
NOT_OURS = {"login_id"}


def _particulars(tenant: Tenant, given: dict[str, str]) -> dict[str, Json]:
    """What a schema cannot say: values that a handler checks further."""
    operation = {"type": "create", "table_id": given.get("table_id"), "data": {"name": "x"}}
    return {
        "AdvancedEndpoints.aggregate": {"pipeline": [{"$limit": 1}]},
        "AdvancedEndpoints.batch": {"operations": [operation]},
        "AdvancedEndpoints.transact": {"operations": [operation]},
        "MemberEndpoints.sign_in": {"login_id": tenant.login_id, "password": "correct horse"},
        "MemberEndpoints.sign_up": {"login_id": "newcomer", "password": PASSWORD},
        "TableEndpoints.create": {"schema": {"name": "string"}},
        "TableEndpoints.replace": {"schema": {"name": "string"}},
        "TableEndpoints.add_column": {"name": "added", "data_type": "string"},
        "TableEndpoints.change_column": {"data_type": "string"},
        "AdvancedEndpoints.search": {"query": "x", "fields": ["name"]},
        "AdvancedEndpoints.autocomplete": {"query": "x", "field": "name"},
        "AdvancedEndpoints.geo": {"field": "place", "near": {"center": {"latitude": 0, "longitude": 0}}},
        "RowEndpoints.create": {"data": {"name": "x"}},
        "RowEndpoints.create_many": {"data": [{"name": "x"}]},
        "RowEndpoints.query": {"where": {"name": "x"}},
        "RowEndpoints.update": {"data": {"name": "y"}},
        "RowEndpoints.delete_where": {"where": {"name": "nobody has this name"}},
        "AppSettingsEndpoints.change_auth": {"enabled_oauth_providers": ["GOOGLE"]},
        "InvitationEndpoints.accept": {"token": f"invitation of {tenant.login_id}"},
        "FileEndpoints.presign": {"file_name": "new.txt", "mime_type": "text/plain"},
        "FileEndpoints.presign_path": {"mime_type": "text/plain"},
        "FileEndpoints.make_folder": {"name": "folder"},
        "InvitationEndpoints.create": {"email": "invited@example.com", "role": "viewer"},
    }


def unsigned(token: str) -> str:
    """The token's claims under `alg: none` (RFC 7518, section 3.6)."""
    header = base64url(b'{"alg":"none","typ":"JWT"}')
    return f"{header}.{token.split('.')[1]}."


def tampered(token: str) -> str:
    """The token with one bit of its signature changed."""
    head, _, signature = token.rpartition(".")
    decoded = from_base64url(signature)
    return f"{head}.{base64url(bytes([decoded[0] ^ 1]) + decoded[1:])}"


def _claims(token: str) -> dict[str, Any]:
    return msgspec.json.decode(from_base64url(token.split(".")[1]))
