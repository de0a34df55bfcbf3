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

from pilotis.db.pool import Database
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.openapi import Json
from pilotis.http.api.principals import OPERATOR
from pilotis.kit.crypto import base64url, from_base64url, secret_hash
from pilotis.kit.ids import uuid7
from pilotis.kit.signing import TokenKind, TokenSigner
from pilotis.limits import Limits
from pilotis.oauth.feature import OAuthFeature
from pilotis.oauth.flow.granting import REQUEST_PREFIX
from pilotis.oauth.flow.requests import AuthorizationRequest
from pilotis.oauth.social.types import SocialProviderChange
from pilotis.oauth.types import NewClient
from pilotis.security import master_key
from pilotis.security.sessions.service import CONSOLE
from pilotis.security.single_use import mint
from pilotis.settings import Settings
from pilotis.users.service import grant_role
from tests import databases
from tests.backstage import run_sql
from tests.hosting.sites import new_site, zipped
from tests.security.samples import sample
from tests.services import Services
from tests.support import App, Server, plain_client
from tests.waiting import PATIENCE, until

PASSWORD = "correct horse battery"


class Operator:
    """A node of our own on the server's database, for what takes more than the interface gives."""

    def __init__(self, server: Server) -> None:
        settings = Settings(data_dir=str(server.data_dir), pool_size=2)
        address = databases.address(server.data_dir)
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
            tokens = await self.services.sessions.start(connection, CONSOLE, str(user_id), Limits())
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
    await _site(app, label)
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


async def _site(app: App, label: str) -> None:
    """Make a web storage with a deployment, a page's metadata and a domain."""
    site = await new_site(app)
    await site.deploy({"index.html": b"<title>Home</title>"})
    bearer = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(app.server.url, **bearer) as console:
        path = f"/v1/apps/{app.app_id}/storages/webs/{site.id}/domains"
        added = await console.post(path, json={"hostname": f"{label}.example"})
    assert added.status_code == 201, added.text
    # As if its TXT record had been found: no name server is asked about one that is verified.
    await run_sql(
        app.server, "update pilotis.web_domains set verified_at = now() where hostname = $1", f"{label}.example"
    )


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
    if "/storages/webs" in endpoint.path:
        query = "select storage_id from pilotis.web_storages where app_id = $1"
        return await _one(operator, query, tenant.app.app_id)
    return tenant.storage_id


async def _deployment_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = "select deployment_id from pilotis.web_deployments where app_id = $1"
    return await _one(operator, query, tenant.app.app_id)


async def _hostname(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = "select hostname from pilotis.web_domains where app_id = $1"
    return await _one(operator, query, tenant.app.app_id)


async def _file_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.file_id


async def _path(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The file's path; for an upload to a path, one that is free."""
    return f"{tenant.login_id}.txt" if endpoint.method == "GET" else "new/file.txt"


async def _view_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A view, whose name is that of the tenant's login, so that no other app has it."""
    async with plain_client(f"{tenant.app.server.url}/v1/apps/{tenant.app.app_id}") as side:
        side.headers["Authorization"] = f"Bearer {tenant.app.secret_key}"
        for view in (await side.get("/views")).json()["views"]:
            return str(view["id"])
        view = {"name": tenant.login_id, "table_id": tenant.table_id, "pipeline": [{"$count": "n"}]}
        made = await side.post("/views", json=view)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])


async def _branch_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The tenant's branch, which is there."""
    async with plain_client(f"{tenant.app.server.url}/v1/apps/{tenant.app.app_id}") as side:
        side.headers["Authorization"] = f"Bearer {tenant.app.secret_key}"
        found = (await side.get("/branches")).json()["data"]
        if not found:
            made = await side.post("/branches", json={"name": "preview"})
            assert made.status_code == 202, made.text

        async def is_ready() -> bool:
            return all(one["state"] == "ready" for one in (await side.get("/branches")).json()["data"])

        await until(is_ready)
        return str((await side.get("/branches")).json()["data"][0]["branch_id"])


async def _name(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The name of a column, a scope or a view."""
    if "/views/" in endpoint.path:
        await _view_id(operator, tenant, endpoint)
        return tenant.login_id
    if "/oauth/" not in endpoint.path:
        return "name"
    # PUT creates a scope under the given name, so no name can belong to another tenant.
    name = "orders:read" if endpoint.method == "PUT" else f"{tenant.login_id}:read"
    await operator.database.execute(
        "insert into pilotis.oauth_scopes (app_id, name, title) values ($1, $2, 'Read') on conflict do nothing",
        tenant.app.app_id,
        name,
    )
    return name


async def _unique_key(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return "name"


async def _unique_values(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The value of the key in the tenant's row."""
    async with tenant.app.client() as client:
        row = await client.get(f"/v1/public/tables/{tenant.table_id}/data/{tenant.row_id}")
    return str(row.json()["data"]["name"])


async def _client_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    if endpoint.operation_id == "SocialProviderEndpoints.put":
        return "given-by-a-vendor"
    query = "select client_id from pilotis.oauth_clients where app_id = $1 limit 1"
    found = await operator.database.fetchval(query, tenant.app.app_id)
    if found is None:
        clients = operator.services.features.get(OAuthFeature).clients
        found = (
            await clients.create(UUID(tenant.app.app_id), OPERATOR, NewClient("c", redirect_uris=[CALLBACK]))
        ).client_id
    return str(found)


async def _request_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """An authorization request that waits for a member."""
    app_id, asked = UUID(tenant.app.app_id), mint(REQUEST_PREFIX, UUID(tenant.app.app_id))
    client_id = await _client_id(operator, tenant, endpoint)
    await operator.database.execute(
        "insert into pilotis.oauth_settings (app_id, is_provider) values ($1, true) on conflict do nothing", app_id
    )
    request = AuthorizationRequest(
        client_id=client_id,
        redirect_uri=CALLBACK,
        scopes=["openid"],
        resources=[],
        state=None,
        nonce=None,
        code_challenge="x" * 43,
        dpop_jkt=None,
        prompt=[],
        max_age=None,
    )
    await operator.database.execute(
        "insert into pilotis.oauth_requests (app_id, hash, client_id, request, expires_at) "
        "values ($1, $2, $3, $4, now() + interval '10 minutes')",
        app_id,
        asked.hash,
        client_id,
        msgspec.json.encode(request).decode(),
    )
    return asked.text


async def _consent_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """What the tenant's member has consented to."""
    query = """
        insert into pilotis.oauth_consents (app_id, consent_id, member_id, client_id, scopes)
        values ($1, $2, $3, $4, '{openid}')
        on conflict (app_id, member_id, client_id) do update set granted_at = now() returning consent_id
    """
    client_id = await _client_id(operator, tenant, endpoint)
    return await _one(operator, query, tenant.app.app_id, uuid7(), tenant.member["member_id"], client_id)


async def _grant_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A grant of the tenant's member."""
    query = """
        insert into pilotis.oauth_grants (
            app_id, grant_id, client_id, member_id, session_id, is_offline, scopes, issuer, auth_time, expires_at
        ) values ($1, $2, $3, $4, $2, true, '{openid}', '', now(), now() + interval '1 hour') returning grant_id
    """
    client_id = await _client_id(operator, tenant, endpoint)
    return await _one(operator, query, tenant.app.app_id, uuid7(), client_id, tenant.member["member_id"])


async def _member_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return tenant.member["member_id"]


async def _session_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A session of the member, or of the console user, that no other test needs."""
    async with operator.database.connection() as connection:
        owner = _claims(tenant.owner["access_token"])["sub"]
        app_id, subject = (
            (UUID(tenant.app.app_id), tenant.member["member_id"]) if "member" in endpoint.path else (CONSOLE, owner)
        )
        tokens = await operator.services.sessions.start(connection, app_id, subject, Limits())
    return str(_claims(tokens.access_token)["sid"])


async def _passkey_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = """
        insert into pilotis.account_passkeys
            (app_id, passkey_id, member_id, credential_id, credential, name, sign_count, is_synced)
        values ($1, gen_random_uuid(), $2, uuid_send(gen_random_uuid()), '', 'Phone', 0, false)
        returning passkey_id
    """
    return await _one(operator, query, tenant.app.app_id, tenant.member["member_id"])


async def _user_passkey_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = """
        insert into pilotis.user_passkeys (passkey_id, user_id, credential_id, credential, name, sign_count, is_synced)
        values (gen_random_uuid(), $1, uuid_send(gen_random_uuid()), '', 'Phone', 0, false) returning passkey_id
    """
    return await _one(operator, query, UUID(_claims(tenant.owner["access_token"])["sub"]))


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


async def _webhook_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    found = await operator.database.fetchval(
        "select webhook_id from pilotis.webhooks where app_id = $1 order by 1 limit 1", tenant.app.app_id
    )
    return str(found or (await _created_webhook(tenant))["id"])


async def _delivery_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A delivery of the webhook that is no test, so that it can be sent again."""
    webhook_id = await _webhook_id(operator, tenant, endpoint)
    query = "select delivery_id from pilotis.deliveries where app_id = $1 and target_id = $2 and not is_test limit 1"
    found = await operator.database.fetchval(query, tenant.app.app_id, webhook_id)
    if found is None:
        row = await tenant.app.row(tenant.table_id, {"name": "delivered"})
        found = await until(lambda: operator.database.fetchval(query, tenant.app.app_id, webhook_id))
        # The delivery keeps the event; the row must not stay among the tenant's.
        async with tenant.app.client() as client:
            deleted = await client.delete(f"/v1/public/tables/{tenant.table_id}/data/{row['id']}")
        assert deleted.status_code == 200, deleted.text
    return str(found)


async def _created_webhook(tenant: Tenant) -> dict[str, Any]:
    body = {"url": "http://localhost:9/hooks", "event_types": ["row.created"]}
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers) as client:
        answer = await client.post(f"/v1/apps/{tenant.app.app_id}/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def _event_type(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    await operator.database.execute(
        """
        insert into pilotis.event_types (app_id, event_type, type_id, title, description, version, deprecated)
        values ($1, 'order.created', $2, '', '', 1, false) on conflict do nothing
        """,
        tenant.app.app_id,
        uuid7(),
    )
    return "order.created"


async def _job_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    query = """
        insert into pilotis.jobs (app_id, job_id, queue, kind, payload, state, run_at, ended_at)
        values ($1, gen_random_uuid(), 'calls', 'test', '{}', 'dead', now(), now()) returning job_id
    """
    return await _one(operator, query, tenant.app.app_id)


async def _function_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """A function with a version, a variable, a trigger and the record of a call."""
    app_id = tenant.app.app_id
    query = "select function_id from pilotis.functions where app_id = $1 order by 1 limit 1"
    if found := await operator.database.fetchval(query, app_id):
        return str(found)
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        base = f"/v1/apps/{app_id}"
        body = {"name": f"greet-{uuid7()}", "runtime": "javascript"}
        function_id = (await client.post(f"{base}/functions", json=body)).json()["id"]
        files = {"files": {"index.js": "export default () => 1"}}
        deployed = await client.post(f"{base}/functions/{function_id}/versions", json=files)
        assert deployed.status_code == 201, deployed.text
        for place in (base, f"{base}/functions/{function_id}"):
            assert (await client.put(f"{place}/env/GREETING", json={"value": "Hello"})).status_code == 200
    await operator.database.execute(
        """
        insert into pilotis.function_executions
            (app_id, function_id, execution_id, version, status, trigger, caller_type, duration, queue_ms, load_ms,
            cpu_ms, log_lines, log_dropped, started_at, finished_at)
        values ($1, $2, $3, '1', 'success', 'console', 'console', 1, 0, 0, 0, 0, 0, now(), now())
        """,
        app_id,
        function_id,
        uuid7(),
    )
    return str(function_id)


async def _workflow_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    app_id = tenant.app.app_id
    query = "select workflow_id from pilotis.workflows where app_id = $1 and deleted_at is null order by 1 limit 1"
    if found := await operator.database.fetchval(query, app_id):
        return str(found)
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        made = await client.post(f"/v1/apps/{app_id}/workflows", json={"name": f"flow-{uuid7()}"})
        assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def _token(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The token of a workflow's trigger URL."""
    return (await _trigger_url(operator, tenant, endpoint)).rpartition("/")[2]


async def _trigger_url(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    workflow_id = await _workflow_id(operator, tenant, endpoint)
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        path = f"/v1/apps/{tenant.app.app_id}/workflows/{workflow_id}/trigger"
        await client.post(path, json={})
        return str((await client.get(path)).json()["trigger_url"])


async def _workflow_execution_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """An execution that waits, or one that has ended for a route that asks for that."""
    workflow_id = await _workflow_id(operator, tenant, endpoint)
    has_ended = endpoint.path.endswith(("/replay", "/stream"))
    query = """
        insert into pilotis.workflow_executions
            (app_id, execution_id, workflow_id, version, status, trigger, trigger_type, input, run_at, timeout_seconds,
            finished_at)
        values ($1, $2, $3, 1, $4, '{"type": "manual"}', 'manual', '{}', now() + interval '1 hour', 60,
            case when $4 = 'completed' then now() end)
        returning execution_id
    """
    status = "completed" if has_ended else "pending"
    return str(await operator.database.fetchval(query, tenant.app.app_id, uuid7(), workflow_id, status))


async def _execution_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    if "workflow_id" in endpoint.parameters:
        return await _workflow_execution_id(operator, tenant, endpoint)
    function_id = await _function_id(operator, tenant, endpoint)
    query = "select execution_id from pilotis.function_executions where app_id = $1 and function_id = $2 limit 1"
    return str(await operator.database.fetchval(query, tenant.app.app_id, function_id))


async def _trigger_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    function_id = await _function_id(operator, tenant, endpoint)
    query = """
        insert into pilotis.function_triggers (app_id, function_id, trigger_id, type, is_active, cron)
        values ($1, $2, gen_random_uuid(), 'schedule', false, '0 4 * * *') returning trigger_id
    """
    return str(await operator.database.fetchval(query, tenant.app.app_id, function_id))


async def _version(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    if "workflow_id" in endpoint.parameters:
        return "1"
    await _function_id(operator, tenant, endpoint)
    return "1"


async def _variable(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    await _function_id(operator, tenant, endpoint)
    return "GREETING"


async def _provider(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """The name of a provider of social login that the tenant has set up, or by which its member signs in."""
    if "identities" in endpoint.path:
        query = """
            insert into pilotis.member_identities (app_id, provider, subject, member_id) values ($1, 'KAKAO', $2, $2)
            on conflict (app_id, provider, subject) do update set last_used_at = now() returning provider
        """
        return await _one(operator, query, tenant.app.app_id, tenant.member["member_id"])
    change = SocialProviderChange(client_id="id", client_secret="secret")
    social = operator.services.features.get(OAuthFeature).social_providers
    await social.put(UUID(tenant.app.app_id), OPERATOR, "KAKAO", change)
    return "KAKAO"


async def _import_key(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    table_id = await _table_id(operator, tenant, endpoint)
    await operator.database.execute(
        "insert into pilotis.imports (app_id, table_id, key, format) values ($1, $2, 'first', 'csv') "
        "on conflict do nothing",
        tenant.app.app_id,
        table_id,
    )
    return "first"


async def _export_link(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    table_id = await _table_id(operator, tenant, endpoint)
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        made = await client.post(f"/v1/apps/{tenant.app.app_id}/tables/{table_id}/export-link", json={})
    assert made.status_code == 200, made.text
    return str(made.json()["url"].rpartition("/")[2])


async def _archive_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    """An archive that is written; one that is just asked for, so that a request which works meets none pending."""
    path = f"/v1/apps/{tenant.app.app_id}/archives"
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:

        async def is_completed() -> bool:
            listed = (await client.get(path)).json()["data"]
            if not listed or listed[0]["status"] == "failed":
                await client.post(path, json={"with_secrets": False})
            return bool(listed) and listed[0]["status"] == "completed"

        await until(is_completed)
        return str((await client.get(path)).json()["data"][0]["id"])


async def _archive_link(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    archive_id = await _archive_id(operator, tenant, endpoint)
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        made = await client.post(f"/v1/apps/{tenant.app.app_id}/archives/{archive_id}/link")
    assert made.status_code == 200, made.text
    return str(made.json()["url"].rpartition("/")[2])


async def _import_id(operator: Operator, tenant: Tenant, _: Endpoint) -> str:
    headers = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
    async with httpx.AsyncClient(base_url=tenant.app.server.url, headers=headers, timeout=PATIENCE) as client:
        made = await client.post("/v1/apps/import", files={"file": ("a.pilotis", b"none")})
    assert made.status_code == 202, made.text
    return str(made.json()["id"])


async def _mail_id(operator: Operator, tenant: Tenant, _: Endpoint) -> str:
    """A mail that was not delivered, and may be sent again."""
    query = """
        insert into pilotis.mail_messages
            (app_id, mail_id, purpose, recipient, language, subject, state, body)
        values ($1, gen_random_uuid(), 'test', 'ada@example.com', 'en', 'Test', 'failed', '\\x00') returning mail_id
    """
    return str(await operator.database.fetchval(query, tenant.app.app_id))


async def _address_hash(operator: Operator, tenant: Tenant, _: Endpoint) -> str:
    query = """
        insert into pilotis.mail_suppressions (app_id, address_hash, reason) values ($1, $2, 'manual')
        on conflict (app_id, address_hash) do update set reason = 'manual' returning address_hash
    """
    return await _one(operator, query, tenant.app.app_id, secret_hash(tenant.login_id).hex())


async def _purpose(operator: Operator, tenant: Tenant, _: Endpoint) -> str:
    """The purpose of a mail of which the app has its own text in the language of `_language`."""
    query = """
        insert into pilotis.mail_templates (app_id, purpose, language, subject, text, button)
        values ($1, 'reset_password', 'en', 'New', '{{link}}', 'New') on conflict do nothing
    """
    await operator.database.execute(query, tenant.app.app_id)
    return "reset_password"


async def _language(_operator: Operator, _tenant: Tenant, _endpoint: Endpoint) -> str:
    return "en"


async def _team_id(operator: Operator, tenant: Tenant, _: Endpoint) -> str:
    """A team of the tenant's member and of another owner, so that the member may leave it."""
    app_id = UUID(tenant.app.app_id)
    async with operator.database.connection() as connection:
        await connection.execute(
            """
            insert into pilotis.team_settings (app_id, members_create) values ($1, true)
            on conflict (app_id) do update set members_create = true
            """,
            app_id,
        )
        found = await connection.fetchval(
            "select team_id from pilotis.teams where app_id = $1 and name = $2 limit 1", app_id, tenant.login_id
        )
        team_id = found or uuid7()
        await connection.execute(
            "insert into pilotis.teams (app_id, team_id, name) values ($1, $2, $3) on conflict do nothing",
            app_id,
            team_id,
            tenant.login_id,
        )
        other = await connection.fetchval(
            """
            insert into pilotis.members (app_id, member_id, is_guest) values ($1, gen_random_uuid()::text, true)
            returning member_id
            """,
            app_id,
        )
        for member_id in (tenant.member["member_id"], other):
            await connection.execute(
                """
                insert into pilotis.team_members (app_id, team_id, member_id, roles) values ($1, $2, $3, '{owner}')
                on conflict (app_id, team_id, member_id) do update set roles = excluded.roles
                """,
                app_id,
                team_id,
                member_id,
            )
    return str(team_id)


async def _member_invitation_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    invitation_id = uuid7()
    query = """
        insert into pilotis.member_invitations
            (app_id, invitation_id, token_hash, email, email_folded, roles, team_roles, expires_at)
        values ($1, $2, $3, $4, $4, '{}', '{}', now() + interval '1 day')
    """
    address = f"invited-{invitation_id}@example.com"
    await operator.database.execute(query, UUID(tenant.app.app_id), invitation_id, invitation_id.bytes, address)
    return str(invitation_id)


async def _team_invitation(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> tuple[str, str]:
    """The id and the token of an open invitation to the team of `_team_id`."""
    app_id, minted, invitation_id = UUID(tenant.app.app_id), mint("ti_", UUID(tenant.app.app_id)), uuid7()
    query = """
        insert into pilotis.team_invitations
            (app_id, team_invitation_id, team_id, token_hash, roles, max_uses, expires_at)
        values ($1, $2, $3, $4, '{}', 9, now() + interval '1 day')
    """
    team_id = UUID(await _team_id(operator, tenant, endpoint))
    await operator.database.execute(query, app_id, invitation_id, team_id, minted.hash)
    return str(invitation_id), minted.text


async def _team_invitation_id(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return (await _team_invitation(operator, tenant, endpoint))[0]


async def _team_invitation_token(operator: Operator, tenant: Tenant, endpoint: Endpoint) -> str:
    return (await _team_invitation(operator, tenant, endpoint))[1]


PROVIDERS: dict[str, Provider] = {
    "app_id": _app_id,
    "table_id": _table_id,
    "row_id": _row_id,
    "name": _name,
    "view_id": _view_id,
    "branch_id": _branch_id,
    "client_id": _client_id,
    "request_id": _request_id,
    "consent_id": _consent_id,
    "grant_id": _grant_id,
    "number": _number,
    "member_id": _member_id,
    "session_id": _session_id,
    "passkey_id": _passkey_id,
    "user_passkey_id": _user_passkey_id,
    "key_id": _key_id,
    "user_id": _user_id,
    "invitation_id": _invitation_id,
    "storage_id": _storage_id,
    "file_id": _file_id,
    "deployment_id": _deployment_id,
    "hostname": _hostname,
    "path": _path,
    "key": _unique_key,
    "values": _unique_values,
    "webhook_id": _webhook_id,
    "delivery_id": _delivery_id,
    "event_type": _event_type,
    "provider_app_id": _app_id,
    "job_id": _job_id,
    "function_id": _function_id,
    "workflow_id": _workflow_id,
    "token": _token,
    "execution_id": _execution_id,
    "trigger_id": _trigger_id,
    "version": _version,
    "variable": _variable,
    "provider": _provider,
    "import_key": _import_key,
    "export_link": _export_link,
    "archive_id": _archive_id,
    "archive_link": _archive_link,
    "import_id": _import_id,
    "mail_id": _mail_id,
    "address_hash": _address_hash,
    "purpose": _purpose,
    "language": _language,
    "team_id": _team_id,
    "member_invitation_id": _member_invitation_id,
    "team_invitation_id": _team_invitation_id,
    "team_invitation_token": _team_invitation_token,
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
    if endpoint.operation_id == "TeamEndpoints.create":
        await _team_id(operator, tenant, endpoint)
    if endpoint.operation_id == "AppEndpoints.restore":
        await operator.services.apps.delete(UUID(tenant.app.app_id), OPERATOR)
    if endpoint.operation_id == "GrantEndpoints.create_key":
        # Whichever test on this server was the first to want it.
        bearer = {"Authorization": f"Bearer {tenant.app.console['access_token']}"}
        async with plain_client(server.url, **bearer) as console:
            made = await console.post(f"/v1/apps/{tenant.app.app_id}/oauth/keys")
        assert made.status_code in {201, 409}, made.text
    if endpoint.operation_id == "UniqueKeyEndpoints.remove" or endpoint.operation_id.startswith("KeyedRowEndpoints."):
        bearer = {"Authorization": f"Bearer {tenant.app.console['access_token']}"}
        async with plain_client(server.url, **bearer) as console:
            path = f"/v1/apps/{tenant.app.app_id}/tables/{tenant.table_id}/unique"
            made = await console.post(path, json={"columns": ["name"]})
        assert made.status_code == 201, made.text
    if endpoint.operation_id in {"ArchiveEndpoints.read_schedule", "ArchiveEndpoints.delete_schedule"}:
        bearer = {"Authorization": f"Bearer {tenant.owner['access_token']}"}
        async with plain_client(server.url, **bearer) as console:
            made = await console.put(f"/v1/apps/{tenant.app.app_id}/archive-schedule", json={"cron": "@daily"})
        assert made.status_code == 200, made.text
    if endpoint.operation_id == "EventTypeEndpoints.publish":
        await _event_type(operator, tenant, endpoint)
    if endpoint.operation_id.startswith("WorkflowTriggerEndpoints.") and not endpoint.operation_id.endswith("create"):
        await _trigger_url(operator, tenant, endpoint)
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


# What a route takes from the query string.
QUERIES = {
    "ConsentEndpoints.info": "?request_id=req_none",
    "WorkflowEndpoints.stream": "?last_event_id=none",
    "FunctionEndpoints.log_stream": "?last_event_id=none",
    "EventTypeEndpoints.event_stream": "?last_event_id=none",
    "PageMetaEndpoints.get": "?path=/",
    "PageMetaEndpoints.remove": "?path=/",
}

_FUNCTION_FILES = {"files": {"file": ("function.zip", zipped({"index.js": b"export default () => 2"}))}}
# What a route takes as a form.
FORMS: dict[str, Any] = {
    "deploy": {"files": {"file": ("site.zip", zipped({"index.html": b"<title>New</title>"}))}},
    "deploy_incremental": {"files": {"file": ("new.txt", b"new")}},
    "deploy_version": _FUNCTION_FILES,
    "put_draft": _FUNCTION_FILES,
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
CALLBACK = "https://client.example/callback"


def _particulars(tenant: Tenant, given: dict[str, str]) -> dict[str, Json]:
    """What a schema cannot say: values that a handler checks further."""
    operation = {"type": "create", "table_id": given.get("table_id"), "data": {"name": "x"}}
    return {
        "AdvancedEndpoints.aggregate": {"pipeline": [{"$limit": 1}]},
        "AdvancedEndpoints.batch": {"operations": [operation]},
        "AdvancedEndpoints.transact": {"operations": [operation]},
        "MemberEndpoints.sign_in": {"login_id": tenant.login_id, "password": "correct horse"},
        "MemberEndpoints.change_password": {"current_password": "correct horse", "new_password": "battery staple"},
        "MemberEndpoints.delete": {"password": "correct horse"},
        "MemberAdministrationEndpoints.set_password": {"password": "battery staple"},
        "MemberAdministrationEndpoints.create": {"login_id": f"made-{uuid7()}", "password": "battery staple"},
        "SchemaEndpoints.rename_column": {"name": "renamed"},
        "AppSettingsEndpoints.change_limits": {"access_token_seconds": None},
        "UserEndpoints.change": {"is_active": True},
        "UserEndpoints.change_password": {"current_password": PASSWORD, "new_password": "battery staple"},
        "MemberEndpoints.sign_up": {"login_id": "newcomer", "password": PASSWORD},
        "ProofEndpoints.reset_password": {"token": "none", "password": PASSWORD},
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
        "RealtimeEndpoints.open": {
            "subscriptions": [{"id": "a", "table_id": given.get("table_id"), "where": {"none": 1}}]
        },
        "RealtimeEndpoints.create_ticket": {"subscriptions": [{"id": "a", "table_id": given.get("table_id")}]},
        "RealtimeEndpoints.send": {"event": "x"},
        "RealtimeEndpoints.set_presence": {"stream": "none"},
        "ChannelEndpoints.save": {"channels": []},
        "RowEndpoints.update": {"data": {"name": "y"}},
        "RowEndpoints.delete_where": {"where": {"name": "nobody has this name"}},
        "RowEndpoints.update_where": {"where": {"name": "nobody has this name"}, "data": {"name": "x"}},
        "AppSettingsEndpoints.change_auth": {"enabled_oauth_providers": []},
        "SocialProviderEndpoints.put": {"client_id": "id", "client_secret": "secret", "scopes": [], "options": {}},
        "OAuthClientEndpoints.create": {
            "grant_types": ["authorization_code"],
            "redirect_uris": [CALLBACK],
            "scopes": [],
        },
        "OAuthClientEndpoints.change": {
            "grant_types": ["authorization_code"],
            "redirect_uris": [CALLBACK],
            "scopes": [],
        },
        "InvitationEndpoints.accept": {"token": f"invitation of {tenant.login_id}"},
        "FileEndpoints.presign": {"file_name": "new.txt", "mime_type": "text/plain"},
        "FileEndpoints.presign_path": {"mime_type": "text/plain"},
        "FileEndpoints.make_folder": {"name": "folder"},
        "WebDeployEndpoints.presign": {"files": []},
        "WebConsoleEndpoints.presign": {"files": []},
        "WebConsoleEndpoints.add_domain": {"hostname": "new.example"},
        "WebhookEndpoints.create": {"url": "http://localhost:9/hooks", "event_types": ["row.created"]},
        "WebhookEndpoints.change": {"url": "http://localhost:9/hooks"},
        "RuleEndpoints.save": {"rules": {"read": True}},
        "StorageRuleEndpoints.save_rules": {"rules": {"read": True}},
        "StorageRuleTestEndpoints.test": {"action": "list", "as": "public"},
        "SchemaEndpoints.set_profile_table": {"table": None},
        "RowEndpoints.upsert": {"key": "id", "data": {"id": str(uuid7()), "name": "new"}},
        "UniqueKeyEndpoints.create": {"columns": ["name"]},
        "ViewEndpoints.create": {"name": f"new-{uuid7()}", "pipeline": [{"$count": "n"}]},
        "ViewEndpoints.change": {"name": f"new-{uuid7()}", "pipeline": [{"$count": "m"}]},
        "ViewEndpoints.call": {"params": {}},
        "WebhookEndpoints.test": {"event_type": "row.created"},
        "WebhookEndpoints.recover": {"since": "2026-01-01T00:00:00Z"},
        "FunctionEndpoints.create": {"name": f"new-{uuid7()}"},
        "FunctionEndpoints.change": {"name": f"new-{uuid7()}"},
        "WorkflowEndpoints.create": {"name": f"new-{uuid7()}", "steps": []},
        "AiProviderEndpoints.replace": {
            "base_url": "http://localhost:9/v1",
            "api_key": None,
            "headers": {},
            "prices": {},
        },
        "WorkflowEndpoints.change": {"name": f"new-{uuid7()}", "steps": []},
        "TriggerEndpoints.create": {"type": "schedule", "cron": "0 4 * * *"},
        "TriggerEndpoints.change": {"cron": "0 5 * * *"},
        "EventTypeEndpoints.publish": {"event_type": "order.created", "data": {}},
        "MemberInvitationEndpoints.create": {"email": f"invited-{uuid7()}@example.com"},
        "InvitationEndpoints.create": {"email": "invited@example.com", "role": "viewer"},
        "MailEndpoints.replace_settings": {"smtp_url": "smtp://localhost:9", "mail_from": "club@example.com"},
        "MemberAdministrationEndpoints.impersonate": {"reason": "Ticket 17"},
        "FactorEndpoints.start": {"method": "email_code"},
        "MailEndpoints.send": {"to": "ada@example.com", "subject": "News", "text": "Hello"},
        "MailEndpoints.suppress": {"address": "gone@example.com"},
        "MailEndpoints.replace_template": {"subject": "New", "text": "{{link}}"},
        "TeamEndpoints.create": {"name": "Night owls"},
        "TeamEndpoints.change": {"name": tenant.login_id},
        "TeamEndpoints.invite": {"email": None, "link": True, "roles": []},
        "TeamEndpoints.change_member": {"roles": ["owner"]},
        "TeamAdministration.put_member": {"roles": ["owner"]},
        "TeamAdministration.create": {"name": "Night owls"},
        "TeamAdministration.change": {"name": tenant.login_id},
        "MailEndpoints.preview_template": {"subject": "New", "text": "{{link}}"},
        "ProofEndpoints.ask_for_email": {"email": f"{tenant.member['member_id']}@example.com"},
        "ProofEndpoints.confirm_email": {"code": "000000"},
        "MailSignInEndpoints.ask": {"email": f"{tenant.member['member_id']}@example.com"},
        "MailSignInEndpoints.confirm": {"code": "000000", "ticket": "none"},
        "ProofEndpoints.set_first_password": {"password": PASSWORD},
        "UserFactorEndpoints.finish": {"ticket": "none", "totp": "000000"},
        "UserFactorEndpoints.reauthenticate": {"password": PASSWORD},
        "UserFactorEndpoints.confirm_totp": {"code": "000000"},
        "ConsoleEndpoints.finish": {"ticket": "none", "totp": "000000"},
        "FactorEndpoints.finish": {"ticket": "none", "totp": "000000"},
        "FactorEndpoints.reauthenticate": {"password": "wrong"},
        "FactorEndpoints.confirm_totp": {"code": "000000"},
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
