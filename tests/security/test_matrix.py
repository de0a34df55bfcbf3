"""Every route against every wrong credential and every foreign id, generated from the endpoint table.

Security notes: classes F (sessions), G (JWT confusion), H (privilege separation), I (cross-tenant leaks).
"""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import pytest
import pytest_asyncio

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.openapi import document
from pilotis.http.api.principals import Access, Credential, Role
from pilotis.kit.signing import TokenKind
from pilotis.server import endpoint_table
from tests.security import world
from tests.security.world import Operator, Tenant
from tests.support import Server
from tests.whole import sample

ENDPOINTS = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.access.any_of]
DOCUMENT = document(ENDPOINTS, base_url="http://127.0.0.1", version="0")
LOGOUT = "/v1/auth/logout"
ORIGIN = "https://allowed.example"


def by_name(endpoints: list[Endpoint]) -> Any:
    return pytest.mark.parametrize("endpoint", endpoints, ids=lambda e: f"{e.method} {e.path}")


class World(NamedTuple):
    operator: Operator
    a: Tenant
    b: Tenant
    tokens: dict[str, str]
    revoked_public_key: str
    restricted_public_key: str
    client: httpx.AsyncClient


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def w(server: Server, console: dict[str, str]) -> AsyncIterator[World]:
    operator = Operator(server)
    a, b = [await world.new_tenant(operator, server, label) for label in ("a", "b")]
    revoked_public_key, revoked_secret_key = await operator.revoked_keys(a)
    tokens = await bearers(operator, a, b) | {"revoked secret key": revoked_secret_key}
    restricted = await operator.public_key_of_origin(a, ORIGIN)
    async with httpx.AsyncClient(base_url=server.url) as client:
        yield World(operator, a, b, tokens, revoked_public_key, restricted, client)
    await operator.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def read(w: World, server: Server) -> Tenant:
    """A tenant that is only read."""
    return await world.new_tenant(w.operator, server, "read")


async def bearers(operator: Operator, a: Tenant, b: Tenant) -> dict[str, str]:
    """Bearer credentials by their kind; unless stated otherwise they belong to tenant A."""
    access, refresh = a.member["access_token"], a.member["refresh_token"]
    console, console_refresh = a.owner["access_token"], a.owner["refresh_token"]
    past = {"iat": int(time.time()) - 7200, "exp": int(time.time()) - 3600}
    return {
        "garbage": "garbage",
        "three parts of garbage": "a.b.c",
        "public key": a.app.public_key,
        "member access": access,
        "member refresh": refresh,
        "console access": console,
        "console refresh": console_refresh,
        "secret key": a.app.secret_key,
        "member access of another app": b.member["access_token"],
        "secret key of another app": b.app.secret_key,
        "console access without a role": b.owner["access_token"],
        "console access of a viewer": await operator.role(a, f"viewer-{a.login_id}@example.com", "viewer"),
        "console access of an editor": await operator.role(a, f"editor-{a.login_id}@example.com", "editor"),
        "secret key with its end cut off": a.app.secret_key[:-1],
        **{f"unsigned {name}": world.unsigned(token) for name, token in (("member", access), ("console", console))},
        **{f"tampered {name}": world.tampered(token) for name, token in (("member", access), ("console", console))},
        "expired member access": operator.resigned(access, TokenKind.MEMBER_ACCESS, **past),
        "expired member refresh": operator.resigned(refresh, TokenKind.MEMBER_REFRESH, **past),
        "expired console access": operator.resigned(console, TokenKind.CONSOLE_ACCESS, **past),
        "expired console refresh": operator.resigned(console_refresh, TokenKind.CONSOLE_REFRESH, **past),
        "member access signed as a console's": operator.resigned(access, TokenKind.CONSOLE_ACCESS),
        "function access": operator.resigned(access, later_kind(TokenKind.MEMBER_ACCESS, "function_access")),
        "OAuth access": operator.resigned(access, later_kind(TokenKind.MEMBER_ACCESS, "oauth_access")),
        "console access signed as a member's": operator.resigned(console, TokenKind.MEMBER_ACCESS),
        **await ended(operator, a),
    }


class _LaterKind(str):
    """A kind of token that is never issued, under the key of one that is."""

    value: str
    audience: str


def later_kind(kind: TokenKind, name: str) -> Any:
    later = _LaterKind(kind.value)
    later.value, later.audience = name, "pilotis:" + name.replace("_", ":")
    return later


async def ended(operator: Operator, a: Tenant) -> dict[str, str]:
    """Credentials of sessions that are over."""
    member = await a.app.member(f"left {a.login_id}")
    async with a.app.client(member["access_token"]) as client:
        assert (await client.post("/v1/public/app-members/signout")).status_code == 200
    user = await operator.user_session(await operator.user(f"left-{a.login_id}@example.com"))
    async with httpx.AsyncClient(base_url=a.app.server.url) as client:
        headers = {"Authorization": f"Bearer {user['refresh_token']}"}
        assert (await client.post(LOGOUT, headers=headers)).status_code == 200
    return {
        "signed-out member access": member["access_token"],
        "signed-out member refresh": member["refresh_token"],
        "signed-out console access": user["access_token"],
        "signed-out console refresh": user["refresh_token"],
    }


CONSOLE_ROLES = {
    "console access": Role.OWNER,
    "console access of an editor": Role.EDITOR,
    "console access of a viewer": Role.VIEWER,
    "console access without a role": None,
}


# What has a worth somewhere is tried at every route; of what is worth nothing anywhere, a part.
FOREIGN = {*CONSOLE_ROLES, "member access", "secret key", "member access of another app", "secret key of another app"}


def expected(endpoint: Endpoint, bearer: str) -> int | None:
    """The status that a bearer credential of tenant A must get; None where it is good."""
    access = endpoint.access
    if access.takes(Credential.PUBLIC_KEY):
        if bearer == "console access without a role":
            return 403
        return None if bearer in {*CONSOLE_ROLES, "member access", "secret key"} else 401
    if access == Access.PUBLIC_KEY_AND_MEMBER:
        return None if bearer == "member access" else 401
    if access in {Access.MEMBER, Access.ACCOUNT}:
        return None if bearer in {"member access", "member access of another app"} else 401
    if access == Access.SECRET_KEY:
        return None if bearer == "secret key" else 401
    if access == Access.REFRESH_TOKEN:
        good = {"console refresh"} if endpoint.path == LOGOUT else {"console refresh", "member refresh"}
        return None if bearer in good else 401
    if bearer == "secret key" and access.takes(Credential.SECRET_KEY):
        return None
    if bearer not in CONSOLE_ROLES:
        return 401
    if access.role is None:
        return None
    role = CONSOLE_ROLES[bearer]
    return 404 if role is None else None if role >= access.role else 403


def credentials(endpoint: Endpoint, public_key: str, bearer: str | None) -> dict[str, str]:
    """The headers that the endpoint asks for."""
    headers = {"X-Public-Key": public_key} if endpoint.access.needs_public_key else {}
    return headers | ({"Authorization": f"Bearer {bearer}"} if bearer else {})


async def send(
    w: World, endpoint: Endpoint, given: dict[str, str], headers: dict[str, Any], tenant: Tenant | None = None
) -> httpx.Response:
    made = world.body(endpoint, DOCUMENT, tenant or w.a, given)
    options = {} if made is None else {"json": made}
    options |= (
        world.FORMS.get(endpoint.operation_id.partition(".")[2], {})
        if endpoint.tag.startswith(("Web", "Functions"))
        else {}
    )
    address = world.path(endpoint, given) + world.QUERIES.get(endpoint.operation_id, "")
    headers = world.HEADERS.get(endpoint.operation_id, {}) | headers
    return await w.client.request(endpoint.method, address, headers=headers, **options)


def assert_refused(answer: httpx.Response, status: int, case: str) -> None:
    assert answer.status_code == status, f"{case}: {answer.status_code} {answer.text}"
    told = answer.json()
    assert told["request_id"] == answer.headers["x-request-id"], case
    assert answer.headers.get("www-authenticate", "Bearer").startswith("Bearer"), case


@pytest.mark.share(0.3)
@pytest.mark.advisory("GHSA-79wj-8rqv-jvp5", "GHSA-fr88-w35c-r596", "GHSA-h3jj-5f3v-3685")
@by_name(GUARDED)
async def test_wrong_credentials(endpoint: Endpoint, w: World):
    # What is refused changes nothing, so that one thing of each kind is enough.
    given = await world.values(w.operator, w.a, endpoint, DOCUMENT)
    await without_credentials(endpoint, w, given)
    await wrong_bearer_credentials(endpoint, w, given)
    await malformed_authorization(endpoint, w, given)
    if _needs_key(endpoint):
        await wrong_public_keys(endpoint, w, given)
    if endpoint.access in {Access.MEMBER, Access.ACCOUNT, Access.PUBLIC_KEY_AND_MEMBER}:
        await public_key_and_member_of_different_apps(endpoint, w, given)


async def without_credentials(endpoint: Endpoint, w: World, given: dict[str, str]) -> None:
    answer = await send(w, endpoint, given, {})
    assert_refused(answer, 401, "nothing")
    code = "PUBLIC_KEY_REQUIRED" if endpoint.access.needs_public_key else "TOKEN_REQUIRED"
    assert answer.json()["code"] == code


async def wrong_bearer_credentials(endpoint: Endpoint, w: World, given: dict[str, str]) -> None:
    for name in sorted({*sample(w.tokens, 0.3, of=str(endpoint.operation_id)), *FOREIGN}):
        token = w.tokens[name]
        status = expected(endpoint, name)
        if status is not None:
            answer = await send(w, endpoint, given, credentials(endpoint, w.a.app.public_key, token))
            assert_refused(answer, status, name)


async def malformed_authorization(endpoint: Endpoint, w: World, given: dict[str, str]) -> None:
    values = ("", "Bearer", "Basic YTpi", "bearer-token", "Bearer \xff\xfe")
    for value in sample(values, 0.4, of=str(endpoint.operation_id)):
        headers = credentials(endpoint, w.a.app.public_key, None) | {"Authorization": value}
        sent = {name: text.encode("latin-1") for name, text in headers.items()}
        assert_refused(await send(w, endpoint, given, sent), 401, value)


def _needs_key(endpoint: Endpoint) -> bool:
    return endpoint.access.needs_public_key


def _good_bearer(w: World, endpoint: Endpoint, tenant: Tenant) -> str | None:
    access = endpoint.access
    if access in {Access.PUBLIC_KEY_AND_MEMBER, Access.MEMBER, Access.ACCOUNT}:
        return tenant.member["access_token"]
    if access == Access.SECRET_KEY:
        return tenant.app.secret_key
    if access == Access.REFRESH_TOKEN:
        return tenant.owner["refresh_token"]
    return tenant.owner["access_token"] if access.is_console else None


async def wrong_public_keys(endpoint: Endpoint, w: World, given: dict[str, str]) -> None:
    key = w.a.app.public_key
    wrong = {
        "empty": "",
        "garbage": "garbage",
        "garbage with the prefix": "pk_garbage",
        "end cut off": key[:-1],
        "last character changed": key[:-1] + ("A" if key[-1] != "A" else "B"),
        "the secret key": w.a.app.secret_key,
        "revoked": w.revoked_public_key,
        "not ASCII": "pk_\xe9",
        "very long": "pk_" + "A" * 4000,
    }
    bearer = _good_bearer(w, endpoint, w.a)
    for name in sample(wrong, 0.4, of=str(endpoint.operation_id)):
        public_key = wrong[name]
        headers = credentials(endpoint, public_key, bearer)
        sent = {header: text.encode("latin-1") for header, text in headers.items()}
        assert_refused(await send(w, endpoint, given, sent), 401, name)
    headers = credentials(endpoint, w.restricted_public_key, bearer) | {"Origin": "https://other.example"}
    assert_refused(await send(w, endpoint, given, headers), 403, "another origin")


async def public_key_and_member_of_different_apps(endpoint: Endpoint, w: World, given: dict[str, str]) -> None:
    for key, member in ((w.a, w.b), (w.b, w.a)):
        headers = {"X-Public-Key": key.app.public_key, "Authorization": f"Bearer {member.member['access_token']}"}
        assert_refused(await send(w, endpoint, given, headers), 401, "another app's member")


def _bearers_of(endpoint: Endpoint, tenant: Tenant) -> dict[str, str | None]:
    """The credentials with which the tenant's own people pass the endpoint's gate."""
    if endpoint.access.takes(Credential.PUBLIC_KEY):
        return {
            "nobody": None,
            "member": tenant.member["access_token"],
            "owner": tenant.owner["access_token"],
            "secret key": tenant.app.secret_key,
        }
    if endpoint.access.is_console:
        return {"owner": tenant.owner["access_token"]}
    if endpoint.access is Access.SECRET_KEY:
        return {"secret key": tenant.app.secret_key}
    return {"member": tenant.member["access_token"]}


def _mixtures(own: dict[str, str], foreign: dict[str, str]) -> Iterator[dict[str, str]]:
    """All ids foreign, and each of them alone."""
    differing = [name for name in own if own[name] != foreign[name]]
    if differing:
        yield foreign
    if len(differing) > 1:
        for name in differing:
            yield own | {name: foreign[name]}


# A batch reports on each operation by itself, under 200.
IN_RESULTS = {"AdvancedEndpoints.batch"}
# Clients choose the ids of their requests: in another app the same id is that of another request.
CHOSEN_IDS = {"ContextEndpoints.read"}


@pytest.mark.advisory("Kinto CHANGELOG l.563")
@by_name(GUARDED)
async def test_foreign_ids(endpoint: Endpoint, w: World):
    for tenant, other in sample(((w.a, w.b), (w.b, w.a)), 0.5, of=str(endpoint.operation_id)):
        own = await world.values(w.operator, tenant, endpoint, DOCUMENT)
        foreign = await world.values(w.operator, other, endpoint, DOCUMENT)
        for given in _mixtures(own, foreign):
            for name, bearer in _bearers_of(endpoint, tenant).items():
                answer = await send(w, endpoint, given, credentials(endpoint, tenant.app.public_key, bearer))
                if endpoint.operation_id in IN_RESULTS:
                    assert [result["success"] for result in answer.json()["results"]] == [False]
                    assert answer.json()["results"][0]["error"]["code"].endswith("NOT_FOUND")
                elif endpoint.operation_id.startswith("KeyedRowEndpoints") and given["table_id"] == own["table_id"]:
                    # The table has no key of the other's name.
                    assert answer.json()["code"] in {"UNKNOWN_KEY", "ROW_NOT_FOUND"}, answer.text
                elif endpoint.operation_id in CHOSEN_IDS and given["app_id"] == own["app_id"]:
                    assert answer.json()["entries"] == []
                else:
                    assert_refused(answer, 404, f"{name} with {given}")


@pytest.mark.share(0.25)
@by_name([endpoint for endpoint in GUARDED if UUID in endpoint.parameters.values()])
async def test_ids_that_are_none(endpoint: Endpoint, w: World):
    own = await world.values(w.operator, w.a, endpoint, DOCUMENT)
    headers = credentials(endpoint, w.a.app.public_key, _good_bearer(w, endpoint, w.a))
    names = [name for name, kind in endpoint.parameters.items() if kind is UUID]
    values = ("x", "1", "00000000000070008000000000000000", "'--", "%00", "%FF", "a" * 5000)
    for value in sample(values, 0.4, of=str(endpoint.operation_id)):
        for name in names:
            answer = await send(w, endpoint, own | {name: value}, headers)
            assert_refused(answer, 400, f"{name}: {value}")
            assert answer.json()["code"] == "INVALID_ID"


READING = [endpoint for endpoint in GUARDED if endpoint.method == "GET" and endpoint.path != LOGOUT]
# `test_examples` sends requests that are answered with success, too.
CHANGING = sample([endpoint for endpoint in GUARDED if endpoint not in READING], 0.3)


@pytest.mark.share(0.3)
@by_name(READING + CHANGING)
async def test_the_right_credentials_pass(endpoint: Endpoint, w: World, read: Tenant, server: Server):
    """Without this, the errors above could have any cause. What changes something has a tenant of its own."""
    tenant = read if endpoint in READING else await world.new_tenant(w.operator, server, "right")
    given = await world.values(w.operator, tenant, endpoint, DOCUMENT)
    await world.prepare(w.operator, server, tenant, endpoint)
    headers = credentials(endpoint, tenant.app.public_key, _good_bearer(w, endpoint, tenant))
    answer = await send(w, endpoint, given, headers, tenant)
    assert answer.status_code == PAST_THE_GATE.get(endpoint.operation_id, endpoint.status), answer.text


# Routes that a fresh tenant gives nothing to do: its storage is not empty.
PAST_THE_GATE = {"StorageEndpoints.delete": 409}
# An export by mail needs an address, which the member does not have.
PAST_THE_GATE |= {"PersonalDataEndpoints.ask": 409}
# The member has not deleted its account.
PAST_THE_GATE |= {"MemberEndpoints.restore": 409}
# The server has its one first signing key: see `world.prepare`.
PAST_THE_GATE |= {"GrantEndpoints.create_key": 409}
# It creates, and would answer 200 if there was the row.
PAST_THE_GATE |= {"RowEndpoints.upsert": 201}
# Without ids there is nothing to name.
PAST_THE_GATE |= {"AuditEndpoints.targets": 400}
# No branch has such a name, and what differs has another digest.
PAST_THE_GATE |= {"BranchEndpoints.create": 400, "BranchEndpoints.merge": 409}
# A passphrase of one character is none, what is sent is no form, and a text is no time.
PAST_THE_GATE |= {"ArchiveEndpoints.create": 400, "ArchiveEndpoints.import_": 415, "ArchiveEndpoints.put_schedule": 400}
# A deploy answers 201, and 202 or 200 in cases of their own.
PAST_THE_GATE |= {"WebDeployEndpoints.deploy": 201, "WebConsoleEndpoints.deploy": 201}
PAST_THE_GATE |= {"WebDeployEndpoints.deploy_incremental": 201, "WebConsoleEndpoints.deploy_incremental": 201}
PAST_THE_GATE |= {"FunctionEndpoints.deploy_version": 201}
# Its subject is in the query string.
PAST_THE_GATE |= {"ConsentEndpoints.info": 404}
# What is sent is no image, and the client has no logo.
PAST_THE_GATE |= {"LogoEndpoints.put": 400, "LogoEndpoints.delete": 404}
PAST_THE_GATE |= {"AccountLogoEndpoints.put": 400, "AccountLogoEndpoints.delete": 404}
# It would stay open; the event to continue after is checked after authorization.
PAST_THE_GATE |= {"WorkflowEndpoints.stream": 400, "FunctionEndpoints.log_stream": 400}
PAST_THE_GATE |= {"EventTypeEndpoints.event_stream": 400}
# It would stay open, too, and names a column that there is not; the tenant has declared no channels.
PAST_THE_GATE |= {"RealtimeEndpoints.open": 400}
PAST_THE_GATE |= {f"RealtimeEndpoints.{name}": 403 for name in ("send", "set_presence")}
PAST_THE_GATE |= {"RealtimeEndpoints.end_presence": 400}
# The tenant has a failed job, but not one of this trigger.
PAST_THE_GATE |= {"TriggerEndpoints.retry": 404}
# Nothing was mailed that would prove an address.
PAST_THE_GATE |= {f"ProofEndpoints.{name}": 401 for name in ("confirm_email", "verify_email", "deny_email")}
PAST_THE_GATE |= {"ProofEndpoints.reset_password": 401, "ProofEndpoints.undo_email": 401}
# The member has no address to mail a code to.
PAST_THE_GATE |= {"FactorEndpoints.start": 403, "ProofAdministrationEndpoints.mail_reset": 409}
PAST_THE_GATE |= {"PersonalDataEndpoints.download": 401}
# The app lets nobody act as its members.
PAST_THE_GATE |= {"MemberAdministrationEndpoints.impersonate": 403}
# Its token is that of no vendor.
PAST_THE_GATE |= {"IdTokenEndpoints.sign_in": 400}
# It takes a secret key of its own kind.
PAST_THE_GATE |= {"MemberSignInCodeEndpoints.create": 403}
# The app has named no page of its own.
PAST_THE_GATE |= {"SignInCodeEndpoints.create": 400}
PAST_THE_GATE |= {"MailSignInEndpoints.confirm": 401, "FactorEndpoints.finish": 401}
# The member has a password, another one than the request's, and no second factor.
PAST_THE_GATE |= {"ProofEndpoints.set_first_password": 409, "FactorEndpoints.reauthenticate": 403}
PAST_THE_GATE |= {
    f"UserFactorEndpoints.{name}": 404 for name in ("confirm_totp", "remove_totp", "renew_recovery_codes")
}
PAST_THE_GATE |= {f"FactorEndpoints.{name}": 404 for name in ("confirm_totp", "remove_totp", "renew_recovery_codes")}
# These ways to sign in are off in a new app.
PAST_THE_GATE |= {"MailSignInEndpoints.ask": 403, "FactorEndpoints.begin_totp": 403}
PAST_THE_GATE |= {f"PasskeyEndpoints.{name}": 403 for name in ("begin_sign_in", "sign_in", "begin", "add")}
PAST_THE_GATE |= {"FactorEndpoints.begin_second_factor": 403}
# No authenticator has signed what the body says.
PAST_THE_GATE |= {"UserPasskeyEndpoints.add": 401, "UserPasskeyEndpoints.sign_in": 401}
# The token in their body is that of no invitation.
PAST_THE_GATE |= {"TeamEndpoints.accept": 404, "InvitedEndpoints.look": 401}
# Their page has no metadata.
PAST_THE_GATE |= {"PageMetaEndpoints.get": 404, "PageMetaEndpoints.remove": 404}


@pytest.mark.share(0.3)
@by_name([endpoint for endpoint in GUARDED if endpoint.access.takes(Credential.PUBLIC_KEY)])
async def test_a_console_token_names_its_app(endpoint: Endpoint, w: World):
    """Without public key, by `X-App-Id`: no other app's, and no other kind of credential."""
    given = await world.values(w.operator, w.a, endpoint, DOCUMENT)
    app_id = str(w.a.app.app_id)
    for name in sorted({*sample(w.tokens, 0.3, of=str(endpoint.operation_id)), *CONSOLE_ROLES}):
        token = w.tokens[name]
        headers = {"X-App-Id": app_id, "Authorization": f"Bearer {token}"}
        if CONSOLE_ROLES.get(name, Role.OWNER) is None:
            assert_refused(await send(w, endpoint, given, headers), 404, name)
        elif name not in CONSOLE_ROLES:
            assert_refused(await send(w, endpoint, given, headers), 401, name)
    bearer = {"Authorization": f"Bearer {w.tokens['console access']}"}
    assert_refused(await send(w, endpoint, given, bearer | {"X-App-Id": str(w.b.app.app_id)}), 404, "another app")
    assert_refused(await send(w, endpoint, given, bearer | {"X-App-Id": "x"}), 400, "no id")
    assert_refused(await send(w, endpoint, given, {"X-App-Id": app_id}), 401, "the id alone")


async def test_nothing_was_changed(w: World):
    """Runs after the others: what was refused has left both tenants as they were."""
    for tenant in (w.a, w.b):
        async with tenant.app.client(tenant.member["access_token"]) as client:
            tables = (await client.get("/v1/public/tables")).json()["tables"]
            rows = (await client.get(f"/v1/public/tables/{tenant.table_id}/data")).json()
            me = (await client.get("/v1/public/app-members/me")).json()
            files = (await client.get(f"/v1/public/storages/files/{tenant.storage_id}/items")).json()["files"]
        assert [(file["id"], file["path"]) for file in files] == [(tenant.file_id, f"{tenant.login_id}.txt")]
        assert [(table["id"], table["schema"]) for table in tables] == [
            (tenant.table_id, {"name": "string", "place": "object"})
        ]
        assert [(row["id"], row["data"]) for row in rows["data"]] == [(tenant.row_id, {"name": tenant.login_id})]
        assert me["is_active"]
        assert me["custom_data"] == {}
        query = "select count(*) from pilotis.sessions where app_id = $1 and revoked_at is not null"
        revoked = await w.operator.database.fetchval(query, tenant.app.app_id)
        assert revoked == (1 if tenant is w.a else 0)
