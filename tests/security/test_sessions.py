"""Classes D, E, F: limits that are not slipped past, values that work once, sessions that end."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.acceptance.test_files import PNG, complete, permit, send, storage
from tests.backstage import bearer, claims_of, me
from tests.console import invite, owner_of, set_limits, sign_up, user_with
from tests.support import App, assert_error, plain_client

SIGN_UP = "/v1/public/app-members/signup"
SIGN_IN = "/v1/public/app-members/signin"
ME = "/v1/public/app-members/me"
TABLES = "/v1/public/tables"
LIMIT = 10


@pytest.mark.advisory("parse-server#10234")
async def test_no_header_or_parameter_changes_the_method(app: App):
    table = await app.table({"a": "string"})
    row = await app.row(table, {"a": "x"})
    names = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
    async with app.client() as client:
        for path in (f"{TABLES}/{table}", f"{TABLES}/{table}/data/{row['id']}"):
            for name in names:
                for method in ("GET", "POST", "HEAD"):
                    await client.request(method, path, headers={name: "DELETE"})
            await client.get(f"{path}?_method=DELETE")
            await client.post(path, json={"_method": "DELETE"})
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]
        for number in range(LIMIT + 1):
            headers = {names[number % 3]: ("GET", "PUT", "PATCH")[number % 3]}
            body = {"login_id": "ada", "password": "wrong horse"}
            answer = await client.post(f"{SIGN_IN}?_method=GET&x={number}", json=body, headers=headers)
        assert_error(answer, 429, "RATE_LIMITED")


@pytest.mark.advisory("GHSA-775h-3xrc-c228")
async def test_no_batch_reaches_a_route_that_is_limited(app: App):
    """An operation is a write to a table, never a request to a path."""
    async with app.client() as client:
        for path in ("/v1/public/batch", "/v1/public/transactions"):
            for operation in (
                {"method": "POST", "path": SIGN_IN, "body": {"login_id": "ada", "password": "x" * 8}},
                {"type": "signin", "table_id": "members", "data": {"login_id": "ada"}},
                {"type": "create", "table_id": "_User", "data": {}},
            ):
                answer = await client.post(path, json={"operations": [operation]})
                if path.endswith("batch"):
                    (result,) = answer.json()["results"]
                    assert (result["success"], result["error"]["code"]) == (False, "VALIDATION_FAILED")
                else:
                    assert_error(answer, 400, "VALIDATION_FAILED", failed_index=0)


@pytest.mark.advisory("GHSA-775h-3xrc-c228", "parse-server#10265")
@pytest.mark.parametrize("path", ["/v1/public/batch", "/v1/public/transactions"])
async def test_operations_count_also_when_they_fail_and_arrive_together(app: App, path: str):
    table = await app.table({"a": {"type": "int", "required": True}})
    await set_limits(app, data_per_minute=20)
    good, bad = ({"type": "create", "table_id": table, "data": data} for data in ({"a": 1}, {"a": "x"}))
    async with app.client() as client:
        answers = await asyncio.gather(*(client.post(path, json={"operations": [bad, good]}) for _ in range(30)))
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses[429] >= 20
        await set_limits(app, data_per_minute=None)
        made = (await client.get(f"{TABLES}/{table}/data?limit=0")).json()["total_count"]
    assert made <= (30 - statuses[429] if path.endswith("batch") else 0)


@pytest.mark.advisory("parse-server#10214")
async def test_a_limit_is_one_clients_and_one_names_own(app: App):
    """Whatever a request leaves out or writes differently: no two clients share a limit, no one has two."""
    async with app.client() as client:
        for number in range(LIMIT + 1):
            password = ["wrong horse", "x" * 8][number % 2]
            headers: dict[str, str] = [{}, {"Origin": "https://a.example"}, {"User-Agent": ""}, {"Cookie": "a=b"}][
                number % 4
            ]
            body = [
                {"login_id": "ada", "password": password},
                {"password": password, "login_id": "ada"},
            ][number % 2]
            answer = await client.post(SIGN_IN, json=body, headers=headers)
        assert_error(answer, 429, "RATE_LIMITED")
        for login_id in ("eve", "ADA", "ada ", "\u0430da"):
            answer = await client.post(SIGN_IN, json={"login_id": login_id, "password": "wrong horse"})
            assert_error(answer, 401, "INVALID_CREDENTIALS")


@pytest.mark.advisory("GHSA-r3xq-68wh-gwvh")
async def test_of_20_uses_of_an_invitation_one_succeeds(app: App):
    invitation = await invite(app, "viewer")
    answers = await asyncio.gather(*(sign_up(app.server, invitation["email"], invitation["token"]) for _ in range(20)))
    assert Counter(answer.status_code for answer in answers)[201] == 1
    assert_error(await sign_up(app.server, "else@example.com", invitation["token"]), 403, "INVALID_INVITATION")


@pytest.mark.advisory("GHSA-r3xq-68wh-gwvh")
async def test_of_20_uploads_to_one_url_one_is_taken(app: App):
    base = await storage(app)
    async with app.client() as client:
        permitted = await permit(client, base)
        answers = await asyncio.gather(*(send(permitted) for _ in range(20)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}
        completed = await asyncio.gather(*(complete(client, base, permitted) for _ in range(20)))
        assert {answer.status_code for answer in completed} == {200}
        assert len({answer.content for answer in completed}) == 1
        assert_error(await send(permitted, b"y" * len(PNG)), 409, "UPLOAD_ALREADY_RECEIVED")
        files = (await client.get(f"{base}/items")).json()
        assert files["total_count"] == 1
        assert (await client.get(files["files"][0]["url"])).content == PNG


CHANGES: dict[str, Any] = {
    "is_active": True,
    "member_id": "guest_1",
    "app_id": "00000000-0000-7000-8000-000000000000",
    "role": "owner",
    "is_guest": False,
    "created_at": "2020-01-01T00:00:00Z",
    "access_token": "x",
    "session_id": "x",
    "expires_at": "2099-01-01T00:00:00Z",
    "sid": "x",
    "password_hash": "$argon2id$x",
    "authData": {},
    "auth_data": {"anonymous": {"id": "1"}},
    "user_id": "x",
}


@pytest.mark.advisory(
    "GHSA-5v7g-9h8f-8pgg", "GHSA-jc39", "GHSA-6w4q-23cf-j9jp", "GHSA-wjqw-r9x4-j59v", "GHSA-pfj7-wv7c-22pr"
)
@pytest.mark.parametrize("field", CHANGES)
async def test_nothing_but_what_is_asked_for_is_taken(app: App, field: str):
    """Mass assignment: on every route that makes or changes an account or a session."""
    member = await app.member("known")
    guest = await app.guest()
    extra = {field: CHANGES[field]}
    credentials = {"login_id": "ada", "password": "correct horse"}
    async with app.client() as client:
        for path, body, token in (
            (SIGN_UP, credentials, None),
            (SIGN_UP, credentials, guest["access_token"]),
            (SIGN_IN, {"login_id": "known", "password": "correct horse"}, None),
            ("/v1/auth/signin", {"email": "first@example.com", "password": "correct horse battery"}, None),
        ):
            headers = bearer(token) if token else {}
            refused = assert_error(
                await client.post(path, json=body | extra, headers=headers), 400, "VALIDATION_FAILED"
            )
            assert refused["details"][0]["field"] == field
        for without in ("login_id", "password"):
            body = {name: text for name, text in credentials.items() if name != without}
            assert_error(await client.post(SIGN_UP, json=body | extra), 400, "VALIDATION_FAILED")
        change = {"custom_data": {}, **extra}
        headers = bearer(member["access_token"])
        assert_error(await client.patch(f"{ME}/custom-data", json=change, headers=headers), 400, "VALIDATION_FAILED")
        # Routes without a body take none of it from one.
        made = (await client.post("/v1/public/app-members", json=extra)).json()
        assert made["member_id"].startswith("guest_")
        assert made["member_id"] not in CHANGES.values()
        pair = await client.post("/v1/auth/re-issue", json=extra, headers=bearer(member["refresh_token"]))
        before, after = claims_of(member["refresh_token"]), claims_of(pair.json()["refresh_token"])
        for name in ("sub", "app_id", "sid", "typ", "aud"):
            assert after[name] == before[name]
    async with owner_of(app).client(app) as console:
        for path in (f"/members/{member['member_id']}", ""):
            answer = await console.patch(path, json=extra)
            allowed = {"is_active"} if path else set()
            assert answer.status_code == (200 if field in allowed else 400), (path, answer.text)


@pytest.mark.advisory("GHSA-56p6-qw3c-fq2g", "parse-server#10194")
async def test_a_deactivated_member_has_no_access_by_any_route(app: App):
    """Immediately, with a token that was valid a moment ago, even where the token is optional."""
    member = await app.member()
    token = member["access_token"]
    table = await app.table({"a": "int", "s": "string", "o": "object"}, "AppMember")
    base = await storage(app, upload_access="AppMember", read_access="AppMember")
    about = {"table_id": table}
    operations = {"operations": [{"type": "create", "table_id": table, "data": {}}]}
    requests: list[tuple[str, str, Any]] = [
        ("GET", ME, None),
        ("PATCH", f"{ME}/custom-data", {"custom_data": {}}),
        ("GET", TABLES, None),
        ("GET", f"{TABLES}/{table}/data", None),
        ("POST", f"{TABLES}/{table}/data", {"data": {}}),
        ("POST", f"{TABLES}/{table}/data/query", {}),
        ("POST", "/v1/public/aggregate", about | {"pipeline": []}),
        ("POST", "/v1/public/search", about | {"query": "x"}),
        ("POST", "/v1/public/autocomplete", about | {"query": "x", "field": "s"}),
        ("POST", "/v1/public/batch", operations),
        ("POST", "/v1/public/transactions", operations),
        ("POST", f"{base}/folders", {"name": "f"}),
        ("GET", f"{base}/items", None),
        ("GET", "/v1/public/stats", None),
        ("POST", "/v1/public/app-members/signout", None),
    ]
    async with app.client(token) as client:
        for method, path, body in requests[:-1]:
            assert (await client.request(method, path, json=body)).status_code in {200, 201}, path
        async with owner_of(app).client(app) as console:
            answer = await console.patch(f"/members/{member['member_id']}", json={"is_active": False})
            assert answer.status_code == 200
        for method, path, body in requests:
            assert_error(await client.request(method, path, json=body), 403, "MEMBER_INACTIVE")
    async with plain_client(app.server.url) as client:
        answer = await client.post("/v1/auth/re-issue", headers=bearer(member["refresh_token"]))
        assert_error(answer, 403, "MEMBER_INACTIVE")


@pytest.mark.advisory("Kinto 8.2.0", "parse-server#10194")
async def test_a_session_is_looked_at_on_every_request(app: App):
    """No answer of a moment ago vouches for a token or a password now, however often it was asked."""
    member = await app.member()
    body = {"login_id": "ada", "password": "correct horse"}
    async with app.client() as client:
        for _ in range(3):
            assert (await client.post(SIGN_IN, json=body)).status_code == 200
            assert_error(
                await client.post(SIGN_IN, json=body | {"password": "wrong horse"}), 401, "INVALID_CREDENTIALS"
            )
    for _ in range(20):
        assert (await me(app.server, member["access_token"])).status_code == 200
    async with app.client(member["access_token"]) as client:
        await client.post("/v1/public/app-members/signout")
        assert_error(await client.get(ME), 401, "INVALID_TOKEN")
        assert_error(await client.get(TABLES), 401, "INVALID_TOKEN")


@pytest.mark.advisory("GHSA-6r2j-cxgf-495f")
async def test_no_token_comes_back_where_none_was_asked_for(app: App):
    """Nothing that any route reads shows a session, and no parameter turns an answer into another."""
    member = await app.member()
    table = await app.table({"a": "string"})
    await app.row(table, {"a": "x"}, member["access_token"])
    # Lists reject parameters that they do not have.
    odd = "?include=session&redirectClassNameForKey=session&select=password_hash&fields=access_token&expand=member"
    async with app.client(member["access_token"]) as client, owner_of(app).client(app) as console:
        answers = []
        for caller, paths in (
            (client, (ME, TABLES, f"{TABLES}/{table}", f"{TABLES}/{table}/data", "/v1/public/stats")),
            (console, ("", "/members", "/audit-log", "/keys/public", "/keys/secret")),
        ):
            for path in paths:
                asked = await caller.get(path + odd)
                if asked.status_code == 400:
                    assert asked.json()["details"][0]["code"] == "UNKNOWN_PARAMETER"
                    asked = await caller.get(path)
                answers.append(asked)
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert member["access_token"].rpartition(".")[2] not in answer.text
        assert "eyJ" not in answer.text
        assert app.secret_key not in answer.text
        assert "password_hash" not in answer.text


@pytest.mark.advisory("GHSA-w54v-hf9p-8856", "GHSA-h29g-q5c2-9h4f", "GHSA-8w3j-g983-8jh5")
async def test_no_route_tells_whether_an_account_is_there(app: App):
    """But sign-up, which has to say that a login_id is taken, and is limited. For console users not even that."""
    await app.member()
    async with app.client() as client:
        answers = [
            (await client.post(SIGN_IN, json={"login_id": login_id, "password": password}))
            for login_id, password in (("ada", "wrong horse"), ("eve", "wrong horse"), ("eve", "correct horse"))
        ]
        console = [
            await client.post("/v1/auth/signin", json={"email": email, "password": "wrong horse"})
            for email in ("first@example.com", "nobody@example.com")
        ]
        signed_up = [
            await client.post("/v1/auth/signup", json={"email": email, "password": "correct horse", "token": "guessed"})
            for email in ("first@example.com", "nobody@example.com")
        ]
    for group in (answers, console, signed_up):
        shown = {(answer.status_code, answer.json()["code"], answer.json()["message"]) for answer in group}
        assert len(shown) == 1, shown
        assert len({frozenset(answer.headers) for answer in group}) == 1


@pytest.mark.advisory("GHSA-79wj-8rqv-jvp5", "GHSA-xfh7-phr7-gr2x", "GHSA-vc89-5g3r-cmhh")
async def test_a_viewer_changes_nothing_anywhere(app: App):
    """The read-only role: neither rows nor files nor tables nor members nor settings, nor another user's token."""
    member = await app.member()
    closed = await app.table({"a": "int"}, "AppMember")
    row = await app.row(closed, {"a": 1}, app.secret_key)
    base = await storage(app, upload_access="Secret", delete_access="Secret")
    viewer = await user_with(app, "viewer")
    data = f"{TABLES}/{closed}/data"
    operation = {"type": "update", "table_id": closed, "doc_id": row["id"], "data": {"a": 2}}
    async with owner_of(app).client(app) as console:
        assert (await console.patch("", json={"schema_locked": True})).status_code == 200
    writes: list[tuple[str, str, Any]] = [
        ("POST", data, {"data": {"a": 2}}),
        ("POST", f"{data}/bulk", {"data": [{"a": 2}]}),
        ("PATCH", f"{data}/{row['id']}", {"data": {"a": 2}}),
        ("DELETE", f"{data}/{row['id']}", None),
        ("POST", f"{data}/delete-where", {"all": True}),
        ("POST", "/v1/public/transactions", {"operations": [operation]}),
        ("POST", f"{base}/folders", {"name": "f"}),
        ("POST", f"{base}/presigned-url", {"file_name": "a", "file_size": 1, "mime_type": "a/b"}),
        ("POST", f"{TABLES}/{closed}/columns", {"name": "b", "data_type": "int"}),
        ("DELETE", f"{TABLES}/{closed}", None),
    ]
    async with app.client(viewer.access_token) as client:
        for method, path, body in writes:
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 403, (path, answer.text)
        results = (await client.post("/v1/public/batch", json={"operations": [operation]})).json()
        assert results["success_count"] == 0
        assert (await client.get(data)).json()["data"] == [row]
    async with viewer.client(app) as console:
        for method, path, body in (
            ("PATCH", f"/members/{member['member_id']}", {"is_active": False}),
            ("DELETE", f"/members/{member['member_id']}", None),
            ("POST", "/keys/secret", {"name": "x"}),
            ("POST", "/keys/public", {"name": "x"}),
            ("POST", "/invitations", {"email": "x@example.com", "role": "owner"}),
            ("POST", "/storages/files", {"name": "x"}),
            ("PATCH", "", {"name": "x"}),
            ("DELETE", "", None),
        ):
            assert_error(await console.request(method, path, json=body), 403, "ROLE_REQUIRED")
    assert (await me(app.server, member["access_token"])).json()["is_active"]


@pytest.mark.advisory("GHSA-7xg7-rqf6-pw6c", "GHSA-5f92-jrq3-28rc")
async def test_what_is_the_services_own_is_no_table(app: App):
    names = ["members", "pilotis.members", "_User", "_Session", "_Join:users:_Role", "pg_catalog.pg_authid", "sessions"]
    async with app.client() as client:
        for name in names:
            for suffix in ("", "/data", "/columns"):
                assert_error(await client.get(f"{TABLES}/{name}{suffix}"), 400, "INVALID_ID")
            for path, body in (
                ("/v1/public/aggregate", {"pipeline": []}),
                ("/v1/public/search", {"query": "x"}),
                ("/v1/public/autocomplete", {"query": "x", "field": "login_id"}),
            ):
                assert_error(await client.post(path, json={"table_id": name, **body}), 400, "VALIDATION_FAILED")
        made = await client.post(TABLES, json={"title": "members", "schema": {}, "access_level": "Public"})
        assert made.status_code == 201
        assert (await client.get(f"{TABLES}/{made.json()['id']}/data")).json()["data"] == []


@pytest.mark.advisory("Kinto CHANGELOG l.563")
async def test_no_page_shows_rows_of_another_table_or_app(app: App, other_app: App):
    """Pages are identified by offsets, which contain no table, or by cursors, which are bound to it."""
    mine, hers, foreign = (
        await app.table({"a": "int"}),
        await app.table({"a": "int"}),
        await other_app.table({"a": "int"}),
    )
    for owner, table, value in ((app, mine, 1), (app, hers, 2), (other_app, foreign, 3)):
        async with owner.client() as client:
            await client.post(f"{TABLES}/{table}/data", json={"data": [{"a": value}] * 30})
    async with app.client() as client:
        for offset in (0, 10, 20, 29, 30, 31, 2**31, 2**53):
            answer = await client.get(f"{TABLES}/{mine}/data", params={"offset": offset})
            assert answer.json()["total_count"] == 30
            assert {row["data"]["a"] for row in answer.json()["data"]} <= {1}
            for name, value in (("cursor", foreign), ("table_id", hers)):
                answer = await client.get(f"{TABLES}/{mine}/data", params={"offset": offset, name: value})
                # Only without an offset is a cursor read at all.
                assert_error(answer, 400, "INVALID_CURSOR" if name == "cursor" and not offset else "VALIDATION_FAILED")
            body = {"table_id": mine, "pipeline": [{"$skip": offset}, {"$group": {"_id": "$a"}}]}
            answer = await client.post("/v1/public/aggregate", json=body)
            assert answer.json()["data"] in ([{"_id": 1}], [])
        for owner, table in ((app, hers), (other_app, foreign)):
            async with owner.client() as other:
                page = (await other.get(f"{TABLES}/{table}/data", params={"cursor": "first", "limit": 5})).json()
            answer = await client.get(f"{TABLES}/{mine}/data", params={"cursor": page["next_cursor"]})
            assert_error(answer, 400, "INVALID_CURSOR")


@pytest.mark.advisory("CVE-2025-48757")
async def test_what_an_app_closes_is_closed_to_the_public_key(app: App):
    """`pilotis doctor --app` reports open defaults, and each can be closed: rows, schema, sign-up, files."""
    rows = {level: await app.table({"a": "int"}, level) for level in ("Public", "AppMember", "Creator")}
    base = await storage(app, upload_access="Secret", delete_access="Secret", read_access="Secret")
    async with app.client() as client, owner_of(app).client(app) as console:
        for level, table in rows.items():
            for request in (
                client.get(f"{TABLES}/{table}/data"),
                client.post(f"{TABLES}/{table}/data", json={"data": {"a": 1}}),
                client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": []}),
                client.post(f"{TABLES}/{table}/data/delete-where", json={"all": True}),
            ):
                answer = await request
                if level == "Public":
                    assert answer.status_code in {200, 201}
                else:
                    assert_error(answer, 401, "MEMBER_TOKEN_REQUIRED")
        assert (await console.patch("", json={"schema_locked": True})).status_code == 200
        settings = {"allow_id_password_login": False, "allow_guest_login": False, "enabled_oauth_providers": []}
        assert (await console.put("/auth-settings", json=settings)).status_code == 200
        body = {"title": "t", "schema": {}, "access_level": "Public"}
        assert_error(await client.post(TABLES, json=body), 403, "SCHEMA_LOCKED")
        # Opening a closed table is a change of the schema as well.
        body = {"title": "t", "schema": {"a": "int"}, "access_level": "Public"}
        assert_error(await client.patch(f"{TABLES}/{rows['Creator']}", json=body), 403, "SCHEMA_LOCKED")
        assert_error(await client.delete(f"{TABLES}/{rows['Creator']}"), 403, "SCHEMA_LOCKED")
        assert_error(await client.post("/v1/public/app-members"), 403, "LOGIN_DISABLED")
        body = {"login_id": "ada", "password": "correct horse"}
        assert_error(await client.post(SIGN_UP, json=body), 403, "LOGIN_DISABLED")
        answers: list[httpx.Response] = [
            await client.get(f"{base}/items"),
            await client.post(f"{base}/folders", json={"name": "f"}),
            await client.delete(f"{base}/items/{rows['Public']}"),
        ]
        for answer in answers:
            assert_error(answer, 401, "SECRET_KEY_REQUIRED")
