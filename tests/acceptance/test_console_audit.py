"""Console: the audit log has every console action and every schema change."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pilotis.http.api.endpoint import Endpoint
from pilotis.kit.ids import uuid7
from pilotis.server import endpoint_table
from tests.acceptance.test_dead_jobs import dead
from tests.backstage import run_sql
from tests.branches.previews import branch_of, merge
from tests.console import client_of, invite, owner_of, second_node, the_log, user_with
from tests.files.pictures import RED, bands, encoded
from tests.hosting.sites import new_site, zipped
from tests.name_server import name_server
from tests.support import App, assert_error
from tests.waiting import until

pytestmark = pytest.mark.share(0.34)

ENTRY = {
    "entry_id",
    "created_at",
    "actor_kind",
    "actor_id",
    "actor_email",
    "action",
    "target",
    "details",
    "request_id",
}
AUTH = {"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []}
SOCIAL = {"client_id": "id", "client_secret": "secret"}
Perform = Callable[[App, httpx.AsyncClient], Awaitable[httpx.Response]]


async def _new_app(app: App, console: httpx.AsyncClient) -> httpx.Response:
    answer = await console.post("/apps", json={"name": "new"})
    app.app_id = answer.json()["app_id"]
    return answer


async def _restore(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await console.delete(f"/apps/{app.app_id}")
    return await console.post(f"/apps/{app.app_id}/restore")


async def _on_public_key(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    keys = f"/apps/{app.app_id}/keys/public"
    made = (await console.post(keys, json={"name": "x"})).json()
    return await console.request(method, f"{keys}/{made['key_id']}", **body)


async def _revoke_secret(app: App, console: httpx.AsyncClient) -> httpx.Response:
    keys = f"/apps/{app.app_id}/keys/secret"
    made = (await console.post(keys, json={"name": "x"})).json()
    return await console.delete(f"{keys}/{made['key_id']}")


async def _on_user(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    user = await user_with(app, "viewer")
    return await console.request(method, f"/apps/{app.app_id}/users/{user.user_id}", **body)


async def _revoke_invitation(app: App, console: httpx.AsyncClient) -> httpx.Response:
    invitation = await invite(app, "viewer")
    return await console.delete(f"/apps/{app.app_id}/invitations/{invitation['invitation_id']}")


async def _invite_member(app: App, console: httpx.AsyncClient) -> httpx.Response:
    invited = {"email": f"{uuid4()}@example.com"}
    return await console.post(f"/apps/{app.app_id}/members/invitations", json=invited)


async def _revoke_member_invitation(app: App, console: httpx.AsyncClient) -> httpx.Response:
    made = (await _invite_member(app, console)).json()
    return await console.delete(f"/apps/{app.app_id}/members/invitations/{made['invitation_id']}")


async def _accept(app: App, console: httpx.AsyncClient) -> httpx.Response:
    first = owner_of(app)
    second = await user_with(app, "owner")
    async with second.client(app) as other:
        await other.delete(f"/users/{first.user_id}")
        made = (await other.post("/invitations", json={"email": first.email, "role": "owner"})).json()
    return await console.post("/invitations/accept", json={"token": made["token"]})


async def _on_member(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    member = await app.member()
    return await console.request(method, f"/apps/{app.app_id}/members/{member['member_id']}{path}", **body)


async def _on_trash(app: App, console: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    """Call a route on a dropped table, or on its dropped column 1 where the path names one."""
    table = await app.table({"a": "int", "b": "int"})
    async with app.client() as client:
        await client.delete(
            f"/v1/public/tables/{table}/columns/a" if "columns" in path else f"/v1/public/tables/{table}"
        )
    return await console.request(method, f"/apps/{app.app_id}/trash" + path.format(table))


async def _on_storage(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    storages = f"/apps/{app.app_id}/storages/files"
    made = (await console.post(storages, json={"name": "x"})).json()
    return await console.request(method, f"{storages}/{made['id']}{path}", **body)


async def _own_mail_server(app: App, console: httpx.AsyncClient) -> httpx.Response:
    given = {"smtp_url": "smtp://user:password@smtp.example.com:587", "mail_from": "Club <club@example.com>"}
    return await console.put(f"/apps/{app.app_id}/mail-settings", json=given)


async def _no_own_mail_server(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await _own_mail_server(app, console)
    return await console.delete(f"/apps/{app.app_id}/mail-settings")


async def _on_team(app: App, console: httpx.AsyncClient, method: str, path: str = "", **options: Any) -> httpx.Response:
    team = (await console.post(f"/apps/{app.app_id}/teams", json={"name": "Crew"})).json()["team_id"]
    return await console.request(method, f"/apps/{app.app_id}/teams/{team}{path}", **options)


async def _on_team_member(app: App, console: httpx.AsyncClient, method: str) -> httpx.Response:
    member = (await app.guest())["member_id"]
    team = (await console.post(f"/apps/{app.app_id}/teams", json={"name": "Crew"})).json()["team_id"]
    path = f"/apps/{app.app_id}/teams/{team}/members/{member}"
    added = await console.put(path, json={"roles": ["captain"]})
    return added if method == "PUT" else await console.delete(path)


async def _impersonate(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await console.patch(f"/apps/{app.app_id}/account-settings", json={"impersonation": "owner"})
    return await _on_member(app, console, "POST", "/impersonate", json={"reason": "Ticket 17"})


async def _mail_reset(app: App, console: httpx.AsyncClient) -> httpx.Response:
    member = await app.member()
    path = f"/apps/{app.app_id}/members/{member['member_id']}"
    await console.patch(path, json={"email": "ada@example.com"})
    return await console.post(f"{path}/mail-reset")


async def _own_text(app: App, console: httpx.AsyncClient) -> httpx.Response:
    path = f"/apps/{app.app_id}/mail-templates/reset_password/ko"
    return await console.put(path, json={"subject": "새 비밀번호", "text": "{{link}}"})


async def _shipped_text(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await _own_text(app, console)
    return await console.delete(f"/apps/{app.app_id}/mail-templates/reset_password/ko")


async def _suppress(app: App, console: httpx.AsyncClient) -> httpx.Response:
    return await console.post(f"/apps/{app.app_id}/mail/suppressions", json={"address": "ada@example.com"})


async def _unsuppress(app: App, console: httpx.AsyncClient) -> httpx.Response:
    hashed = (await _suppress(app, console)).json()["address_hash"]
    return await console.delete(f"/apps/{app.app_id}/mail/suppressions/{hashed}")


async def _import(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table = await app.table({"a": "int"})
    path = f"/apps/{app.app_id}/tables/{table}/import?format=jsonl"
    return await console.post(path, content=b'{"a": 1}\n', headers={"Content-Type": "application/jsonl"})


async def _set_password(app: App, console: httpx.AsyncClient) -> httpx.Response:
    member_id = (await app.member())["member_id"]
    return await console.put(f"/apps/{app.app_id}/members/{member_id}/password", json={"password": "battery staple"})


async def _deactivate(app: App, console: httpx.AsyncClient) -> httpx.Response:
    user = await user_with(app, "viewer")
    return await console.patch(f"/users/{user.user_id}", json={"is_active": False})


SCOPE = {"title": "Read orders"}
CLIENT = {"name": "Shop", "redirect_uris": ["https://client.example/callback"]}
WEBHOOK = {"url": "http://localhost:9/hooks", "event_types": ["row.created"]}
EVENT_TYPE = {"title": "Order created", "example": {"total": 12.5}}


async def _delete_social(app: App, console: httpx.AsyncClient) -> httpx.Response:
    provider = f"/apps/{app.app_id}/oauth/social/KAKAO"
    await console.put(provider, json=SOCIAL)
    return await console.delete(provider)


async def _delete_scope(app: App, console: httpx.AsyncClient) -> httpx.Response:
    scope = f"/apps/{app.app_id}/oauth/scopes/orders:read"
    await console.put(scope, json=SCOPE)
    return await console.delete(scope)


LOGO = encoded(bands(16, 16, RED))


async def _on_client(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    clients = f"/apps/{app.app_id}/oauth/clients"
    made = (await console.post(clients, json=CLIENT)).json()
    return await console.request(method, f"{clients}/{made['client_id']}{path}", **body)


async def _delete_logo(app: App, console: httpx.AsyncClient) -> httpx.Response:
    answer = await _on_client(app, console, "PUT", "/logo", content=LOGO)
    return await console.delete(f"/apps/{app.app_id}/oauth/clients/{answer.json()['client_id']}/logo")


async def _delete_account_logo(app: App, console: httpx.AsyncClient) -> httpx.Response:
    path = f"/apps/{app.app_id}/account-settings/logo"
    assert (await console.put(path, content=LOGO)).status_code == 200
    return await console.delete(path)


async def _revoke_grant(app: App, console: httpx.AsyncClient) -> httpx.Response:
    client = (await console.post(f"/apps/{app.app_id}/oauth/clients", json=CLIENT)).json()
    grant_id = uuid7()
    query = """
        insert into pilotis.oauth_grants (
            app_id, grant_id, client_id, member_id, session_id, is_offline, scopes, issuer, auth_time, expires_at
        ) values ($1, $2, $3, 'm', $2, true, '{openid}', '', now(), now() + interval '1 hour')
    """
    await run_sql(app.server, query, app.app_id, grant_id, client["client_id"])
    return await console.delete(f"/apps/{app.app_id}/oauth/grants/{grant_id}")


async def _on_site(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    """Call a route of a web storage that has two deployments and a domain; the older deployment is production."""
    site = await new_site(app)
    first = await site.deploy({"index.html": b"one", "about.html": b"about"})
    await site.deploy({"index.html": b"two", "about.html": b"about"})
    await site.promote(first["deployment"]["id"])
    storage = f"/apps/{app.app_id}/storages/webs/{site.id}"
    await console.post(f"{storage}/domains", json={"hostname": "www.cafes.example"})
    return await console.request(method, f"{storage}{path}", **body)


async def _verify_domain(app: App, console: httpx.AsyncClient) -> httpx.Response:
    site = await new_site(app)
    domains = f"/apps/{app.app_id}/storages/webs/{site.id}/domains"
    hostname = f"www.{site.slug}.example"
    added = (await console.post(domains, json={"hostname": hostname})).json()
    async with (
        name_server({added["txt_name"]: added["txt_value"]}) as address,
        second_node(app.server, listening=False, dns_servers=[address]) as node,
        client_of(node, Authorization=f"Bearer {app.console['access_token']}") as client,
    ):
        return await client.post(f"/v1{domains}/{hostname}/verify")


async def _delete_event_type(app: App, console: httpx.AsyncClient) -> httpx.Response:
    event_type = f"/apps/{app.app_id}/event-types/order.created"
    await console.put(event_type, json=EVENT_TYPE)
    return await console.delete(event_type)


FUNCTION = {"name": "greet", "runtime": "javascript"}
FILES = {"files": {"index.js": "export default () => 1"}}


async def _on_function(
    app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any
) -> httpx.Response:
    functions = f"/apps/{app.app_id}/functions"
    function = f"{functions}/{(await console.post(functions, json=FUNCTION)).json()['id']}"
    assert (await console.post(f"{function}/versions", json=FILES)).status_code == 201
    return await console.request(method, f"{function}{path}", **body)


async def _unlink(app: App, console: httpx.AsyncClient) -> httpx.Response:
    member = (await app.member())["member_id"]
    query = "insert into pilotis.member_identities (app_id, provider, subject, member_id) values ($1, 'KAKAO', '1', $2)"
    await run_sql(app.server, query, app.app_id, member)
    return await console.delete(f"/apps/{app.app_id}/members/{member}/identities/KAKAO")


async def _end_consent(app: App, console: httpx.AsyncClient) -> httpx.Response:
    member = (await app.member())["member_id"]
    client = (await console.post(f"/apps/{app.app_id}/oauth/clients", json=CLIENT)).json()
    query = """
        insert into pilotis.oauth_consents (app_id, consent_id, member_id, client_id, scopes)
        values ($1, $2, $3, $4, '{openid}')
    """
    consent_id = uuid7()
    await run_sql(app.server, query, app.app_id, consent_id, member, client["client_id"])
    return await console.delete(f"/apps/{app.app_id}/members/{member}/consents/{consent_id}")


async def _end_session(app: App, console: httpx.AsyncClient) -> httpx.Response:
    member = await app.member()
    sessions = f"/apps/{app.app_id}/members/{member['member_id']}/sessions"
    (session,) = (await console.get(sessions)).json()["sessions"]
    return await console.delete(f"{sessions}/{session['session_id']}")


async def _rename_column(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table_id = await app.table({"a": "string"})
    return await console.post(f"/apps/{app.app_id}/tables/{table_id}/columns/a/rename", json={"name": "b"})


async def _profiles(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table_id = await app.table({"member": {"type": "string", "unique": True}})
    return await console.put(f"/apps/{app.app_id}/profiles", json={"table": table_id, "key": "member"})


async def _create_key(app: App, console: httpx.AsyncClient, table_id: str = "") -> httpx.Response:
    table_id = table_id or await app.table({"a": "string"})
    return await console.post(f"/apps/{app.app_id}/tables/{table_id}/unique", json={"columns": ["a"]})


async def _view(app: App, console: httpx.AsyncClient) -> httpx.Response:
    view = {"name": "counted", "table_id": await app.table({"a": "string"}), "pipeline": [{"$count": "n"}]}
    return await console.post(f"/apps/{app.app_id}/views", json=view)


async def _change_view(app: App, console: httpx.AsyncClient) -> httpx.Response:
    view = (await _view(app, console)).json()
    return await console.patch(f"/apps/{app.app_id}/views/{view['id']}", json={"description": "x"})


async def _delete_view(app: App, console: httpx.AsyncClient) -> httpx.Response:
    view = (await _view(app, console)).json()
    return await console.delete(f"/apps/{app.app_id}/views/{view['id']}")


async def _delete_key(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table_id = await app.table({"a": "string"})
    assert (await _create_key(app, console, table_id)).status_code == 201
    return await console.delete(f"/apps/{app.app_id}/tables/{table_id}/unique/a")


async def _rename_file(app: App, console: httpx.AsyncClient) -> httpx.Response:
    storages = f"/apps/{app.app_id}/storages/files"
    storage_id = (await console.post(storages, json={"name": "x"})).json()["id"]
    async with app.client(app.console["access_token"], **{"X-App-Id": app.app_id}) as client:
        folder = await client.post(f"/v1/public/storages/files/{storage_id}/folders", json={"name": "y"})
    assert folder.status_code == 201, folder.text
    return await console.patch(f"{storages}/{storage_id}/items/{folder.json()['id']}", json={"name": "z"})


WORKFLOW: dict[str, Any] = {"name": "nightly", "steps": [{"step_type": "merge", "id": "sum"}]}


async def _on_workflow(
    app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any
) -> httpx.Response:
    workflows = f"/apps/{app.app_id}/workflows"
    workflow_id = (await console.post(workflows, json=WORKFLOW)).json()["id"]
    return await console.request(method, f"{workflows}/{workflow_id}{path}", **body)


async def _on_workflow_trigger(
    app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any
) -> httpx.Response:
    workflow = f"/apps/{app.app_id}/workflows"
    workflow += f"/{(await console.post(workflow, json=WORKFLOW)).json()['id']}"
    assert (await console.post(f"{workflow}/trigger", json={})).status_code == 201
    return await console.request(method, f"{workflow}/trigger{path}", **body)


async def _on_execution(app: App, console: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    started = (await _on_workflow(app, console, "POST", "/execute", json={})).json()
    execution = f"/apps/{app.app_id}/workflows/{started['workflow_id']}/executions/{started['execution_id']}"
    if path == "/replay":

        async def is_over() -> bool:
            return (await console.get(execution)).json()["finished_at"] is not None

        await until(is_over)
    return await console.post(f"{execution}{path}", **body)


async def _cancel(app: App, console: httpx.AsyncClient) -> httpx.Response:
    """One that waits for another one: of a workflow of which only one runs at a time."""
    step = {"step_type": "function", "id": "slow", "function_id": "slow"}
    functions = f"/apps/{app.app_id}/functions"
    function_id = (await console.post(functions, json=FUNCTION | {"name": "slow"})).json()["id"]
    slow = {"files": {"index.js": "export default () => new Promise((end) => setTimeout(end, 20000))"}}
    assert (await console.post(f"{functions}/{function_id}/versions", json=slow)).status_code == 201
    made = await console.post(f"/apps/{app.app_id}/workflows", json=WORKFLOW | {"steps": [step], "max_concurrency": 1})
    workflow = f"/apps/{app.app_id}/workflows/{made.json()['id']}"
    for _ in range(2):
        started = await console.post(f"{workflow}/execute", json={})
    return await console.post(f"{workflow}/executions/{started.json()['execution_id']}/cancel")


TRIGGER = {"type": "schedule", "cron": "0 4 * * *"}


async def _on_trigger(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    made = (await _on_function(app, console, "POST", "/triggers", json=TRIGGER)).json()
    path = f"/apps/{app.app_id}/functions/{made['function_id']}/triggers/{made['id']}"
    return await console.request(method, path, **body)


async def _delete_variable(app: App, console: httpx.AsyncClient) -> httpx.Response:
    assert (await _on_function(app, console, "PUT", "/env/GREETING", json={"value": "Hello"})).status_code == 200
    (function,) = (await console.get(f"/apps/{app.app_id}/functions")).json()["data"]
    return await console.delete(f"/apps/{app.app_id}/functions/{function['id']}/env/GREETING")


async def _delete_app_variable(app: App, console: httpx.AsyncClient) -> httpx.Response:
    path = f"/apps/{app.app_id}/env/GREETING"
    await console.put(path, json={"value": "Hello"})
    return await console.delete(path)


async def _on_webhook(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    webhooks = f"/apps/{app.app_id}/webhooks"
    made = (await console.post(webhooks, json=WEBHOOK)).json()
    return await console.request(method, f"{webhooks}/{made['id']}{path}", **body)


async def _redeliver(app: App, console: httpx.AsyncClient) -> httpx.Response:
    webhooks = f"/apps/{app.app_id}/webhooks"
    webhook = f"{webhooks}/{(await console.post(webhooks, json=WEBHOOK)).json()['id']}"
    await app.row(await app.table({"a": "int"}), {"a": 1})

    async def deliveries() -> list[dict[str, Any]]:
        return (await console.get(f"{webhook}/logs")).json()["data"]

    (delivery,) = await until(deliveries)
    return await console.post(f"{webhook}/logs/{delivery['id']}/redeliver")


async def _on_dead_job(app: App, console: httpx.AsyncClient, method: str, path: str = "") -> httpx.Response:
    return await console.request(method, f"/apps/{app.app_id}/dead-jobs/{await dead(app.server, app)}{path}")


async def _retry_all(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await dead(app.server, app)
    return await console.post(f"/apps/{app.app_id}/dead-jobs/retry", json={})


async def _set_rules(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table = await app.table({"a": "int"})
    return await console.put(f"/apps/{app.app_id}/tables/{table}/rules", json={"rules": {"read": True}})


async def _delete_archive(app: App, console: httpx.AsyncClient) -> httpx.Response:
    made = await console.post(f"/apps/{app.app_id}/archives", json={})
    return await console.delete(f"/apps/{app.app_id}/archives/{made.json()['id']}")


async def _delete_branch(app: App, console: httpx.AsyncClient) -> httpx.Response:
    branch = await branch_of(app)
    return await console.delete(f"/apps/{app.app_id}/branches/{branch.app_id}")


async def _delete_archive_schedule(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await console.put(f"/apps/{app.app_id}/archive-schedule", json={"cron": "@daily"})
    return await console.delete(f"/apps/{app.app_id}/archive-schedule")


async def _merge_branch(app: App, console: httpx.AsyncClient) -> httpx.Response:
    branch = await branch_of(app)
    await branch.table({"a": "int"}, title="new")
    return await merge(app, branch)


# How each console route that changes something is called with success. A new route belongs in here.
ACTIONS: dict[str, tuple[str, Perform]] = {
    "POST /v1/apps/:app_id/tables/:table_id/import": ("table.import", _import),
    "PUT /v1/apps/:app_id/tables/:table_id/rules": ("table.rules", _set_rules),
    "PUT /v1/apps/:app_id/channels": (
        "channels.change",
        lambda app, console: console.put(f"/apps/{app.app_id}/channels", json={"channels": [{"pattern": "news"}]}),
    ),
    "PUT /v1/apps/:app_id/live-settings": (
        "live.settings",
        lambda app, console: console.put(f"/apps/{app.app_id}/live-settings", json={"live": "members"}),
    ),
    "POST /v1/apps": ("app.create", _new_app),
    "PATCH /v1/apps/:app_id": (
        "app.update",
        lambda app, console: console.patch(f"/apps/{app.app_id}", json={"name": "x"}),
    ),
    "POST /v1/apps/:app_id/archives": (
        "app.export",
        lambda app, console: console.post(f"/apps/{app.app_id}/archives", json={}),
    ),
    "DELETE /v1/apps/:app_id/archives/:archive_id": ("app.archive_delete", _delete_archive),
    "PUT /v1/apps/:app_id/archive-schedule": (
        "app.archive_schedule",
        lambda app, console: console.put(f"/apps/{app.app_id}/archive-schedule", json={"cron": "@daily"}),
    ),
    "DELETE /v1/apps/:app_id/archive-schedule": ("app.archive_unschedule", _delete_archive_schedule),
    "POST /v1/apps/:app_id/branches": (
        "branch.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/branches", json={"name": "pr-17"}),
    ),
    "DELETE /v1/apps/:app_id/branches/:branch_id": ("branch.delete", _delete_branch),
    "POST /v1/apps/:app_id/branches/:branch_id/merge": ("branch.merge", _merge_branch),
    "POST /v1/apps/:app_id/restore": ("app.restore", _restore),
    "PUT /v1/apps/:app_id/auth-settings": (
        "auth_settings.update",
        lambda app, console: console.put(f"/apps/{app.app_id}/auth-settings", json=AUTH),
    ),
    "PATCH /v1/apps/:app_id/account-settings": (
        "account_settings.update",
        lambda app, console: console.patch(f"/apps/{app.app_id}/account-settings", json={"sign_up": "closed"}),
    ),
    "PUT /v1/apps/:app_id/account-settings/logo": (
        "account_settings.put_logo",
        lambda app, console: console.put(f"/apps/{app.app_id}/account-settings/logo", content=LOGO),
    ),
    "DELETE /v1/apps/:app_id/account-settings/logo": ("account_settings.delete_logo", _delete_account_logo),
    "PATCH /v1/apps/:app_id/limits": (
        "limits.update",
        lambda app, console: console.patch(f"/apps/{app.app_id}/limits", json={"tables": 7}),
    ),
    "POST /v1/apps/:app_id/keys/public": (
        "public_key.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/keys/public", json={"name": "x"}),
    ),
    "PATCH /v1/apps/:app_id/keys/public/:key_id": (
        "public_key.update",
        lambda app, console: _on_public_key(app, console, "PATCH", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/keys/public/:key_id": (
        "public_key.revoke",
        lambda app, console: _on_public_key(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/keys/secret": (
        "secret_key.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/keys/secret", json={"name": "x"}),
    ),
    "DELETE /v1/apps/:app_id/keys/secret/:key_id": ("secret_key.revoke", _revoke_secret),
    "PATCH /v1/apps/:app_id/users/:user_id": (
        "user.change_role",
        lambda app, console: _on_user(app, console, "PATCH", json={"role": "editor"}),
    ),
    "DELETE /v1/apps/:app_id/users/:user_id": ("user.remove", lambda app, console: _on_user(app, console, "DELETE")),
    "POST /v1/apps/:app_id/invitations": (
        "invitation.create",
        lambda app, console: console.post(
            f"/apps/{app.app_id}/invitations", json={"email": "new@example.com", "role": "viewer"}
        ),
    ),
    "DELETE /v1/apps/:app_id/invitations/:invitation_id": ("invitation.revoke", _revoke_invitation),
    "POST /v1/invitations/accept": ("invitation.accept", _accept),
    "POST /v1/apps/:app_id/members/invitations": ("member.invite", _invite_member),
    "DELETE /v1/apps/:app_id/members/invitations/:member_invitation_id": (
        "member.revoke_invitation",
        _revoke_member_invitation,
    ),
    "PATCH /v1/apps/:app_id/members/:member_id": (
        "member.update",
        lambda app, console: _on_member(app, console, "PATCH", json={"is_active": False}),
    ),
    "DELETE /v1/apps/:app_id/members/:member_id": (
        "member.delete",
        lambda app, console: _on_member(app, console, "DELETE"),
    ),
    "DELETE /v1/apps/:app_id/members/:member_id/factors": (
        "member.remove_factors",
        lambda app, console: _on_member(app, console, "DELETE", "/factors"),
    ),
    "PUT /v1/apps/:app_id/members/:member_id/password": ("member.set_password", _set_password),
    "PATCH /v1/users/:user_id": ("user.deactivate", _deactivate),
    "POST /v1/apps/:app_id/members/:member_id/token": (
        "member.run_as",
        lambda app, console: _on_member(app, console, "POST", "/token"),
    ),
    "POST /v1/apps/:app_id/members/:member_id/sign-out-everywhere": (
        "member.sign_out",
        lambda app, console: _on_member(app, console, "POST", "/sign-out-everywhere"),
    ),
    "POST /v1/apps/:app_id/trash/tables/:table_id/restore": (
        "table.restore",
        lambda app, console: _on_trash(app, console, "POST", "/tables/{}/restore"),
    ),
    "POST /v1/apps/:app_id/trash/tables/:table_id/columns/:number/restore": (
        "column.restore",
        lambda app, console: _on_trash(app, console, "POST", "/tables/{}/columns/1/restore"),
    ),
    "DELETE /v1/apps/:app_id/trash/tables/:table_id": (
        "table.purge",
        lambda app, console: _on_trash(app, console, "DELETE", "/tables/{}"),
    ),
    "DELETE /v1/apps/:app_id/trash/tables/:table_id/columns/:number": (
        "column.purge",
        lambda app, console: _on_trash(app, console, "DELETE", "/tables/{}/columns/1"),
    ),
    "DELETE /v1/apps/:app_id/trash": (
        "trash.empty",
        lambda app, console: _on_trash(app, console, "DELETE", ""),
    ),
    "POST /v1/apps/:app_id/storages/files": (
        "file_storage.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/storages/files", json={"name": "x"}),
    ),
    "PATCH /v1/apps/:app_id/storages/files/:storage_id": (
        "file_storage.update",
        lambda app, console: _on_storage(app, console, "PATCH", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/storages/files/:storage_id": (
        "file_storage.delete",
        lambda app, console: _on_storage(app, console, "DELETE"),
    ),
    "PUT /v1/apps/:app_id/storages/files/:storage_id/rules": (
        "file_storage.rules",
        lambda app, console: _on_storage(app, console, "PUT", "/rules", json={"rules": {"read": True}}),
    ),
    "PUT /v1/apps/:app_id/team-settings": (
        "team_settings.put",
        lambda app, console: console.put(f"/apps/{app.app_id}/team-settings", json={"members_create": True}),
    ),
    "POST /v1/apps/:app_id/teams": (
        "team.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/teams", json={"name": "Crew"}),
    ),
    "PATCH /v1/apps/:app_id/teams/:team_id": (
        "team.update",
        lambda app, console: _on_team(app, console, "PATCH", json={"name": "Others"}),
    ),
    "DELETE /v1/apps/:app_id/teams/:team_id": (
        "team.delete",
        lambda app, console: _on_team(app, console, "DELETE"),
    ),
    "PUT /v1/apps/:app_id/teams/:team_id/members/:member_id": (
        "team.member.put",
        lambda app, console: _on_team_member(app, console, "PUT"),
    ),
    "DELETE /v1/apps/:app_id/teams/:team_id/members/:member_id": (
        "team.member.delete",
        lambda app, console: _on_team_member(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/members/:member_id/impersonate": ("member.impersonate", _impersonate),
    "POST /v1/apps/:app_id/members/:member_id/mail-reset": ("member.mail_reset", _mail_reset),
    "POST /v1/apps/:app_id/members/import": (
        "member.import",
        lambda app, console: console.post(f"/apps/{app.app_id}/members/import", content=b'{"login_id": "ada"}'),
    ),
    "POST /v1/apps/:app_id/mail/send": (
        "mail.send",
        lambda app, console: console.post(
            f"/apps/{app.app_id}/mail/send", json={"to": "ada@example.com", "subject": "News", "text": "Hello"}
        ),
    ),
    "PUT /v1/apps/:app_id/mail-settings": ("mail_settings.put", _own_mail_server),
    "DELETE /v1/apps/:app_id/mail-settings": ("mail_settings.delete", _no_own_mail_server),
    "POST /v1/apps/:app_id/mail-settings/test": (
        "mail.test",
        lambda app, console: console.post(f"/apps/{app.app_id}/mail-settings/test"),
    ),
    "POST /v1/apps/:app_id/mail/suppressions": ("mail.suppress", _suppress),
    "PUT /v1/apps/:app_id/mail-templates/:purpose/:language": ("mail_template.put", _own_text),
    "DELETE /v1/apps/:app_id/mail-templates/:purpose/:language": ("mail_template.delete", _shipped_text),
    "DELETE /v1/apps/:app_id/mail/suppressions/:address_hash": ("mail.unsuppress", _unsuppress),
    "PUT /v1/apps/:app_id/oauth/settings": (
        "oauth_settings.update",
        lambda app, console: console.put(f"/apps/{app.app_id}/oauth/settings", json={"access_token_seconds": 300}),
    ),
    "PUT /v1/apps/:app_id/oauth/social/:provider": (
        "social_provider.put",
        lambda app, console: console.put(f"/apps/{app.app_id}/oauth/social/KAKAO", json=SOCIAL),
    ),
    "DELETE /v1/apps/:app_id/oauth/social/:provider": ("social_provider.delete", _delete_social),
    "PUT /v1/apps/:app_id/oauth/scopes/:name": (
        "oauth_scope.put",
        lambda app, console: console.put(f"/apps/{app.app_id}/oauth/scopes/orders:read", json=SCOPE),
    ),
    "DELETE /v1/apps/:app_id/oauth/scopes/:name": ("oauth_scope.delete", _delete_scope),
    "POST /v1/apps/:app_id/oauth/clients": (
        "oauth_client.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/oauth/clients", json=CLIENT),
    ),
    "PUT /v1/apps/:app_id/oauth/clients/:client_id": (
        "oauth_client.update",
        lambda app, console: _on_client(app, console, "PUT", json={"name": "y"}),
    ),
    "POST /v1/apps/:app_id/oauth/clients/:client_id/regenerate-secret": (
        "oauth_client.regenerate_secret",
        lambda app, console: _on_client(app, console, "POST", "/regenerate-secret", json={}),
    ),
    "DELETE /v1/apps/:app_id/oauth/clients/:client_id": (
        "oauth_client.delete",
        lambda app, console: _on_client(app, console, "DELETE"),
    ),
    "PUT /v1/apps/:app_id/oauth/clients/:client_id/logo": (
        "oauth_client.put_logo",
        lambda app, console: _on_client(app, console, "PUT", "/logo", content=LOGO),
    ),
    "DELETE /v1/apps/:app_id/oauth/clients/:client_id/logo": ("oauth_client.delete_logo", _delete_logo),
    "DELETE /v1/apps/:app_id/oauth/grants/:grant_id": ("oauth_grant.revoke", _revoke_grant),
    "POST /v1/apps/:app_id/storages/webs": (
        "web_storage.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/storages/webs", json={"name": "x"}),
    ),
    "PATCH /v1/apps/:app_id/storages/webs/:storage_id": (
        "web_storage.update",
        lambda app, console: _on_site(app, console, "PATCH", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/storages/webs/:storage_id": (
        "web_storage.delete",
        lambda app, console: _on_site(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/deploy": (
        "web_storage.deploy",
        lambda app, console: _on_site(
            app, console, "POST", "/deploy", files={"file": ("site.zip", zipped({"index.html": b"three"}))}
        ),
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/deploy/incremental": (
        "web_storage.deploy",
        lambda app, console: _on_site(app, console, "POST", "/deploy/incremental", json={"deletes": ["about.html"]}),
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/promote": (
        "web_storage.promote",
        lambda app, console: _on_site(app, console, "POST", "/promote"),
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/domains": (
        "web_domain.add",
        lambda app, console: _on_site(app, console, "POST", "/domains", json={"hostname": "www.bars.example"}),
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/domains/:hostname/verify": ("web_domain.verify", _verify_domain),
    "DELETE /v1/apps/:app_id/storages/webs/:storage_id/domains/:hostname": (
        "web_domain.remove",
        lambda app, console: _on_site(app, console, "DELETE", "/domains/www.cafes.example"),
    ),
    "PUT /v1/apps/:app_id/event-types/:event_type": (
        "event_type.put",
        lambda app, console: console.put(f"/apps/{app.app_id}/event-types/order.created", json=EVENT_TYPE),
    ),
    "DELETE /v1/apps/:app_id/event-types/:event_type": ("event_type.delete", _delete_event_type),
    "POST /v1/apps/:app_id/webhooks": (
        "webhook.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/webhooks", json=WEBHOOK),
    ),
    "PUT /v1/apps/:app_id/webhooks/:webhook_id": (
        "webhook.update",
        lambda app, console: _on_webhook(app, console, "PUT", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/webhooks/:webhook_id": (
        "webhook.delete",
        lambda app, console: _on_webhook(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/webhooks/:webhook_id/regenerate-secret": (
        "webhook.rotate_secret",
        lambda app, console: _on_webhook(app, console, "POST", "/regenerate-secret", json={}),
    ),
    "POST /v1/apps/:app_id/webhooks/:webhook_id/test": (
        "webhook.test",
        lambda app, console: _on_webhook(app, console, "POST", "/test", json={}),
    ),
    "POST /v1/apps/:app_id/webhooks/:webhook_id/logs/:delivery_id/redeliver": ("webhook.redeliver", _redeliver),
    "POST /v1/apps/:app_id/webhooks/:webhook_id/recover": (
        "webhook.recover",
        lambda app, console: _on_webhook(app, console, "POST", "/recover", json={"since": "2026-01-01T00:00:00Z"}),
    ),
    "POST /v1/apps/:app_id/functions": (
        "function.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/functions", json=FUNCTION),
    ),
    "PATCH /v1/apps/:app_id/functions/:function_id": (
        "function.update",
        lambda app, console: _on_function(app, console, "PATCH", json={"description": "y"}),
    ),
    "DELETE /v1/apps/:app_id/functions/:function_id": (
        "function.delete",
        lambda app, console: _on_function(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/functions/:function_id/versions": (
        "function.deploy",
        lambda app, console: _on_function(app, console, "POST", "/versions", json=FILES),
    ),
    "POST /v1/apps/:app_id/functions/:function_id/versions/:version/activate": (
        "function.activate",
        lambda app, console: _on_function(app, console, "POST", "/versions/1/activate"),
    ),
    "PUT /v1/apps/:app_id/functions/:function_id/draft": (
        "function.draft",
        lambda app, console: _on_function(app, console, "PUT", "/draft", json=FILES),
    ),
    "PUT /v1/apps/:app_id/functions/:function_id/env/:variable": (
        "function.env",
        lambda app, console: _on_function(app, console, "PUT", "/env/GREETING", json={"value": "Hello"}),
    ),
    "PATCH /v1/apps/:app_id/functions/:function_id/env": (
        "function.env",
        lambda app, console: _on_function(app, console, "PATCH", "/env", json={"set": {"GREETING": "Hello"}}),
    ),
    "DELETE /v1/apps/:app_id/functions/:function_id/env/:variable": ("function.env", _delete_variable),
    "POST /v1/apps/:app_id/functions/:function_id/triggers": (
        "function.trigger_create",
        lambda app, console: _on_function(app, console, "POST", "/triggers", json=TRIGGER),
    ),
    "PATCH /v1/apps/:app_id/functions/:function_id/triggers/:trigger_id": (
        "function.trigger_update",
        lambda app, console: _on_trigger(app, console, "PATCH", json={"is_active": False}),
    ),
    "DELETE /v1/apps/:app_id/functions/:function_id/triggers/:trigger_id": (
        "function.trigger_delete",
        lambda app, console: _on_trigger(app, console, "DELETE"),
    ),
    "PUT /v1/apps/:app_id/env/:variable": (
        "function.env",
        lambda app, console: console.put(f"/apps/{app.app_id}/env/GREETING", json={"value": "Hello"}),
    ),
    "DELETE /v1/apps/:app_id/env/:variable": ("function.env", _delete_app_variable),
    "POST /v1/apps/:app_id/dead-jobs/retry": ("job.retry_all", _retry_all),
    "POST /v1/apps/:app_id/dead-jobs/:job_id/retry": (
        "job.retry",
        lambda app, console: _on_dead_job(app, console, "POST", "/retry"),
    ),
    "DELETE /v1/apps/:app_id/dead-jobs/:job_id": (
        "job.delete",
        lambda app, console: _on_dead_job(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/members": (
        "member.create",
        lambda app, console: console.post(
            f"/apps/{app.app_id}/members", json={"login_id": "ada", "password": "correct horse battery"}
        ),
    ),
    "DELETE /v1/apps/:app_id/members/:member_id/sessions/:session_id": ("member.end_session", _end_session),
    "DELETE /v1/apps/:app_id/members/:member_id/identities/:provider": ("member.unlink", _unlink),
    "DELETE /v1/apps/:app_id/members/:member_id/consents/:consent_id": ("member.end_consent", _end_consent),
    "POST /v1/apps/:app_id/tables/:table_id/columns/:name/rename": ("column.rename", _rename_column),
    "PUT /v1/apps/:app_id/profiles": ("profiles.update", _profiles),
    "POST /v1/apps/:app_id/tables/:table_id/unique": ("unique_key.create", _create_key),
    "DELETE /v1/apps/:app_id/tables/:table_id/unique/:name": ("unique_key.delete", _delete_key),
    "POST /v1/apps/:app_id/views": ("view.create", _view),
    "PATCH /v1/apps/:app_id/views/:view_id": ("view.update", _change_view),
    "DELETE /v1/apps/:app_id/views/:view_id": ("view.delete", _delete_view),
    "PATCH /v1/apps/:app_id/storages/files/:storage_id/items/:file_id": ("file.move", _rename_file),
    "POST /v1/apps/:app_id/workflows": (
        "workflow.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/workflows", json=WORKFLOW),
    ),
    "PUT /v1/apps/:app_id/workflows/:workflow_id": (
        "workflow.update",
        lambda app, console: _on_workflow(app, console, "PUT", json=WORKFLOW | {"description": "y"}),
    ),
    "PATCH /v1/apps/:app_id/workflows/:workflow_id": (
        "workflow.update",
        lambda app, console: _on_workflow(app, console, "PATCH", json={"is_active": False}),
    ),
    "DELETE /v1/apps/:app_id/workflows/:workflow_id": (
        "workflow.delete",
        lambda app, console: _on_workflow(app, console, "DELETE"),
    ),
    "PUT /v1/apps/:app_id/ai-provider": (
        "ai_provider.put",
        lambda app, console: console.put(f"/apps/{app.app_id}/ai-provider", json={"base_url": "http://localhost:9/v1"}),
    ),
    "DELETE /v1/apps/:app_id/ai-provider": (
        "ai_provider.delete",
        lambda app, console: console.delete(f"/apps/{app.app_id}/ai-provider"),
    ),
    "POST /v1/apps/:app_id/workflows/:workflow_id/trigger": (
        "workflow.trigger_create",
        lambda app, console: _on_workflow(app, console, "POST", "/trigger", json={}),
    ),
    "PATCH /v1/apps/:app_id/workflows/:workflow_id/trigger": (
        "workflow.trigger_update",
        lambda app, console: _on_workflow_trigger(app, console, "PATCH", json={"is_active": False}),
    ),
    "DELETE /v1/apps/:app_id/workflows/:workflow_id/trigger": (
        "workflow.trigger_delete",
        lambda app, console: _on_workflow_trigger(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/workflows/:workflow_id/trigger/rotate": (
        "workflow.trigger_rotate",
        lambda app, console: _on_workflow_trigger(app, console, "POST", "/rotate", json={}),
    ),
    "POST /v1/apps/:app_id/workflows/:workflow_id/execute": (
        "workflow.execute",
        lambda app, console: _on_workflow(app, console, "POST", "/execute", json={}),
    ),
    "POST /v1/apps/:app_id/workflows/:workflow_id/executions/:execution_id/cancel": ("workflow.cancel", _cancel),
    "POST /v1/apps/:app_id/workflows/:workflow_id/executions/:execution_id/replay": (
        "workflow.replay",
        lambda app, console: _on_execution(app, console, "/replay", json={}),
    ),
}
# Routes that are not called by `test_every_change_from_the_console_is_recorded`, and why.
EXCEPTIONS = {
    "POST /v1/apps/:app_id/oauth/keys": "The key serves all apps, so the server's own log has it.",
    "POST /v1/apps/:app_id/functions/:function_id/invoke": "A call changes nothing; it is among the executions.",
    "DELETE /v1/apps/:app_id": "The log of a deleted app cannot be read; a test of its own restores the app first.",
    "POST /v1/apps/:app_id/tables/:table_id/schema-preview": "It changes nothing.",
    "POST /v1/apps/:app_id/tables/:table_id/rules/test": "It changes nothing.",
    "POST /v1/apps/:app_id/storages/files/:storage_id/rules/test": "It changes nothing.",
    "POST /v1/apps/:app_id/tables/:table_id/export-link": "It changes nothing; the export is recorded.",
    "POST /v1/apps/:app_id/mail-templates/:purpose/:language/preview": "It changes nothing.",
    "POST /v1/apps/:app_id/workflows/validate": "It changes nothing.",
    "POST /v1/apps/:app_id/archives/:archive_id/link": "It changes nothing; the archive is recorded.",
    "POST /v1/apps/import": "The log of the app that it makes has it.",
    "POST /v1/apps/:app_id/functions/:function_id/triggers/:trigger_id/failures/:job_id/retry": (
        "It needs a call that failed permanently: `functions/test_triggers.py` retries one."
    ),
    "POST /v1/apps/:app_id/mail/:mail_id/retry": (
        "It needs a mail that was not delivered: `mail/test_sending.py` retries one."
    ),
    "POST /v1/apps/:app_id/storages/webs/:storage_id/deploy/presign": "It signs URLs and changes nothing.",
    "POST /v1/apps/:app_id/members/:member_id/sign-in-code": (
        "It takes a secret key: `accounts/test_vouched_sign_ins.py` sends one."
    ),
}


def changes_an_app(endpoint: Endpoint) -> bool:
    # What console users do about their own account is in the console's log, which no app has.
    own = endpoint.path.startswith("/v1/auth/")
    return endpoint.access.is_console and not own and endpoint.method not in {"GET", "HEAD"}


CHANGES = [f"{endpoint.method} {endpoint.path}" for endpoint in endpoint_table() if changes_an_app(endpoint)]


@pytest.mark.parametrize("route", [route for route in CHANGES if route not in EXCEPTIONS])
async def test_every_change_from_the_console_is_recorded(app: App, route: str):
    action, perform = ACTIONS[route]
    async with owner_of(app).client() as console:
        answer = await perform(app, console)
        assert answer.status_code in {200, 201, 202}, answer.text
    request_id = answer.headers["x-request-id"]
    entries = [entry for entry in await the_log(app) if entry["request_id"] == request_id]
    assert action in [entry["action"] for entry in entries]
    for entry in entries:
        assert set(entry) == ENTRY
        assert (entry["actor_kind"], entry["actor_id"]) == ("console_user", app.console["user_id"])
        assert entry["actor_email"] == app.console["email"]
        age = datetime.now(UTC) - datetime.fromisoformat(entry["created_at"])
        assert age < timedelta(minutes=1)


async def test_the_deletion_of_an_app_is_recorded(app: App):
    async with owner_of(app).client(app) as console:
        answer = await console.delete("")
        await console.post("/restore")
    (entry,) = await the_log(app, action="app.delete")
    assert entry["request_id"] == answer.headers["x-request-id"]


async def test_what_is_refused_leaves_no_entry(app: App):
    before = await the_log(app)
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console:
        assert_error(await console.patch("", json={"name": "x"}), 403, "ROLE_REQUIRED")
    async with owner_of(app).client(app) as console:
        assert_error(await console.delete(f"/keys/public/{uuid4()}"), 404, "KEY_NOT_FOUND")
        assert_error(await console.patch("/limits", json={"password_min_length": 257}), 400, "VALIDATION_FAILED")
        assert_error(await console.delete(f"/users/{app.console['user_id']}"), 409, "LAST_OWNER")
    after = await the_log(app)
    assert [entry["action"] for entry in after[: len(after) - len(before)]] == [
        "invitation.accept",
        "invitation.create",
    ]


async def test_schema_changes_are_recorded_with_who_made_them(app: App):
    member = await app.member()
    editor = await user_with(app, "editor")
    expected: list[tuple[str, str, str | None]] = []
    for number, (kind, token, actor) in enumerate(
        [
            ("public", None, None),
            ("member", member["access_token"], member["member_id"]),
            ("secret_key", app.secret_key, None),
            ("console_user", editor.access_token, editor.user_id),
        ]
    ):
        async with app.client(token, **{"X-Request-Id": f"request-{number}"}) as client:
            body = {"title": f"table {number}", "schema": {"name": "string"}, "access_level": "Public"}
            table = f"/v1/public/tables/{(await client.post('/v1/public/tables', json=body)).json()['id']}"
            await client.patch(table, json={**body, "title": f"renamed {number}"})
            await client.post(f"{table}/columns", json={"name": "age", "data_type": "int"})
            await client.patch(f"{table}/columns/age", json={"data_type": "number"})
            await client.delete(f"{table}/columns/age")
            assert (await client.delete(table)).status_code == 200
        actions = ["table.create", "table.update", "column.create", "column.update", "column.drop", "table.drop"]
        expected += [(action, kind, actor) for action in actions]
        entries = [entry for entry in await the_log(app) if entry["request_id"] == f"request-{number}"]
        assert [(entry["action"], entry["actor_kind"]) for entry in reversed(entries)] == [(a, kind) for a in actions]
        if actor:
            assert {entry["actor_id"] for entry in entries} == {actor}


async def test_the_log_is_read_newest_first_in_pages_and_by_filter(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        for number in range(3):
            await console.patch("", json={"name": f"name {number}"})
        first = (await console.get("/audit-log", params={"action": "app.update", "limit": 2})).json()
        rest = (await console.get("/audit-log", params={"action": "app.update", "limit": 2, "offset": 2})).json()
        assert [entry["details"]["name"] for entry in first["data"]] == ["name 2", "name 1"]
        assert [entry["details"]["name"] for entry in rest["data"]] == ["name 0"]
        assert first["total_count"] == rest["total_count"] == 3
        by_editor = (await console.get("/audit-log", params={"actor": editor.user_id})).json()
        assert [entry["action"] for entry in by_editor["data"]] == ["app.update"] * 3 + ["invitation.accept"]
        assert (await console.get("/audit-log", params={"action": "app.up"})).json()["total_count"] == 0
        assert (await console.get("/audit-log", params={"action": "app", "limit": 0})).json()["total_count"] == 4
        assert_error(await console.get("/audit-log", params={"limit": "-1"}), 400, "VALIDATION_FAILED")
        assert (await console.get("/audit-log", params={"actor": "' or true --"})).json()["total_count"] == 0


@pytest.mark.parametrize("name", ["action", "actor", "search", "request_id"])
async def test_a_filter_with_u0000_is_refused(app: App, name: str):
    async with owner_of(app).client(app) as console:
        answer = await console.get("/audit-log", params={name: "a\0"})
    assert_error(answer, 400, "VALIDATION_FAILED")


async def test_entries_are_searched_by_text_and_time_and_targets_have_names(app: App, other_app: App):
    table = await app.table({"text": "string"}, title="Boats of 2026")
    theirs = await other_app.table({"text": "string"}, title="theirs")
    async with owner_of(app).client(app) as console:
        assert (await console.post("/keys/public", json={"name": "shop page"})).status_code == 201
        first = (await console.get("/audit-log", params={"search": "BOATS"})).json()["data"]
        assert [entry["target"] for entry in first] == [table]
        key = (await console.get("/audit-log", params={"action": "public_key"})).json()["data"][0]
        same = await console.get("/audit-log", params={"request_id": key["request_id"]})
        assert [entry["entry_id"] for entry in same.json()["data"]] == [key["entry_id"]]
        late = {"from": key["created_at"]}
        assert table not in [one["target"] for one in (await console.get("/audit-log", params=late)).json()["data"]]
        assert_error(await console.get("/audit-log", params={"to": "soon"}), 400, "VALIDATION_FAILED")
        ids = ",".join([table, theirs, key["target"], "nothing", "%"])
        targets = (await console.get("/audit-log/targets", params={"ids": ids})).json()["targets"]
    assert targets == {
        table: {"kind": "table", "name": "Boats of 2026"},
        key["target"]: {"kind": "public_key", "name": "shop page"},
    }


async def test_a_viewer_does_not_read_the_log(app: App):
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console:
        assert_error(await console.get("/audit-log"), 403, "ROLE_REQUIRED")


async def test_a_log_shows_its_own_app_alone(app: App, other_app: App):
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"name": "only here"})
    assert "only here" not in str(await the_log(other_app))


async def test_the_first_user_is_recorded_as_owner_of_the_first_app(app: App):
    async with owner_of(app).client() as console:
        apps = (await console.get("/apps", params={"limit": 1})).json()["data"]
        entries = (await console.get(f"/apps/{apps[0]['app_id']}/audit-log")).json()["data"]
    assert apps[0]["name"] == "first app"
    by_action = {entry["action"]: entry for entry in entries}
    assert by_action["app.create"]["actor_kind"] == "operator"
    assert by_action["app.adopt"]["actor_id"] == app.console["user_id"]
